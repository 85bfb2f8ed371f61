"""The fast path of simulated ranks does the same to the bit as the endpoints, whatever comes and when it gives up."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from testbed.simulation import setup
from testbed.simulation.fast import FastRank
from tests.sanitizers import assert_clean
from tests.simulation.runs import Run, simulate

LEAVES = {"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 4}
EVERYWHERE = {"select": [f"h{host}" for host in range(8)], "snap": "128B"}


@pytest.fixture
def fallen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ranks that had the fast path and left it."""
    names: list[str] = []
    fall = FastRank._fall

    def told(rank: FastRank, now: int) -> None:
        names.append(rank.called)
        fall(rank, now)

    monkeypatch.setattr(FastRank, "_fall", told)
    return names


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Simulate with the fast path and without it, and have all that they leave be the same; the run with it."""

    def run(**keys: Any) -> Run:
        keys = {"topology": LEAVES, "workers": {"count": 8}, "capture": EVERYWHERE, **keys}
        fast = simulate(tmp_path / "fast", **keys)
        with monkeypatch.context() as patch:
            patch.setattr(setup, "fits", lambda *_: False)
            plain = simulate(tmp_path / "plain", **keys)
        files = [file.relative_to(plain.directory) for file in plain.directory.rglob("*") if file.suffix in KINDS]
        assert len(files) > 3
        same = [(fast.directory / file).read_bytes() == (plain.directory / file).read_bytes() for file in files]
        assert [file for file, is_same in zip(files, same, strict=True) if not is_same] == []
        assert fast.samples.jobs == plain.samples.jobs
        assert str(fast.error) == str(plain.error)
        assert counted(fast) == counted(plain)
        return fast

    return run


KINDS = (".csv", ".pcapng")


def counted(run: Run) -> tuple[int, int]:
    """Events, hops."""
    assert run.result.simulation is not None
    return run.result.simulation.events, run.result.simulation.hops


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "pairwise", "binomial"])
@pytest.mark.parametrize("gradients", ["random", "none"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_without_loss_no_rank_leaves_it(
    both: Callable[..., Run], fallen: list[str], algorithm: str, gradients: str, dtype: str
) -> None:
    collective = {"pairwise": "all-to-all", "binomial": "broadcast"}.get(algorithm, "allreduce")
    run = both(
        workload={
            **{"collective": collective, "algorithm": algorithm, "gradients": gradients, "dtype": dtype},
            **{"size": "100kB", "iterations": 3, "warmup": 1},
        }
    )
    assert run.error is None
    assert run.result.wrong in (0, None)
    assert fallen == []


@pytest.mark.parametrize(
    "keys",
    [
        {"workload": {"size": "4kB", "dtype": "float16"}},
        {"workload": {"size": "4kB", "algorithm": "recursive-doubling"}},  # whose sends go out from copies
        {"workload": {"size": "4kB"}, "transport": {"verb": "send"}},
        {"workload": {"size": "4kB"}, "transport": {"congestion": "swift"}},
        {"workload": {"size": "4kB"}, "transport": {"kind": "tcp"}},
    ],
)
def test_who_does_more_than_it_knows_does_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    monkeypatch.setattr(setup, "FastRank", None)
    assert simulate(tmp_path / "run", **keys).error is None


ODD: dict[str, dict[str, Any]] = {
    "loss": {"links": [{"rate": "1Gbps", "delay": "10us", "loss": "0.5%"}]},
    "burst": {
        "links": [
            {"rate": "1Gbps", "delay": "10us", "loss": {"kind": "gilbert-elliott", "mean": "0.5%", "burst": 4}},
        ]
    },
    "corrupt": {"links": [{"rate": "1Gbps", "delay": "10us", "corrupt": "0.5%"}]},
    "duplicate": {"links": [{"rate": "1Gbps", "delay": "10us", "duplicate": "2%"}]},
    "reorder": {"links": [{"rate": "1Gbps", "delay": "10us", "jitter": "30us", "reorder": True}]},
    "queue": {"links": [{"rate": "1Gbps", "delay": "10us", "queue": "8KiB"}]},
    "marks": {
        "links": [{"rate": "1Gbps", "delay": "10us", "ecn": {"min": "2KiB", "max": "8KiB"}}],
        "transport": {"congestion": "dcqcn"},
    },
    "timeouts": {"transport": {"timeout": 1}},
    "stalls": {"faults": [{"kind": "stall", "worker": "all", "probability": "20%", "for": "100us", "of": "step"}]},
    "computing": {
        "faults": [{"kind": "stall", "worker": "all", "probability": "50%", "for": "200us", "of": "iteration"}]
    },
    "kill": {"faults": [{"kind": "kill", "worker": 3, "at": "1ms"}], "limits": {"stall": "300ms"}},
    "down": {"faults": [{"kind": "link-down", "select": "h1", "at": "300us", "for": "1ms"}]},
    "traffic": {"traffic": [{"kind": "constant", "from": "h4", "to": "h3", "rate": "700Mbps"}]},
    "host": {"host": {"per_packet": "2us", "per_byte": "1ns"}},
    "spray": {"routing": {"kind": "spray"}},
}


SELDOM = {"queue", "marks", "computing", "traffic", "host", "spray"}  # odd only where many send to one


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "parameter-server"])
def test_what_is_odd_is_left_to_the_endpoints(
    both: Callable[..., Run], fallen: list[str], what: str, algorithm: str
) -> None:
    work = {"algorithm": algorithm, "size": "60kB", "iterations": 3, "warmup": 1}
    both(**{"switches": {"kind": "native"}, "workload": work, **ODD[what]})
    assert fallen or what in SELDOM


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_whatever_the_constants(both: Callable[..., Run], seed: int) -> None:
    random = Random(seed)
    link = {"rate": random.choice(["1Gbps", "10Gbps", "100Gbps"]), "delay": random.choice(["0ns", "1us", "20us"])}
    oddities: list[dict[str, Any]] = [{}, {"loss": "0.1%"}, {"duplicate": "0.2%"}, {"queue": "32KiB"}]
    both(
        seed=seed,
        links=[{**link, **random.choice(oddities)}],
        transport={
            "mtu": random.choice([256, 1024]),
            "window": random.choice([1, 3, 16, 128]),
            "ack_every": random.choice([1, 3, 64]),
            "timeout": random.choice([6, 10]),
            "congestion": random.choice(["none", "dcqcn", "dcqcn-connectx"]),
        },
        workload={
            "algorithm": random.choice(["ring", "halving-doubling", "parameter-server"]),
            "size": f"{4 * random.randrange(1, 60_000)}B",
            "gradients": random.choice(["random", "none"]),
            "dtype": random.choice(["float32", "int32"]),
            "compute": random.choice(["0ns", "15us"]),
            "iterations": 2,
            "warmup": random.choice([0, 1]),
        },
    )


@pytest.mark.parametrize("loss", ["0%", "0.5%"])
def test_several_layers_and_jobs_at_once(both: Callable[..., Run], tmp_path: Path, loss: str) -> None:
    random = np.random.default_rng(1)
    layers = {
        f"layer{number}": random.normal(size=size).astype(np.float32) for number, size in enumerate((999, 5, 4000))
    }
    np.savez(tmp_path / "layers.npz", **layers)
    both(
        links=[{"rate": "1Gbps", "delay": "10us", "loss": loss}],
        jobs={
            "one": {
                "workers": {"count": 4, "placement": "random"},
                "workload": {"gradients": str(tmp_path / "layers.npz"), "iterations": 3, "warmup": 1},
            },
            "two": {
                "workers": {"count": 4, "placement": "random"},
                "workload": {"collective": "all-to-all", "size": "64KiB", "iterations": 3, "warmup": 0},
            },
        },
        workers=None,
    )


def test_who_is_awaited_is_named_as_ever(both: Callable[..., Run]) -> None:
    run = both(
        workload={"size": "1MB", "algorithm": "ring", "iterations": 1, "warmup": 0},
        faults=[{"kind": "link-down", "select": "h1", "at": "100us", "for": "1s"}],
        transport={"timeout": 0},
        limits={"stall": "50ms"},
    )
    assert "the message from rank" in str(run.error)


@pytest.mark.slow
def test_what_is_odd_is_left_in_memory_that_is_there() -> None:
    chosen = "left_to_the_endpoints and ring and (loss or marks or timeouts)"
    assert_clean(__file__, "-k", chosen)
