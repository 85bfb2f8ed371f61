"""The UDP source ports of a rank's packets: all in turn, in an order that is drawn anew once all had theirs.

As NDP's senders take the paths through the network, and public htsim's entropies. Ports are those of the rank, whoever
the peer, since a driver may keep a socket for each; switches hash the addresses too.
"""

from testbed.streams import derive, stream

_FIRST, _PORTS = 0xC000, 0x4000  # RoCEv2's convention for ports that tell flows apart


class Spray:
    """Of what a rank sends to `peer`; all its peers' have the same ports."""

    def __init__(self, entropies: int, rank: int, peer: int, seed: int) -> None:
        own = derive(seed, "entropies", rank)
        self._ports = [_FIRST + (own + number) % _PORTS for number in range(entropies)]
        self._draws = stream(seed, "spray", rank, peer)
        self._left: list[int] = []

    def port(self) -> int:
        """That of the next packet."""
        if not self._left:
            self._draws.shuffle(self._ports)
            self._left = self._ports.copy()
        return self._left.pop()
