"""All experiments that can be simulated run, and what they expect holds there too."""

from pathlib import Path

import pytest

from testbed.plan import DEFAULT_CAPABILITIES
from testbed.resources import shared_folder
from testbed.run.experiment import run_experiment
from testbed.spec.reader import read_experiment
from testbed.spec.sweep import Point
from tests.simulation.runs import Silent

LOSSES = "sweep={transport.kind: [roce, aggregation], links.all.loss: [0%, 1%]}"
TAILS = "sweep={environment.by: [slow-host], environment.tail_ratio: [1, 1.5, 3]}"
RECOVERIES = [
    "sweep={transport.kind: [roce, irn, srnic, falcon], links.all.loss: [0%, 1%]}",
    "expect=[{metric: packets.retransmitted, of: {transport.kind: irn, links.all.loss: 1%},"
    " to: {transport.kind: roce, links.all.loss: 1%}, at_most: 0.3}]",
]
BOUNDED = (
    "sweep={environment: [{tail_ratio: 3, by: stalls, events: 0.5, severity: 1.0}], zip: {"
    "transport: [{kind: tcp}, {kind: ubt, halt: 0}], workload.algorithm: [ring, {kind: tar, incast: 0}]}}"
)
PAIRS = "sweep={workers.count: [4], workload.algorithm: [{kind: tar, incast: 0}, ring]}"
TRIMMED = [
    "sweep={workers.count: [9], transport.kind: [ndp], switches.trim: [64B, 0]}",
    "expect=[{metric: timeouts, of: {switches.trim: 64B}, equals: 0},"
    " {metric: bound_ratio, of: {switches.trim: 64B}, at_most: 1.01}]",
]
FEWER = ["workload.iterations=3", "workload.warmup=1"]


class Looking(Silent):
    def point(self, number: int, of: int, point: Point) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("quickstart.yaml", FEWER),
        ("incast.yaml", FEWER),
        ("ndp.yaml", ["workload.iterations=2", "repeat=1", *TRIMMED]),
        ("two-jobs.yaml", []),
        ("aggregation_jobs.yaml", []),
        ("aggregation_optical.yaml", [*FEWER, "workload.size=64KiB"]),
        ("aggregation.yaml", [*FEWER, "workload.size=256KiB", "expect=[]", LOSSES]),
        ("own/own.yaml", ["switches.controller=ecmp"]),
        ("optireduce.yaml", [*FEWER, "workload.size=16KiB", "repeat=1", "expect=[]", BOUNDED]),
        ("optireduce_ablation.yaml", ["workload.iterations=5", "workload.warmup=1", "repeat=1", "workload.size=64KiB"]),
        ("optireduce_queues.yaml", [*FEWER, "workload.size=64KiB", "repeat=1", "expect=[]"]),
        ("optireduce_loss.yaml", ["workload.iterations=4", "repeat=1", "expect=[]", PAIRS]),
        ("dblp.yaml", [*FEWER, "repeat=1", "expect=[]"]),
        ("dblp_window.yaml", [*FEWER, "repeat=1", "expect=[]"]),
        ("recovery.yaml", [*FEWER, *RECOVERIES, "workload.size=128KiB", "repeat=1"]),
        ("thousand-ranks.yaml", ["topology.k=4", "workers.count=16", "workload.gradients=random"]),
        ("environments.yaml", ["workload.gradients=random", "workload.iterations=100", "repeat=1", TAILS]),
    ],
)
def test_it_runs_in_simulation(tmp_path: Path, name: str, settings: list[str]) -> None:
    experiment = read_experiment(shared_folder("experiments") / name, settings, "simulation")
    outcome = run_experiment(experiment, DEFAULT_CAPABILITIES, tmp_path / "run", Looking())
    assert [(result.status, result.verdict.value) for result in outcome.results] == [("ok", "valid")] * len(
        experiment.points
    )
    assert all(result.wrong == 0 for result in outcome.results)
    assert [str(each) for each in outcome.judgements if each.outcome == "refuted"] == []
