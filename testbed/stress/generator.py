"""Background traffic: one process (`python -m testbed.stress.generator`) with sockets in the hosts' namespaces.

Each flow's bursts leave at absolute instants, so that being late once does not slow the flow down. A burst that falls
due while the host still holds the one before it back is skipped, as a full send queue drops it. A packet's first eight
bytes are its number in its flow, so that no two are alike and one is known again behind a switch. Sinks count. Flows
over TCP (`testbed.stress.kernel_flows`) are served here too. The run says `{"op": "warm-up", "at_ns": …}` for what runs
then, `{"op": "start", "at_ns": …}` (CLOCK_MONOTONIC at model time zero), and ends with the request `stop`, whose answer
tells for each flow what was asked for, sent and received.
"""

import argparse
import heapq
import ipaddress
import json
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed import netcore
from testbed.emulation import namespaces
from testbed.errors import TestbedError
from testbed.plan.model import Plan
from testbed.plan.serial import from_json
from testbed.run.channel import Channel, ChannelClosed, Message
from testbed.stress.draws import FIRST_PORT, PORTS, Flow, flows
from testbed.stress.kernel_flows import KernelFlows
from testbed.worker.clock import ModelClock
from testbed.worker.loop import Loop
from testbed.worker.nic import can_segment, udp_socket

_SLOTS = 16
_NUMBER = struct.Struct("<Q")  # the low bytes first: those that a shorter packet has


@dataclass(slots=True)
class _Source:
    """A flow's sending end. `number` is that of the next burst, `unsent` the bytes of the last one not yet taken."""

    flow: Flow
    socket: socket.socket
    target_ip: int
    port: int
    segmented: bool
    number: int = 0
    unsent: int = 0
    asked_bytes: int = 0
    sent_bytes: int = 0
    sent_packets: int = 0
    skipped_bursts: int = 0


@dataclass(slots=True)
class _Sink:
    socket: socket.socket
    received_bytes: int = 0
    received_packets: int = 0


