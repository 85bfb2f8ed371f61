"""The network of a simulated run: a fabric under the virtual clock, whose hosts are ports in memory."""

from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from testbed.fabric.counters import SwitchCounters
from testbed.fabric.links import LinkCounters, flat, unmodelled_drops
from testbed.fabric.model import interface
from testbed.fabric.network import FabricNetwork
from testbed.fabric.planned import fabric_config, switch_config
from testbed.fabric.programs import compile_programs
from testbed.netcore import Fabric
from testbed.plan.model import Address, NativeSwitch, Plan
from testbed.results.rundir import writing
from testbed.results.samples import SwapSample
from testbed.streams import derive
from testbed.stress.draws import TimedFault


class SimulatedNetwork:
    """The network of `plan`, all of whose switches are native ones. Times are model time, which is the fabric's.

    plan_file: its `plan.json`. folder: where BMv2 JSON of programs goes, as long as the network is used.

    Raises TestbedError for a program that cannot be compiled, MachineLacks without a C compiler.
    """

    def __init__(self, plan: Plan, plan_file: Path, folder: Path) -> None:
        self.plan = plan
        self.notes: list[str] = []
        self.now_ns = 0  # between two stretches of time; functions that are called get theirs
        asked = [switch.program for switch in plan.switching.native.values()]
        asked += [fault.program for fault in plan.spec.faults if fault.program is not None]
        self._programs = compile_programs(asked, folder, native=True)
        config = fabric_config(plan, plan_file, self._programs)
        self.core = Fabric(config.seed, virtual=True)
        self.fabric = FabricNetwork(self.core, config, lambda _end: self.core.add_memory_port(), self._hear)
        if (host := plan.spec.host) is not None:
            for name in plan.graph.hosts:
                self.core.set_host_cost(self.port(name), host.per_packet_ns, host.per_byte_ps / 1000)

    def name_aggregator(self, address: Address) -> None:
        """Let hosts send to the switches that add up for a job, which its address is for."""
        self.core.add_neighbour(int(IPv4Address(address.ip)), bytes.fromhex(address.mac.replace(":", "")))

    def play(self, until_ns: int) -> int:
        """Let time pass until an instant, or `core.stop_playing`; the instant then. Raises what a function raised."""
        self.now_ns = self.core.play(until_ns)
        return self.now_ns

    def port(self, host: str) -> int:
        """The core's number of a host's port."""
        return self.fabric.ports[host, 0]

    def ip(self, host: str) -> int:
        """A host's address, as a number."""
        return int(IPv4Address(self.plan.addresses[host].ip))

    def link_counters(self, job: int | None = None) -> Mapping[int, LinkCounters]:
        """Counters of all directed links by index; job packets are those of one job, or of all."""
        return {each.index: flat(each) for each in self.fabric.counters(job)}

    def switch_counters(self, job: int | None = None) -> tuple[SwitchCounters, ...]:
        return self.fabric.switches(job)

    def in_flight(self, job: int | None = None) -> int:
        """The packets of a job, or of all jobs, that are inside links now."""
        return self.fabric.in_flight(job)[1]

    def unmodelled_drops(self) -> dict[str, int]:
        """Packets lost outside every queue of the plan, where -> how many, since the beginning."""
        drops = dict(unmodelled_drops(self.plan.graph, self.fabric.counters()))
        for switch in self.switch_counters():
            if lost := switch.packets.get("dropped_memory"):
                drops[f"{switch.name}: no memory for a packet"] = lost
            if failed := switch.packets.get("dropped_assert"):
                drops[f"{switch.name}: an assert of its program failed"] = failed
        return drops

    def swap(self, switch: str, fault: TimedFault) -> SwapSample:
        """Exchange a switch's program, which takes no time; raises TestbedError, and the old one stays."""
        new = NativeSwitch(fault.program, "strict", None, None, 0, fault.entries)
        seed = derive(self.plan.spec.seed, "switch", switch, fault.program)
        config = switch_config(switch, new, self._programs[fault.program], seed)
        swapped = self.fabric.swap(config, keep_registers=fault.keep_registers)
        return SwapSample(fault.at_ns, switch, Path(fault.program).stem, 0, swapped.kept, swapped.reset)

    def capture(self, node: str, port: int, folder: Path, snap_bytes: int) -> None:
        """Write what crosses a port, both ways, into a new pcapng file in `folder`."""
        name, comment = interface(node, port), f"node {node}, port {port}; simulated"
        path = folder / f"{name}.pcapng"
        with writing(path):
            self.fabric.capture_start(node, port, path, snap_bytes, interface=name, comment=comment)

    def end_captures(self, folder: Path) -> None:
        """Complete all capture files in `folder`; raises RunFailed where one could not be written."""
        with writing(folder):
            self.fabric.capture_stop()

    def _hear(self, event: str, **fields: Any) -> None:
        if event == "links" and not fields["foreseen"]:
            self.notes.append(f"no route was planned for cables {fields['down']} being down together")
