"""The pull queue of a host: whoever sends to it is pulled in turn, at the pace at which its line takes full packets.

Pulls that leave late, since the NIC was busy or its driver slow, are made up for, those of a round trip at most; none
are saved up while nobody waits. Source: NDP, section 3 (recalled), and public htsim's fair pull queue; that what is
late is made up for is our choice.
"""

from collections import deque
from typing import Protocol


class Pulled(Protocol):
    """A sender, as its receiver sees it. waits: the queue has it; only the queue changes that."""

    peer: int
    waits: bool

    @property
    def due(self) -> int:
        """How many pulls it is to have."""

    def pull(self, now: int) -> None:
        """Pull one packet; only if one is due."""


class PullQueue:
    """Times in model nanoseconds. gap_ns: from one pull to the next; late_ns: what is made up for."""

    def __init__(self, gap_ns: int, late_ns: int) -> None:
        self._gap_ns = gap_ns
        self._late_ns = late_ns
        self._turns: deque[Pulled] = deque()
        self._next_ns = 0

    @property
    def waiting(self) -> int:
        """How many senders wait."""
        return len(self._turns)

    def deadline(self) -> int | None:
        """When the next is pulled."""
        return self._next_ns if self._turns else None

    def want(self, sender: Pulled, now: int) -> None:
        """Give a sender turns from now on, if pulls are due to it."""
        if sender.waits or sender.due <= 0:
            return
        if not self._turns:
            self._next_ns = max(self._next_ns, now)
        sender.waits = True
        self._turns.append(sender)

    def serve(self, now: int) -> list[int]:
        """Pull all that is due; the peers that were pulled."""
        pulled: list[int] = []
        while self._turns and self._next_ns <= now:
            sender = self._turns.popleft()
            if sender.due > 0:
                sender.pull(now)
                pulled.append(sender.peer)
                self._next_ns = max(self._next_ns, now - self._late_ns) + self._gap_ns
            sender.waits = sender.due > 0
            if sender.waits:
                self._turns.append(sender)
        return pulled

    def leave(self, sender: Pulled) -> None:
        """Give a sender no more turns."""
        if sender.waits:
            self._turns.remove(sender)
            sender.waits = False
