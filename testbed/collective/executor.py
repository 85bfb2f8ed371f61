"""Runs one rank's program over any transport, sans-IO: it says what to post and is told what was completed.

All receives are posted at the start, into buffers of their own, so that an early peer always finds one. A send is
posted as soon as what it waits for is done (`testbed.collective.program`); each carries its step, so that a driver can
hold back a step (a stall). Exactness: integers wrap as numpy's do and are bit-exact. Sums are formed in an order that
the schedule alone fixes, so a result is the same bits in every run, whatever came first. float16 is added up in
float32 and rounded where it is sent; the sender goes on with the rounded value too, so that all ranks end with the
same bits. Bytes that a transport declares missing count as zeros.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.collective.program import Program
from testbed.collective.schedule import REDUCE
from testbed.transport.endpoint import Event, Failed, Received


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


class Executor:
    """One rank's execution of one collective on `buffer` (1-D, contiguous, any numeric dtype), which ends up in place.

    Its operations have the ids first_id … first_id + len(program.operations) - 1, and tags from first_tag on, of which
    `program.tags` are its own: concurrent or consecutive collectives between the same ranks need disjoint ones. The
    buffer must be left alone from `start` until `done`; a reduce-scatter leaves partial sums outside the rank's chunk.
    """

    def __init__(self, program: Program, buffer: npt.NDArray[Any], *, first_id: int = 0, first_tag: int = 0):
        if buffer.shape != (program.elements,) or not buffer.flags.c_contiguous:
            raise ValueError(f"a contiguous buffer of {program.elements} elements is wanted, not shape {buffer.shape}")
        self.failure: Failed | None = None
        self.received_bytes = 0
        self.missing_bytes = 0
        self._program = program
        self._operations = program.operations
        self._buffer = buffer
        self._halves = buffer.dtype == np.float16
        self._working = buffer.astype(np.float32) if self._halves else buffer
        self._bytes = buffer.view(np.uint8).data
        self._scratch = np.empty(program.received_elements, buffer.dtype)
        self._landed: dict[int, npt.NDArray[Any]] = {}  # receives that have come but not been applied
        self._places: dict[int, npt.NDArray[Any]] = {}  # where each receive lands in the scratch
        self._waits = [operation.waits for operation in program.operations]
        self._left = len(program.operations)
        self._first_id = first_id
        self._first_tag = first_tag

    @property
    def done(self) -> bool:
        """The result is in the buffer, and no send reads it any more."""
        return self._left == 0

    def start(self) -> list[PostSend | PostReceive]:
        """All receives, then the sends that wait for nothing."""
        posts: list[PostSend | PostReceive] = []
        scratch, filled = self._scratch.view(np.uint8).data, 0
        itemsize = self._buffer.itemsize
        for index, o in enumerate(self._operations):
            if not o.send:
                end = filled + o.last - o.first
                self._places[index] = self._scratch[filled:end]
                view = scratch[filled * itemsize : end * itemsize]
                posts.append(PostReceive(self._first_id + index, o.peer, self._first_tag + o.tag, o.step, view))
                filled = end
        posts += [self._send(i) for i, o in enumerate(self._operations) if o.send and not o.waits]
        return posts

    def on_event(self, event: Event) -> list[PostSend]:
        """What a completed operation lets happen. After `Failed` nothing more does; see `failure`."""
        if isinstance(event, Failed):
            self.failure = event
            return []
        index = event.id - self._first_id
        if isinstance(event, Received):
            self._land(index, event)
            if self._waits[index]:
                return []
        return self._finish(index)

    def _land(self, index: int, event: Received) -> None:
        data = self._places.pop(index)
        self.received_bytes += data.nbytes
        for first, last in event.missing:
            data.view(np.uint8)[first:last] = 0
            self.missing_bytes += last - first
        self._landed[index] = data

    def _finish(self, index: int) -> list[PostSend]:
        """Apply `index` if it is a receive, and all that only waited for it."""
        posts: list[PostSend] = []
        finished = [index]
        for i in finished:
            if not self._operations[i].send:
                self._apply(i)
            for freed in self._operations[i].frees:
                self._waits[freed] -= 1
                if not self._waits[freed]:
                    if self._operations[freed].send:
                        posts.append(self._send(freed))
                    elif freed in self._landed:
                        finished.append(freed)
        self._left -= len(finished)
        if self._halves and self.done:
            self._buffer[:] = self._working
        return posts

    def _apply(self, index: int) -> None:
        o = self._operations[index]
        there = self._working[o.first : o.last]
        if o.op == REDUCE:
            np.add(there, self._landed.pop(index), out=there)
        else:
            there[:] = self._landed.pop(index)

    def _send(self, index: int) -> PostSend:
        o = self._operations[index]
        if self._halves or o.copied:
            data = self._working[o.first : o.last].astype(self._buffer.dtype)
            if self._halves:
                self._working[o.first : o.last] = data
            view = data.view(np.uint8).data
        else:
            itemsize = self._buffer.itemsize
            view = self._bytes[o.first * itemsize : o.last * itemsize]
        return PostSend(self._first_id + index, o.peer, self._first_tag + o.tag, o.step, view)
