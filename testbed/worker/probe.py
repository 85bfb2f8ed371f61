"""Probes of the idle network between two ranks' hosts: round trips, and trains of packets timed at their receiver.

They use a UDP port of their own, so that they never count as the job's packets, and every rank answers them. A probe is
a coroutine that yields the instant until which it waits and is resumed with the answer, or None when the time is over.
"""

import ipaddress
import select
import struct
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed import netcore
from testbed.run.channel import Channel, Message
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.roce import PROBE_PORT
from testbed.worker.clock import ModelClock
from testbed.worker.nic import can_segment, udp_socket

ANSWER_BYTES = 20  # UDP payload of a RoCE acknowledgement: BTH, AETH, ICRC

_HEAD = struct.Struct("!BIIQ")  # kind, probe, index or count, an instant (real ns)
_ECHO, _ECHO_ANSWER, _TRAIN, _QUERY, _QUERY_ANSWER = range(1, 6)
_SLOTS = 16
_PILOTS = 5  # the quickest of them tells how long the way takes
_SHORT_PACKETS, _SHORT_TRAINS = 64, 5  # a short train is timed so often, and the quickest counts
_TRIES = 5

_Answer = tuple[int, int, int, int]  # kind, index or count, instant in the message, when it came
_Done = Callable[[dict[str, Any]], None]
_Probe = Generator[int, _Answer | None, dict[str, Any]]


def most_waits(packets: int) -> int:
    """How many answers a train may be waited for in vain before its prober gives up by itself."""
    return _PILOTS + _trains(packets) * _TRIES


def _trains(packets: int) -> int:
    return _SHORT_TRAINS if packets <= _SHORT_PACKETS else 1


@dataclass(slots=True)
class _Train:
    """What came of one train: its last packet's index and instant."""

    probe: int
    received: int = 0
    last: int = 0
    last_ns: int = 0


