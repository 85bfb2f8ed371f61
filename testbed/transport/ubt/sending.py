"""In which order messages leave: to so many receivers at a time as these ask for, stage by stage.

Messages stand in a line, by stage and in the order of posting (with Transpose AllReduce rank i - 1 comes first, then
i - 2). As many as receivers are sent to at a time are under way, and take turns run by run; when one is done the next
begins. With one at a time every receiver hears one sender, as all ranks go round in the same order.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator

from testbed.transport.endpoint import Burst, Counters
from testbed.transport.ubt.flow import Flow
from testbed.transport.ubt.outgoing import Outgoing
from testbed.transport.ubt.parameters import Constants
from testbed.transport.ubt.repeating import Repeats
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.ubt import HEADER_BYTES, encode_run

MakeFlow = Callable[[int], Flow]


class Outbox:
    """All that a rank sends, to `receivers()` peers at a time.

    `stamp(stage)` gives timeout and incast for headers; `done(id)`: its buffer is free.
    """

    def __init__(
        self,
        constants: Constants,
        flow: MakeFlow,
        receivers: Callable[[], int],
        stamp: Callable[[int], tuple[int, int]],
        done: Callable[[int], None],
        counters: Counters,
    ) -> None:
        self._constants = constants
        self._make_flow = flow
        self._receivers = receivers
        self._flows: dict[int, Flow] = {}
        self._stamp = stamp
        self._done = done
        self._counters = counters
        self._repeats = Repeats(constants)
        self._line: list[tuple[int, int, Outgoing]] = []  # heap by stage and order of posting
        self._order = 0
        self._active: deque[Outgoing] = deque()  # the next to serve first
        self._reliable: dict[int, Outgoing] = {}  # by id, those not acknowledged

    def post(self, message: Outgoing) -> None:
        """Have it sent."""
        self._order += 1
        heapq.heappush(self._line, (message.stage, self._order, message))
        if message.acknowledged is not None:
            self._reliable[message.id] = message
        self._refill()

    def transmit(self, now: int, budget_packets: int) -> Iterator[Burst]:
        """What may leave now, a burst at most."""
        left = min(budget_packets, self._constants.burst_packets)
        while left > 0 and (attempt := self._repeats.again()):
            attempt.message.repeated.add(attempt.chunk)
            self._repeats.sent(attempt.message, attempt.chunk, now, attempt.tries + 1)
            self._counters.retransmitted_packets += 1
            left -= 1
            yield self._burst(attempt.message, attempt.chunk, 1, now, again=True)
        self._refill()
        share = max(1, self._constants.burst_packets // max(1, len(self._active)))
        for _ in range(len(self._active)):
            message = self._active[0]
            count = self._allowed(message, now, min(left, share))
            if not count:
                self._active.rotate(-1)
                continue
            chunk = message.next
            message.next += count
            left -= count
            if message.acknowledged is not None:
                for each in range(chunk, chunk + count):
                    self._repeats.sent(message, each, now)
            yield self._burst(message, chunk, count, now, again=False)
            if message.next == message.chunks:
                self._active.popleft()
                if message.done:
                    self._done(message.id)
            else:
                self._active.rotate(-1)
        self._refill()

    def answered(self, peer: int, bucket: int, offset: int, packets: int, now: int) -> None:
        """The peer has the packet of this bucket at `offset`, and tells of so many."""
        for message in self._reliable.values():
            if message.peer == peer and message.bucket == bucket and (chunk := message.chunk_at(offset)) is not None:
                self._acknowledge(message, chunk)
                if chunk in message.repeated:
                    return  # which of them it answers is not known (Karn and Partridge, SIGCOMM 1987)
                break
        self.flow(peer).answered(bucket, offset, packets, now)

    def deadline(self, now: int) -> int | None:
        """When something may leave, or a timer runs out."""
        if self._repeats.waiting:
            return now
        at = [due] if (due := self._repeats.deadline()) is not None else []
        room = self._repeats.room
        at += [
            max(now, self.flow(message.peer).ready_ns)
            for message in self._active
            if message.acknowledged is None or room
        ]
        return min(at, default=None)

    def on_deadline(self, now: int) -> list[int]:
        """Which peers are given up."""
        expired, lost = self._repeats.on_deadline(now)
        self._counters.timeouts += expired
        return lost

    def drop(self, peer: int, stage: int) -> list[int]:
        """Send nothing more to a peer of the stages before this one; the messages that are done for."""
        gone = [each for each in (*self._active, *(entry[2] for entry in self._line)) if _is_past(each, peer, stage)]
        if gone:
            self._active = deque(each for each in self._active if not _is_past(each, peer, stage))
            self._line = [entry for entry in self._line if not _is_past(entry[2], peer, stage)]
            heapq.heapify(self._line)
            self._refill()
        return [each.id for each in gone]

    def give_up(self, peer: int) -> list[int]:
        """Send nothing more to a peer; the messages that will not be there."""
        self._repeats.forget(peer)
        self._active = deque(each for each in self._active if each.peer != peer)
        lost = [each.id for each in self._reliable.values() if each.peer == peer]
        lost += [each.id for *_, each in self._line if each.peer == peer and each.id not in lost]
        self._line = [entry for entry in self._line if entry[2].peer != peer]
        heapq.heapify(self._line)
        for each in lost:
            self._reliable.pop(each, None)
        self._refill()
        return lost

    @property
    def idle(self) -> bool:
        return not (self._active or self._line or self._reliable)

    def flow(self, peer: int) -> Flow:
        """That to `peer`, made when first asked for."""
        flow = self._flows.get(peer)
        if flow is None:
            flow = self._flows[peer] = self._make_flow(peer)
        return flow

    def begin(self) -> None:
        """A collective comes next."""
        for flow in self._flows.values():
            flow.forget()

    def _refill(self) -> None:
        while self._line and len(self._active) < self._receivers():
            self._active.append(heapq.heappop(self._line)[2])

    def _allowed(self, message: Outgoing, now: int, most: int) -> int:
        """How many of its packets may leave now."""
        flow = self.flow(message.peer)
        if flow.ready_ns > now:
            return 0
        count = min(most, message.chunks - message.next)
        if message.acknowledged is not None:
            count = min(count, self._repeats.room)
        return count if flow.control.run_packets is None else min(count, flow.control.run_packets)

    def _burst(self, message: Outgoing, chunk: int, count: int, now: int, *, again: bool) -> Burst:
        payload, offsets = message.payload(chunk, count), message.offsets(chunk, count)
        timeout, incast = self._stamp(message.stage)
        flow = self.flow(message.peer)
        self._counters.sent_packets += count
        self._counters.sent_bytes += len(payload)
        flow.left(message, offsets, len(payload) + count * (HEADER_BYTES + UDP_WIRE_BYTES), now, again=again)
        return Burst(
            peer=message.peer,
            source_port=flow.source_port,
            dscp=self._constants.dscp,
            ecn=flow.control.ecn,
            not_before_ns=now,
            segment_bytes=message.mtu_bytes if len(payload) else 0,
            headers=encode_run(message.bucket, offsets, timeout, incast, message.last_from),
            payload=payload,
        )

    def _acknowledge(self, message: Outgoing, chunk: int) -> None:
        assert message.acknowledged is not None
        if chunk < message.next and message.acknowledged.add(chunk):
            self._repeats.acknowledged()
            if message.done:
                del self._reliable[message.id]
                self._done(message.id)


def _is_past(message: Outgoing, peer: int, stage: int) -> bool:
    return message.peer == peer and message.stage < stage
