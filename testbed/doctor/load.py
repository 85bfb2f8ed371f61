"""Offers packets to an idle network and counts what arrives: how `doctor` finds out what this machine carries.

One process with sockets in several hosts' namespaces. Senders follow absolute instants; a run of packets leaves with
one system call, as a worker's does.
"""

import ipaddress
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from testbed import netcore
from testbed.emulation import namespaces
from testbed.worker.nic import udp_socket

PORT = 9999  # UDP; neither the job's nor background traffic's
PACKET_BYTES = 1040  # UDP payload: a RoCE packet of 1,024 B
RUN_PACKETS = 8
_SLOTS = 16
_SETTLE_S = 0.3
_ECHO_LIMIT_NS = 200_000_000


@dataclass(frozen=True, slots=True)
class Offered:
    """What became of an offered load."""

    sent: int
    received: int
    seconds: float

    @property
    def lost_share(self) -> float:
        return 1 - self.received / self.sent if self.sent else 0.0


class Load:
    """Flows between pairs of hosts; `netns` and `addresses` by host."""

    def __init__(
        self, pairs: Sequence[tuple[str, str]], netns: Mapping[str, str], addresses: Mapping[str, str]
    ) -> None:
        self._pairs = pairs
        self._sockets: dict[str, socket.socket] = {}
        self._ip = {host: int(ipaddress.IPv4Address(addresses[host])) for pair in pairs for host in pair}
        for host in self._ip:
            self._sockets[host] = namespaces.inside(netns[host], partial(udp_socket, addresses[host], PORT))
        self._slots = memoryview(bytearray(_SLOTS * netcore.SLOT_BYTES))
        self._run = bytes(RUN_PACKETS * PACKET_BYTES)

    def offer(self, packets_per_s: float, seconds: float) -> Offered:
        """Every pair sends `packets_per_s` for some time; counts what arrives, a moment longer."""
        self._drain()
        period_ns = round(1e9 * RUN_PACKETS / packets_per_s / len(self._pairs))
        began = due = time.monotonic_ns()
        sent = received = turn = 0
        while due < began + seconds * 1e9:
            while time.monotonic_ns() < due:
                received += self._drain(due - time.monotonic_ns())
            source, target = self._pairs[turn % len(self._pairs)]
            data = netcore.send_segments(
                self._sockets[source].fileno(), self._ip[target], PORT, self._run, PACKET_BYTES, 0
            )
            sent += data // PACKET_BYTES
            turn += 1
            due += period_ns
        took_s = (time.monotonic_ns() - began) / 1e9
        settled = time.monotonic() + _SETTLE_S
        while time.monotonic() < settled:
            received += self._drain(10_000_000)
        return Offered(sent, received, took_s)

    def round_trip_ns(self, count: int) -> int:
        """The median round trip of single packets between the first pair, there and back by this process."""
        source, target = self._pairs[0]
        times = []
        for _ in range(count):
            began = time.monotonic_ns()
            self._one(source, target)
            if not self._await(target):
                continue
            self._one(target, source)
            if self._await(source):
                times.append(time.monotonic_ns() - began)
        return round(statistics.median(times)) if times else _ECHO_LIMIT_NS

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()

    def _one(self, source: str, target: str) -> None:
        netcore.send_segments(
            self._sockets[source].fileno(), self._ip[target], PORT, self._run[:PACKET_BYTES], PACKET_BYTES, 0, False
        )

    def _await(self, host: str) -> bool:
        descriptor = self._sockets[host].fileno()
        return bool(netcore.ppoll([(descriptor, 1)], _ECHO_LIMIT_NS)) and bool(
            netcore.receive_segments(descriptor, self._slots)
        )

    def _drain(self, timeout_ns: int = 0) -> int:
        """Count what has arrived, waiting for it at most `timeout_ns`."""
        packets = 0
        for descriptor, _ in netcore.ppoll([(s.fileno(), 1) for s in self._sockets.values()], max(0, timeout_ns)):
            for _, size, *_rest in netcore.receive_segments(descriptor, self._slots):
                packets += size // PACKET_BYTES
        return packets
