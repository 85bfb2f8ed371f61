"""TCP in simulation, by its model: on an idle network as slow start has it; whole sums over a network that loses."""

import pytest

from tests.cli.runs import Run, balance

CHANGES = {"engine": "simulation", "time_dilation": None, "transport": {"kind": "tcp"}}
SEGMENT = 1448 + 52 + 14 + 24  # bytes on the wire of a full one
ACK = SEGMENT - 1448


def test_a_message_takes_what_slow_start_lets_it(tmp_path):
    """40 segments from rank 0 to rank 1 over one switch: flights of 10, 20 and 10, the first two a round trip each."""
    workload = {
        "collective": "broadcast", "algorithm": "binomial", "size": f"{40 * 1448 - 12}B", "dtype": "float32",
        "iterations": 1, "warmup": 0,
    }  # fmt: skip
    links = [{"rate": "10Gbps", "delay": "100us", "queue": "1MiB"}]
    with Run(
        tmp_path / "run",
        **CHANGES,
        links=links,
        topology={"kind": "star", "hosts": 2},
        workers={"count": 2},
        workload=workload,
    ) as run:
        assert run.end() == 0, run.stderr
    segment_ns, ack_ns, delay_ns = SEGMENT * 0.8, ACK * 0.8, 100_000
    # Each link takes a segment in whole before it goes on. A flight's first acknowledgement starts the next flight, of
    # which the last ten begin when the tenth acknowledgement of the one before has come: ten segments later.
    round_trip_ns = 2 * segment_ns + 2 * ack_ns + 4 * delay_ns
    expected_ns = 2 * round_trip_ns + 2 * delay_ns + 11 * segment_ns
    assert run.result["cct_ns"]["p50"] == pytest.approx(expected_ns, rel=0.001)
    assert run.result["packets"]["sent"] == 40 + 40


@pytest.mark.slow
@pytest.mark.parametrize("control", ["cubic", "reno"])
def test_sums_are_whole_where_packets_are_lost(tmp_path, control):
    changes = CHANGES | {"transport": {"kind": "tcp", "control": control}}
    links = [{"rate": "1Gbps", "delay": "20us", "queue": "256KiB", "loss": "1%"}]
    with Run(tmp_path / "run", **changes, links=links, limits={"stall": "60s"}) as run:
        assert run.end() == 0, run.stderr
    result = run.result
    assert (result["wrong"], balance(result)) == (0, 0)
    assert result["packets"]["retransmitted"] >= result["packets"]["dropped_loss"] // 3 > 0
