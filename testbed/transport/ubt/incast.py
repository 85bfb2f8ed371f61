"""How many senders at a time receivers ask for, and senders obey.

A receiver tells it in every packet. It grows by one with every stage that lost nothing, and is halved by one that did
(that it moves so: a reading note; by how much: recalled). Senders take the least that anybody asks for, so that all
rounds are alike (recalled).
"""

from testbed.transport.ubt.parameters import Constants


class Incast:
    """What this rank asks for, and what its peers do."""

    def __init__(self, constants: Constants, peers: int) -> None:
        self.asked = constants.incast  # by this rank
        self._most = max(1, min(constants.incast_most, peers))
        self._heard: dict[int, int] = {}

    def ended(self, lost_bytes: int) -> None:
        """A stage has lost so much."""
        self.asked = max(1, self.asked // 2) if lost_bytes else min(self._most, self.asked + 1)

    def heard(self, peer: int, senders: int) -> None:
        """A peer asks for so many; 0: it does not say."""
        if senders:
            self._heard[peer] = senders

    @property
    def receivers(self) -> int:
        """To how many peers this rank sends at a time."""
        return min(self._heard.values(), default=self.asked)
