"""bmv2's `simple_switch_grpc` for one run: a process a switch, which the P4Runtime client in `controller/` drives.

Its Thrift server, where it was built with one, listens as `simple_switch`'s does, and is asked nothing. Queues stay as
bmv2 has them: P4Runtime cannot set their length, so that a burst of over 64 packets for one port can overflow them; the
run's balance shows it.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from testbed.emulation import processes
from testbed.emulation.bmv2 import FIRST_PORT, START_S, owns_listener, port_options
from testbed.emulation.commands import path_of as path_of_tool
from testbed.emulation.state import RunState
from testbed.errors import MachineLacks, UsageError
from testbed.fabric.programs import P4INFO_SUFFIX, CompiledProgram
from testbed.netcore import CPU_PORT
from testbed.plan.model import Plan

PROGRAM = "simple_switch_grpc"
_FIRST_GRPC_PORT = 9559  # IANA: P4Runtime; the next ones for the other switches, in the run's own namespace


class Bmv2GrpcSwitches:
    """The switches of one run. They come up once their interfaces are there, without a program."""

    def __init__(self, plan: Plan, state: RunState, logs: Path, namespace: str) -> None:
        self._plan = plan
        self._state = state
        self._logs = logs
        self._namespace = namespace
        self._folder = state.directory / "bmv2"
        self._children: list[processes.Child] = []

    def describe(self, programs: Mapping[str, CompiledProgram]) -> Path:
        """Write down for the client where each switch will be and what it is to run; UsageError without P4Info."""
        self._folder.mkdir()
        told = {}
        for number, (name, switch) in enumerate(self._plan.switching.bmv2.items()):
            compiled = programs[switch.program].json
            if not (p4info := compiled.with_suffix(P4INFO_SUFFIX)).exists():
                raise UsageError(
                    f"{switch.program}: P4Runtime needs P4Info, which BMv2 JSON does not hold",
                    hint="name the program's source (.p4)",
                )
            told[name] = {"address": _address(number), "p4info": str(p4info), "config": str(compiled)}
        path = self._folder / "switches.json"
        path.write_text(json.dumps(told))
        return path

    def start(self) -> None:
        """Start all, and wait until each listens. Raises MachineLacks or RunFailed."""
        if path_of_tool(PROGRAM) is None:
            raise MachineLacks(
                f"bmv2's {PROGRAM} is not installed",
                hint="leave `controller` out, and simple_switch is filled over Thrift",
            )
        for number, name in enumerate(self._plan.switching.bmv2):
            self._children.append(self._spawn(number, name))
        for number, child in enumerate(self._children):
            port = _FIRST_GRPC_PORT + number
            child.wait_until(partial(owns_listener, child.pid, port), "its P4Runtime server", START_S)

    def stop(self) -> list[str]:
        """End all; returns what went wrong."""
        return processes.stop_all(self._children)

    def check(self) -> None:
        """Raise RunFailed if one has died."""
        for child in self._children:
            child.check()

    def _spawn(self, number: int, name: str) -> processes.Child:
        return processes.start(
            self._state,
            f"{PROGRAM} {name}",
            [
                PROGRAM,
                "--device-id", str(self._plan.switches[name].dpid),
                "--thrift-port", str(FIRST_PORT + number),
                "--notifications-addr", f"ipc://{self._folder}/{name}.ipc",
                *port_options(self._plan.graph, name),
                "--no-p4",
                "--",
                "--grpc-server-addr", _address(number),
                "--cpu-port", str(CPU_PORT),
            ],
            self._logs / f"{name}.log",
            namespace=self._namespace,
        )  # fmt: skip


def _address(number: int) -> str:
    return f"127.0.0.1:{_FIRST_GRPC_PORT + number}"
