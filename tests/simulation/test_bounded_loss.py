"""Small instances of `experiments/dlcp.yaml` and `experiments/dblp.yaml`: what bounds on loss save, and cost."""

from pathlib import Path

import pytest

from testbed.plan import DEFAULT_CAPABILITIES
from testbed.resources import shared_folder
from testbed.results.model import Result
from testbed.run.experiment import run_experiment
from testbed.spec.reader import read_experiment
from tests.simulation.test_experiments import Looking

pytestmark = pytest.mark.slow

GRADIENT_BYTES = 76_840  # of the digits' network
PUSHED_BYTES = 5 * 8 * GRADIENT_BYTES  # by eight workers, five times; what they pull is too short to lose a packet


def run(folder: Path, name: str, sweep: str, *settings: str) -> list[Result]:
    """The results of the points of one repeat, in the sweep's order."""
    given = ["repeat=1", "expect=[]", "workload.warmup=1", f"sweep={sweep}", *settings]
    experiment = read_experiment(shared_folder("experiments") / name, given, "simulation")
    outcome = run_experiment(experiment, DEFAULT_CAPABILITIES, folder / "run", Looking())
    assert all((result.status, result.verdict.value) == ("ok", "valid") for result in outcome.results)
    return [*outcome.results]


def p99(result: Result) -> int:
    assert result.cct_ns.p99 is not None
    return result.cct_ns.p99


def test_an_incast_of_eight_has_no_tail_over_dlcp(tmp_path: Path) -> None:
    sweep = (
        "{zip: {transport: [{kind: tcp}, {kind: dlcp, ports: random}, {kind: dlcp, ports: random}], switches:"
        " [{kind: native}, {kind: native}, {kind: native, program: gradient_drop, entries: dlcp.stf}]}}"
    )
    tcp, plain, classes = run(tmp_path, "dlcp.yaml", sweep, "workload.iterations=5")
    assert 3 * p99(classes) < p99(tcp)
    assert 3 * p99(plain) < p99(tcp)
    assert tcp.missing_bytes == 0
    assert 0 < plain.missing_bytes <= 0.1 * PUSHED_BYTES
    assert 0 < classes.missing_bytes <= 0.1 * PUSHED_BYTES
    assert classes.packets.dropped_program > 0
    assert plain.nmse is not None
    assert classes.nmse is not None
    assert classes.nmse < plain.nmse / 2, "what is dropped early is small"


def test_a_window_of_heavy_loss_is_short_over_dblp(tmp_path: Path) -> None:
    window = "[{kind: link-set, select: ['h1>s0', 'h2>s0', 'h3>s0'], loss: 40%, at: 450ms, for: 100ms}]"
    bounds = "{kind: dblp, phases: static, bound: 0.1%}, {kind: dblp, phases: static, bound: 40%}"
    sweep = f"{{transport: [{{kind: tcp}}, {bounds}], faults: [{window}]}}"
    tcp, mlt, static = run(tmp_path, "dblp.yaml", sweep, "workload.iterations=33", "workload.warmup=2")
    assert 3 * p99(static) < p99(tcp)
    assert 2 * p99(static) < p99(mlt)
    assert tcp.cct_ns.p50 is not None
    for bounded in (mlt, static):
        assert bounded.cct_ns.p50 is not None
        assert bounded.cct_ns.p50 <= 1.02 * tcp.cct_ns.p50, "no worse elsewhere"
    assert mlt.missing_bytes == 0
    assert 0 < static.missing_bytes <= 0.4 * 33 * 6 * GRADIENT_BYTES


def test_dblp_loses_nothing_while_the_gradients_norm_is_new(tmp_path: Path) -> None:
    sweep = "{transport: [{kind: dblp, bound: 40%, every: 3}]}"
    (result,) = run(tmp_path, "dblp.yaml", sweep, "workload.iterations=6")
    told = result.to_data()["counters"]
    assert 3 * 4 <= told["lossless_operations"] <= 6 * 4  # of four ranks, the three after warm-up for certain
    assert result.missing_share is not None
