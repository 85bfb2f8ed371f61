"""How many chunks a worker of a best-effort job has under way: ATP's congestion control (NSDI 2021, section 3.4).

It grows by a packet for each result up to a threshold, and beyond by a packet in a window's time. It is halved, and
the threshold with it, when a result says that a queue was deep (ECN): once for all that was sent before that. Losses
leave it alone, as in ATP. ATP begins with 200 packets of 306 bytes, the path's BDP at 100 Gb/s (recalled), ours with
all slots.
"""


class Window:
    """From 1 to `most` chunks, at first all of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._chunks = float(most)
        self._threshold = most / 2
        self._cut_ns = -1

    @property
    def chunks(self) -> int:
        return int(self._chunks)

    def grow(self, results: int) -> None:
        """Results came that tell of no congestion."""
        slow_start = self._chunks < self._threshold
        grown = self._chunks + (results if slow_start else results / self._chunks)
        self._chunks = min(grown, float(self._most))

    def cut(self, sent_ns: int, now: int) -> None:
        """What was sent at `sent_ns` met congestion."""
        if sent_ns > self._cut_ns:
            self._chunks = self._threshold = max(1.0, self._chunks / 2)
            self._cut_ns = now
