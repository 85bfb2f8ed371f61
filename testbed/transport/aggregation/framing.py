"""Headers of many packets at once, between bytes and arrays, in either framing (`testbed.wire.aggregation`)."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from testbed.wire.aggregation import HEADER_BYTES, MOST_SLOTS, UC_SEND_ONLY, Kind
from testbed.wire.roce import BTH_BYTES, DEFAULT_PKEY, PSN_MODULUS

# As the wire module has it; `place` is the version above 15 bits of slot.
HEADER = np.dtype(
    [
        ("kind", "u1"),
        ("job", "u1"),
        ("worker", ">u2"),
        ("place", ">u2"),
        ("values", ">u2"),
        ("chunk", ">u4"),
        ("exponent", "i1"),
        ("unused", "V3"),
    ]
)
_BTH = np.dtype([("opcode", "u1"), ("flags", "u1"), ("key", ">u2"), ("queue_pair", ">u4"), ("psn", ">u4")])
_BEHIND_BTH = np.dtype([("bth", _BTH), ("header", HEADER)])
assert HEADER.itemsize == HEADER_BYTES
assert _BTH.itemsize == BTH_BYTES

Headers = npt.NDArray[np.void]
Integers = npt.NDArray[np.integer]


def header_bytes(roce: bool) -> int:
    """How long what stands before the values is."""
    return _BEHIND_BTH.itemsize if roce else HEADER_BYTES


def adds(
    job: int, worker: int, values: int, slots: Integers, versions: Integers, chunks: Integers, exponents: Integers
) -> Headers:
    """The headers of contributions, one a slot."""
    headers = np.zeros(len(slots), HEADER)
    headers["kind"] = Kind.ADD
    headers["job"] = job
    headers["worker"] = worker
    headers["place"] = slots + MOST_SLOTS * versions
    headers["values"] = values
    headers["chunk"] = chunks & 0xFFFFFFFF
    headers["exponent"] = exponents
    return headers


def encode(headers: Headers, roce: bool) -> tuple[bytes, ...]:
    """The bytes of each. In RoCE framing the queue pair is the slot and the PSN the chunk's number."""
    if roce:
        framed = np.zeros(len(headers), _BEHIND_BTH)
        framed["header"] = headers
        bth = framed["bth"]
        bth["opcode"] = UC_SEND_ONLY
        bth["key"] = DEFAULT_PKEY
        bth["queue_pair"] = headers["place"] % MOST_SLOTS
        bth["psn"] = headers["chunk"] % PSN_MODULUS
        headers = framed
    return tuple(headers.view(f"V{headers.dtype.itemsize}").tolist())


def decode(data: Iterable[bytes], roce: bool) -> Headers:
    """The headers of `data`, each of `header_bytes`; what has another BTH than ours gets kind 0, which is none."""
    joined = b"".join(data)
    if not roce:
        return np.frombuffer(joined, HEADER)
    framed = np.frombuffer(joined, _BEHIND_BTH)
    headers = framed["header"].copy()
    headers["kind"][framed["bth"]["opcode"] != UC_SEND_ONLY] = 0
    return headers
