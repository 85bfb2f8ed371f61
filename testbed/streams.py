"""Named streams of randomness, all derived from the run's seed, so that every draw can be made again.

A stream's name is a path of words and numbers, e.g. `("stall", rank, iteration)`; two streams never share draws.
"""

import hashlib
import random


def derive(seed: int, *name: str | int) -> int:
    """A 64-bit number for the stream `name` under `seed` (BLAKE2b of both)."""
    text = repr((seed, *name)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def stream(seed: int, *name: str | int) -> random.Random:
    """The generator of the stream `name` under `seed`."""
    return random.Random(derive(seed, *name))
