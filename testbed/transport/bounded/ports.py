"""The UDP source ports of a flow's packets: one for all, or another for each so that networks which hash spray."""

from collections.abc import Callable
from itertools import count

from testbed.streams import stream
from testbed.transport.roce.address import source_port

FIXED, RANDOM, ROUND_ROBIN = "fixed", "random", "round-robin"
_FIRST, _PORTS = 0xC000, 0x4000  # RoCEv2's convention for ports that tell flows apart


def ports(way: str, entropies: int, rank: int, peer: int, ranks: int, seed: int) -> Callable[[], int]:
    """What gives the ports from `rank` to `peer`, one after the other; there are `entropies` different ones."""
    own = source_port(rank, peer, ranks, seed) - _FIRST
    if way == FIXED:
        return lambda: _FIRST + own
    if way == RANDOM:
        draws = stream(seed, "ports", rank, peer)
        return lambda: _FIRST + (own + draws.randrange(entropies)) % _PORTS
    turns = count()
    return lambda: _FIRST + (own + next(turns) % entropies) % _PORTS
