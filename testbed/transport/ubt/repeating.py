"""Warm-up loses nothing: each packet is acknowledged by itself, and sent again until it is.

The paper measures t_B over TCP. Our reading: the same packets, acknowledged one by one (FEEDBACK), do as well, and no
second protocol is needed. The timer doubles with each attempt, up to 64 times.
"""

import heapq
from collections import deque
from typing import NamedTuple

from testbed.transport.ubt.outgoing import Outgoing
from testbed.transport.ubt.parameters import Constants

_MOST_DOUBLINGS = 6


class Attempt(NamedTuple):
    """A packet under way; `tries`: how often it was sent."""

    due_ns: int
    order: int
    message: Outgoing
    chunk: int
    tries: int


class Repeats:
    """The packets of reliable messages that are not acknowledged, and those to be sent again."""

    def __init__(self, constants: Constants) -> None:
        self._window = constants.window_packets
        self._repeat_ns = constants.repeat_ns
        self._retries = constants.retries
        self._timers: list[Attempt] = []
        self._again: deque[Attempt] = deque()
        self._flying = 0
        self._order = 0

    @property
    def room(self) -> int:
        """How many packets more may be under way."""
        return max(0, self._window - self._flying)

    def sent(self, message: Outgoing, chunk: int, now: int, tries: int = 1) -> None:
        """A packet has left, for the first time or again."""
        self._flying += tries == 1
        due_ns = now + (self._repeat_ns << min(tries - 1, _MOST_DOUBLINGS))
        self._order += 1
        heapq.heappush(self._timers, Attempt(due_ns, self._order, message, chunk, tries))

    def acknowledged(self) -> None:
        """One that was under way is there."""
        self._flying -= 1

    def again(self) -> Attempt | None:
        """One to send again, if there is any; it is taken out."""
        self._forget_acknowledged()
        return self._again.popleft() if self._again else None

    @property
    def waiting(self) -> bool:
        """Something is to be sent again."""
        self._forget_acknowledged()
        return bool(self._again)

    def deadline(self) -> int | None:
        while self._timers and self._is_there(self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0].due_ns if self._timers else None

    def on_deadline(self, now: int) -> tuple[int, list[int]]:
        """How many timers have run out, and which peers are given up."""
        expired, lost = 0, []
        while (due_ns := self.deadline()) is not None and due_ns <= now:
            attempt = heapq.heappop(self._timers)
            expired += 1
            if attempt.tries > self._retries:
                lost.append(attempt.message.peer)
                self._flying -= 1
                self.forget(attempt.message.peer)
            else:
                self._again.append(attempt)
        return expired, lost

    def forget(self, peer: int) -> None:
        """Nothing is sent to a peer again."""
        gone = [
            each for each in (*self._timers, *self._again) if each.message.peer == peer and not self._is_there(each)
        ]
        self._flying -= len(gone)
        self._timers = [each for each in self._timers if each.message.peer != peer]
        heapq.heapify(self._timers)
        self._again = deque(each for each in self._again if each.message.peer != peer)

    def _forget_acknowledged(self) -> None:
        while self._again and self._is_there(self._again[0]):
            self._again.popleft()

    def _is_there(self, attempt: Attempt) -> bool:
        acknowledged = attempt.message.acknowledged
        return acknowledged is not None and attempt.chunk in acknowledged
