"""Native switches of a fabric: instances of compiled programs, and the routes on their tables.

Without a controller the routes are the plan's, and while cables are down the alternates that the plan has for them, by
the very rule that the controller follows (`controller/routes.py`). With one, OpenFlow agents do what it says, or
P4Runtime clients fill the tables.
"""

import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from testbed.dataplane.aggregation import JOB_COUNTERS, REFUSED, SLOT_COUNTERS
from testbed.dataplane.bmv2json import read_json
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.counted import counted
from testbed.dataplane.entries import carry_out, path_of
from testbed.dataplane.forwarding import Forwarding, Traffic
from testbed.dataplane.native.configurable import ConfigurableSwitch
from testbed.dataplane.native.loader import ProgramTable, load_program
from testbed.dataplane.stf_runner import Configuration
from testbed.errors import UsageError
from testbed.fabric.counters import Counted, Swapped, SwitchCounters
from testbed.fabric.model import FabricConfig, FabricLink, SwitchConfig
from testbed.fabric.planned_routes import follow, read_routes
from testbed.fabric.sums import SumsHere, summed_jobs
from testbed.fabric.swap import Deferred, carried, carry_registers, check_routes
from testbed.netcore import Fabric
from testbed.openflow import Agents, AgentSwitch, Port, PortCounters
from testbed.routing.model import Entry

if TYPE_CHECKING:
    from testbed.fabric.p4runtime import Served, ServedSwitch

_log = logging.getLogger(__name__)
_MOST_COUNTED = 4096  # elements of a counter that are read; more would hold packets up


@dataclass(slots=True)
class _Switch:
    """One switch; `entries` are those beside the routes, `sums` the jobs that it adds up for, once they are there."""

    config: SwitchConfig
    program: Program
    native: ConfigurableSwitch
    forwarding: Forwarding
    entries: Configuration | None = None
    sums: SumsHere = field(default_factory=lambda: SumsHere(()))


@dataclass(frozen=True, slots=True)
class _Filled:
    """A loaded instance that is to take over at a switch, with all that its tables are to hold."""

    forwarding: Forwarding
    deferred: Deferred
    sums: SumsHere
    entries: Configuration | None


