"""Which algorithms serve which collectives, and over how many ranks."""

from testbed.collective import ALGORITHMS

SERVED = [(name, collective) for name, algorithm in ALGORITHMS.items() for collective in algorithm.collectives]


def fitting(name: str, collective: str, ranks: int) -> int:
    """`ranks`, or for what does powers of two alone the next below."""
    return 1 << (ranks.bit_length() - 1) if (name, collective) == ("bruck", "all-to-all") else ranks
