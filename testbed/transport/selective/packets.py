"""The packets of selective repeat, in RoCE's formats: data that says where it belongs, and what answers it.

Data is a WRITE ONLY: RETH address = offset in the message, key = its tag, length = of the whole message. An answer is
an ACKNOWLEDGE. One that acknowledges has the PSN of the last packet before the first gap, as RoCE's. One that tells of
a gap (NAK: PSN sequence error) has the PSN that is expected and, where RoCE's has the count of messages, the PSN of the
packet that came ahead: IRN's NACK{cumulative, sack}, whose place in the AETH is our choice. Others are RoCE's.
"""

import struct

from testbed.transport.framing import Framing
from testbed.wire.roce import (
    AETH_BYTES,
    BTH_BYTES,
    CREDITS_UNLIMITED,
    DEFAULT_PKEY,
    NAK_INVALID_REQUEST,
    NAK_REMOTE_ACCESS,
    NAK_SEQUENCE,
    OPCODES,
    RETH_BYTES,
    UDP_PORT,
    WRITE_ONLY,
    Aeth,
    acknowledgement,
    pad_bytes,
)

HEADER_BYTES = BTH_BYTES + RETH_BYTES
FRAMING = Framing(UDP_PORT, OPCODES, "icrc", HEADER_BYTES, BTH_BYTES + AETH_BYTES)
REFUSALS = {
    NAK_INVALID_REQUEST: "invalid request",
    NAK_REMOTE_ACCESS: "remote access error: no receive of that tag is so long",
}  # the syndromes by which a receiver ends a connection

_DATA = struct.Struct(">BBHIIQII")
_MASK = 0xFFFFFF


def data(queue_pair: int, sequence: int, asks: bool, offset: int, tag: int, length: int, payload_bytes: int) -> bytes:
    """The header of a packet with `payload_bytes` of a message; asks: for an acknowledgement."""
    flags = pad_bytes(payload_bytes) << 4
    psn = asks << 31 | sequence & _MASK
    return _DATA.pack(WRITE_ONLY, flags, DEFAULT_PKEY, queue_pair, psn, offset, tag, length)


def answer(queue_pair: int, expected: int, marked: bool) -> bytes:
    """All before `expected` is there. marked: the packets that it covers came so."""
    return acknowledgement(queue_pair, expected - 1 & _MASK, Aeth(CREDITS_UNLIMITED, 0), marked)


def ahead(queue_pair: int, expected: int, came: int, marked: bool) -> bytes:
    """All before `expected` is there, and so is the packet `came`."""
    return acknowledgement(queue_pair, expected & _MASK, Aeth(NAK_SEQUENCE, came & _MASK), marked)


def refusal(queue_pair: int, expected: int, syndrome: int) -> bytes:
    """All before `expected` is there, and something that came cannot be taken."""
    return acknowledgement(queue_pair, expected & _MASK, Aeth(syndrome, 0), False)
