"""What an agent knows of its switch, and what it asks of whoever moves the packets."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from testbed.routing.model import Entry


@dataclass(frozen=True, slots=True)
class Port:
    """A port as controllers see it. `mac` as in 02:00:00:00:00:01; `name` is an interface's: 15 letters at most."""

    number: int
    name: str
    mac: str
    rate_bps: int
    up: bool = True


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Since the start: what the cable brought to the port, and what the port handed to its cable."""

    received_packets: int = 0
    received_bytes: int = 0
    received_dropped: int = 0
    sent_packets: int = 0
    sent_bytes: int = 0
    sent_dropped: int = 0


class Traffic(Protocol):
    """What packets of an entry came to."""

    @property
    def packets(self) -> int: ...

    @property
    def bytes(self) -> int: ...


class Forwarding(Protocol):
    """A switch's entries: `testbed.dataplane.forwarding.Forwarding`. Called while the datapath is held."""

    def replace(self, entries: Iterable[Entry]) -> int:
        """Have just these entries; those that stay go on counting. Raises ControlError."""

    def traffic(self) -> Mapping[str, Traffic]:
        """By prefix, since the entry was added; MISS: of what no prefix matched."""


@dataclass(frozen=True, slots=True)
class AgentSwitch:
    """A switch that shall have an agent. `kind`: how its program chooses among several ports."""

    name: str
    dpid: int
    program: str
    kind: Literal["ecmp", "spray"]
    ports: tuple[Port, ...]
    forwarding: Forwarding


class Datapath(Protocol):
    """All switches' packets. Called from the agents' thread."""

    def held(self) -> AbstractContextManager[Any]:
        """No packet moves inside. Other threads may ask for the same, and wait for their turn."""

    def port_counters(self, switch: str) -> Mapping[int, PortCounters]:
        """By port number. Called while held."""

    def send_out(self, switch: str, port: int, frame: bytes) -> None:
        """Put a frame into a port's queue, past the program."""

    def inject(self, switch: str, port: int, frame: bytes) -> None:
        """Treat a frame as if it came in by a port."""

    def punted(self) -> Sequence[tuple[str, int, bytes]]:
        """What programs sent to CPU_PORT since the last call: switch, port it came in by, frame.

        Asked every POLL_S while a flow leads to the controller, else before anything a controller says is done, so
        that nothing old is told later: until then it waits, or is dropped.
        """
