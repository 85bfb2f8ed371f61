"""Named streams of randomness, all derived from the run's seed, so that every draw can be made again.

A stream's name is a path of words and numbers, e.g. `("stall", rank, iteration)`; two streams never share draws.
"""

import hashlib
import random

DRAWS = 1 << 64  # as many numbers there are that `derive` may give


def derive(seed: int, *name: str | int) -> int:
    """A 64-bit number for the stream `name` under `seed` (BLAKE2b of both)."""
    text = repr((seed, *name)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def share(seed: int, *name: str | int) -> float:
    """A number from 0, included, to 1, for the stream `name` under `seed`."""
    return min(derive(seed, *name) / DRAWS, 1 - 2**-53)  # a float may round up to 1


def stream(seed: int, *name: str | int) -> random.Random:
    """The generator of the stream `name` under `seed`."""
    return random.Random(derive(seed, *name))
