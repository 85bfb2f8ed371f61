"""One iteration of one rank: the executors of all its layers over one carrier, and the steps that a fault holds back.

All receives are posted before the start, all layers are under way at once, and a held-back step delays only this rank's
sends: the transport goes on acknowledging.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from testbed.collective.executor import Executor, PostReceive, PostSend
from testbed.collective.program import Program
from testbed.transport.endpoint import ALL, Buffer, Completion, Event, Failed, Received


class Carrier(Protocol):
    """What moves messages: a NIC with its endpoint, or kernel TCP."""

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None: ...

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None: ...


class Iteration:
    """Runs `programs[i]` on `buffers[i]`, in place. Times are model nanoseconds.

    first_tag: of `sum(program.tags)` tags that no earlier iteration still uses. step_delays: step -> how long this
    rank's sends of that step are held back from the moment the first of them could go. sink: as in `Executor`.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        buffers: Sequence[npt.NDArray[Any]],
        carrier: Carrier,
        first_tag: int,
        step_delays: Mapping[int, int],
        sink: npt.NDArray[Any] | None = None,
    ) -> None:
        self.failure: str | None = None
        self.received_ns: int | None = None  # when the last of what this rank is to receive was in place
        self._carrier = carrier
        self._step_delays = step_delays
        self._stride = max((len(program) for program in programs), default=0) or 1
        self._executors = []
        for index, (program, buffer) in enumerate(zip(programs, buffers, strict=True)):
            first_id = index * self._stride
            self._executors.append(Executor(program, buffer, first_id=first_id, first_tag=first_tag, sink=sink))
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

    def prepare(self, now: int) -> None:
        """Post all receives."""
        for executor in self._executors:
            for post in executor.start():
                if isinstance(post, PostReceive):
                    self._carrier.post_receive(post.id, post.peer, post.tag, post.buffer, now)
                else:
                    self._at_start.append(post)

    def start(self, now: int) -> None:
        """Begin to send."""
        self._progress_ns = now
        self._post(self._at_start, now)
        self._at_start.clear()

    def on_events(self, events: Iterable[Event], now: int) -> None:
        """What the carrier completed."""
        for event in events:
            if isinstance(event, Failed):
                self.failure = f"the transfer with rank {event.peer} failed: {event.reason}"
                return
            self._progress_ns = now
            posts = self._executors[event.id // self._stride].on_event(event)
            if isinstance(event, Received):
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
