"""When a packet counts as lost: once so many that were sent after it have been answered. RACK's rule (RFC 8985, 6.2).

RACK waits a quarter of a round trip, in which packets may overtake each other; a quarter more after each round trip in
which something was sent again that had not been lost; and a quarter again once it has recovered 16 times since. Counted
in our packets a quarter of a round trip is a quarter of the slots. That a packet had not been lost shows when its
result comes too soon after it was sent again (as Eifel has it, RFC 3522): in less than half of the round trip.
"""

_RECOVERIES = 16  # RFC 8985, 6.2, step 4


class Reordering:
    """Of `least` packets to `most`. Packets have numbers in the order in which they are sent."""

    def __init__(self, least: int, most: int) -> None:
        self.packets = least  # how many; of what was sent again already twice as many
        self._least = least
        self._most = most
        self._left = 0  # recoveries until it is narrow again
        self._recovered = self._widened = 0  # the first number of the round trip after the last recovery, or widening

    def recovers(self, answered: int, following: int) -> None:
        """Something is sent again, now that packet `answered` has been; `following`: the number of the next packet."""
        if answered >= self._recovered:
            self._recovered = following
            self._left -= 1
            if self._left <= 0:
                self.packets = self._least

    def erred(self, again: int, following: int) -> None:
        """What was sent again, as packet `again`, had not been lost."""
        if again >= self._widened:
            self._widened = following
            self._left = _RECOVERIES
            self.packets = min(self.packets + self._least, self._most)
