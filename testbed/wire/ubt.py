"""OptiReduce's UBT packets: a 9-byte header in UDP, port 11000, and a piece of a message. Encode and decode, no state.

    bucket 16 | byte offset 32 | timeout 16 | last percentile 4 | incast 4          all of it big-endian

Source: the five fields are the paper's, by a reading note; their widths are recalled, and sum up to the 9 bytes that
it states. Our readings:
  - bucket: 2 x the number of the collective, + 1 where what comes is copied (the gather). The public code has a UDP
    port for each of those, 11000 to 11003; here the low bits tell.
  - byte offset: in all that the sender has for this receiver in that bucket and half, end to end in the order of tags
    (with Transpose AllReduce that is one shard).
  - timeout: how long the sender took for the stage before this one, in units of the transport's `tick`; 0: not known.
  - last percentile: LAST in packets of the last hundredth of a message (the public code's flag `last`); two values tell
    packets without a payload: FEEDBACK answers the packet of the same bucket and offset, and by NOTICE the sender says
    that it has come to the stage whose number is in `byte offset`.
  - incast: how many senders at a time the packet's sender is willing to receive from; 0: it does not say.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from testbed.wire import MalformedError

UDP_PORT = 11_000  # the first of the public code's
HEADER_BYTES = 9
MOST_TIMEOUT = (1 << 16) - 1
MOST_INCAST = (1 << 4) - 1
BUCKETS = 1 << 16

PLAIN, LAST, NOTICE, FEEDBACK = 0, 1, 14, 15
_MARKS = (PLAIN, LAST, NOTICE, FEEDBACK)
_LAYOUT = struct.Struct(">HIHB")


class Header(NamedTuple):
    """A decoded header; `mark` is the field `last percentile`."""

    bucket: int
    offset: int
    timeout: int = 0
    mark: int = PLAIN
    incast: int = 0


def encode(header: Header) -> bytes:
    """Its 9 bytes."""
    return _LAYOUT.pack(header.bucket, header.offset, header.timeout, header.mark << 4 | header.incast)


def encode_run(bucket: int, offsets: Iterable[int], timeout: int, incast: int, last_from: int) -> tuple[bytes, ...]:
    """Headers of data packets at `offsets`, marked as the last from the offset `last_from` on."""
    pack = _LAYOUT.pack
    return tuple(
        pack(bucket, offset, timeout, (LAST if offset >= last_from else PLAIN) << 4 | incast) for offset in offsets
    )


def decode(header: bytes) -> Header:
    """Undoes `encode`; raises MalformedError."""
    if len(header) != HEADER_BYTES:
        raise MalformedError(f"{len(header)} bytes are no UBT header")
    bucket, offset, timeout, low = _LAYOUT.unpack(header)
    if low >> 4 not in _MARKS:
        raise MalformedError(f"last percentile {low >> 4}: one of {', '.join(map(str, _MARKS))} is wanted")
    return Header(bucket, offset, timeout, low >> 4, low & MOST_INCAST)
