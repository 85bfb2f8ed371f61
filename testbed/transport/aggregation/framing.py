"""Headers of many packets at once, between bytes and arrays, in either framing (`testbed.wire.aggregation`).

A header is a pair of 64-bit words here. The first is all that says where a packet belongs,

    kind 8 | job 8 | worker 16 | version 1, slot 15 | values 16

so that one comparison tells whether a result is the one that is waited for; the second has chunk 32 | exponent 8 | 24.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from testbed.wire.aggregation import HEADER_BYTES, MOST_SLOTS, UC_SEND_ONLY, Kind
from testbed.wire.roce import BTH_BYTES, DEFAULT_PKEY, PSN_MODULUS

VERSION = 1 << 31
VALUES = 0xFFFF
_SLOT_SHIFT, _WORKER_SHIFT, _JOB_SHIFT, _KIND_SHIFT = 16, 32, 48, 56
_CHUNK_SHIFT, _EXPONENT_SHIFT = 32, 24

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


def encode_adds(results: Words, chunks: Words, exponents: npt.NDArray[np.int8], worker: int, roce: bool) -> list[bytes]:
    """The headers of what `worker` sends to get results with these first words.

    In RoCE framing the queue pair is the slot and the PSN the chunk's number.
    """
    framed = np.empty(len(results), _FRAMED[roce])
    words = framed["words"]
    words[:, 0] = results ^ ((Kind.RESULT ^ Kind.ADD) << _KIND_SHIFT | worker << _WORKER_SHIFT)
    words[:, 1] = chunks << _CHUNK_SHIFT | exponents.view(np.uint8).astype(np.int64) << _EXPONENT_SHIFT
    if roce:
        bth = framed["bth"]
        bth["opcode"], bth["flags"], bth["key"] = UC_SEND_ONLY, 0, DEFAULT_PKEY
        bth["queue_pair"], bth["psn"] = slots_of(results), chunks % PSN_MODULUS
    encoded: list[bytes] = framed.view(f"V{framed.itemsize}").tolist()
    return encoded


def decode(data: Iterable[bytes], roce: bool) -> tuple[Words, Words, npt.NDArray[np.int8]]:
    """First words, chunks and exponents of `data`, each of `header_bytes`; a first word behind a BTH that is not ours
    is 0, which is no packet's."""
    framed = np.frombuffer(b"".join(data), _FRAMED[roce])
    words = framed["words"].astype(np.int64)
    first, second = words[:, 0], words[:, 1]
    if roce:
        first[framed["bth"]["opcode"] != UC_SEND_ONLY] = 0
    return first, second >> _CHUNK_SHIFT & 0xFFFFFFFF, (second >> _EXPONENT_SHIFT).astype(np.int8)
