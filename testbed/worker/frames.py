"""What a NIC puts into UDP: how the packets of a run are laid out for one system call, and taken apart again."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from testbed import netcore
from testbed.transport.endpoint import Buffer, Burst
from testbed.transport.framing import HEADER_MASK, Framing

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


def frames_of(framing: Framing, own_ip: int) -> Frames:
    """How a host of that address has it."""
    return RoceFrames(framing, own_ip) if framing.checksum == "icrc" else PlainFrames(framing)


class RoceFrames:
    """RoCEv2: header, payload, padding, ICRC."""

    _ADDED_BYTES = 80 + 8  # most that headers, pad and ICRC add to a segment

    def __init__(self, framing: Framing, own_ip: int) -> None:
        self.port = framing.port
        self._own_ip = own_ip
        self._opcodes = framing.headers
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
    """Header and payload as they are; how long a header is, its first byte tells."""

    def __init__(self, framing: Framing) -> None:
        self.port = framing.port
        self._header_bytes = bytes(size & HEADER_MASK for size in framing.headers)
        self._sizes = np.frombuffer(self._header_bytes, np.uint8)

    def lay_out(self, burst: Burst, target_ip: int, *, segmented: bool) -> Sequence[Piece]:
        length, size = len(burst.headers[0]), burst.segment_bytes
        if any(len(header) != length for header in burst.headers):
            alone = [
                burst._replace(headers=(header,), payload=burst.payload[index * size : (index + 1) * size])
                for index, header in enumerate(burst.headers)
            ]
            return [piece for each in alone for piece in self.lay_out(each, target_ip, segmented=segmented)]
        packets, payload = burst.packets, np.frombuffer(burst.payload, np.uint8)
        headers = np.frombuffer(b"".join(burst.headers), np.uint8).reshape(packets, length)
        whole = packets if len(payload) == packets * size else packets - 1  # the last may be shorter
        data = np.empty(packets * length + len(payload), np.uint8)
        body, last = np.split(data, [whole * (length + size)])
        rows = body.reshape(whole, length + size)
        rows[:, :length] = headers[:whole]
        rows[:, length:] = payload[: whole * size].reshape(whole, size)
        if whole < packets:
            last[:length] = headers[whole]
            last[length:] = payload[whole * size :]
        return [Piece(data.data, length + size if whole else len(data))]

    def take_apart(
        self,
        data: memoryview,
        segment_bytes: int,
        source_ip: int,  # noqa: ARG002
        source_port: int,  # noqa: ARG002
    ) -> tuple[Sequence[Run], int, int]:
        size = min(segment_bytes or len(data), len(data))
        if size == len(data):
            length = self._header_bytes[data[0]] if size else 0
            if not 0 < length <= size:
                return (), 0, 1
            return [((bytes(data[:length]),), data[length:], size - length)], 0, 0
        whole = len(data) // size
        runs: list[Run] = []
        malformed = 0
        for part in (data[: whole * size], data[whole * size :]):
            if not part:
                continue
            rows = np.frombuffer(part, np.uint8).reshape(-1, min(size, len(part)))
            lengths = self._sizes[rows[:, 0]]
            for same in np.split(rows, np.flatnonzero(np.diff(lengths)) + 1):
                length = int(self._sizes[same[0, 0]])
                if not 0 < length <= same.shape[1]:
                    malformed += len(same)
                    continue
                headers = np.ascontiguousarray(same[:, :length]).view(f"V{length}")[:, 0].tolist()
                payload = np.ascontiguousarray(same[:, length:])
                runs.append((tuple(headers), payload.data.cast("B") if payload.size else b"", payload.shape[1]))
        return runs, 0, malformed
