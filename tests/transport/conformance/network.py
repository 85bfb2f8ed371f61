"""The hand-pumped network, which watches: runs are well formed, budgets are kept, and nothing is due for ever."""

from collections.abc import Callable
from dataclasses import dataclass

from testbed.transport.endpoint import Arrival, Burst
from tests.transport.pump import Network

_MOST_TURNS = 300  # at one instant; an endpoint that has done nothing in so many never will

Mangle = Callable[[Arrival], Arrival]


@dataclass
class Watched(Network):
    """early: `Sent` may come while packets fly, whose payloads are copied then, as drivers do. most_packets: of a run.
    looks: called after each turn, when all that may be sent has been."""

    early: bool = False
    most_packets: int = 1 << 30
    mangle: Mangle = lambda run: run
    looks: Callable[[int], None] = lambda _: None
    _looked_ns: int = -1
    _turns: int = 0

    def _look(self) -> None:
        self._turns = self._turns + 1 if self.now == self._looked_ns else 0
        self._looked_ns = self.now
        assert self._turns < _MOST_TURNS, f"at {self.now} ns something is due, and nothing is done about it"
        super()._look()
        self.looks(self.now)

    def _send(self, budget_packets: int) -> bool:
        sent = False
        for sender, end in enumerate(self.ends):
            bursts = end.transmit(self.now, budget_packets)
            assert sum(burst.packets for burst in bursts) <= budget_packets
            for burst in bursts:
                sent = True
                self._check(sender, burst)
                if self.early:
                    burst = burst._replace(payload=bytes(burst.payload))  # noqa: PLW2901
                self.log.append((self.now, sender, burst))
                if burst.not_before_ns <= self.now:
                    self._launch(sender, burst)
                else:
                    self.at(burst.not_before_ns, lambda _, sender=sender, burst=burst: self._launch(sender, burst))
        return sent

    def _check(self, sender: int, burst: Burst) -> None:
        assert burst.peer != sender
        assert 0 <= burst.peer < len(self.ends)
        assert 1 <= burst.packets <= self.most_packets
        assert 0 <= burst.source_port < 1 << 16
        assert 0 <= burst.dscp < 64
        assert 0 <= burst.ecn < 4
        size, packets = len(burst.payload), burst.packets
        assert size <= packets * burst.segment_bytes or not size
        assert packets == 1 or size > (packets - 1) * burst.segment_bytes, "a run's packets are full but the last"

    def _fly(self, at_ns: int, target: int, run: Arrival) -> None:
        super()._fly(at_ns, target, self.mangle(run))
