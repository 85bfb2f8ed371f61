"""Native switches that P4Runtime clients drive: a device each, known by its dpid.

What is in their tables is the clients' affair alone: the routes too, which are told to the run as they are found there.
"""

import ipaddress
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from testbed.dataplane.declared import MEMBERS, ROUTES
from testbed.dataplane.forwarding import DROPS, NO_ROUTE, Traffic
from testbed.dataplane.native.configurable import ConfigurableSwitch
from testbed.dataplane.native.control import ControlError, FieldMatch
from testbed.dataplane.p4runtime.device import Device
from testbed.dataplane.p4runtime.server import P4RuntimeServer
from testbed.fabric.programs import P4INFO_SUFFIX
from testbed.routing.model import MISS, Entry, RoutingKind


@dataclass(frozen=True, slots=True)
class ServedSwitch:
    """`json`: its program; `fixed`: why that cannot be exchanged, if so; `hashes`: how it chooses among ports."""

    dpid: int
    native: ConfigurableSwitch
    ports: Collection[int]
    json: Path
    seed: int
    hashes: bool
    fixed: str = ""


class Packets(Protocol):
    """Who moves the packets of all switches, which are known by name."""

    def held(self) -> AbstractContextManager[Any]: ...

    def punted(self) -> Sequence[tuple[str, int, bytes]]: ...


class Served:
    """All of a fabric's switches at one address. Raises UsageError for a program that cannot be served."""

    def __init__(
        self, switches: Mapping[str, ServedSwitch], packets: Packets, address: tuple[str, int], dilation: int
    ) -> None:
        self._switches = switches
        self._packets = packets
        self._devices = {name: _device(switch, dilation) for name, switch in switches.items()}
        self._server = P4RuntimeServer(list(self._devices.values()), self, "{}:{}".format(*address))

    def start(self) -> None:
        """Listen, in the network namespace of the calling thread. Raises RunFailed."""
        self._server.start()

    def stop(self) -> None:
        """End all streams; what was written stays. Twice is fine."""
        self._server.stop()

    def port_changed(self, switch: str, port: int, *, up: bool) -> None:
        """Tell clients that a cable was cut or mended at a port."""
        self._server.port_changed(self._switches[switch].dpid, port, up=up)

    # Of switches; the caller holds the fabric

    def traffic(self, switch: str) -> Mapping[str, Traffic]:
        """prefix -> what its packets came to since its entry was inserted; MISS: those that nothing routes.

        Packets of routes that dropped and are gone count as missed.
        """
        counts: dict[str, Traffic] = {}
        for held in self._devices[switch].held(ROUTES):
            dropped = held.packets if _short(held.action) == "drop" else 0
            counts[_prefix(held.match)] = Traffic(held.packets, held.bytes, dropped)
        try:
            unrouted, _ = self._switches[switch].native.control.read_counter(DROPS, NO_ROUTE)
        except ControlError:
            return counts
        missed = unrouted - sum(each.dropped for each in counts.values())
        return counts | {MISS: Traffic(missed, 0, missed)}

    def entries(self, switch: str) -> Iterator[Entry]:
        """What a switch forwards by, as far as the tables of p4/include/routing.p4 say so."""
        members: dict[int, dict[int, int]] = {}
        for held in self._devices[switch].held(MEMBERS):
            group, member = (field.value if field is not None else 0 for field in held.match)
            members.setdefault(group, {})[member] = held.arguments.get("port", 0)
        kind: RoutingKind = "ecmp" if self._switches[switch].hashes else "spray"
        for held in self._devices[switch].held(ROUTES):
            match _short(held.action):
                case "to_group":
                    chosen = members.get(held.arguments["number"], {})
                    ports = tuple(chosen[each] for each in range(held.arguments["members"]) if each in chosen)
                    yield Entry(_prefix(held.match), kind, ports)
                case "drop":
                    yield Entry(_prefix(held.match), "single", ())
                case _:
                    yield Entry(_prefix(held.match), "single", (held.arguments["port"],))

    # What the server asks

    def held(self) -> AbstractContextManager[Any]:
        return self._packets.held()

    def punted(self) -> list[tuple[int, int, bytes]]:
        return [(self._switches[name].dpid, port, frame) for name, port, frame in self._packets.punted()]


def _device(switch: ServedSwitch, dilation: int) -> Device:
    info = switch.json.with_suffix(P4INFO_SUFFIX)
    return Device.of(
        switch.dpid,
        switch.native,
        switch.ports,
        json.loads(switch.json.read_text()),
        info.read_bytes() if info.exists() else None,
        seed=switch.seed,
        dilation=dilation,
        fixed=switch.fixed,
    )


def _short(action: str) -> str:
    return action.rpartition(".")[2]


def _prefix(match: Sequence[FieldMatch | None]) -> str:
    field = match[0] if match else None
    if field is None:
        return "0.0.0.0/0"
    return f"{ipaddress.IPv4Address(field.value)}/{field.prefix}"
