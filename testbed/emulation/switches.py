"""Open vSwitch for one run: its own database and daemon inside the run's namespace, all bridges in one transaction.

The system's own Open vSwitch service, if there is one, is neither asked nor touched. The plan says which datapath
carries the packets: the kernel's (its module is loaded), or that in userspace (`datapath_type=netdev`).
"""

import json
import socket
from pathlib import Path
from typing import Any

from mininet.node import OVSSwitch

from testbed.emulation import namespaces, processes
from testbed.emulation.commands import output_of
from testbed.emulation.descriptors import closing_side_by_side, duplicates
from testbed.emulation.hosts import LazyShell
from testbed.emulation.state import RunState
from testbed.errors import MachineLacks, TestbedError
from testbed.fabric.model import interface
from testbed.plan.model import Datapath, Plan

_KERNEL_MODULE = Path("/sys/module/openvswitch")
_MODPROBE = ("modprobe", "openvswitch")
_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_START_S = 10.0
_TRANSACTION_S = 30
_PROBE_MS = 30_000  # two busy cores may keep a controller from answering OVS's default of 5 s
_SETTINGS = {
    "max-idle": 3_600_000,  # ms: cached flows live through a pause; else after 10 s a packet takes the slow path
    "stats-update-interval": 86_400_000,  # ms: every 5 s it would read all ports' counters, for tens of milliseconds
    "n-handler-threads": 1,
    "n-revalidator-threads": 1,
}
_NICENESS = "-10"  # what ovs-ctl gives it: a switch that waits for a core loses packets
_BACKOFF_MS = 1_000  # the least that OVS allows
# Room for some thousand full frames. A port's packet socket has by default 208 KiB, which loses up to 1 % of a burst.
_SOCKET_BUFFER_BYTES = 4 << 20
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h


class PlannedSwitch(LazyShell, OVSSwitch):  # type: ignore[misc]  # mininet has no types
    """A switch of the plan. `cmd` and `dpctl` work as in Mininet; starting and stopping is `OpenVSwitch`'s."""

    @classmethod
    def isOldOVS(cls) -> bool:  # noqa: N802 - Mininet's name
        return False

    def dpctl(self, *args: str) -> str:
        """`ovs-ofctl`, in the one version of OpenFlow that the switches speak."""
        return self.cmd("ovs-ofctl -O OpenFlow13", args[0], self, *args[1:])

    def start(self, _controllers: Any) -> None:
        """Nothing: see `OpenVSwitch.add_bridges`."""

    @classmethod
    def batchStartup(cls, switches: Any, **_params: Any) -> Any:  # noqa: N802 - Mininet's name
        return switches

    @classmethod
    def batchShutdown(cls, switches: Any, **_params: Any) -> Any:  # noqa: N802 - Mininet's name
        return switches

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        """Nothing: the daemon's end and the namespace's take everything with them."""


