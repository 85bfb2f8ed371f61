"""How hard an environment has to strike for its baseline to have the tail that the spec asks for, found by simulation.

The baseline (`testbed.plan.environment`) runs on the spec's network with the environment alone, without the spec's own
faults and traffic, at a severity that is doubled until the ratio is passed and then closed in on. Its seed is always
the same, so that one environment is one severity for all transports, repeats and engines. The ratio grows with the
severity, but not evenly where a lost packet costs a whole timeout (then what was reached on both sides is told), and
only until events are so long that they meet, and are the median (then the highest ratio is looked for between doublings
too).
What was found is kept in the user's cache by a digest of the baseline's plan and of the sources that simulate it.
"""

import hashlib
import json
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from testbed.caches import keep, user_cache
from testbed.errors import RunFailed, TestbedError
from testbed.plan.environment import baseline_job
from testbed.plan.planner import plan as make_plan
from testbed.plan.serial import to_json
from testbed.results.rundir import RunDirectory
from testbed.results.statistics import nearest_rank
from testbed.run.progress import Progress
from testbed.spec.model import EnvironmentSpec, LimitsSpec, Spec, SwitchesSpec
from testbed.units import Quantity, format_duration

_SEED = 1
_MOST_PROBES = 24
_MOST_SEVERITY = 1 << 12
_GROWTH, _FLAT = 0.02, 3  # a ratio that grows less than this share, so many doublings of severity on end, does not
_BESIDE = (2**-0.5, 2**0.5)
_FINEST = 0.002  # of the severity: closer than that the search does not look
_LEAST_STALL_NS = 600 * 10**9  # model time: retransmission timeouts that double may take that long
_NS = 1e9
_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = ("collective", "fabric", "netcore", "plan", "simulation", "stress", "transport", "wire", "worker")
_DRAWS = _PACKAGE / "streams.py"
_DIGITS = 6  # of what is found, in a spec


@dataclass(frozen=True, slots=True)
class _Probe:
    severity: float
    ratio: float


class Environments:
    """What was found, in this process and before it."""

    def __init__(self) -> None:
        self._found: dict[str, _Probe] = {}  # by the baseline

    def settle(self, spec: Spec, progress: Progress) -> Spec:
        """`spec` with the severity of its environment and the ratio that it reached.

        Raises RunFailed where no severity has the ratio, or none is found in time; UsageError as planning does.
        """
        environment = spec.environment
        if environment is None or environment.severity is not None:
            return spec
        if environment.tail_ratio == 1:
            return _with(spec, environment, _Probe(0.0, 1.0))
        baseline = _baseline(spec, environment)
        written = baseline.model_dump_json()
        if written not in self._found:
            self._found[written] = _kept_or_sought(baseline, environment, progress)
        return _with(spec, environment, self._found[written])


def _kept_or_sought(baseline: Spec, environment: EnvironmentSpec, progress: Progress) -> _Probe:
    key = _digest(baseline)
    found = _kept(key)
    if found is None:
        found = _Search(baseline, environment, progress).run()
        keep(_file(key), json.dumps({"severity": found.severity, "ratio": found.ratio}))
    return found


def _with(spec: Spec, environment: EnvironmentSpec, found: _Probe) -> Spec:
    update = {"severity": found.severity, "reached": found.ratio}
    return spec.model_copy(update={"environment": environment.model_copy(update=update)})


def _baseline(spec: Spec, environment: EnvironmentSpec) -> Spec:
    """What is simulated; its severity is still to be set."""
    job = baseline_job(spec)
    plain = spec.switches.kind != "bmv2" and spec.switches.controller in (None, "ecmp")
    return Spec(
        name="environment",
        engine="simulation",
        seed=_SEED,
        topology=spec.topology,
        links=spec.links,
        switches=spec.switches if plain else SwitchesSpec(),  # what simulation has in their place
        routing=spec.routing,
        workers=job.workers,
        transport=job.transport,
        workload=job.workload,
        environment=environment.model_copy(update={"limit_ns": 0}),  # which changes nothing of what is found
        host=spec.host,
    )


