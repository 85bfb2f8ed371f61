"""bmv2's `simple_switch` for one run: a process a switch, each with its own ports and sockets, filled over Thrift.

The links are the one bottleneck: they are the fabric's, and the switches' own queues, which count packets, are made
longer than ever fills. Routes are the plan's and, while cables are down, the alternates it has for them, as for native
switches.
"""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testbed.dataplane.bmv2.runtime import Runtime, interface
from testbed.dataplane.bmv2.switch import Bmv2Switch
from testbed.dataplane.bmv2json import read_json
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.counted import counted
from testbed.dataplane.entries import carry_out, path_of
from testbed.dataplane.forwarding import Forwarding
from testbed.dataplane.stf_runner import Configuration
from testbed.emulation import namespaces, processes
from testbed.emulation.commands import path_of as path_of_tool
from testbed.emulation.state import RunState
from testbed.errors import MachineLacks, RunFailed
from testbed.fabric import model
from testbed.fabric.counters import Counted, SwitchCounters
from testbed.fabric.planned_routes import follow, read_routes
from testbed.fabric.programs import CompiledProgram
from testbed.plan.model import Plan
from testbed.topology.graph import Graph

PROGRAM = "simple_switch"
FIRST_PORT = 9090  # what simple_switch listens at by itself; the namespace is the run's own
START_S = 30.0
_CONNECT_S = 10.0
_LISTENING = "0A"  # /proc/net/tcp: TCP_LISTEN
_MOST_COUNTED = 256  # elements of a counter that are read: each is a call


@dataclass(slots=True)
class _Switch:
    """One running switch."""

    name: str
    program: Program
    runtime: Runtime
    bmv2: Bmv2Switch
    forwarding: Forwarding
    entries: Configuration | None = None


class Bmv2Switches:
    """The switches of one run. They come up once their interfaces are there."""

    def __init__(self, plan: Plan, state: RunState, logs: Path, namespace: str, plan_file: Path) -> None:
        self._plan = plan
        self._state = state
        self._logs = logs
        self._namespace = namespace
        self._plan_file = plan_file
        self._folder = state.directory / "bmv2"
        self._down: set[int] = set()
        self._children: list[processes.Child] = []
        self._switches: dict[str, _Switch] = {}

    def start(self, programs: Mapping[str, CompiledProgram]) -> None:
        """Start all, and fill each once it listens. Raises MachineLacks, RunFailed, or UsageError of its program."""
        interface()
        if path_of_tool(PROGRAM) is None:
            raise MachineLacks(f"bmv2's {PROGRAM} is not installed", hint="build it, or use `switches: {kind: native}`")
        self._folder.mkdir()
        routes = read_routes(self._plan_file)
        asked = self._plan.switching.bmv2
        for number, (name, switch) in enumerate(asked.items()):
            self._children.append(self._spawn(number, name, programs[switch.program].json))
        for number, ((name, switch), child) in enumerate(zip(asked.items(), self._children, strict=True)):
            port = FIRST_PORT + number
            child.wait_until(partial(owns_listener, child.pid, port), "its Thrift server", START_S)
            made = self._connected(name, port, programs[switch.program])
            self._switches[name] = made
            made.bmv2.open_queues()
            made.forwarding.set_salt(routes.salts[name])
            if switch.entries is not None:
                made.entries = carry_out(path_of(switch.entries), made.bmv2)
        self._routes = routes
        self._follow_plan()

    def stop(self) -> list[str]:
        """End all; returns what went wrong."""
        for switch in self._switches.values():
            switch.runtime.close()
        return processes.stop_all(self._children)

    def check(self) -> None:
        """Raise RunFailed if one has died."""
        for child in self._children:
            child.check()

    def cable_changed(self, cable: int, *, up: bool) -> None:
        """A cable was cut or mended: the switches forward as the plan has it for that."""
        if all(end in self._switches for end in self._ends(cable)):  # a host's only cable leaves nothing to choose
            (self._down.discard if up else self._down.add)(cable)
            self._follow_plan()

    def counters(self) -> tuple[SwitchCounters, ...]:
        """What each switch's routes, entries and counters counted. It does not tell the job's packets apart."""
        return tuple(
            SwitchCounters(switch.name, {}, switch.forwarding.traffic(), tuple(_counted(switch)))
            for switch in self._switches.values()
        )

    def _spawn(self, number: int, name: str, program: Path) -> processes.Child:
        return processes.start(
            self._state,
            f"{PROGRAM} {name}",
            [
                PROGRAM,
                "--device-id", str(number),
                "--thrift-port", str(FIRST_PORT + number),
                "--notifications-addr", f"ipc://{self._folder}/{name}.ipc",
                *port_options(self._plan.graph, name),
                str(program),
            ],
            self._logs / f"{name}.log",
            namespace=self._namespace,
        )  # fmt: skip

    def _connected(self, name: str, port: int, compiled: CompiledProgram) -> _Switch:
        def connect() -> socket.socket:
            return socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_S)

        try:
            runtime = Runtime(namespaces.inside(self._namespace, connect))
        except OSError as error:
            raise RunFailed(f"{PROGRAM} {name} cannot be reached at port {port}: {error.strerror}") from error
        program = read_json(compiled.json)
        bmv2 = Bmv2Switch(program, runtime)
        return _Switch(name, program, runtime, bmv2, Forwarding(bmv2.control, name))

    def _follow_plan(self) -> None:
        """Have on every switch what should be there while these cables are down."""
        follow(self._routes, self._down, {name: switch.forwarding for name, switch in self._switches.items()})

    def _ends(self, cable: int) -> tuple[str, str]:
        link = self._plan.graph.links[2 * cable]
        return link.source, link.target


def port_options(graph: Graph, switch: str) -> list[str]:
    """Which interface is which port of a switch, as bmv2's targets are told."""
    return [
        word
        for link in graph.links_from(switch)
        for word in ("-i", f"{link.source_port}@{model.interface(switch, link.source_port)}")
    ]


def owns_listener(pid: int, port: int) -> bool:
    """Whether a process, and no other in its namespace, listens at a TCP port."""
    try:
        rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
        wanted = {f"socket:[{row[9]}]" for row in rows if row[3] == _LISTENING and row[1].endswith(f":{port:04X}")}
        return bool(wanted) and any(str(fd.readlink()) in wanted for fd in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False  # it, or a file of its, is just going


def _counted(switch: _Switch) -> Iterator[Counted]:
    added = switch.entries.entries if switch.entries else ()
    held = counted(switch.program, switch.bmv2.control, added, _MOST_COUNTED)
    return (Counted(*row) for row in held.rows())