class NativeSwitches:
    """The native switches of one fabric. Raises ValueError, OSError or TestbedError for a program that will not do."""

    def __init__(self, fabric: Fabric, config: FabricConfig, report: Callable[..., None]) -> None:
        self._fabric = fabric
        self._report = report
        self._config = config
        self._alone = threading.Lock()  # who holds the fabric
        self._loaded: dict[str, tuple[ctypes.CDLL, ProgramTable, Program]] = {}  # as long as the fabric lives
        self._down: set[int] = set()
        self._agents: Agents | None = None
        self._served: Served | None = None
        self._switches = {switch.name: self._made(switch) for switch in config.switches}
        numbers = {link.index: number for number, link in enumerate(config.links)}
        self._ports = {  # switch -> port -> the fabric's numbers of the links from it and to it
            name: {
                k.source.port: (numbers[k.index], numbers[k.index ^ 1]) for k in config.links if k.source.node == name
            }
            for name in self._switches
        }
        if config.switches:
            assert config.plan is not None
            self._routes = read_routes(Path(config.plan))
            self._summed = summed_jobs(Path(config.plan))

    def __contains__(self, name: str) -> bool:
        return name in self._switches

    def add_port(self, switch: str, number: int) -> int:
        """Give a switch a port in memory; returns its index."""
        return self._fabric.add_switch_port(self._switches[switch].native.number, number)

    def set_up(self) -> None:
        """Once all ports and links are there, and before packets move: queues, salts, routes that are ours, entries."""
        if not self._switches:
            return
        for switch in self._switches.values():
            config = switch.config
            self._fabric.configure_switch(
                switch.native.number,
                scheduler=config.scheduler,
                buffer=config.buffer,
                pfc=config.pfc,
                trim=config.trim_bytes,
            )
            if self._config.p4runtime is None:
                switch.forwarding.set_salt(self._routes.salts[config.name])
        self._fabric.nic_priorities(self._config.nic_priorities)
        if self._config.controller is None and self._config.p4runtime is None:
            self._follow_plan()
        for name, switch in self._switches.items():
            switch.sums = SumsHere.installed(self._summed, name, switch.native)
            if switch.config.entries is not None:
                switch.entries = carry_out(path_of(switch.config.entries), switch.native)

    def start(self) -> None:
        """Connect to the controller, or listen for clients, if there are any. Packets move already."""
        if not self._switches:
            return
        dpids = {name: dpid for dpid, name in self._routes.names.items()}
        if self._config.p4runtime is not None:
            from testbed.fabric.p4runtime import Served  # whose packages are not everywhere

            served = {name: self._as_served(switch, dpids[name]) for name, switch in self._switches.items()}
            self._served = Served(served, self, self._config.p4runtime, self._config.dilation)
            self._served.start()
        if self._config.controller is not None:
            switches = [self._as_seen(switch, dpids[name]) for name, switch in self._switches.items()]
            self._agents = Agents(switches, self, self._config.controller)
            self._agents.start()

    def stop(self) -> None:
        """Leave the controller, or the clients. Twice is fine."""
        if self._agents is not None:
            self._agents.stop()
            self._agents = None
        if self._served is not None:
            self._served.stop()

    def cable_changed(self, cable: int, *, up: bool) -> None:
        """Switches see at once that a cable was cut or mended."""
        ends = [link.source for link in self._links_of(cable) if link.source.node in self._switches]
        controllers = self._agents or self._served
        if controllers is not None:
            for end in ends:
                controllers.port_changed(end.node, end.port, up=up)
        elif len(ends) == 2:  # a host's only cable leaves nothing to choose
            (self._down.discard if up else self._down.add)(cable)
            with self.held():
                self._follow_plan()
            self._report("links", down=sorted(self._down), foreseen=self._routes.foresaw(self._down))

    def swap(self, new: SwitchConfig, *, keep_registers: bool) -> Swapped:
        """Exchange the program of the switch that `new` names, with the routes and the jobs that it has now.

        Raises TestbedError, and the old program stays, if the new one lacks the tables or forwards otherwise.
        """
        if self._served is not None:
            raise UsageError(
                f"switch {new.name} is driven over P4Runtime, by which its program is exchanged",
                hint="a client sets a forwarding pipeline config",
            )
        switch = self._switches[new.name]
        _, functions, program = self._load(new)
        kept = carried(switch.program, program) if keep_registers else []
        with self._alone:  # the routes stay as they are meanwhile
            twin = self._filled(switch, new, program, functions)  # what is tried out counts and remembers
            check_routes(switch.native, new.name, twin.forwarding.entries)
            filled = self._filled(switch, new, program, functions)
            self._fabric.hold()
            try:
                began_ns = time.monotonic_ns()
                carry_registers(kept, switch.native.control, filled.deferred.control)
                switch.forwarding.become(filled.forwarding)
                switch.native.swap()
                filled.deferred.carry_out(switch.native)
                blackout_ns = time.monotonic_ns() - began_ns
            finally:
                self._fabric.release()
        switch.config, switch.program, switch.entries, switch.sums = new, program, filled.entries, filled.sums
        anew = tuple(array.name for array in program.registers if array not in kept)
        return Swapped(new.name, blackout_ns, tuple(array.name for array in kept), anew)

    def counters(self, job: int | None) -> tuple[SwitchCounters, ...]:
        """Each switch's name, its packets' counts, those of its routes by prefix, and what its program counted.

        Of jobs' packets those of `job`, or of all jobs. What programs had to say since the last call goes to the log.
        """
        for name, switch in self._switches.items():
            for message in self._fabric.messages(switch.native.number):
                _log.warning("%s: %s", name, message)
        return tuple(self._counters_of(name, switch, job) for name, switch in self._switches.items())

    def _counters_of(self, name: str, switch: _Switch, job: int | None) -> SwitchCounters:
        with self.held():  # for no longer than one switch takes: programs may have thousands of counters
            return SwitchCounters(
                name,
                self._fabric.switch_counters(switch.native.number, job),
                dict(self._traffic(name)),
                tuple(Counted(*each) for each in (*_counted(switch), *switch.sums.counted())),
            )

    def waiting(self) -> list[str]:
        """In words, which slots of which jobs lack whose contributions."""
        lines: list[str] = []
        for name, switch in self._switches.items():
            if switch.sums:
                with self.held():
                    lines += switch.sums.waiting(name)
        return lines

    def entries(self) -> dict[str, list[Entry]]:
        """Switch -> what it forwards by now."""
        if self._served is not None:
            with self.held():
                return {name: list(self._served.entries(name)) for name in self._switches}
        return {name: list(switch.forwarding.entries.values()) for name, switch in self._switches.items()}

    # -- what the agents ask (testbed.openflow.Datapath) -----------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """No packet moves inside: tables may be read and changed, and all changes are one."""
        with self._alone:
            self._fabric.hold()
            try:
                yield
            finally:
                self._fabric.release()

    def port_counters(self, switch: str) -> Mapping[int, PortCounters]:
        return {port: self._port_counters(out, back) for port, (out, back) in self._ports[switch].items()}

    def _port_counters(self, out: int, back: int) -> PortCounters:
        """By the numbers of the links from a port and to it."""
        sent, received = self._fabric.link_counts(out), self._fabric.link_counts(back)
        return PortCounters(
            received_packets=received["packets"],
            received_bytes=received["bytes"],
            sent_packets=sent["packets"],
            sent_bytes=sent["bytes"],
            sent_dropped=sent["dropped_queue"] + sent["dropped_loss"] + sent["dropped_down"],
        )

    def send_out(self, switch: str, port: int, frame: bytes) -> None:
        self._fabric.send_out(self._switches[switch].native.number, port, frame)

    def inject(self, switch: str, port: int, frame: bytes) -> None:
        self._fabric.inject(self._switches[switch].native.number, port, frame)

    def punted(self) -> Sequence[tuple[str, int, bytes]]:
        names = {switch.native.number: name for name, switch in self._switches.items()}
        return [(names[switch], port, frame) for switch, port, frame in self._fabric.punted()]

    # --------------------------------------------------------------------------------------------------------------

    def _made(self, config: SwitchConfig) -> _Switch:
        _, functions, program = self._load(config)
        native = ConfigurableSwitch(self._fabric, program, functions, seed=config.seed, dilation=self._config.dilation)
        return _Switch(config, program, native, Forwarding(native.control, config.name))

    def _load(self, config: SwitchConfig) -> tuple[ctypes.CDLL, ProgramTable, Program]:
        if config.object not in self._loaded:
            self._loaded[config.object] = (*load_program(Path(config.object)), read_json(Path(config.json)))
        return self._loaded[config.object]

    def _filled(self, switch: _Switch, new: SwitchConfig, program: Program, functions: ProgramTable) -> _Filled:
        """A loaded instance of a program for a switch, with its present routes and jobs, and new entries."""
        control = switch.native.load(program, functions, seed=new.seed)
        deferred = Deferred(control)
        forwarding = Forwarding(control, switch.config.name)
        forwarding.set_salt(self._routes.salts[switch.config.name])
        forwarding.replace(switch.forwarding.entries.values())
        sums = SumsHere.installed(self._summed, switch.config.name, deferred)
        entries = carry_out(path_of(new.entries), deferred) if new.entries is not None else None
        return _Filled(forwarding, deferred, sums, entries)

    def _follow_plan(self) -> None:
        """Have on every switch what should be there while these cables are down."""
        follow(self._routes, self._down, {name: switch.forwarding for name, switch in self._switches.items()})

    def _traffic(self, switch: str) -> Mapping[str, Traffic]:
        """What packets came to, by prefix; the caller holds the fabric."""
        return self._switches[switch].forwarding.traffic() if self._served is None else self._served.traffic(switch)

    def _links_of(self, cable: int) -> list[FabricLink]:
        return [link for link in self._config.links if link.index // 2 == cable]

    def _as_served(self, switch: _Switch, dpid: int) -> "ServedSwitch":
        """A switch as P4Runtime clients see it."""
        from testbed.fabric.p4runtime import ServedSwitch

        config, ports = switch.config, self._ports[switch.config.name].keys()
        fixed = "the spec gives it entries, or jobs that it adds up for" if switch.entries or switch.sums else ""
        hashes = switch.forwarding.salted
        return ServedSwitch(dpid, switch.native, ports, Path(config.json), config.seed, hashes, fixed)

    def _as_seen(self, switch: _Switch, dpid: int) -> AgentSwitch:
        """A switch as its controller sees it."""
        name = switch.config.name
        ports = tuple(
            Port(
                link.source.port,
                link.source.interface,
                _mac(dpid, link.source.port),
                link.parameters.rate_bps,
            )
            for link in self._config.links
            if link.source.node == name
        )
        kind: Literal["ecmp", "spray"] = "ecmp" if switch.forwarding.salted else "spray"
        return AgentSwitch(name, dpid, Path(switch.config.object).stem, kind, ports, switch.forwarding)


_TOLD_BY_JOB = {REFUSED, *SLOT_COUNTERS, *JOB_COUNTERS}


def _counted(switch: _Switch) -> Iterator[tuple[str, str, int, int]]:
    """What a program counted: kind, name, packets, bytes; of counters what is not 0, or that there is too much."""
    added = switch.entries.entries if switch.entries else ()
    control = switch.native.control
    held = counted(control.program, control, added, _MOST_COUNTED)
    yield from held.rows(without=_TOLD_BY_JOB if switch.sums else ())


def _mac(dpid: int, port: int) -> str:
    """A port's address, which no packet carries: locally administered, the switch and the port."""
    return ":".join(f"{byte:02x}" for byte in (0x0253 << 32 | (dpid & 0xFFFF) << 16 | port).to_bytes(6, "big"))
