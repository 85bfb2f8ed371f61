"""The `netcore` link driver: starts the fabric process for the cables that the plan gives it, and asks it."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.emulation import processes
from testbed.emulation.fabric_client import FabricClient
from testbed.emulation.state import RunState
from testbed.fabric.links import LinkCounters, flat, unmodelled_drops
from testbed.fabric.model import FabricConfig
from testbed.plan.model import Plan
from testbed.run.channel import Channel
from testbed.topology.graph import LinkParameters


def start_fabric(config: FabricConfig, state: RunState, control: Path, log: Path, outer: str) -> processes.Child:
    """Start the fabric process; it says `ready` on the control socket when all its TAPs exist."""
    file = state.directory / "fabric.json"
    file.write_text(json.dumps(config.to_json()))
    module = "testbed.emulation.fabric"
    argv = [sys.executable, "-P", "-m", module, "--config", str(file), "--control", str(control)]
    return processes.start(state, "fabric", argv, log, namespace=outer)


class FabricDriver:
    """The links inside a running fabric."""

    def __init__(self, plan: Plan, channel: Channel) -> None:
        self.client = FabricClient(channel)
        self._graph = plan.graph

    def set_link(self, index: int, parameters: LinkParameters) -> None:
        self.client.set_link(index, parameters)

    def link_down(self, cable: int) -> None:
        self.client.link_down(cable)

    def link_up(self, cable: int) -> None:
        self.client.link_up(cable)

    def counters(self, job: int | None = None, *, mark: bool = False) -> Mapping[int, LinkCounters]:
        return {each.index: flat(each) for each in self.client.counters(job, mark=mark)}

    def unmodelled_drops(self) -> Mapping[str, int]:
        """Packets lost at the fabric's edges, where no link of the plan loses any."""
        return unmodelled_drops(self._graph, self.client.counters())
