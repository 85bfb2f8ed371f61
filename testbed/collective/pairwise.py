"""Pairwise exchange: in each step of all-to-all disjoint pairs of ranks swap the chunks they have for each other.

The pairs are those of a round-robin tournament (the circle method), so that every two ranks meet exactly once:
n-1 steps for even n; n for odd n, in which each rank rests once. The barrier keeps the pairs disjoint in
time too: without it each rank would send to all others at once.
"""

import numpy as np

from testbed.collective.schedule import COPY, Schedule, transfers


def generate(collective: str, ranks: int, root: int) -> Schedule:
    circle = ranks - 1 + ranks % 2  # odd
    step, source = np.ogrid[:circle, :ranks]
    peer = (step - source) % circle
    if ranks > circle:  # the last rank meets the one that would meet itself
        rests = step * (circle + 1) // 2 % circle  # 2 * rests = step, modulo circle
        peer = np.where(source == circle, rests, np.where(source == rests, circle, peer))
    rows = transfers(step, source, peer, peer, COPY, at=source)
    return Schedule(
        collective, "pairwise", ranks, ranks, rows[rows["source"] != rows["destination"]], barrier=True, root=root
    )