class _Search:
    """Looks for the severity at which the baseline's p99 is `tail_ratio` times its median."""

    def __init__(self, baseline: Spec, environment: EnvironmentSpec, progress: Progress) -> None:
        self._baseline = baseline
        self._environment = environment
        self._progress = progress
        self._deadline = time.monotonic() + environment.limit_ns / _NS
        self._probes: list[_Probe] = []

    def run(self) -> _Probe:
        target, tolerance = self._environment.tail_ratio, self._environment.tolerance
        low = self._probe(0.0)
        if low.ratio > target * (1 + tolerance):
            raise self._failure("the baseline's tail is longer than that without it")
        if self._near(low):
            return low
        low, high = self._above()
        while not self._near(high):
            if len(self._probes) >= _MOST_PROBES or high.severity - low.severity < _FINEST * high.severity:
                raise self._failure(
                    f"the ratio jumps from {low.ratio:.3g} at severity {low.severity:.4g} to {high.ratio:.3g} at "
                    f"{high.severity:.4g}, as where a lost packet costs a whole timeout"
                )
            share = (target - low.ratio) / (high.ratio - low.ratio)
            between = low.severity + min(0.8, max(0.2, share)) * (high.severity - low.severity)
            probe = self._probe(between)
            if self._near(probe):
                return probe
            low, high = (probe, high) if probe.ratio < target else (low, probe)
        return high

    def _above(self) -> tuple[_Probe, _Probe]:
        """A severity that does not reach the ratio, and a greater one that does; raises RunFailed."""
        low, high, flat = self._probes[0], self._probe(self._environment.tail_ratio - 1), 0
        while not self._reaches(high) and flat < _FLAT and high.severity < _MOST_SEVERITY:
            low, high = high, self._probe(2 * high.severity)
            flat = flat + 1 if high.ratio < (1 + _GROWTH) * low.ratio else 0
        if self._reaches(high):
            return low, high
        best = max(self._probes, key=lambda probe: probe.ratio)  # beyond which it falls: it may be higher beside it
        for factor in _BESIDE:
            high = self._probe(best.severity * factor)
            if self._reaches(high):
                return max((p for p in self._probes if p.severity < high.severity), key=lambda p: p.severity), high
        raise self._failure("no severity gives it: take fewer `events`, which then are not the median too")

    def _reaches(self, probe: _Probe) -> bool:
        return self._near(probe) or probe.ratio > self._environment.tail_ratio

    def _near(self, probe: _Probe) -> bool:
        target = self._environment.tail_ratio
        return abs(probe.ratio - target) <= self._environment.tolerance * target

    def _probe(self, severity: float) -> _Probe:
        """What the baseline's ratio is."""
        environment = self._environment
        severity = float(f"{severity:.{_DIGITS}g}")
        told = f", {len(self._probes)} tried" if self._probes else ""
        self._progress.stage(
            f"simulating the baseline of environment.tail_ratio {environment.tail_ratio:g} by {environment.by}: "
            f"severity {severity:.4g}{told}"
        )
        left_ns = int((self._deadline - time.monotonic()) * _NS)
        if left_ns <= 0:
            raise self._failure(f"environment.limit of {format_duration(environment.limit_ns)} was reached")
        update = {
            "environment": environment.model_copy(update={"severity": severity}),
            "limits": LimitsSpec(wall=Quantity(left_ns), stall=Quantity(_LEAST_STALL_NS)),
        }
        times, error = _simulated(self._baseline.model_copy(update=update))
        if error is not None and time.monotonic() >= self._deadline:
            raise self._failure(f"environment.limit of {format_duration(environment.limit_ns)} was reached")
        if error is not None:
            raise error
        ratio = nearest_rank(sorted(times), 99) / nearest_rank(sorted(times), 50)
        self._probes.append(_Probe(severity, float(f"{ratio:.{_DIGITS}g}")))
        return self._probes[-1]

    def _failure(self, why: str) -> RunFailed:
        environment = self._environment
        told = ", ".join(f"{probe.ratio:.3g} at {probe.severity:.4g}" for probe in self._probes) or "none yet"
        return RunFailed(
            f"environment.tail_ratio: {environment.tail_ratio:g} by {environment.by} was not found: {why} "
            f"(ratios reached, at severities: {told})",
            hint="another `by`, `events` or `tolerance`, a longer `limit`; or give `severity` and no search is made",
        )


def _simulated(spec: Spec) -> tuple[list[int], TestbedError | None]:
    """The CCTs of the measured iterations, and the error that ended the run."""
    from testbed.simulation.run import SimulatedRun

    plan = make_plan(spec)
    with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
        place = Path(folder, "run")
        with RunDirectory.create(spec.name, place, "environment", now=datetime.now()) as directory:
            directory.write_plan(to_json(plan))
            samples, error = SimulatedRun(plan, directory, "environment", _Silent()).run()
    return [iteration.cct_ns for job in samples.jobs for iteration in job.evidence.iterations], error


class _Silent:
    """The run within the search, of whose own stages nobody is told."""

    def stage(self, what: str) -> None: ...

    def iterations(self, done: int, of: int) -> None: ...


def _digest(baseline: Spec) -> str:
    """Of all that the severity depends on."""
    digest = hashlib.sha256(_sources().encode())
    digest.update(json.dumps(to_json(make_plan(baseline)), sort_keys=True).encode())
    return digest.hexdigest()[:32]


@cache
def _sources() -> str:
    """Of the code that a simulation of the baseline runs."""
    digest = hashlib.sha256()
    paths = [_DRAWS, *(path for folder in _FOLDERS for path in (_PACKAGE / folder).rglob("*"))]
    for path in sorted(path for path in paths if path.suffix in (".py", ".c", ".h")):
        digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _kept(key: str) -> _Probe | None:
    """What was found before; None: it was not, or cannot be read."""
    try:
        kept: dict[str, Any] = json.loads(_file(key).read_text())
        return _Probe(float(kept["severity"]), float(kept["ratio"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _file(key: str) -> Path:
    return user_cache("environments") / f"{key}.json"
