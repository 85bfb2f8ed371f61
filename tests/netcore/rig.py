"""A fabric process with hosts of its own for the root tests and the benchmark: namespaces, TAPs, sockets, clean-up."""

import contextlib
import ipaddress
import itertools
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from testbed import netcore
from testbed.emulation import namespaces
from testbed.emulation.fabric_client import FabricClient
from testbed.fabric.counters import Counts
from testbed.fabric.model import FabricConfig, FabricLink, LinkEnd
from testbed.run.channel import Hub
from testbed.topology.graph import LinkParameters

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h; not in Python
START_LIMIT_S = 20.0
COMMAND_LIMIT_S = 20.0
PAYLOAD_BYTES = 1000  # of a numbered packet
FRAME_BYTES = PAYLOAD_BYTES + 42
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Arrival:
    """One datagram: its packets' payloads, when the kernel got it, its ToS and the size of its segments (0: one)."""

    data: bytes
    at_ns: int
    tos: int
    segment_bytes: int


class Host:
    """A namespace with one TAP of the fabric and, once it is up, one UDP socket."""

    def __init__(self, netns: str, number: int, port: int = 4791) -> None:
        self.netns = netns
        self.port = port
        self.ip = f"10.9.0.{number + 1}"
        self.mac = f"02:00:00:00:09:{number + 1:02x}"
        self.end = LinkEnd(f"h{number}", 0, f"h{number}-eth0", netns, host=True)

    def command(self, *arguments: str) -> str:
        return run("ip", "netns", "exec", self.netns, *arguments)

    def bring_up(self, mtu: int) -> None:
        interface = self.end.interface
        namespaces.inside(self.netns, lambda: Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1"))
        self.command("ip", "link", "set", "dev", "lo", "up")
        queue = ("txqueuelen", "20000")  # as a network sets it
        self.command("ip", "link", "set", "dev", interface, "address", self.mac, "mtu", str(mtu), *queue, "up")
        self.command("ip", "addr", "add", f"{self.ip}/24", "dev", interface)
        self.socket = namespaces.inside(self.netns, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)
        self.socket.bind((self.ip, self.port))
        netcore.prepare_udp(self.socket.fileno())

    def knows(self, other: "Host") -> None:
        self.command("ip", "neigh", "replace", other.ip, "lladdr", other.mac, "dev", self.end.interface)

    def send(self, to: "Host", data: bytes, segment_bytes: int, tos: int = 2) -> None:
        """Send now, in super-packets of at most MAX_SEGMENTS; fails if the kernel does not take them at once."""
        address = int(ipaddress.IPv4Address(to.ip))
        step = min(netcore.MAX_SEGMENTS, netcore.MAX_DATAGRAM_BYTES // segment_bytes) * segment_bytes
        for start in range(0, len(data), step):
            piece = data[start : start + step]
            sent = netcore.send_segments(self.socket.fileno(), address, to.port, piece, segment_bytes, tos)
            assert sent == len(piece), "the socket's buffer is full"

    def receive(self, payload_bytes: int, quiet_s: float = 1.0) -> list[Arrival]:
        """Datagrams until they hold `payload_bytes`, or until none came for `quiet_s`."""
        buffer = bytearray(32 * netcore.SLOT_BYTES)
        arrivals: list[Arrival] = []
        waiting = [(self.socket.fileno(), select.POLLIN)]
        while payload_bytes > 0 and netcore.ppoll(waiting, int(quiet_s * 1e9)):
            for offset, size, segment, _, _, tos, at_ns in netcore.receive_segments(self.socket.fileno(), buffer):
                arrivals.append(Arrival(bytes(buffer[offset : offset + size]), at_ns, tos, segment))
                payload_bytes -= size
        return arrivals


class Rig:
    """Hosts joined pairwise by one cable each (0-1, 2-3, ...), with the same parameters both ways."""

    def __init__(
        self,
        directory: Path,
        parameters: LinkParameters,
        *,
        cables: int = 1,
        seed: int = 1,
        segmentation: Literal["auto", "off"] = "auto",
        realtime: bool = True,
        port: int = 4791,
    ) -> None:
        """Hosts send to UDP `port`; unless told otherwise it is RoCE's, and packets count as the job's."""
        self.directory = directory
        tag = f"fr{os.getpid():x}-{next(_numbers)}"
        self.hosts = [Host(f"{tag}-{i}", i, port) for i in range(2 * cables)]
        self.mtu = parameters.mtu_bytes
        links = []
        for cable in range(cables):
            first, second = self.hosts[2 * cable].end, self.hosts[2 * cable + 1].end
            links += [
                FabricLink(2 * cable, first, second, parameters),
                FabricLink(2 * cable + 1, second, first, parameters),
            ]
        self.config = FabricConfig(seed, 1, tuple(links), segmentation=segmentation, realtime=realtime)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for host in self.hosts:
                run("ip", "netns", "add", host.netns)
                stack.callback(run, "ip", "netns", "del", host.netns)
            self.process, self.fabric, self.segmentation = stack.enter_context(
                fabric_process(self.directory, self.config)
            )
            for host in self.hosts:
                host.bring_up(self.mtu)
                stack.callback(host.socket.close)
            for first, second in zip(self.hosts[::2], self.hosts[1::2], strict=True):
                first.knows(second)
                second.knows(first)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


@contextlib.contextmanager
def fabric_process(
    directory: Path, config: FabricConfig
) -> Iterator[tuple["subprocess.Popen[bytes]", FabricClient, bool]]:
    """A fabric process, its client, and whether super-packets cross the kernel."""
    number = next(_numbers)
    configuration, control = directory / f"fabric{number}.json", directory / f"control{number}.sock"
    configuration.write_text(json.dumps(config.to_json()))
    hub = Hub(control)
    command = [sys.executable, "-m", "testbed.emulation.fabric", "--config", str(configuration), "--control"]
    process = subprocess.Popen([*command, str(control)])
    try:
        channel = hub.accept(START_LIMIT_S)
        assert channel is not None, "the fabric process did not start"
        client = FabricClient(channel)
        yield process, client, client.ready()
        if process.poll() is None and not channel.closed:
            client.quit()
            process.wait(COMMAND_LIMIT_S)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(COMMAND_LIMIT_S)
        hub.close()


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False)
    assert result.returncode == 0, f"{' '.join(command)}: {result.stderr}"
    return result.stdout


def numbered(first: int, count: int) -> bytes:
    """The payloads of so many packets, each of which begins with its number."""
    return b"".join(struct.pack("!I", number) + bytes(PAYLOAD_BYTES - 4) for number in range(first, first + count))


def numbers(data: bytes) -> list[int]:
    return [struct.unpack_from("!I", data, start)[0] for start in range(0, len(data), PAYLOAD_BYTES)]


def check_balance(counts: Counts) -> None:
    dropped = counts.dropped_queue + counts.dropped_loss + counts.dropped_down
    assert counts.entered + counts.duplicated == counts.packets + dropped + counts.in_flight


def wait_until(condition: str, holds: Callable[[], bool], limit_s: float = 5.0) -> None:
    """Wait until `holds()`; fails saying `condition`."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"{condition} did not come true within {limit_s:g} s"
        time.sleep(0.005)
