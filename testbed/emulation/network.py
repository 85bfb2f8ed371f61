"""One emulated network from a plan: the order in which it comes up, the roll-back if it does not, and the way down.

Order: switch programs compiled; namespaces; controller, fabric and Open vSwitch (they start side by side); interfaces
once the fabric has made its TAPs; bridges once the controller listens; then all flows confirmed, and everything read
back. Native switches come with the fabric, and no Open vSwitch then. Building the object touches nothing; `start` does.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from testbed.emulation import interfaces, namespaces, processes, scheduling
from testbed.emulation.descriptors import closing_side_by_side
from testbed.emulation.drops import host_drops as drops_at_hosts
from testbed.emulation.drops import packet_socket_drops
from testbed.emulation.fabric_client import FabricClient
from testbed.emulation.fabric_driver import FabricDriver, start_fabric
from testbed.emulation.links import LinkDriver, namespace_of
from testbed.emulation.mininet_network import PlannedMininet
from testbed.emulation.state import RunState
from testbed.emulation.switches import OpenVSwitch
from testbed.emulation.tc import TcDriver
from testbed.errors import RunFailed, TestbedError, UsageError
from testbed.fabric.counters import Pause, Swapped, SwitchCounters
from testbed.fabric.links import LinkCounters
from testbed.fabric.planned import fabric_config, switch_config
from testbed.fabric.programs import CompiledProgram, compile_programs
from testbed.fabric.sums import check_ways
from testbed.plan.model import NativeSwitch, Plan
from testbed.plan.serial import to_json
from testbed.resources import shared_folder
from testbed.run.channel import Channel, Hub
from testbed.streams import derive
from testbed.suggest import did_you_mean
from testbed.topology.graph import LinkParameters
from testbed.topology.switches import P4RUNTIME

if TYPE_CHECKING:
    from testbed.emulation.bmv2 import Bmv2Switches
    from testbed.emulation.bmv2_grpc import Bmv2GrpcSwitches

CONTROL = "control.sock"  # in the state's directory: where the run's children connect
_CONTROLLER = "127.0.0.1", 6653  # IANA's port for OpenFlow
_P4RUNTIME = "127.0.0.1", 9559  # and for P4Runtime
_CHILD_START_S = 60.0  # an emulated machine takes a quarter of that over its imports
_INSTALL_S = 30.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class SetupTimes:
    """How long the steps of bringing a network up took, in seconds of real time."""

    programs_s: float = 0.0
    namespaces_s: float = 0.0
    daemons_s: float = 0.0
    interfaces_s: float = 0.0
    bridges_s: float = 0.0
    shaping_s: float = 0.0
    flows_s: float = 0.0
    read_back_s: float = 0.0

    @property
    def total_s(self) -> float:
        return sum(float(getattr(self, field.name)) for field in fields(self))


class EmulatedNetwork:
    """The network of one run. A context manager: up inside, down after."""

    def __init__(self, plan: Plan, state: RunState, logs: Path, *, controller: bool = True) -> None:
        """`controller=False` leaves the switches without one: Open vSwitch's without flows."""
        self.plan = plan
        self.state = state
        self.outer = namespaces.outer_name(state.run_id)
        self.mismatches: list[str] = []  # what reads back differently from what was asked, after `start`
        self._logs = logs
        self._plan_file = state.directory / "plan.json"
        self._app = plan.switching.controller if controller else None
        self._openvswitch = OpenVSwitch(state, logs, self.outer, plan.datapath) if plan.datapath else None
        self._bmv2: Bmv2Switches | None = None
        self._bmv2_grpc: Bmv2GrpcSwitches | None = None
        if plan.switching.kind == "bmv2":
            # Only here: they take much to import, and few networks have them.
            from testbed.emulation import bmv2, bmv2_grpc

            if self._app == P4RUNTIME:
                self._bmv2_grpc = bmv2_grpc.Bmv2GrpcSwitches(plan, state, logs, self.outer)
            else:
                self._bmv2 = bmv2.Bmv2Switches(plan, state, logs, self.outer, self._plan_file)
        self._tc = TcDriver(plan, self.outer)
        self._links: FabricDriver | None = None
        self._hub: Hub | None = None
        self._net: PlannedMininet | None = None
        self._controller: processes.Child | None = None
        self._fabric: processes.Child | None = None
        self._times: dict[str, float] = {}
        self._programs: dict[str, CompiledProgram] = {}
        self._heard: dict[tuple[str, str | None], Channel] = {}

    def __enter__(self) -> "EmulatedNetwork":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        problems = self.stop()
        if problems and error is None:
            raise RunFailed("the network did not go down cleanly: " + "; ".join(problems), hint="run `testbed clean`")

    @property
    def hub(self) -> Hub:
        """Where all children of the run connect."""
        assert self._hub is not None, "the network is not up"
        return self._hub

    @property
    def net(self) -> PlannedMininet:
        """The network as Mininet sees it: `net.get("h0").cmd("ip address")`."""
        assert self._net is not None, "the network is not up"
        return self._net

    def netns(self, host: str) -> str:
        """The name of a host's namespace."""
        return namespaces.host_name(self.state.run_id, host)

    def start(self) -> SetupTimes:
        """Bring everything up. On failure everything is taken down again and the error names the step."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return SetupTimes(**self._times)

    def _start(self) -> None:
        if self._app == P4RUNTIME:
            import testbed.dataplane.p4runtime  # noqa: F401 - raises MachineLacks
        self._plan_file.write_text(json.dumps(to_json(self.plan)))
        with self._step("programs_s", "compiling the switch programs"):
            native, bmv2 = self.plan.switching.native, self.plan.switching.bmv2
            asked = [switch.program for switch in (native or bmv2).values()]
            asked += [fault.program for fault in self.plan.spec.faults if fault.program is not None]
            programs = compile_programs(asked, self.state.directory / "programs", native=bool(native))
            self._programs = dict(programs)
        scheduling.go_first(self.plan.datapath)
        with self._step("namespaces_s", "making the namespaces"):
            names = (self.outer, *(self.netns(host) for host in self.plan.graph.hosts))
            self.state.add_namespaces(names)
            namespaces.create(names)
        with self._step("daemons_s", "starting the controller, the fabric and Open vSwitch"):
            self._hub = Hub(self.state.directory / CONTROL)
            if self._app is not None:
                described = self._bmv2_grpc.describe(programs) if self._bmv2_grpc is not None else None
                self._controller = self._start_controller(self._app, described)
            if "netcore" in self.plan.drivers:
                listens = _CONTROLLER if self._app not in (None, P4RUNTIME) else None
                serves = _P4RUNTIME if self._app == P4RUNTIME else None
                config = fabric_config(
                    self.plan,
                    self._plan_file,
                    programs,
                    netns=lambda node: namespace_of(self.plan.graph, node, self.outer),
                    controller=listens,
                    p4runtime=serves,
                )
                self._fabric = start_fabric(config, self.state, self.hub.path, self._logs / "fabric.log", self.outer)
            if self._openvswitch is not None:
                self._openvswitch.start()
        with self._step("interfaces_s", "making and configuring the interfaces"):
            interfaces.make_veths(self.plan, self.outer)
            if self._fabric is not None:
                self._links = FabricDriver(self.plan, self._await_event(self._fabric, "ready", _CHILD_START_S))
            interfaces.configure_hosts(self.plan, self.outer)
            environment = self._openvswitch.environment if self._openvswitch is not None else {}
            if not self.plan.switching.native:
                interfaces.configure_switch_ports(self.plan, self.outer)
            self._net = PlannedMininet(self.plan, self.outer, environment)
        with self._step("bridges_s", "making the bridges"):
            if self._controller is not None:
                self._await_event(self._controller, "listening", _CHILD_START_S)
            if self._openvswitch is not None:
                target = "tcp:{}:{}".format(*_CONTROLLER) if self._controller is not None else None
                self._openvswitch.add_bridges(self.plan, target)
            if self._bmv2 is not None:
                self._bmv2.start(programs)
            if self._bmv2_grpc is not None:
                self._bmv2_grpc.start()
        with self._step("shaping_s", "shaping the links"):
            self._tc.configure()  # only now, as Open vSwitch clears the queueing disciplines of a port it takes in
        with self._step("flows_s", "installing the flows"):
            if self._controller is not None:
                self._await_event(self._controller, "installed", _INSTALL_S)
        with self._step("read_back_s", "reading everything back"):
            if self._openvswitch is not None:
                self.mismatches += self._openvswitch.missing_ports(self.plan)
            if any(job.aggregation for job in self.plan.jobs):
                check_ways(self.plan, self._in_fabric.client.entries())
            self.mismatches += self.read_back()

    def stop(self) -> list[str]:
        """Take everything down, whatever of it is up; returns what went wrong."""
        problems: list[str] = []

        def attempt(what: str, work: Callable[[], list[str] | None]) -> None:
            try:
                problems.extend(work() or ())
            except Exception as error:  # whatever it is, the next step must be tried
                problems.append(f"{what}: {type(error).__name__}: {error}")

        if self._net is not None:
            attempt("shells", self._net.stop_shells)
        if self._hub is not None:
            attempt("control channels", self._hub.close)
        attempt("controller", lambda: processes.stop_all([self._controller] if self._controller else [], leaving=True))
        attempt("Open vSwitch", self._openvswitch.stop if self._openvswitch is not None else lambda: None)
        for bmv2 in (self._bmv2, self._bmv2_grpc):
            attempt("bmv2", bmv2.stop if bmv2 is not None else lambda: None)
        attempt("fabric", self._stop_fabric)
        attempt("processes left in the namespaces", self._end_strangers)
        attempt("namespaces", lambda: namespaces.delete(self.state.record.namespaces))
        self._net = self._controller = self._fabric = self._links = self._hub = None
        scheduling.stand_back()
        return problems

    def check(self) -> None:
        """Raise RunFailed if a switch that is a process has died."""
        for switches in (self._openvswitch, self._bmv2, self._bmv2_grpc):
            if switches is not None:
                switches.check()

    def cause(self, failure: TestbedError) -> TestbedError:
        """What a failure comes from: the fabric's end, of which tools see but that devices are gone; else itself."""
        if self._fabric is not None and self._fabric.name not in failure.message:
            try:
                self._fabric.check_ending()
            except RunFailed as death:
                return death
        return failure

    def set_link(self, index: int, parameters: LinkParameters) -> None:
        """Change a directed link (by its index in the graph) while packets flow; model time."""
        self._tc.set_link(index, parameters)
        if self.plan.drivers[index // 2] == "netcore":
            self._in_fabric.set_link(index, parameters)

    def link_down(self, cable: int) -> None:
        """Cut a cable."""
        self._driver(cable).link_down(cable)
        self._tell_bmv2(cable, up=False)

    def link_up(self, cable: int) -> None:
        """Mend a cable."""
        self._driver(cable).link_up(cable)
        self._tell_bmv2(cable, up=True)

    def swap(
        self,
        switch: str,
        program: str,
        entries: str | None = None,
        *,
        keep_registers: bool = False,
        foreseen: bool = False,
    ) -> Swapped:
        """Exchange a native switch's program while packets flow; raises TestbedError, and the old one stays.

        program, entries: as in `testbed.plan.model.NativeSwitch`. foreseen: by a fault of the spec, so that it was
        compiled with the others; else it is compiled now, as its file is now.
        """
        if switch not in self.plan.switching.native:
            kind = self.plan.switching.kind if switch in self.plan.graph.switches else None
            raise UsageError(
                f"{switch} is a switch of kind {kind}" if kind else f"there is no switch {switch!r} in this network",
                hint="programs are exchanged on native switches"
                if kind
                else did_you_mean(switch, self.plan.graph.switches),
            )
        compiled = self._programs[program] if foreseen else self._compiled_now(program)
        if entries is not None:
            from testbed.dataplane.bmv2json import read_json  # as in testbed.fabric.programs
            from testbed.dataplane.entries import mistakes, path_of

            ports = len(self.plan.graph.links_from(switch))
            for mistake in mistakes(read_json(compiled.json), path_of(entries), ports):
                raise mistake
        seed = derive(self.plan.spec.seed, "switch", switch, program)
        new = switch_config(switch, NativeSwitch(program, "strict", None, None, 0, entries), compiled, seed)
        return self.fabric.swap(new, keep_registers=keep_registers)

    def link_counters(self, job: int | None = None, *, mark: bool = False) -> Mapping[int, LinkCounters]:
        """Counters of all directed links by index, real time; job packets are those of one job, or of all.

        With `mark` as if `mark` followed at the same instant.
        """
        in_fabric = self._links.counters(job, mark=mark) if self._links is not None else {}
        return {**self._tc.counters(job), **in_fabric}

    def switch_counters(self, job: int | None = None) -> tuple[SwitchCounters, ...]:
        """Counters of the switches that run programs, of which a network with Open vSwitch has none."""
        if self._bmv2 is not None:
            return self._bmv2.counters()
        return self._links.client.switches(job) if self._links is not None else ()

    def waiting(self) -> tuple[str, ...]:
        """In words, which slots of sums lack whose contributions."""
        return self._links.client.waiting() if self._links is not None else ()

    def pauses(self) -> tuple[Pause, ...]:
        """What PFC keeps from being served now."""
        return self._links.client.pauses() if self._links is not None else ()

    def mark(self) -> None:
        """Forget highest queues, measured rates and lateness, so that the next counters tell of what follows."""
        if self._links is not None:
            self._links.client.mark()

    def in_flight(self, job: int | None = None) -> int:
        """The packets of a job, or of all jobs, that are inside links now."""
        within_tc = sum(counters.job_in_flight for counters in self._tc.counters().values())
        return within_tc + (self._links.client.in_flight(job)[1] if self._links is not None else 0)

    def read_back(self) -> list[str]:
        """Where links and hosts' ports are shaped otherwise than asked."""
        return self._tc.read_back()

    def host_drops(self) -> dict[str, int]:
        """Packets lost outside every queue of the plan, where -> how many, since the network is up."""
        drops = drops_at_hosts({host: self.netns(host) for host in self.plan.graph.hosts})
        drops |= self._tc.sender_drops()
        if self._links is not None:
            drops |= self._links.unmodelled_drops()
        if self.plan.datapath == "user" or self.plan.switching.kind == "bmv2":
            drops |= packet_socket_drops(self.outer)
        for switch in self.switch_counters() if self.plan.switching.native else ():
            if lost := switch.packets.get("dropped_memory"):
                drops[f"{switch.name}: no memory for a packet"] = lost
            if failed := switch.packets.get("dropped_assert"):
                drops[f"{switch.name}: an assert of its program failed (logs/fabric.log)"] = failed
        return drops

    def capture(self, node: str, port: int, path: Path, snap_bytes: int) -> None:
        """Write what crosses a port, both ways, into a new pcapng file; the port's cable must be the fabric's."""
        self._in_fabric.client.capture_start(node, port, str(path), snap_bytes)

    def end_captures(self) -> None:
        """Complete all capture files."""
        if self._links is not None:
            self._links.client.capture_stop()

    @property
    def fabric(self) -> FabricClient:
        """The fabric; raises RunFailed if this network has none."""
        return self._in_fabric.client

    def _compiled_now(self, program: str) -> CompiledProgram:
        folder = self.state.directory / f"programs-{time.monotonic_ns()}"
        return compile_programs([program], folder, native=True)[program]

    @property
    def _in_fabric(self) -> FabricDriver:
        if self._links is None:
            raise RunFailed("this network has no fabric: all of its links are carried by tc")
        return self._links

    def _driver(self, cable: int) -> LinkDriver:
        return self._tc if self.plan.drivers[cable] == "tc" else self._in_fabric

    def _tell_bmv2(self, cable: int, *, up: bool) -> None:
        """bmv2 does not see whether a cable is there: who fills its switches is told."""
        if self._bmv2 is not None:
            self._bmv2.cable_changed(cable, up=up)
        if self._bmv2_grpc is not None and self._controller is not None:
            channel = self._await_event(self._controller, "installed", _INSTALL_S)
            channel.request({"op": "cable", "cable": cable, "up": up}, _INSTALL_S)

    def _start_controller(self, app: str, switches: Path | None) -> processes.Child:
        """switches: where they are, if each has an address of its own."""
        client = app == P4RUNTIME
        script, port = ("p4runtime.py", _P4RUNTIME[1]) if client else ("runner.py", _CONTROLLER[1])
        return processes.start(
            self.state,
            "controller",
            [
                sys.executable, str(shared_folder("controller") / script),
                *(() if client else ("--app", app)),
                "--plan", str(self._plan_file),
                "--control", str(self.hub.path),
                "--port", str(port),
                *(("--switches", str(switches)) if switches is not None else ()),
            ],
            self._logs / "controller.log",
            namespace=self.outer,
        )  # fmt: skip

    def _await_event(self, child: processes.Child, event: str, timeout_s: float) -> Channel:
        """Wait for a notice of a child; returns its channel. A notice `failed` ends the wait with its reason."""
        deadline = time.monotonic() + timeout_s
        while (child.name, event) not in self._heard:
            self.hub.accept(0.0)
            heard = list(self.hub.wait(_POLL_S))
            for speaker, messages in heard:
                for message in messages:
                    self._heard[speaker.name, message.get("event")] = speaker
                    if message.get("event") in ("failed", "refused"):
                        reason = message.get("reason", message)
                        log = self._logs / f"{speaker.name}.log"
                        raise RunFailed(f"{speaker.name}: {reason} (its log: {log})", hint=f"see {log}")
            if not heard:
                child.check()
                if time.monotonic() > deadline:
                    raise RunFailed(f"{child.name} did not say {event!r} in {timeout_s:g} s", hint=f"see {child.log}")
        return self._heard[child.name, event]

    def _stop_fabric(self) -> list[str]:
        if self._fabric is None:
            return []
        with closing_side_by_side(self._fabric.pid, "/dev/net/tun"):
            return processes.stop_all([self._fabric], leaving=True)

    def _end_strangers(self) -> list[str]:
        """End what still runs in the namespaces (a user's own programs, shells)."""
        return processes.end_all(namespaces.pids_inside(self.state.record.namespaces))

    @contextmanager
    def _step(self, name: str, what: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except TestbedError as failure:
            error = self.cause(failure)
            error.args = (f"while {what}: {error.message}",)
            error.message = error.args[0]
            raise error from failure.__cause__
        self._times[name] = time.monotonic() - began