class Prober:
    """A rank's probes and its answers to others'. `burst_packets`: most packets handed over with one call."""

    def __init__(self, rank: int, addresses: Sequence[str], burst_packets: int, clock: ModelClock) -> None:
        self._clock = clock
        self._burst_packets = min(burst_packets, netcore.MAX_SEGMENTS)
        self._ips = [int(ipaddress.IPv4Address(address)) for address in addresses]
        self._socket = udp_socket(addresses[rank], PROBE_PORT)
        self._slots = memoryview(bytearray(_SLOTS * netcore.SLOT_BYTES))
        self._trains: dict[int, _Train] = {}  # by the sender's address
        self._waiting: deque[tuple[_Probe, Callable[[dict[str, Any]], None]]] = deque()
        self._current: tuple[_Probe, Callable[[dict[str, Any]], None]] | None = None
        self._until_ns = 0
        self._probe = 0  # the number of the current one
        self._unsent: deque[tuple[int, bytes, int]] = deque()  # target, data, bytes a packet
        self._segmented = can_segment(
            self._socket, next((ip for r, ip in enumerate(self._ips) if r != rank), self._ips[rank])
        )

    def round_trips(self, peer: int, count: int, packet_bytes: int, patience_ns: int, done: _Done) -> None:
        """Time `count` round trips: a packet of `packet_bytes` UDP payload out, one of an acknowledgement's size back.

        `done` gets {"round_trips_ns": model time each, "lost": how many never came back}.
        """
        self._waiting.append((self._time_round_trips(self._ips[peer], count, packet_bytes, patience_ns), done))

    def train(self, peer: int, packets: int, packet_bytes: int, patience_ns: int, done: _Done) -> None:
        """Send `packets` at once and time them at their receiver, by the kernel's clock.

        `done` gets {"measured_bps": model rate of whole frames and gaps, "received", "way_ns": of one packet,
        "train_ns": of the whole train, in model time}; measured_bps is None if too few came for a rate. Being late is
        all that a busy machine can do to a packet, so of several short trains the quickest is the network's.
        """
        self._waiting.append((self._time_train(self._ips[peer], packets, packet_bytes, patience_ns), done))

    def watched(self) -> list[tuple[int, int]]:
        return [(self._socket.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0))]

    def serve(self, ready: Mapping[int, int]) -> None:
        if ready.get(self._socket.fileno(), 0) & select.POLLIN:
            self._receive()
        if self._current and not self._unsent and self._clock.monotonic() >= self._until_ns:
            self._resume(None)
        if not self._current and self._waiting:
            self._current = self._waiting.popleft()
            self._probe += 1
            self._resume(None)
        self._flush()

    def wake_ns(self) -> int | None:
        return self._until_ns if self._current and not self._unsent else None

    def close(self) -> None:
        self._socket.close()

    def answer(self, channel: Channel, message: Message) -> bool:
        """Carry out the run's request `rtt` or `train` and answer it when it is done; False: it is another one.

        Its `patience_ns` (real time) is how long it waits for one answer before it takes it for lost.
        """

        def done(result: dict[str, Any]) -> None:
            channel.answer(message, **result)

        if message.get("op") == "rtt":
            self.round_trips(message["peer"], message["count"], message["bytes"], message["patience_ns"], done)
        elif message.get("op") == "train":
            self.train(message["peer"], message["packets"], message["bytes"], message["patience_ns"], done)
        else:
            return False
        return True

    def _resume(self, answer: _Answer | None) -> None:
        assert self._current
        probe, done = self._current
        try:
            self._until_ns = probe.send(answer)
        except StopIteration as end:
            self._current = None
            done(end.value)

    def _time_round_trips(self, target: int, count: int, packet_bytes: int, patience_ns: int) -> _Probe:
        times: list[int] = []
        for index in range(count):
            sent_ns = self._send(target, _ECHO, index, packet_bytes)
            if (yield from self._answer(_ECHO_ANSWER, index, patience_ns)):
                times.append((self._clock.monotonic() - sent_ns) // self._clock.dilation)
        return {"round_trips_ns": times, "lost": count - len(times)}

    def _time_train(self, target: int, packets: int, packet_bytes: int, patience_ns: int) -> _Probe:
        ways: list[int] = []
        for index in range(_PILOTS):
            sent_ns = self._send(target, _ECHO, index, packet_bytes)
            if answer := (yield from self._answer(_ECHO_ANSWER, index, patience_ns)):
                ways.append(answer[2] - sent_ns)
        way_ns = min(ways, default=0)
        received = train_ns = 0
        rates: list[int] = []
        for _ in range(_trains(packets)):
            received, last, took_ns = yield from self._send_train(target, packets, packet_bytes, patience_ns)
            if ways and last and took_ns > way_ns:
                bits = 8 * last * (packet_bytes + UDP_WIRE_BYTES)
                rates.append(bits * 10**9 * self._clock.dilation // (took_ns - way_ns))
                train_ns = took_ns if rates[-1] == max(rates) else train_ns
        times = {"way_ns": way_ns // self._clock.dilation, "train_ns": train_ns // self._clock.dilation}
        return {"measured_bps": max(rates, default=None), "received": received, **times}

    def _send_train(
        self, target: int, packets: int, packet_bytes: int, patience_ns: int
    ) -> Generator[int, _Answer | None, tuple[int, int, int]]:
        """How many packets came, the index of the last, and how long after the beginning it came."""
        self._probe += 1
        runs = []
        for first in range(0, packets, self._burst_packets):
            indices = range(first, min(first + self._burst_packets, packets))
            data = b"".join(self._packet(_TRAIN, index, packet_bytes) for index in indices)
            runs.append((target, data, packet_bytes))
        begun_ns = self._clock.monotonic()
        self._unsent.extend(runs)
        self._flush()
        for _ in range(_TRIES):
            self._send(target, _QUERY, 0, ANSWER_BYTES)
            if answer := (yield from self._answer(_QUERY_ANSWER, None, patience_ns)):
                return answer[1] >> 16, answer[1] & 0xFFFF, answer[2] - begun_ns
        return 0, 0, 0

    def _answer(self, kind: int, index: int | None, patience_ns: int) -> Generator[int, _Answer | None, _Answer | None]:
        """Wait for the answer of a kind (and an index), or until it is late."""
        until_ns = self._clock.monotonic() + patience_ns
        while True:
            answer = yield until_ns
            if answer is None:
                return None
            if answer[0] == kind and index in (None, answer[1]):
                return answer

    def _packet(self, kind: int, index: int, size: int, instant_ns: int = 0, probe: int | None = None) -> bytes:
        return _HEAD.pack(kind, self._probe if probe is None else probe, index, instant_ns).ljust(size, b"\0")

    def _send(self, target: int, kind: int, index: int, size: int) -> int:
        """Send one packet, behind those still unsent; returns the instant."""
        self._unsent.append((target, self._packet(kind, index, size), size))
        now = self._clock.monotonic()
        self._flush()
        return now

    def _flush(self) -> None:
        while self._unsent:
            target, data, size = self._unsent[0]
            try:
                sent = netcore.send_segments(self._socket.fileno(), target, PROBE_PORT, data, size, 0, self._segmented)
            except OSError:
                sent = len(data)  # no link: it is lost, as on any network
            if not sent:
                return
            self._unsent.popleft()
            if sent < len(data):
                self._unsent.appendleft((target, data[sent:], size))

    def _receive(self) -> None:
        for offset, size, segment_bytes, source, _, _, at_ns in netcore.receive_segments(
            self._socket.fileno(), self._slots
        ):
            step = segment_bytes or size or 1
            for start in range(offset, offset + size, step):
                if offset + size - start >= _HEAD.size:
                    kind, probe, index, instant_ns = _HEAD.unpack_from(self._slots, start)
                    self._take(source, kind, probe, index, instant_ns, at_ns)

    def _take(self, source: int, kind: int, probe: int, index: int, instant_ns: int, at_ns: int) -> None:
        if kind == _ECHO:
            answer = self._packet(_ECHO_ANSWER, index, ANSWER_BYTES, at_ns, probe)
            self._unsent.append((source, answer, ANSWER_BYTES))
        elif kind == _TRAIN:
            train = self._trains.get(source)
            if train is None or train.probe != probe:
                train = self._trains[source] = _Train(probe)
            train.received += 1
            if index >= train.last:
                train.last, train.last_ns = index, at_ns
        elif kind == _QUERY:
            train = self._trains.get(source) or _Train(probe)
            answer = self._packet(_QUERY_ANSWER, train.received << 16 | train.last, ANSWER_BYTES, train.last_ns, probe)
            self._unsent.append((source, answer, ANSWER_BYTES))
        elif probe == self._probe and self._current:
            self._resume((kind, index, instant_ns, at_ns))
