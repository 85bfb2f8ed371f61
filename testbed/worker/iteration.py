"""One iteration of one rank: the executors of all its layers over one carrier, and the steps that a fault holds back.

All receives are posted before the start, all layers are under way at once, and a held-back step delays only this rank's
sends: the transport goes on acknowledging.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from testbed.collective.executor import Executor, Gap, PostReceive, PostSend
from testbed.collective.program import Program
from testbed.transport.endpoint import ALL, Buffer, Completion, Event, Failed, Fill, Received


class Carrier(Protocol):
    """What moves messages: a NIC with its endpoint, or kernel TCP."""

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None: ...

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None: ...


class Told(Protocol):
    """Who is told of the iteration; see `testbed.worker.operation`."""

    def begin(self, now: int) -> None: ...

    def start(self, now: int) -> None: ...

    def skips(self) -> bool: ...


def id_stride(programs: Sequence[Program]) -> int:
    """How far apart the first ids of two layers' operations are."""
    return max((len(program) for program in programs), default=0) or 1


class Iteration:
    """Runs `programs[i]` on `buffers[i]`, in place. Times are model nanoseconds.

    first_tag: of `sum(program.tags)` tags that no earlier iteration still uses. step_delays: step -> how long this
    rank's sends of that step are held back from the moment the first of them could go. sink: as in `Executor`. fill:
    of a lossy transport; None: of one that brings all. told: who is told when it begins and starts.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        buffers: Sequence[npt.NDArray[Any]],
        carrier: Carrier,
        first_tag: int,
        step_delays: Mapping[int, int],
        sink: npt.NDArray[Any] | None = None,
        fill: Fill | None = None,
        told: Told | None = None,
    ) -> None:
        self.failure: str | None = None
        self.received_ns: int | None = None  # when the last of what this rank is to receive was in place
        self._carrier = carrier
        self._step_delays = step_delays
        self._lossy = fill is not None
        self._told = told
        self._stride = id_stride(programs)
        self._executors = []
        for index, (program, buffer) in enumerate(zip(programs, buffers, strict=True)):
            first_id = index * self._stride
            self._executors.append(
                Executor(program, buffer, first_id=first_id, first_tag=first_tag, sink=sink, fill=fill or "zero")
            )
            first_tag += program.tags
        self._at_start: list[PostSend] = []
        self._held: list[tuple[int, int, PostSend]] = []  # heap by instant
        self._until_ns: dict[int, int] = {}  # step -> until when it is held back
        self._progress_ns = 0

    @property
    def done(self) -> bool:
        return all(executor.done for executor in self._executors)

    @property
    def received_bytes(self) -> int:
        return sum(executor.received_bytes for executor in self._executors)

    @property
    def missing_bytes(self) -> int:
        return sum(executor.missing_bytes for executor in self._executors)

    @property
    def gaps(self) -> list[Gap]:
        """What did not come, in bytes of all buffers laid end to end."""
        gaps, begins = [], 0
        for executor in self._executors:
            gaps += [Gap(step, source, begins + first, begins + end) for step, source, first, end in executor.gaps]
            begins += executor.size_bytes
        return gaps

    @property
    def skipped(self) -> bool:
        """Whether the result of it, now that it is over, is not to be used."""
        return self._told is not None and self._told.skips()

    def prepare(self, now: int) -> None:
        """Post all receives."""
        if self._told is not None:
            self._told.begin(now)
        for executor in self._executors:
            for post in executor.start():
                if isinstance(post, PostReceive):
                    self._carrier.post_receive(post.id, post.peer, post.tag, post.buffer, now)
                else:
                    self._at_start.append(post)

    def resume(
        self,
        layers: Iterable[tuple[bytes, list[int], npt.NDArray[Any]]],
        progress_ns: int,
        received_ns: int | None,
        *,
        started: bool,
    ) -> dict[int, PostSend | PostReceive]:
        """Go on from what another has come to, each layer as `Executor.resume` takes it; what was posted, by its id."""
        posted: dict[int, PostSend | PostReceive] = {}
        for executor, (states, waits, scratch) in zip(self._executors, layers, strict=True):
            posted |= {post.id: post for post in executor.resume(states, waits, scratch)}
        self._progress_ns, self.received_ns = progress_ns, received_ns
        if not started:
            self._at_start = [post for post in posted.values() if isinstance(post, PostSend)]
        return posted

    def start(self, now: int) -> None:
        """Begin to send."""
        self._progress_ns = now
        if self._told is not None:
            self._told.start(now)
        self._post(self._at_start, now)
        self._at_start.clear()

    def on_events(self, events: Iterable[Event], now: int) -> None:
        """What the carrier completed."""
        for event in events:
            ended = event
            if isinstance(event, Failed):
                if not self._lossy or event.id < 0:
                    of = "" if self._lossy else f"the transfer with rank {event.peer} failed: "
                    self.failure = of + event.reason
                    return
                ended = self._executors[event.id // self._stride].abandoned(event.id)
            self._progress_ns = now
            posts = self._executors[ended.id // self._stride].on_event(ended)
            if isinstance(ended, Received):
                self.received_ns = now
            self._post(posts, now)

    def wake_ns(self) -> int | None:
        """When a step that is held back may go on."""
        return self._held[0][0] if self._held else None

    def go_on(self, now: int) -> None:
        """Send what was held back until now."""
        while self._held and self._held[0][0] <= now:
            self._send(heapq.heappop(self._held)[2], now)

    def waiting_for(self, now: int) -> str:
        """In words: the earliest step's operation that is not complete, and since when nothing has been."""
        if self._held:
            return (
                f"a stall of {(self._held[0][0] - now) / 1e6:.3f} ms more (model time) in step {self._held[0][2].step}"
            )
        outstanding = [each for executor in self._executors if (each := executor.earliest_outstanding())]
        if not outstanding:
            return ""
        step, receive, peer = min(outstanding)
        what = "the message from" if receive else "acknowledgement by"
        return f"{what} rank {peer} in step {step}, nothing for {(now - self._progress_ns) / 1e6:.3f} ms (model time)"

    def _post(self, posts: Iterable[PostSend], now: int) -> None:
        for post in posts:
            until_ns = now
            if delay_ns := self._step_delays.get(post.step):
                until_ns = self._until_ns.setdefault(post.step, now + delay_ns)
            if until_ns > now:
                heapq.heappush(self._held, (until_ns, post.id, post))
            else:
                self._send(post, now)

    def _send(self, post: PostSend, now: int) -> None:
        self._carrier.post_send(post.id, post.peer, post.tag, post.buffer, now)
