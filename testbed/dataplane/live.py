"""A native switch on existing interfaces: a fabric of its own, whose ports are raw packet sockets.

The switch takes no time and its queues never fill: packets leave as fast as the interfaces take them. What its control
plane would get (packets to CPU_PORT, digests) is counted only, unless clients get it over P4Runtime.
"""

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.dataplane.bmv2model import Program
from testbed.dataplane.counted import CounterCounts, EntryCounts, counted
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.configurable import ConfigurableSwitch
from testbed.dataplane.native.loader import load_program
from testbed.dataplane.stf import OF_TESTS, Add, Command, SetDefault, Statement
from testbed.dataplane.stf_runner import Configuration
from testbed.errors import MachineLacks, UsageError
from testbed.netcore import CPU_PORT, Fabric, open_packet, packet_drops, set_timer_slack
from testbed.threads import join

if TYPE_CHECKING:
    from testbed.dataplane.p4runtime.server import P4RuntimeServer

P4RUNTIME_DEVICE = 1  # the number by which clients know it
_SEED = 1  # of what the program draws
_RATE_BPS = 10**12  # of links between the switch and its interfaces: nothing waits there
_QUEUE_BYTES = 1 << 24
_SNAP_BYTES = 65535


@dataclass(frozen=True, slots=True)
class PortCounts:
    """One port. missed: what the kernel dropped since the switch was late; malformed: what could not be read; refused:
    what the interface did not take.
    """

    port: int
    interface: str
    received: int
    received_bytes: int
    sent: int
    sent_bytes: int
    missed: int
    malformed: int
    refused: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What a switch has to tell of a run."""

    ports: tuple[PortCounts, ...]
    switch: Mapping[str, int]
    entries: tuple[EntryCounts, ...]
    counters: tuple[CounterCounts, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Port:
    number: int
    interface: str
    device: int  # its number in the kernel
    fd: int
    index: int  # of the switch's port in the fabric
    inward: int  # links
    outward: int


class LiveSwitch:
    """A program between interfaces. Raises UsageError for wrong ports, MachineLacks without root."""

    def __init__(self, program: Program, interfaces: Mapping[int, str], entries: str = "") -> None:
        self._program = program
        self._library, self._functions = load_program(build_program(program))
        self._fabric = Fabric(_SEED)
        self._switch = ConfigurableSwitch(self._fabric, program, self._functions, seed=_SEED)
        self._configuration = Configuration(self._switch, entries)
        self._ports = [self._open(number, interface) for number, interface in sorted(interfaces.items())]
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)
        self._failure: OSError | None = None
        self._server: P4RuntimeServer | None = None

    def configure(self, statements: Sequence[Statement]) -> None:
        """Carry out what an STF file says to the control plane, before packets move; its packets are left out."""
        for statement in statements:
            command = isinstance(statement, Command) and statement.word not in OF_TESTS
            if command or isinstance(statement, Add | SetDefault):
                self._configuration.apply(statement)

    def capture(self, folder: Path) -> None:
        """Write what enters and leaves at each port into `INTERFACE.pcapng` of a folder. Raises UsageError."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for port in self._ports:
                path = folder / f"{port.interface}.pcapng"
                comment = f"port {port.number} of {self._program.name}"
                self._fabric.capture_start(
                    port.index, str(path), _SNAP_BYTES, interface=port.interface, comment=comment
                )
        except OSError as error:
            raise UsageError(f"{error.filename}: {error.strerror}") from error

    def serve(self, address: str, document: Mapping[str, Any], p4info: bytes | None) -> str:
        """Let P4Runtime clients drive it, as device 1, from now on; `p4info` is of the program, or not known yet.

        Returns where it listens. Raises MachineLacks without the packages that it takes, UsageError, RunFailed.
        """
        from testbed.dataplane.p4runtime.device import Device  # whose packages are not everywhere
        from testbed.dataplane.p4runtime.server import P4RuntimeServer

        ports = [port.number for port in self._ports]
        device = Device.of(P4RUNTIME_DEVICE, self._switch, ports, document, p4info, seed=_SEED)
        self._server = P4RuntimeServer([device], self, address)
        self._server.start()
        return self._server.address

    @contextmanager
    def held(self) -> Iterator[None]:
        """No packet moves inside."""
        self._fabric.hold()
        try:
            yield
        finally:
            self._fabric.release()

    def punted(self) -> list[tuple[int, int, bytes]]:
        """What the program sent to CPU_PORT since the last call: device, port it came in by, frame."""
        return [(P4RUNTIME_DEVICE, port, frame) for _, port, frame in self._fabric.punted()]

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Let it work that long; whether it still does."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def stop(self) -> Counts:
        """End it, complete the captures, and tell what it did. Raises OSError where something of this fails."""
        missed = {port.number: packet_drops(port.fd) for port in self._ports}
        if self._server is not None:
            self._server.stop()
        self._fabric.stop()
        join(self._thread)
        self._fabric.capture_stop()
        if self._failure is not None:
            raise self._failure
        control = self._switch.control
        held = counted(control.program, control, self._configuration.entries)
        ports, switch = tuple(self._port_counts(missed)), self._fabric.switch_counters(self._switch.number)
        return Counts(ports, switch, held.entries, held.counters)

    def vanished(self) -> list[str]:
        """Interfaces that are gone, each with its port."""
        return [f"port {port.number}: interface {port.interface!r}" for port in self._ports if not _exists(port.device)]

    def messages(self) -> list[str]:
        """What the program logged since the last call."""
        return self._fabric.messages(self._switch.number)

    def _open(self, number: int, interface: str) -> _Port:
        if not 0 <= number < CPU_PORT:
            raise UsageError(f"port {number}: ports are numbered from 0 to {CPU_PORT - 1}")
        try:
            fd, kernel = open_packet(interface), socket.if_nametoindex(interface)
        except PermissionError as error:
            raise MachineLacks("a switch on interfaces needs root", hint="sudo testbed p4 run …") from error
        except OSError as error:
            raise UsageError(f"port {number}: interface {interface!r}: {error.strerror}") from error
        device = self._fabric.add_port(fd, virtio=True, host=True, switch=0, spray=False, join=False)
        index = self._fabric.add_switch_port(self._switch.number, number)
        inward, outward = self._link(device, index, 2 * number), self._link(index, device, 2 * number + 1)
        return _Port(number, interface, kernel, fd, index, inward, outward)

    def _link(self, source: int, target: int, index: int) -> int:
        link = self._fabric.add_link(source, target, index)
        self._fabric.set_link(link, rate_bps=_RATE_BPS, delay_ns=0, queue_bytes=_QUEUE_BYTES)
        return link

    def _run(self) -> None:
        set_timer_slack(1)
        try:
            self._fabric.run()
        except OSError as error:
            self._failure = error

    def _port_counts(self, missed: Mapping[int, int]) -> list[PortCounts]:
        links = self._fabric.counters()
        counts = []
        for port in self._ports:
            (inward, _, at_source), (outward, _, at_target) = links[port.inward], links[port.outward]
            counts.append(
                PortCounts(
                    port.number,
                    port.interface,
                    received=inward["packets"],
                    received_bytes=inward["bytes"],
                    sent=outward["packets"] - at_target["write_errors"],
                    sent_bytes=outward["bytes"],
                    missed=missed[port.number],
                    malformed=at_source["malformed"],
                    refused=at_target["write_errors"],
                )
            )
        return counts


def _exists(device: int) -> bool:
    try:
        socket.if_indextoname(device)
    except OSError:
        return False
    return True
