"""The search for an environment's severity: what it finds has the ratio, is kept, and what it cannot find is told."""

from pathlib import Path
from typing import Any

import pytest

from testbed.errors import RunFailed
from testbed.plan import DEFAULT_CAPABILITIES
from testbed.results.statistics import nearest_rank
from testbed.run.environment import Environments
from testbed.run.experiment import run_experiment
from testbed.spec.model import EnvironmentSpec, Spec, TransportSpec
from testbed.spec.reader import read_experiment, read_spec
from tests.simulation.runs import Silent, simulate

pytestmark = pytest.mark.slow
RATIO, TOLERANCE = 3, 0.05
STAR: dict[str, Any] = {
    "name": "test",
    "engine": "simulation",
    "topology": {"kind": "star", "hosts": 4},
    "links": [{"rate": "100Mbps", "delay": "50us", "queue": "256KiB"}],
    "workers": {"count": 4},
    "workload": {"size": "16KiB"},
}


class Noting:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, what: str) -> None:
        self.stages.append(what)

    def iterations(self, done: int, of: int) -> None: ...


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def spec(**environment: Any) -> Spec:
    keys = {"tail_ratio": RATIO, "iterations": 100, **environment}
    return Spec.model_validate({**STAR, "environment": keys})


def settled(asked: Spec, progress: Noting | None = None) -> EnvironmentSpec:
    found = Environments().settle(asked, progress or Noting()).environment
    assert found is not None
    return found


@pytest.mark.parametrize("by", ["stalls", "slow-host", "congestion"])
def test_a_ring_over_tcp_has_the_tail_that_was_asked_for(tmp_path: Path, by: str) -> None:
    """The search's own draws, its seed is 1; and of others the tail is long too."""
    found = settled(spec(by=by))
    assert found.reached == pytest.approx(RATIO, rel=TOLERANCE)
    for seed, least in ((1, RATIO * (1 - TOLERANCE)), (2, 1.8)):
        keys = {
            **STAR,
            "seed": seed,
            "transport": {"kind": "tcp"},
            "workload": {**STAR["workload"], "gradients": "none", "iterations": 100},
            "environment": {"tail_ratio": RATIO, "by": by, "severity": found.severity},
        }
        made = simulate(tmp_path / str(seed), **keys)
        times = sorted(made.cct_ns)
        assert nearest_rank(times, 99) / nearest_rank(times, 50) >= least


def test_what_was_found_is_kept_by_what_matters(cache: Path) -> None:
    first, again, other = Noting(), Noting(), Noting()
    found = settled(spec(by="stalls"), first)
    assert first.stages
    assert settled(spec(by="stalls"), again) == found
    assert again.stages == []
    assert len(list((cache / "testbed" / "environments").iterdir())) == 1
    elsewhere = spec(by="stalls").model_copy(update={"seed": 7, "transport": TransportSpec(kind="tcp")})
    assert settled(elsewhere, again).severity == found.severity
    assert again.stages == [], "neither the run's seed nor its transport is the baseline's"
    assert settled(spec(by="stalls", events=0.4), other).severity != found.severity
    assert other.stages


def test_a_cache_that_is_broken_is_no_matter(cache: Path) -> None:
    found = settled(spec(by="stalls"))
    (kept,) = (cache / "testbed" / "environments").iterdir()
    kept.write_text("{")
    assert settled(spec(by="stalls")) == found


def test_a_given_severity_and_a_ratio_of_one_need_no_search() -> None:
    progress = Noting()
    assert settled(spec(severity=1.5), progress).severity == 1.5
    assert settled(spec(tail_ratio=1), progress).severity == 0
    assert progress.stages == []


def test_a_tail_that_cannot_be_had_is_refused_with_what_was_reached() -> None:
    """With ten stalls an iteration they are the median too."""
    with pytest.raises(RunFailed, match=r"tail_ratio: 30 by stalls was not found: no severity gives it.*1\.\d+ at 29"):
        settled(spec(by="stalls", tail_ratio=30, events=10))


def test_a_jump_over_the_ratio_is_told_from_both_sides() -> None:
    """At 1 Gb/s an iteration is under 2 ms, and a retransmission timeout is 200 ms."""
    links = [{"rate": "1Gbps", "delay": "10us", "queue": "8KiB"}]
    asked = Spec.model_validate({**STAR, "links": links, "environment": {"tail_ratio": 20, "iterations": 100}})
    with pytest.raises(RunFailed, match=r"was not found: the ratio jumps from .* at severity .* to .* at"):
        settled(asked)


def test_a_limit_of_time_ends_it() -> None:
    with pytest.raises(RunFailed, match=r"environment\.limit of 1ms was reached"):
        settled(spec(limit="1ms"))


YAML = """\
name: small
engine: simulation
topology: {kind: star, hosts: 4}
links: [{rate: 100Mbps, delay: 50us}]
workers: {count: 4}
transport: {kind: roce}
workload: {size: 16KiB, iterations: 3, warmup: 0, gradients: none}
environment: {tail_ratio: 1.5, by: stalls, iterations: 100}
sweep: {environment.tail_ratio: [1, 1.5], transport.kind: [roce, tcp]}
"""


def test_a_sweep_says_of_each_point_what_was_found_and_repeats_itself(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(YAML)
    experiment = read_experiment(tmp_path / "spec.yaml")
    outcome = run_experiment(experiment, DEFAULT_CAPABILITIES, tmp_path / "out", Points())
    assert outcome.error is None, outcome.error
    told = [result.environment for result in outcome.results]
    assert [each and (each.tail_ratio, each.severity) for each in told[:2]] == [(1, 0), (1, 0)]
    assert told[2] is not None
    assert told[2] == told[3], "the same for both transports"
    assert told[2].reached == pytest.approx(1.5, rel=0.05)
    assert told[2].load == pytest.approx(0.2 * (told[2].severity or 0) / 4)
    assert (told[2].algorithm, told[2].transport) == ("ring", "tcp")
    resolved = read_spec(tmp_path / "out" / "002-repeat0" / "spec.yaml")
    assert resolved.faults == ()
    assert resolved.environment is not None
    assert (resolved.environment.severity, resolved.environment.reached) == (told[2].severity, told[2].reached)


class Points(Silent):
    def point(self, number: int, of: int, point: object) -> None: ...
