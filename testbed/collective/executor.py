"""Runs one rank's program over any transport, sans-IO: it says what to post and is told what was completed.

All receives are posted at the start, into buffers of their own, so that an early peer always finds one. A send is
posted as soon as what it waits for is done (`testbed.collective.program`); each carries its step, so that a driver can
hold back a step (a stall). Exactness: integers wrap as numpy's do and are bit-exact. Sums are formed in an order that
the schedule alone fixes, so a result is the same bits in every run, whatever came first. float16 is added up in
float32 and rounded where it is sent; the sender goes on with the rounded value too, so that all ranks end with the
same bits. Of bytes that a transport declares missing the elements count as zeros where they are added; where they are
copied they become zeros, or stay what they were (`fill`). What is pooled stays where it landed until the last of its
range is there.

Where numbers do not matter (`gradients: none`) a rank has no memory of its own: all that comes lands in one place, and
nothing is added up.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.collective.program import Program
from testbed.collective.schedule import COPY, POOL
from testbed.transport.endpoint import Event, Failed, Fill, Received, Sent

_WAITING, _POSTED, _LANDED, _DONE = range(4)  # states of an operation; LANDED: received, but not applied


class PostSend(NamedTuple):
    """Send `buffer` to `peer` as message `tag`."""

    id: int
    peer: int
    tag: int
    step: int
    buffer: memoryview


class PostReceive(NamedTuple):
    """Receive message `tag` of `peer` into `buffer`."""

    id: int
    peer: int
    tag: int
    step: int
    buffer: memoryview


class Outstanding(NamedTuple):
    """An operation that was posted and is not complete."""

    step: int
    receive: bool
    peer: int


class Gap(NamedTuple):
    """Bytes [first_byte, end_byte) of the buffer that did not come from `source` in a step."""

    step: int
    source: int
    first_byte: int
    end_byte: int


class Executor:
    """One rank's execution of one collective on `buffer` (1-D, contiguous, any numeric dtype), which ends up in place.

    Its operations have the ids first_id … first_id + len(program) - 1, and tags from first_tag on, of which
    `program.tags` are its own: concurrent or consecutive collectives between the same ranks need disjoint ones. The
    buffer must be left alone from `start` until `done`; a reduce-scatter leaves partial sums outside the rank's chunk.

    sink: of the buffer's dtype, as long as the program's longest receive at least. Then what comes lands there, all in
    the same place, and the buffer is only read: bytes are sent and received as ever, but numbers mean nothing. Many
    ranks may share a buffer and a sink.

    fill: as in `testbed.transport.Transport`.
    """

    def __init__(
        self,
        program: Program,
        buffer: npt.NDArray[Any],
        *,
        first_id: int = 0,
        first_tag: int = 0,
        sink: npt.NDArray[Any] | None = None,
        fill: Fill = "zero",
    ) -> None:
        if buffer.shape != (program.elements,) or not buffer.flags.c_contiguous:
            raise ValueError(f"a contiguous buffer of {program.elements} elements is wanted, not shape {buffer.shape}")
        self.failure: Failed | None = None
        self.received_bytes = 0
        self.missing_bytes = 0
        self.size_bytes = buffer.nbytes
        self._buffer = buffer
        self._bytes = buffer.view(np.uint8).data
        self._itemsize = buffer.itemsize
        self._numeric = sink is None
        self._halves = self._numeric and buffer.dtype == np.float16
        self._working = buffer.astype(np.float32) if self._halves else buffer
        self._first_id = first_id
        self._first_tag = first_tag
        self._left = len(program)
        self._states = bytearray(len(program))
        # Reading one number of a memoryview costs a third of what it does of an array, and no memory as a list would.
        self._sends, self._copied, self._reduces = program.send.data, program.copied.data, (program.op != COPY).data
        self._step, self._peer, self._tag = program.step.data, program.peer.data, program.tag.data
        self._first, self._last = program.first.data, program.last.data
        self._freed, self._frees = program.freed.data, program.frees.data
        self._waits = program.waits.tolist()
        self._scratch = np.empty(program.received_elements, buffer.dtype) if sink is None else sink
        self._places = places(program, sink is not None).data
        self._landing = self._scratch.view(np.uint8).data
        self._rank = program.rank
        self._pools = _pools(program) if self._numeric else {}
        self._views: dict[tuple[int, int], memoryview] = {}  # of a sink, as receives there are mostly alike
        self._copies = (program.op == COPY).data
        self._gaps: list[tuple[int, int, int]] = []  # receive, first byte that is missing, and the end
        self._keeps = fill == "keep"
        self._kept: dict[int, list[tuple[int, int]]] = {}  # by receive: elements that stay what they are

    @property
    def done(self) -> bool:
        """The result is in the buffer, and no send reads it any more."""
        return self._left == 0

    def start(self) -> list[PostSend | PostReceive]:
        """All receives, then the sends that wait for nothing."""
        sends = np.asarray(self._sends)
        posts: list[PostSend | PostReceive] = [self._receive(index) for index in np.flatnonzero(~sends).tolist()]
        posts += [self._send(index) for index in np.flatnonzero(sends).tolist() if not self._waits[index]]
        return posts

    def resume(self, states: bytes, waits: list[int], scratch: npt.NDArray[Any]) -> list[PostSend | PostReceive]:
        """Go on from what another has come to, whose `scratch` is taken over; what was posted and is not complete. For
        sends that go out from the buffer itself."""
        self._states[:], self._waits = states, waits
        self._scratch, self._landing = scratch, scratch.view(np.uint8).data
        self._left = len(states) - states.count(_DONE)
        there = np.isin(np.frombuffer(states, np.uint8), (_LANDED, _DONE)) & ~np.asarray(self._sends)
        self.received_bytes = int((np.asarray(self._last) - np.asarray(self._first))[there].sum()) * self._itemsize
        posted = np.flatnonzero(np.frombuffer(states, np.uint8) == _POSTED).tolist()
        return [self._send(index) if self._sends[index] else self._receive(index) for index in posted]

    def on_event(self, event: Event) -> list[PostSend]:
        """What a completed operation lets happen. After `Failed` nothing more does; see `failure`."""
        if isinstance(event, Failed):
            self.failure = event
            return []
        index = event.id - self._first_id
        if isinstance(event, Received):
            self.received_bytes += (self._last[index] - self._first[index]) * self._itemsize
            if event.missing:
                self._forget(index, event.missing)
            if self._waits[index]:
                self._states[index] = _LANDED
                return []
            self._apply(index)
        return self._finish(index)

    @property
    def gaps(self) -> list[Gap]:
        """What did not come."""
        size = self._itemsize
        return [
            Gap(self._step[i], self._peer[i], self._first[i] * size + begin, self._first[i] * size + end)
            for i, begin, end in self._gaps
        ]

    def abandoned(self, id: int) -> Sent | Received:
        """How operation `id` ends of which nothing came, or will be sent."""
        index = id - self._first_id
        if self._sends[index]:
            return Sent(id)
        return Received(id, ((0, (self._last[index] - self._first[index]) * self._itemsize),))

    def earliest_outstanding(self) -> Outstanding | None:
        """Of the operations that were posted and are not complete, that of the earliest step."""
        index = self._states.find(_POSTED)
        return None if index < 0 else Outstanding(self._step[index], not self._sends[index], self._peer[index])

    def _place(self, index: int) -> tuple[int, int]:
        """Where a receive lands: elements [first, last) of the scratch."""
        place = self._places[index]
        return place, place + self._last[index] - self._first[index]

    def _forget(self, index: int, missing: tuple[tuple[int, int], ...]) -> None:
        self._gaps += [(index, begin, end) for begin, end in missing]
        lost = sum([end - begin for begin, end in missing])
        self.missing_bytes += lost
        self.received_bytes -= lost
        if not self._numeric:
            return
        size = self._itemsize
        elements = [(begin // size, -(-end // size)) for begin, end in missing]
        if self._keeps and self._copies[index]:
            self._kept[index] = elements
            return
        first, last = self._place(index)
        landed = self._scratch[first:last]
        for begin, end in elements:
            landed[begin:end] = 0

    def _finish(self, index: int) -> list[PostSend]:
        """`index` is over, applied if it is a receive: let happen all that only waited for it."""
        posts: list[PostSend] = []
        finished = [index]
        waits, states, frees = self._waits, self._states, self._frees
        for i in finished:
            states[i] = _DONE
            for at in range(self._freed[i], self._freed[i + 1]):
                freed = frees[at]
                waits[freed] -= 1
                if not waits[freed]:
                    if self._sends[freed]:
                        posts.append(self._send(freed))
                    elif states[freed] == _LANDED:
                        self._apply(freed)
                        finished.append(freed)
        self._left -= len(finished)
        if self._halves and not self._left:
            self._buffer[:] = self._working
        return posts

    def _apply(self, index: int) -> None:
        if not self._numeric:
            return
        if self._pools and (pooled := self._pools.get(index)) is not None:
            self._pour(index, pooled)
            return
        there = self._working[self._first[index] : self._last[index]]
        first, last = self._place(index)
        landed = self._scratch[first:last]
        if self._reduces[index]:
            np.add(there, landed, out=there)
            return
        if self._kept:
            for begin, end in self._kept.pop(index, ()):
                landed[begin:end] = there[begin:end]
        there[:] = landed

    def _pour(self, index: int, pooled: tuple[int, ...]) -> None:
        """Add up, in the order of ranks, what was pooled until `index`; nothing if that is not the last."""
        there = self._working[self._first[index] : self._last[index]]
        below: npt.NDArray[Any] | None = None
        for each in pooled:
            first, last = self._place(each)
            came = self._scratch[first:last]
            if self._peer[each] > self._rank:
                if below is not None:
                    there += below
                    below = None
                there += came
            elif below is None:
                below = came.astype(there.dtype)
            else:
                below += came
        if below is not None:
            there += below

    def _receive(self, index: int) -> PostReceive:
        self._states[index] = _POSTED
        first, last = place = self._place(index)
        view = self._views.get(place)
        if view is None:
            view = self._landing[first * self._itemsize : last * self._itemsize]
            if not self._numeric:
                self._views[place] = view
        return PostReceive(
            self._first_id + index, self._peer[index], self._first_tag + self._tag[index], self._step[index], view
        )

    def _send(self, index: int) -> PostSend:
        self._states[index] = _POSTED
        first, last = self._first[index], self._last[index]
        if self._numeric and (self._halves or self._copied[index]):
            data = self._working[first:last].astype(self._buffer.dtype)
            if self._halves:
                self._working[first:last] = data
            view = data.view(np.uint8).data
        else:
            view = self._bytes[first * self._itemsize : last * self._itemsize]
        return PostSend(
            self._first_id + index, self._peer[index], self._first_tag + self._tag[index], self._step[index], view
        )


def places(program: Program, sunk: bool) -> npt.NDArray[np.int64]:
    """Where each receive lands, in elements of the scratch; all at its start if it is a sink."""
    if sunk:
        return np.zeros(len(program), np.int64)
    lengths = np.where(program.send, 0, program.last - program.first)
    return np.cumsum(lengths) - lengths


def _pools(program: Program) -> dict[int, tuple[int, ...]]:
    """By receive that is pooled, all of its range by rank if it is the last of these, else none."""
    ranges: dict[tuple[int, int], list[int]] = {}
    for index in np.flatnonzero((program.op == POOL) & ~program.send).tolist():
        ranges.setdefault((int(program.first[index]), int(program.last[index])), []).append(index)
    pools: dict[int, tuple[int, ...]] = {}
    for indices in ranges.values():
        pools |= dict.fromkeys(indices[:-1], ())
        pools[indices[-1]] = tuple(sorted(indices, key=lambda index: int(program.peer[index])))
    return pools
