"""The search for an environment's severity: what it finds has the ratio, is kept, and what it cannot find is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import RunFailed
from testbed.plan import DEFAULT_CAPABILITIES
from testbed.results.statistics import nearest_rank
from testbed.run import environment
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


def spec(**given: Any) -> Spec:
    keys = {"tail_ratio": RATIO, "iterations": 100, **given}
    return Spec.model_validate({**STAR, "environment": keys})


def settled(asked: Spec, progress: Noting | None = None) -> EnvironmentSpec:
    found = Environments().settle(asked, progress or Noting()).environment
    assert found is not None
    return found


@pytest.mark.parametrize("by", ["stalls", "slow-host", "congestion"])
def test_a_ring_over_tcp_has_the_tail_that_was_asked_for(tmp_path: Path, by: str) -> None:
    """By the draws of the search itself; experiments/environments.yaml has others."""
    found = settled(spec(by=by))
    assert found.reached == pytest.approx(RATIO, rel=TOLERANCE)
    keys = {
        **STAR,
        "transport": {"kind": "tcp"},
        "workload": {**STAR["workload"], "gradients": "none", "iterations": 100},
        "environment": {"tail_ratio": RATIO, "by": by, "severity": found.severity},
    }
    times = sorted(simulate(tmp_path / "run", **keys).cct_ns)
    assert nearest_rank(times, 99) / nearest_rank(times, 50) == pytest.approx(found.reached, rel=1e-4)


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


def curve(monkeypatch: pytest.MonkeyPatch, ratio: Callable[[float], float]) -> None:
    """Have baselines whose ratio is a function of the severity, in place of simulations."""

    def simulated(baseline: Spec) -> tuple[list[int], None]:
        assert baseline.environment is not None
        tail = round(1000 * ratio(baseline.environment.severity or 0))
        return [1000] * 95 + [tail] * 5, None

    monkeypatch.setattr(environment, "_simulated", simulated)


def test_a_tail_that_cannot_be_had_is_refused_with_what_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many events that they are the median too: as ten stalls an iteration have it."""
    curve(monkeypatch, lambda severity: 1 + 0.5 * severity / (1 + severity))
    with pytest.raises(RunFailed, match=r"tail_ratio: 30 by stalls was not found: no severity gives it.*1\.48 at 29"):
        settled(spec(by="stalls", tail_ratio=30, events=10))


def test_a_jump_over_the_ratio_is_told_from_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on links of 1 Gb/s with 8 KiB of queue, where an iteration is under a ms and a timeout 200 ms."""
    curve(monkeypatch, lambda severity: 1 + 1.6 * severity if severity < 1.373 else 497)
    told = r"was not found: the ratio jumps from 3\.\d+ at severity 1\.37\d* to 497 at 1\.37"
    with pytest.raises(RunFailed, match=told):
        settled(spec(tail_ratio=20))


def test_a_ratio_that_falls_again_is_found_between_doublings(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 3.2 at 2.8 and 2.8 at 2 and 4."""
    curve(monkeypatch, lambda severity: max(1.0, 3.2 - 0.5 * abs(severity - 2.8)) if severity else 1.0)
    found = settled(spec())
    assert found.severity is not None
    assert 2 < found.severity < 4
    assert found.reached == pytest.approx(RATIO, rel=TOLERANCE)


def test_a_baseline_with_a_longer_tail_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    curve(monkeypatch, lambda severity: 4 + severity)
    with pytest.raises(RunFailed, match="the baseline's tail is longer than that without it"):
        settled(spec())


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
