"""All messages on one network: what happens next, and who gets what of each link from then on.

Between two instants at which a message leaves or has left, or a link changes, all rates are constant. Where all are
alike, as in a step of most schedules on a network without collisions, a step of any number of ranks is one such
instant. Where they are not, some are taken together, at most one in `ONE_IN` of all that are under way: each message
keeps its own instants, and only what it leaves to the others, or takes from them, counts from the last of these on.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from testbed.simulation.messages.flows import BYTE_RATE, Flows, Links
from testbed.simulation.messages.routes import one_below_another
from testbed.simulation.messages.sharing import max_min
from testbed.topology.graph import LinkParameters

ONE_IN = 128  # our choice: 1,024 ranks then end within 1 % of where they do one by one; fewer than so many are exact
_OF_HALF = 16  # and what is further off than this part of the time in which half of all happen is not taken together
_SAME_NS = 1e-3  # what differs by so little is at one instant


class Network:
    """Links by index as in the graph, and the flows on them. Times are ns of the whole run."""

    def __init__(self, links: Sequence[LinkParameters], one_in: int = ONE_IN) -> None:
        self.now_ns = 0.0
        self.instants = 0  # at which something happened
        self._links = Links.of(links)
        self._rate = self._links.capacity.copy()
        self._down = np.zeros(len(self._rate), bool)
        self._one_in = one_in
        self._flows: list[Flows] = []

    def add(self, flows: Flows) -> None:
        """Let the messages of an iteration go."""
        self._flows.append(flows)

    def remove(self, flows: Flows) -> None:
        """Forget an iteration that is done."""
        self._flows.remove(flows)

    @property
    def next_ns(self) -> float:
        """When the next thing happens; infinity: nothing ever will."""
        return min((flows.next_ns for flows in self._flows), default=np.inf)

    def turn(self, before_ns: float) -> None:
        """Let happen what does at `next_ns` and shortly after, up to `before_ns`."""
        until_ns, changed, last = min(self._together_ns(), before_ns), False, -np.inf
        for flows in self._flows:
            other, latest = flows.turn(until_ns, self._links)
            changed, last = changed or other, max(last, latest)
        self.instants += 1
        self.now_ns = max(self.now_ns, last)
        if changed:
            self._share()

    def _together_ns(self) -> float:
        """Until when what happens next is taken together."""
        next_ns = self.next_ns
        to_come = np.concatenate([flows.to_come_ns for flows in self._flows])
        few = len(to_come) // self._one_in
        if few:
            some, half = np.partition(to_come, (few, len(to_come) // 2))[[few, len(to_come) // 2]]
            return max(min(float(some), next_ns + float(half - next_ns) / _OF_HALF), next_ns + _SAME_NS)
        return next_ns + _SAME_NS

    def change(self, at_ns: float, links: Mapping[int, LinkParameters]) -> None:
        """Some links are different from an instant on; nothing may have happened after it."""
        for index, link in links.items():
            rate = link.rate_bps / BYTE_RATE
            self._rate[index], self._links.byte_ns[index] = rate, 1 / rate
            self._links.delay_ns[index] = link.delay_ns
        self._set(at_ns)

    def set_down(self, at_ns: float, links: Sequence[int], *, down: bool) -> None:
        """These links carry nothing from an instant on, or what they did before."""
        self._down[list(links)] = down
        self._set(at_ns)

    def _set(self, at_ns: float) -> None:
        self._links.capacity = np.where(self._down, 0.0, self._rate)
        self.now_ns = max(self.now_ns, at_ns)
        self._share()

    def _share(self) -> None:
        """Max-min fair rates for all that are active."""
        ways = [flows.ways for flows in self._flows]
        back = np.concatenate([flows.returning for flows in self._flows])
        rates, first = max_min(one_below_another(ways, len(self._rate) - 1), back, self._links.capacity[:-1]), 0
        for flows, way in zip(self._flows, ways, strict=True):
            flows.share(self.now_ns, rates[first : first + len(way)])
            first += len(way)
