"""Which of the packets under way the peer has, and which of the others are lost: IRN's loss recovery.

A NACK or a timeout begins a recovery, which ends once everything that was sent for the first time until then is
acknowledged. In it, packets are sent again before new ones, each once:

    a NACK          the first unacknowledged packet, and every other before the highest that is known to be there
    a timeout       all that is not known to be there (our reading: a timeout outlasts the longest path's queues, so
                    that nothing is still under way; public models of IRN go back to the first unacknowledged packet
                    too, and leave out what is there)

A packet that was sent again and lost again waits for the timeout.
Source: IRN, section 3.1 (recalled).
"""


class Scoreboard:
    """Numbers are whole; `acknowledged` and `next` are the outbox's."""

    def __init__(self, first: int) -> None:
        self.have: set[int] = set()  # beyond the first gap
        self._ends: int | None = None  # of the recovery
        self._look = first  # all before this were sent again in this recovery, or need not be
        self._lost = first  # all before this that the peer has not are lost
        self._highest = first

    @property
    def recovering(self) -> bool:
        return self._ends is not None

    def gap(self, came: int, acknowledged: int, next: int) -> bool:
        """The peer has `came`, ahead of a gap; whether a recovery begins."""
        self.have.add(came)
        self._highest = max(self._highest, came)
        begins = self._ends is None
        if begins:
            self._ends, self._look = next, acknowledged
        self._lost = max(self._lost, acknowledged + 1, self._highest)
        return begins

    def timeout(self, acknowledged: int, next: int) -> None:
        self._ends, self._look, self._lost = next, acknowledged, next

    def advance(self, before: int, acknowledged: int) -> int:
        """All before `acknowledged` is there, and was before `before`; how many more that are."""
        known = [sequence for sequence in range(before, acknowledged) if sequence in self.have] if self.have else ()
        self.have.difference_update(known)
        self._look = max(self._look, acknowledged)
        self._lost = max(self._lost, acknowledged)
        if self._ends is not None and acknowledged >= self._ends:
            self._ends = None
        return acknowledged - before - len(known)

    def lost(self, most: int) -> tuple[int, int] | None:
        """The next packets [first, end) to send again, at most `most` of them."""
        while self._look < self._lost and self._look in self.have:
            self._look += 1
        if self._look >= self._lost:
            return None
        end = self._look + 1
        while end < self._lost and end - self._look < most and end not in self.have:
            end += 1
        return self._look, end

    def sent_again(self, end: int) -> None:
        """All before `end` that `lost` told of were."""
        self._look = end

    def clear(self, sequence: int) -> None:
        """Nothing is under way; `sequence` comes next."""
        self.have.clear()
        self._ends, self._look, self._lost, self._highest = None, sequence, sequence, sequence
