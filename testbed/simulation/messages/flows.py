"""The messages of one iteration under way as fluid flows: when each leaves, is there, and lets others go.

A message leaves when what its send waits for is done, behind those to the same peer (a queue pair is in order). Its
last byte leaves as the rates that it gets allow, and is there one *latency* later: the delays, and a packet's
serialisation at every other link. What the receiver waits for then goes on; the sender is told by an acknowledgement.
These take their part of the links on the way back, but wait for nothing.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.simulation.messages.dependencies import Messages
from testbed.topology.graph import LinkParameters

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


BYTE_RATE = 8e9  # bits a second over bytes a ns


@dataclass(slots=True)
class Links:
    """What all directed links are now; the last entry of each stands for no link. Bytes are as a link's rate counts.

    capacity: bytes per ns that flows may have (0: down). byte_ns: of a byte on an idle link.
    """

    capacity: Floats
    byte_ns: Floats
    delay_ns: Floats

    @classmethod
    def of(cls, parameters: Sequence[LinkParameters]) -> "Links":
        """All of them up."""
        rate = np.array([link.rate_bps / BYTE_RATE for link in parameters])
        delay = np.array([float(link.delay_ns) for link in parameters])
        return cls(np.append(rate, np.inf), np.append(1 / rate, 0.0), np.append(delay, 0.0))


@dataclass(frozen=True, slots=True)
class Frames:
    """What each message is on the wire: all of it, its first packet and its last; and an acknowledgement.

    returning: bytes of acknowledgements for each byte of the message.
    """

    bytes: Floats
    first_bytes: Floats
    last_bytes: Floats
    returning: Floats
    ack_bytes: int


class Flows:
    """One iteration of a job. Times are ns of the whole run, and stay fractions.

    start_ns: by rank, when it begins. pair: by message the row of `paths` that is its way. held_ns: (rank, step) -> how
    long that rank's sends of that step are held back from when the first of them could go.
    """

    def __init__(
        self,
        messages: Messages,
        frames: Frames,
        pair: Ints,
        paths: Ints,
        start_ns: Floats,
        held_ns: Mapping[tuple[int, int], int],
    ) -> None:
        count = len(messages)
        self.paths = paths
        self.received_ns = start_ns.copy()  # by rank: when the last of what it is to receive was there
        self.done_ns = float(start_ns.max(initial=0.0))  # so far: when the last operation was
        self._messages = messages
        self._frames = frames
        self._pair = pair
        self._start_ns = start_ns
        self._held_ns = held_ns
        sends = zip(messages.source.tolist(), messages.step.tolist(), strict=True) if held_ns else ()
        self._holding = np.array([key in held_ns for key in sends], bool)
        self._until_ns: dict[tuple[int, int], float] = {}
        self._waits = messages.waits.copy()
        self._ready_ns = start_ns[np.concatenate((messages.source, messages.destination))]
        self._landed = np.zeros(count, bool)
        self._left = 2 * count
        self._busy = np.zeros(len(paths), bool)
        self._queued: dict[int, deque[tuple[int, float]]] = {}
        # Under way: the message, what is left of it since when, at which rate, and so until when.
        self.active: Ints = np.zeros(0, np.int64)
        self._bytes: Floats = np.zeros(0)
        self._since: Floats = np.zeros(0)
        self._rate: Floats = np.zeros(0)
        self._end: Floats = np.zeros(0)
        # To come: message i acknowledged (i), received (count + i), free to go (2 count + i).
        self._what: Ints = np.zeros(0, np.int64)
        self._when: Floats = np.zeros(0)
        first = np.flatnonzero(self._waits[:count] == 0)
        self._go(first, self._ready_ns[first])

    @property
    def done(self) -> bool:
        return not self._left

    @property
    def next_ns(self) -> float:
        """When the next thing happens; infinity: nothing will."""
        return min(float(self._end.min(initial=np.inf)), float(self._when.min(initial=np.inf)))

    @property
    def returning(self) -> Floats:
        """What of each active message's rate comes back in acknowledgements."""
        return self._frames.returning[self.active]

    @property
    def to_come_ns(self) -> Floats:
        """When each thing happens that is known to."""
        return np.concatenate((self._end[np.isfinite(self._end)], self._when))

    @property
    def ways(self) -> Ints:
        """The links of each active message."""
        return self.paths[self._pair[self.active]]

    def under_way(self, now_ns: float) -> Iterator[tuple[int, int, int, float]]:
        """(source, destination, step, bytes that have not left) of each active message."""
        left = self._bytes - np.nan_to_num(self._rate) * np.maximum(now_ns - self._since, 0)
        columns = self._messages.source, self._messages.destination, self._messages.step
        yield from zip(*(column[self.active].tolist() for column in columns), left.tolist(), strict=True)

    def turn(self, until_ns: float, links: Links) -> tuple[bool, float]:
        """All that happens until then. Whether other messages are active now, and when the last of it happened."""
        last = -np.inf
        ended = np.flatnonzero(self._end <= until_ns)
        changed = bool(len(ended))
        if changed:
            last = float(self._end[ended].max())
            self._end_of(ended, links)
        while len(due := np.flatnonzero(self._when <= until_ns)):
            what, when = self._what[due], self._when[due]
            last = max(last, float(when.max()))
            self._what, self._when = np.delete(self._what, due), np.delete(self._when, due)
            free = what >= 2 * len(self._messages)
            self._complete(what[~free], when[~free])
            changed |= self._leave(what[free] - 2 * len(self._messages), when[free])
        return changed, last

    def share(self, now_ns: float, rates: Floats) -> None:
        """From now on the active messages have these rates; those that had none yet have them since they left."""
        old = ~np.isnan(self._rate)
        gone = self._rate[old] * np.maximum(now_ns - self._since[old], 0)
        self._bytes[old] = np.maximum(self._bytes[old] - gone, 0)
        self._since[old] = np.maximum(self._since[old], now_ns)
        self._rate = rates
        with np.errstate(divide="ignore", invalid="ignore"):
            self._end = np.where(self._bytes > 0, self._since + self._bytes / rates, self._since)

    def _end_of(self, ended: Ints, links: Links) -> None:
        """Their last bytes have left."""
        message, end = self.active[ended], self._end[ended]
        latency, ack = latencies(self.paths[self._pair[message]], message, self._frames, links)
        landing = end + latency
        count = len(self._messages)
        self._later(np.concatenate((message + count, message)), np.concatenate((landing, landing + ack)))
        keep = np.ones(len(self.active), bool)
        keep[ended] = False
        for name in ("active", "_bytes", "_since", "_rate", "_end"):
            setattr(self, name, getattr(self, name)[keep])
        pair = self._pair[message]
        self._busy[pair] = False
        if self._queued:
            for each, at in zip(pair.tolist(), end.tolist(), strict=True):
                if queue := self._queued.get(each):
                    following, ready = queue.popleft()
                    self._busy[each] = True
                    self._begin(np.array([following]), np.array([max(ready, at)]))
                    if not queue:
                        del self._queued[each]

    def _complete(self, what: Ints, when: Floats) -> None:
        """Messages are acknowledged or received, and what only waited for that goes on."""
        count, messages = len(self._messages), self._messages
        landed = what >= count
        message, rank = what[landed] - count, messages.destination[what[landed] - count]
        at = np.maximum(when[landed], self._start_ns[rank])
        np.maximum.at(self.received_ns, rank, at)
        self._landed[message] = True
        self._ready_ns[what[landed]] = np.maximum(self._ready_ns[what[landed]], at)
        done = what[~landed | (self._waits[what] == 0)]
        self._ready_ns[what[~landed]] = when[~landed]
        while len(done):
            self._left -= len(done)
            self.done_ns = max(self.done_ns, float(self._ready_ns[done].max()))
            freed, length = messages.freed_by(done)
            if not len(freed):
                return
            np.subtract.at(self._waits, freed, 1)
            np.maximum.at(self._ready_ns, freed, np.repeat(self._ready_ns[done], length))
            free = np.unique(freed[self._waits[freed] == 0])
            sends = free[free < count]
            self._go(sends, self._ready_ns[sends])
            receives = free[free >= count]
            done = receives[self._landed[receives - count]]

    def _go(self, message: Ints, when: Floats) -> None:
        """These may leave at these instants, but for what holds their ranks back."""
        if len(self._holding):
            when = when.copy()
            order = np.argsort(when, kind="stable")
            for i in order[self._holding[message[order]]].tolist():
                key = int(self._messages.source[message[i]]), int(self._messages.step[message[i]])
                until = self._until_ns.setdefault(key, float(when[i]) + self._held_ns[key])
                when[i] = max(when[i], until)
        self._later(message + 2 * len(self._messages), when)

    def _later(self, what: Ints, when: Floats) -> None:
        self._what, self._when = np.concatenate((self._what, what)), np.concatenate((self._when, when))

    def _leave(self, message: Ints, when: Floats) -> bool:
        """These may leave: at once, or behind those to the same peer; whether any did."""
        order = np.lexsort((message, when))
        message, when = message[order], when[order]
        pair = self._pair[message]
        _, firsts = np.unique(pair, return_index=True)
        leads = np.zeros(len(message), bool)
        leads[firsts] = True
        leads &= ~self._busy[pair]
        for i in np.flatnonzero(~leads).tolist():
            self._queued.setdefault(int(pair[i]), deque()).append((int(message[i]), float(when[i])))
        self._busy[pair[leads]] = True
        self._begin(message[leads], when[leads])
        return bool(leads.any())

    def _begin(self, message: Ints, when: Floats) -> None:
        self.active = np.concatenate((self.active, message))
        self._bytes = np.concatenate((self._bytes, self._frames.bytes[message]))
        self._since = np.concatenate((self._since, when))
        self._rate = np.concatenate((self._rate, np.full(len(message), np.nan)))
        self._end = np.concatenate((self._end, np.full(len(message), np.inf)))


def latencies(way: Ints, message: Ints, frames: Frames, links: Links) -> tuple[Floats, Floats]:
    """Of messages on their ways: of the last byte, from when it leaves as a fluid; and of the acknowledgement.

    A message alone takes its bytes at the slowest link and this latency: the flow shop of `testbed.plan.messages`.
    """
    cost = links.byte_ns[way]
    first, last, total = (
        part[message][:, np.newaxis] for part in (frames.first_bytes, frames.last_bytes, frames.bytes)
    )
    before = np.cumsum(cost, axis=1) - cost
    after = cost.sum(axis=1, keepdims=True) - before - cost
    whole = np.where(cost > 0, first * before + total * cost + last * after, 0).max(axis=1)
    back = np.where(cost > 0, way ^ 1, way)
    latency = links.delay_ns[way].sum(axis=1) + whole - total[:, 0] * cost.max(axis=1)
    return latency, links.delay_ns[back].sum(axis=1) + frames.ack_bytes * links.byte_ns[back].sum(axis=1)
