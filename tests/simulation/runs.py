"""Simulated runs of small specs, for tests."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from testbed.errors import TestbedError
from testbed.plan import Plan, plan
from testbed.plan.serial import to_json
from testbed.results.model import Result
from testbed.results.result import make_result
from testbed.results.rundir import RunDirectory
from testbed.results.samples import JobSamples, Samples
from testbed.simulation.messages.run import MessageRun
from testbed.simulation.run import SimulatedRun
from testbed.spec.model import Spec

STAR = {"topology": {"kind": "star", "hosts": 4}, "links": [{"rate": "1Gbps", "delay": "10us"}]}


class Silent:
    """Nobody looks on."""

    def stage(self, what: str) -> None: ...

    def iterations(self, done: int, of: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Run:
    """What a run came to."""

    plan: Plan
    samples: Samples
    result: Result
    error: TestbedError | None
    directory: Path

    @property
    def job(self) -> JobSamples:
        """The only job."""
        (job,) = self.samples.jobs
        return job

    @property
    def cct_ns(self) -> list[int]:
        """Of the only job's measured iterations, in order."""
        return [each.cct_ns for each in self.job.evidence.iterations]

    @property
    def events(self) -> list[dict[str, Any]]:
        file = self.directory / "events.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def rows(self, name: str) -> list[Mapping[str, str]]:
        with (self.directory / name).open() as file:
            return list(csv.DictReader(file))


def simulate(directory: Path, **keys: Any) -> Run:
    """Run a spec, by default of 4 ranks on a star of 1 Gb/s, as `testbed run` would, into a new directory."""
    spec = Spec.model_validate({"name": "simulated", "engine": "simulation", **STAR, "workers": {"count": 4}, **keys})
    made = plan(spec)
    with RunDirectory.create(spec.name, directory, "abcdef", now=datetime(2026, 1, 1)) as place:
        place.write_plan(to_json(made))
        run: SimulatedRun | MessageRun
        if spec.fidelity == "message":
            run = MessageRun(made, place, Silent())
        else:
            run = SimulatedRun(made, place, "abcdef", Silent())
        samples, error = run.run()
        place.write_links(samples.links)
        place.write_switches(samples.switches)
    result = make_result(made.spec, samples, run_id="abcdef", plan=made, simulation=run.simulation)
    return Run(made, samples, result, error, directory)
