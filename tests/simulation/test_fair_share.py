"""Pairs that cross a dumbbell come to equal shares, in simulation: `experiments/fair-share.yaml` with two of them."""

import pytest

from tests.simulation.runs import simulate

SIZE = 512 << 10
FAIR_NS = 2 * SIZE * 8 * 1106 / 1024  # at 1 Gb/s, one ns a bit: packets of 1,024 bytes are 1,106 on the wire


def pair(left: str, right: str, kind: str, start: str) -> dict[str, object]:
    return {
        "workers": {"count": 2, "placement": [left, right]},
        "transport": {"congestion": kind},
        "workload": {
            "collective": "broadcast", "algorithm": "binomial", "size": f"{SIZE}B", "iterations": 6, "warmup": 3,
        },
        "start": start,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dcqcn", "timely", "swift", "dctcp", "nscc"])
def test_two_pairs_share_evenly_and_fill_the_link(kind, tmp_path):
    run = simulate(
        tmp_path / kind,
        topology={"kind": "dumbbell", "left": 2, "right": 2},
        links=[
            {
                "rate": "1Gbps", "delay": "20us", "queue": "256KiB",
                "ecn": {"min": "16KiB", "max": "64KiB", "probability": "20%"},
            }
        ],
        workers=None,
        jobs={"early": pair("h0", "h2", kind, "0ms"), "late": pair("h1", "h3", kind, "4ms")},
    )  # fmt: skip
    assert (run.error, run.result.verdict.value) == (None, "valid")
    times = [run.result.jobs[name].cct_ns.p50 for name in ("early", "late")]
    rates = [SIZE * 8e9 / time for time in times]
    assert sum(rates) ** 2 / (2 * sum(rate * rate for rate in rates)) >= 0.95  # Jain's index
    assert sum(times) / 2 == pytest.approx(FAIR_NS, rel=0.1)
    assert run.result.packets.dropped_queue == 0
