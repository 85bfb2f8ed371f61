"""Headers of many packets at once, between bytes and arrays, in either framing (`testbed.wire.aggregation`).

A header is a pair of 64-bit words here. The first is all that says where a packet belongs,

    kind 8 | job 8 | worker 16 | version 1, slot 15 | values 16

so that one comparison tells whether a result is the one that is waited for; the second has
chunk 32 | exponent 8 | flags 8 | upper 16, the last two of which are its *rest*.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from testbed.wire.aggregation import HEADER_BYTES, MOST_SLOTS, UC_SEND_ONLY, Kind
from testbed.wire.roce import BTH_BYTES, DEFAULT_PKEY, PSN_MODULUS

VERSION = 1 << 31
VALUES = 0xFFFF
SLOT = 0x7FFF << 16
_SLOT_SHIFT, _WORKER_SHIFT, _JOB_SHIFT, _KIND_SHIFT = 16, 32, 48, 56
_CHUNK_SHIFT, _EXPONENT_SHIFT, _FLAGS_SHIFT = 32, 24, 16

_WORDS = np.dtype((">i8", 2))
_BTH = np.dtype([("opcode", "u1"), ("flags", "u1"), ("key", ">u2"), ("queue_pair", ">u4"), ("psn", ">u4")])
_FRAMED = {False: np.dtype([("words", _WORDS)]), True: np.dtype([("bth", _BTH), ("words", _WORDS)])}
assert _WORDS.itemsize == HEADER_BYTES
assert _BTH.itemsize == BTH_BYTES

Words = npt.NDArray[np.int64]


def header_bytes(roce: bool) -> int:
    """How long what stands before the values is."""
    return _FRAMED[roce].itemsize


def results(job: int, slots: Words) -> Words:
    """The first words of results of `slots`, version 0, without values."""
    return slots << _SLOT_SHIFT | job << _JOB_SHIFT | Kind.RESULT << _KIND_SHIFT


def slots_of(first: Words) -> Words:
    """The slots in first words."""
    return first >> _SLOT_SHIFT & MOST_SLOTS - 1


def whose(first: Words) -> Words:
    """Kind and job in first words."""
    return first >> _JOB_SHIFT


def as_kinds(results: Words, kinds: Words | int, workers: Words | int) -> Words:
    """The first words of results made those of other kinds, of or for workers."""
    return results ^ (Kind.RESULT ^ kinds) << _KIND_SHIFT | workers << _WORKER_SHIFT


def encode(first: Words, chunks: Words, exponents: npt.NDArray[np.int8], flags: Words | int, roce: bool) -> list[bytes]:
    """Headers with these first words. In RoCE framing the queue pair is the slot and the PSN the chunk's number."""
    framed = np.empty(len(first), _FRAMED[roce])
    words = framed["words"]
    words[:, 0] = first
    words[:, 1] = chunks << _CHUNK_SHIFT | exponents.view(np.uint8).astype(np.int64) << _EXPONENT_SHIFT
    words[:, 1] |= flags << _FLAGS_SHIFT
    if roce:
        bth = framed["bth"]
        bth["opcode"], bth["flags"], bth["key"] = UC_SEND_ONLY, 0, DEFAULT_PKEY
        bth["queue_pair"], bth["psn"] = slots_of(first), chunks % PSN_MODULUS
    encoded: list[bytes] = framed.view(f"V{framed.itemsize}").tolist()
    return encoded


def flags_of(rest: Words) -> Words:
    """The flags in rests."""
    return rest >> _FLAGS_SHIFT


def bitmaps_of(first: Words, rest: Words) -> Words:
    """Whose contributions partial sums have."""
    return (first >> _WORKER_SHIFT & 0xFFFF) | (rest & 0xFFFF) << 16


def decode(data: Iterable[bytes], roce: bool) -> tuple[Words, Words, npt.NDArray[np.int8], Words]:
    """First words, chunks, exponents and rests of `data`, each of `header_bytes`; a first word behind a BTH that is not
    ours is 0, which is no packet's."""
    framed = np.frombuffer(b"".join(data), _FRAMED[roce])
    words = framed["words"].astype(np.int64)
    first, second = words[:, 0], words[:, 1]
    if roce:
        first[framed["bth"]["opcode"] != UC_SEND_ONLY] = 0
    exponents = (second >> _EXPONENT_SHIFT).astype(np.int8)
    return first, second >> _CHUNK_SHIFT & 0xFFFFFFFF, exponents, second & (1 << _EXPONENT_SHIFT) - 1
