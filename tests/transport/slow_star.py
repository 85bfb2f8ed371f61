"""Members of a job at one switch whose cables take their time, under a virtual clock: each serialises, delays and loses
packets. What a member sends leaves at its NIC's rate, and results wait for its cable at the switch."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from testbed.transport import Path
from testbed.transport.aggregation import AGGREGATOR, AggregationEndpoint
from testbed.transport.endpoint import Arrival
from testbed.wire import aggregation
from testbed.wire.ethernet import UDP_WIRE_BYTES

from .aggregation import Adds, Packet, packets

_AHEAD_SHARE = 20  # as `testbed.worker.nic`: of the base RTT
_TURNS = 50_000_000


@dataclass
class SlowStar:
    """Carries packets until no member has anything to do; each end's `ended_ns` is when its last result was taken in.

    path: the cables', all alike. jitter_ns: what a packet may take longer, up or down, so that some overtake others.
    """

    ends: Sequence[AggregationEndpoint]
    switch: Adds
    path: Path
    delay_ns: int
    loss: float
    random: Random
    jitter_ns: int = 0
    now: int = 0
    sent: int = 0
    lost: int = 0
    _events: list[tuple[int, int, int, bool, Packet | None]] = field(default_factory=list)  # for a member, or of one
    _order: int = 0

    def __post_init__(self) -> None:
        self._free_ns = [0] * len(self.ends)  # each NIC
        self._down_ns = [0] * len(self.ends)  # each cable from the switch
        self._woken_ns = [1 << 62] * len(self.ends)
        self.ended_ns = [0] * len(self.ends)

    def run(self) -> None:
        """Go on to the end."""
        for member in range(len(self.ends)):
            self._turn(member)
        for _ in range(_TURNS):
            if not self._events:
                return
            self.now, _, member, at_switch, packet = heapq.heappop(self._events)
            if packet is None:
                if self.now < self._woken_ns[member]:
                    continue
                self._woken_ns[member] = 1 << 62
            elif at_switch:
                self._add(member, packet)
                continue
            else:
                header, values = packet
                arrival = Arrival(AGGREGATOR, 0, len(values), (header,), memoryview(values))
                self.ends[member].receive(arrival, self.now)
            self._turn(member)
        raise AssertionError(f"still busy at {self.now} ns")

    def _turn(self, member: int) -> None:
        """As a NIC drives its endpoint: what is due, then what may leave, a run at a time."""
        end, ahead_ns = self.ends[member], self.path.base_rtt_ns // _AHEAD_SHARE
        at = end.deadline()
        if at is not None and at <= self.now:
            end.on_deadline(self.now)
        while (at := end.deadline()) is not None and at <= self.now and self._free_ns[member] - ahead_ns <= self.now:
            bursts = end.transmit(self.now, self.path.max_burst_packets)
            if not bursts:
                break
            for burst in bursts:
                for packet in packets(burst):
                    self._free_ns[member] = max(self._free_ns[member], self.now) + self._takes_ns(packet)
                    self._fly(self._free_ns[member], member, True, packet)
        if end.events():
            self.ended_ns[member] = self.now
        if (at := end.deadline()) is not None:
            wake_ns = max(at, self._free_ns[member] - ahead_ns) if at <= self.now else at
            if wake_ns < self._woken_ns[member]:
                self._woken_ns[member] = wake_ns
                self._put(wake_ns, member, False, None)

    def _add(self, source: int, packet: Packet) -> None:
        before, header = packet[0][:-16], aggregation.decode(packet[0][-16:])
        for member, (result, values) in self.switch.receive(source, header, packet[1]):
            self._down_ns[member] = max(self._down_ns[member], self.now) + self._takes_ns((before + result, values))
            self._fly(self._down_ns[member], member, False, (before + result, values))

    def _fly(self, leaves_ns: int, member: int, at_switch: bool, packet: Packet) -> None:
        self.sent += 1
        if self.random.random() < self.loss:
            self.lost += 1
        else:
            late_ns = self.random.randrange(self.jitter_ns) if self.jitter_ns else 0
            self._put(leaves_ns + self.delay_ns + late_ns, member, at_switch, packet)

    def _put(self, at_ns: int, member: int, at_switch: bool, packet: Packet | None) -> None:
        self._order += 1
        heapq.heappush(self._events, (at_ns, self._order, member, at_switch, packet))

    def _takes_ns(self, packet: Packet) -> int:
        return (len(packet[0]) + len(packet[1]) + UDP_WIRE_BYTES) * 8 * 10**9 // self.path.rate_bps
