"""Timed faults happen in order, each at its instant of model time, and are written down."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from testbed.plan.model import Plan
from testbed.results.rundir import RunDirectory
from testbed.run.channel import Channel, Hub
from testbed.run.conductor import Conductor
from testbed.run.faults import FaultTimeline
from testbed.stress.draws import TimedFault
from testbed.topology.graph import LinkParameters
from tests.results.synthetic import a_plan, a_spec

LIMIT_S = 10.0
SLOW = LinkParameters(rate_bps=1000)


@dataclass
class FakeNetwork:
    """Remembers what was done to it."""

    plan: Plan = field(default_factory=lambda: a_plan(a_spec(), dilation=10))
    done: list[tuple[Any, ...]] = field(default_factory=list)

    def link_down(self, cable: int) -> None:
        self.done.append(("down", cable))

    def link_up(self, cable: int) -> None:
        self.done.append(("up", cable))

    def set_link(self, index: int, parameters: LinkParameters) -> None:
        self.done.append(("set", index, parameters))


class Stage:
    """A timeline over a fake network, a conductor without ranks, and a run directory for its records."""

    def __init__(self, conductor: Conductor, *faults: TimedFault) -> None:
        self.conductor = conductor
        self.network = FakeNetwork()
        self._directory = RunDirectory(Path(mkdtemp(dir=conductor.hub.path.parent)))
        self.timeline = FaultTimeline(faults, self.network, conductor, self._directory.event)  # type: ignore[arg-type]

    @property
    def recorded(self) -> list[dict[str, Any]]:
        lines = (self._directory.path / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event.pop("kind") == "fault"]


@pytest.fixture
def conductor(tmp_path: Path) -> Iterator[Conductor]:
    hub = Hub(tmp_path / "c")
    yield Conductor(hub, wall_limit_s=LIMIT_S)
    hub.close()


def test_they_happen_in_order_of_time(conductor: Conductor) -> None:
    stage = Stage(
        conductor,
        TimedFault(-1000, "link-down", cables=(0, 1)),
        TimedFault(2000, "link-up", cables=(0, 1)),
        TimedFault(3000, "link-set", parameters={0: SLOW, 3: SLOW}),
    )
    conductor.pump()
    assert stage.network.done == [], "nothing before the release is known"
    stage.timeline.start(time.monotonic_ns() - 40_000)  # so that all are due
    conductor.pump()
    assert stage.network.done == [("down", 0), ("down", 1), ("up", 0), ("up", 1), ("set", 0, SLOW), ("set", 3, SLOW)]
    assert [(event["fault"], event["at_ns"], event["where"]) for event in stage.recorded] == [
        ("link-down", -1000, ["h0-s0", "h1-s0"]),
        ("link-up", 2000, ["h0-s0", "h1-s0"]),
        ("link-set", 3000, ["h0>s0", "s0>h1"]),
    ]
    assert all(event["late_ns"] >= 0 for event in stage.recorded)


def test_time_is_dilated(conductor: Conductor) -> None:
    stage = Stage(conductor, TimedFault(10**9, "link-down", cables=(0,)))
    stage.timeline.start(time.monotonic_ns())
    assert 9 < stage.timeline.due() <= 10
    stage.timeline.start(time.monotonic_ns() - 10 * 10**9)
    assert stage.timeline.due() <= 0
    stage.timeline.carry_out()
    assert stage.network.done == [("down", 0)]
    assert stage.timeline.due() == float("inf")


def test_it_does_not_happen_early_while_the_run_waits(conductor: Conductor) -> None:
    stage = Stage(conductor, TimedFault(2_000_000, "link-down", cables=(0,)))
    zero_ns = time.monotonic_ns()
    stage.timeline.start(zero_ns)
    conductor.until(lambda: bool(stage.network.done), lambda: "the fault", LIMIT_S)
    assert time.monotonic_ns() >= zero_ns + 20_000_000
    assert stage.recorded[0]["late_ns"] >= 0


def test_a_kill_is_planned_and_done_once(conductor: Conductor) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as victim:
        child = Channel.connect(conductor.hub.path, "rank", rank=0, name="rank 0 on h0")
        conductor.welcome_ranks(1, LIMIT_S, lambda: None)
        conductor.ranks[0].hello["pid"] = victim.pid
        stage = Stage(conductor, TimedFault(0, "kill", workers=(0,)))
        stage.timeline.start(time.monotonic_ns())
        conductor.until(lambda: 0 in conductor.planned_deaths, lambda: "the kill", LIMIT_S)
        assert victim.wait(LIMIT_S) == -signal.SIGKILL
    assert conductor.living() == []
    again = Stage(conductor, TimedFault(0, "kill", workers=(0,)))  # another fault of the spec takes `all`
    again.timeline.start(time.monotonic_ns() - 1000)
    again.timeline.carry_out()
    assert [(event["fault"], event["where"]) for event in again.recorded] == [("kill", ["rank 0"])]
    child.close()
