"""What a NIC puts into UDP: how the packets of a run are laid out for one system call, and taken apart again."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from testbed import netcore
from testbed.transport.endpoint import Buffer, Burst
from testbed.wire import aggregation, roce

ROCE_PORT = roce.UDP_PORT

Run = tuple[tuple[bytes, ...], Buffer, int]  # headers, payloads end to end, bytes of each but the last


class Piece(NamedTuple):
    """Wire packets of one size, but the last, that leave with one system call."""

    data: memoryview
    segment_bytes: int


class Frames(Protocol):
    """A wire format. Addresses are IPv4 as numbers."""

    port: int

    def lay_out(self, burst: Burst, target_ip: int, *, segmented: bool) -> Sequence[Piece]:
        """What is sent of a run, valid until the next is laid out."""

    def take_apart(
        self, data: memoryview, segment_bytes: int, source_ip: int, source_port: int
    ) -> tuple[Sequence[Run], int, int]:
        """The runs in a datagram, which may be rewritten, and how many of its packets are corrupt, and malformed."""


class RoceFrames:
    """RoCEv2: header, payload, padding, ICRC. `opcodes`: as `netcore.roce_decode` takes them."""

    port = ROCE_PORT
    _ADDED_BYTES = 80 + 8  # most that headers, pad and ICRC add to a segment

    def __init__(self, own_ip: int, opcodes: bytes = roce.OPCODES) -> None:
        self._own_ip = own_ip
        self._opcodes = opcodes
        self._room = bytearray()

    def lay_out(self, burst: Burst, target_ip: int, *, segmented: bool) -> Sequence[Piece]:
        needed = len(burst.payload) + burst.packets * self._ADDED_BYTES
        if needed > len(self._room):
            self._room = bytearray(needed)
        pieces = netcore.roce_encode(
            self._room,
            burst.headers,
            burst.payload,
            burst.segment_bytes,
            self._own_ip,
            target_ip,
            burst.source_port,
            self.port,
            segmented,
        )
        view = memoryview(self._room)
        return [Piece(view[offset : offset + size], segment) for offset, size, segment in pieces]

    def take_apart(
        self, data: memoryview, segment_bytes: int, source_ip: int, source_port: int
    ) -> tuple[Sequence[Run], int, int]:
        return netcore.roce_decode(data, segment_bytes, source_ip, self._own_ip, source_port, self.port, self._opcodes)


class PlainFrames:
    """Header and payload as they are: all packets of a run are of one size."""

    def __init__(self, port: int, header_bytes: int) -> None:
        self.port = port
        self._header_bytes = header_bytes

    def lay_out(self, burst: Burst, target_ip: int, *, segmented: bool) -> Sequence[Piece]:  # noqa: ARG002
        packets, payload = burst.packets, np.frombuffer(burst.payload, np.uint8)
        rows = np.empty((packets, self._header_bytes + len(payload) // packets), np.uint8)
        rows[:, : self._header_bytes] = np.frombuffer(b"".join(burst.headers), np.uint8).reshape(packets, -1)
        rows[:, self._header_bytes :] = payload.reshape(packets, -1)
        return [Piece(rows.data.cast("B"), rows.shape[1])]

    def take_apart(
        self,
        data: memoryview,
        segment_bytes: int,
        source_ip: int,  # noqa: ARG002
        source_port: int,  # noqa: ARG002
    ) -> tuple[Sequence[Run], int, int]:
        size = min(segment_bytes or len(data), len(data))
        whole = len(data) // size
        runs, malformed = [], 0
        for part in (data[: whole * size], data[whole * size :]):
            if not part:
                continue
            rows = np.frombuffer(part, np.uint8).reshape(-1, min(size, len(part)))
            if rows.shape[1] < self._header_bytes:
                malformed += len(rows)
                continue
            headers = np.ascontiguousarray(rows[:, : self._header_bytes]).view(f"V{self._header_bytes}")[:, 0].tolist()
            payload = np.ascontiguousarray(rows[:, self._header_bytes :])
            runs.append((tuple(headers), payload.data.cast("B") if payload.size else b"", payload.shape[1]))
        return runs, 0, malformed


def aggregation_frames(own_ip: int, framing: str) -> Frames:
    """Those of in-network aggregation: `udp`, or `roce`, whose packets are messages of their own."""
    if framing == "udp":
        return PlainFrames(aggregation.UDP_PORT, aggregation.HEADER_BYTES)
    opcodes = bytearray(256)
    opcodes[aggregation.UC_SEND_ONLY] = 0x80 | (roce.BTH_BYTES + aggregation.HEADER_BYTES)
    return RoceFrames(own_ip, bytes(opcodes))