class Generator:
    """Serves all flows of a plan; opens their sockets in `netns` (host -> namespace; none: here)."""

    def __init__(self, plan: Plan, netns: Mapping[str, str], control: Path, clock: ModelClock, loop: Loop) -> None:
        self._clock = clock
        self._loop = loop
        self._zero_ns: int | None = None
        self._due: list[tuple[int, int]] = []  # heap of (real instant, source)
        self._slots = memoryview(bytearray(_SLOTS * netcore.SLOT_BYTES))
        self._sources: list[_Source] = []
        self._sinks: dict[int, _Sink] = {}
        self._late_ns = 0
        self._over_tcp = KernelFlows(plan, clock, lambda host, make: _inside(netns.get(host), make))
        for index, flow in enumerate(flows(plan.spec.traffic, plan.spec.seed)):
            self._open(flow, FIRST_PORT + index % PORTS, plan, netns)
        self._payload = memoryview(bytearray(netcore.MAX_DATAGRAM_BYTES + _NUMBER.size))
        self._by_descriptor = {source.socket.fileno(): index for index, source in enumerate(self._sources)}
        self._channel = Channel.connect(control, "generator", name="generator")  # when all is open

    def watched(self) -> list[tuple[int, int]]:
        watched = [(self._channel.fileno(), select.POLLIN)]
        watched += [(descriptor, select.POLLIN) for descriptor in self._sinks]
        watched += [(source.socket.fileno(), select.POLLOUT) for source in self._sources if source.unsent]
        return watched + self._over_tcp.watched()

    def serve(self, ready: Mapping[int, int]) -> None:
        if self._channel.fileno() in ready:
            for message in self._channel.poll():
                self._handle(message)
            if self._channel.closed:
                self._loop.stop()
        for descriptor in ready:
            if sink := self._sinks.get(descriptor):
                self._count(sink)
            elif (index := self._by_descriptor.get(descriptor)) is not None:
                self._send(self._sources[index])
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            due_ns, index = heapq.heappop(self._due)
            self._late_ns = max(self._late_ns, now - due_ns)
            self._go(index, now)
        self._over_tcp.serve(ready)

    def wake_ns(self) -> int | None:
        due = [self._due[0][0]] if self._due else []
        return min([*due, *filter(None, [self._over_tcp.wake_ns()])], default=None)

    def _open(self, flow: Flow, port: int, plan: Plan, netns: Mapping[str, str]) -> None:
        source_ip, target_ip = plan.addresses[flow.source].ip, plan.addresses[flow.target].ip
        sink = _inside(netns.get(flow.target), lambda: udp_socket(target_ip, port))
        sender = _inside(netns.get(flow.source), lambda: udp_socket(source_ip, port))
        target = int(ipaddress.IPv4Address(target_ip))
        self._sinks[sink.fileno()] = _Sink(sink)
        self._sources.append(_Source(flow, sender, target, port, can_segment(sender, target)))

    def _handle(self, message: Message) -> None:
        if message.get("op") == "start":
            self._zero_ns = message["at_ns"]
            for index in range(len(self._sources)):
                self._plan_next(index)
            self._over_tcp.start(self._zero_ns)
        elif message.get("op") == "warm-up":
            self._over_tcp.warm_up(message["at_ns"])
        elif message.get("op") == "stop":
            self._due.clear()
            self._channel.answer(message, **self._report())
        else:
            self._channel.answer(message, error=f"the generator knows no request {message.get('op')!r}")

    def _plan_next(self, index: int) -> None:
        assert self._zero_ns is not None
        source = self._sources[index]
        at_ns = source.flow.burst_ns(source.number)
        if at_ns is not None:
            heapq.heappush(self._due, (self._zero_ns + at_ns * self._clock.dilation, index))

    def _go(self, index: int, now: int) -> None:
        """Send the burst that is due, and with it all that have become due since."""
        assert self._zero_ns is not None
        source, now_model_ns = self._sources[index], (now - self._zero_ns) // self._clock.dilation
        blocked, bursts = bool(source.unsent), 0
        while (at_ns := source.flow.burst_ns(source.number)) is not None and at_ns <= now_model_ns:
            source.number += 1
            bursts += 1
        source.asked_bytes += bursts * source.flow.burst_bytes
        if blocked:
            source.skipped_bursts += bursts
        else:
            source.unsent = bursts * source.flow.burst_bytes
            self._send(source)
        self._plan_next(index)

    def _send(self, source: _Source) -> None:
        packet_bytes = source.flow.packet_bytes
        most = min(netcore.MAX_SEGMENTS, netcore.MAX_DATAGRAM_BYTES // packet_bytes) * packet_bytes
        while source.unsent:
            burst_left = (source.unsent - 1) % source.flow.burst_bytes + 1  # a run never spans two bursts of odd size
            size = min(most, source.unsent if source.flow.burst_bytes == packet_bytes else burst_left)
            for number, offset in enumerate(range(0, size, packet_bytes), source.sent_packets):
                _NUMBER.pack_into(self._payload, offset, number)
            try:
                sent = netcore.send_segments(
                    source.socket.fileno(),
                    source.target_ip,
                    source.port,
                    self._payload[:size],
                    packet_bytes,
                    0,
                    source.segmented,
                )
            except OSError:
                source.unsent = 0  # no link: lost before it is on a wire
                return
            if not sent:
                return
            source.unsent -= sent
            source.sent_bytes += sent
            source.sent_packets += -(-sent // packet_bytes)

    def _count(self, sink: _Sink) -> None:
        for _, size, segment_bytes, *_ in netcore.receive_segments(sink.socket.fileno(), self._slots):
            sink.received_bytes += size
            sink.received_packets += -(-size // segment_bytes) if segment_bytes else 1

    def _report(self) -> dict[str, Any]:
        rows = []
        for source, sink in zip(self._sources, self._sinks.values(), strict=True):
            self._count(sink)
            flow = source.flow
            rows.append(
                {
                    "source": flow.source,
                    "target": flow.target,
                    "asked_bytes": source.asked_bytes,
                    "sent_bytes": source.sent_bytes,
                    "received_bytes": sink.received_bytes,
                    "received_packets": sink.received_packets,
                    "skipped_bursts": source.skipped_bursts,
                    "socket_drops": netcore.socket_drops(sink.socket.fileno()),
                }
            )
        late_ns = max(self._late_ns, self._over_tcp.late_ns) // self._clock.dilation
        over_tcp = [asdict(row) for row in self._over_tcp.stop()]
        return {"flows": rows, "over_tcp": over_tcp, "late_max_ns": late_ns}


def _inside(namespace: str | None, make: Callable[[], socket.socket]) -> socket.socket:
    return make() if namespace is None else namespaces.inside(namespace, make)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.stress.generator", description="Background traffic.")
    parser.add_argument("--plan", type=Path, required=True, help="plan.json")
    parser.add_argument("--control", type=Path, required=True, help="the run's control socket")
    parser.add_argument("--namespaces", type=json.loads, required=True, help="host -> network namespace, as JSON")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt ends it without a word
    try:
        plan = from_json(json.loads(arguments.plan.read_text()))
        clock = ModelClock(time.monotonic_ns(), plan.dilation)
        netcore.set_timer_slack(1)
        loop = Loop(clock.monotonic)
        loop.add(Generator(plan, arguments.namespaces, arguments.control, clock, loop))
        loop.run()
    except ChannelClosed:
        return 0  # the run has gone
    except TestbedError as error:
        print(f"generator: {error.message}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