class OpenVSwitch:
    """The database server and the switch daemon of one run."""

    def __init__(self, state: RunState, logs: Path, namespace: str, datapath: Datapath) -> None:
        self._state = state
        self._logs = logs
        self._namespace = namespace
        self._datapath = datapath
        self._directory = state.directory / "ovs"
        self._database_socket = self._directory / "db.sock"
        self._children: list[processes.Child] = []

    @property
    def environment(self) -> dict[str, str]:
        """What makes Open vSwitch's tools talk to this one."""
        return {f"OVS_{kind}DIR": str(self._directory) for kind in ("RUN", "DB", "LOG", "SYSCONF")}

    def start(self) -> None:
        """Start both daemons; they are ready when `add_bridges` returns. Raises MachineLacks or RunFailed."""
        if not _SCHEMA.exists():
            raise MachineLacks("Open vSwitch is not installed", hint="apt install openvswitch-switch")
        if self._datapath == "kernel":
            _load_module()
        self._directory.mkdir()
        database = self._directory / "conf.db"
        output_of(["ovsdb-tool", "create", str(database), str(_SCHEMA)])
        server = self._spawn("ovsdb-server", str(database), f"--remote=punix:{self._database_socket}")
        server.wait_until(self._database_socket.exists, "its socket", _START_S)
        only_userspace = ("--disable-system",) if self._datapath == "user" else ()
        self._spawn("ovs-vswitchd", f"unix:{self._database_socket}", *only_userspace)

    def add_bridges(self, plan: Plan, controller: str | None) -> None:
        """Make all bridges with all ports, in one transaction, and wait until the daemon has them."""
        words = ["--", "set", "open_vswitch", ".", *(f"other_config:{key}={value}" for key, value in _SETTINGS.items())]
        for name in plan.graph.switches:
            words += self._bridge(plan, name, controller)
        try:
            self._vsctl(f"--timeout={_TRANSACTION_S}", *words)
        finally:
            self.check()
        if self._datapath == "user":
            _enlarge_packet_buffers(self._children[-1].pid)

    def check(self) -> None:
        """Raise RunFailed if a daemon has died."""
        for child in self._children:
            child.check()

    def missing_ports(self, plan: Plan) -> list[str]:
        """Ports that did not get the number that the plan gives them."""
        asked = {
            interface(link.source, link.source_port): link.source_port
            for switch in plan.graph.switches
            for link in plan.graph.links_from(switch)
        }
        table = json.loads(self._vsctl("--format=json", "--columns=name,ofport,error", "list", "Interface"))
        got = {name: (number, error) for name, number, error in table["data"]}
        return [
            f"{port}: OpenFlow port {got[port][0]} instead of {number} {got[port][1] or ''}".rstrip()
            if port in got
            else f"{port}: not in Open vSwitch"
            for port, number in asked.items()
            if port not in got or got[port][0] != number
        ]

    def stop(self) -> list[str]:
        """End both daemons, the switch first; returns what went wrong."""
        if not self._children:
            return []
        *server, switch = self._children
        with closing_side_by_side(switch.pid, "socket:"):
            return processes.stop_all([switch, *server])

    def _spawn(self, program: str, *arguments: str) -> processes.Child:
        child = processes.start(
            self._state,
            program,
            [
                *("nice", "-n", _NICENESS),
                program,
                *arguments,
                f"--unixctl={self._directory}/{program}.ctl",
                "--syslog-method=null",
                "-vconsole:info",
            ],
            self._logs / f"{program}.log",
            namespace=self._namespace,
            env=self.environment,
        )
        self._children.append(child)
        return child

    def _vsctl(self, *words: str) -> str:
        # Inside the namespace, where `testbed clean` finds it should this process be killed while it waits.
        argv = ["ovs-vsctl", f"--db=unix:{self._database_socket}", *words]
        return output_of(namespaces.entering(self._namespace, argv), timeout_s=_TRANSACTION_S + 5)

    def _bridge(self, plan: Plan, name: str, controller: str | None) -> list[str]:
        words = ["--", "add-br", name, "--", "set", "bridge", name]
        words += [f"datapath_type={'netdev' if self._datapath == 'user' else 'system'}", "fail_mode=secure"]
        words += ["protocols=OpenFlow13", f"other_config:datapath-id={plan.switches[name].dpid:016x}"]
        words += [f"other_config:dp-desc={name}", "other_config:disable-in-band=true"]
        if controller:
            words += ["--", f"--id=@{name}", "create", "controller", f'target="{controller}"']
            words += [f"inactivity_probe={_PROBE_MS}", f"max_backoff={_BACKOFF_MS}"]
            words += ["--", "set", "bridge", name, f"controller=@{name}"]
        for link in plan.graph.links_from(name):
            port = interface(name, link.source_port)
            words += [
                "--",
                "add-port",
                name,
                port,
                "--",
                "set",
                "interface",
                port,
                f"ofport_request={link.source_port}",
            ]
        return words


def _load_module() -> None:
    """Have the kernel's datapath; raises MachineLacks."""
    if not _KERNEL_MODULE.exists():
        try:
            output_of(_MODPROBE)
        except TestbedError as error:
            message = f"the plan is for Open vSwitch's kernel datapath, which does not load: {error.message}"
            raise MachineLacks(
                message, hint="`testbed doctor --again` looks anew; or switches: {datapath: user}"
            ) from error


def _enlarge_packet_buffers(pid: int) -> None:
    """Give the daemon's packet sockets larger buffers: of this process alone, where a sysctl would be everybody's."""
    for descriptor in duplicates(pid, "socket:"):
        with socket.socket(fileno=descriptor) as theirs:
            if theirs.family == socket.AF_PACKET:
                for option in (_SO_RCVBUFFORCE, _SO_SNDBUFFORCE):
                    theirs.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
