"""Runs as UDP payloads and back: plain ones, and RoCE-framed ones that are messages of their own."""

from typing import Any

import pytest

from testbed.transport.endpoint import Burst
from testbed.wire import aggregation
from testbed.wire.aggregation import Header, Kind
from testbed.worker.frames import Frames, Piece, PlainFrames, aggregation_frames

OWN, OTHER = 0x0A000002, 0x0AFF0001
VALUES = bytes(range(128))  # 32 values


def header(slot: int, values: int = 32) -> bytes:
    return aggregation.encode(Header(Kind.ADD, 1, 0, slot, 0, values, slot))


def burst(*headers: bytes, payload: bytes = b"", segment_bytes: int = 0) -> Burst:
    return Burst(-1, 5000, 26, 0, 0, segment_bytes, headers, payload)


def taken(frames: Frames, piece: Piece, port: int = 5000) -> Any:
    runs, corrupt, malformed = frames.take_apart(memoryview(bytearray(piece.data)), piece.segment_bytes, OWN, port)
    return [(headers, bytes(payload), size) for headers, payload, size in runs], corrupt, malformed


def test_plain_packets_are_header_and_values() -> None:
    frames = PlainFrames(48864, 16)
    sent = burst(header(0), header(1), payload=VALUES + VALUES[::-1], segment_bytes=128)
    (piece,) = frames.lay_out(sent, OTHER, segmented=True)
    assert bytes(piece.data) == header(0) + VALUES + header(1) + VALUES[::-1]
    assert piece.segment_bytes == 16 + 128
    assert taken(frames, piece) == ([(sent.headers, sent.payload, 128)], 0, 0)


def test_exponents_alone_have_no_payload() -> None:
    frames = PlainFrames(48864, 16)
    (piece,) = frames.lay_out(burst(header(0, 0), header(1, 0)), OTHER, segmented=True)
    assert (bytes(piece.data), piece.segment_bytes) == (header(0, 0) + header(1, 0), 16)
    assert taken(frames, piece) == ([((header(0, 0), header(1, 0)), b"", 0)], 0, 0)


@pytest.mark.parametrize("segment_bytes", [0, 200])
def test_a_datagram_of_one_packet(segment_bytes: int) -> None:
    piece = Piece(memoryview(header(3) + VALUES), segment_bytes)
    assert taken(PlainFrames(48864, 16), piece) == ([((header(3),), VALUES, 128)], 0, 0)


def test_a_last_packet_may_be_shorter_and_too_short() -> None:
    frames = PlainFrames(48864, 16)
    both = Piece(memoryview(header(0) + VALUES + header(1, 0)), 144)
    assert taken(frames, both) == ([((header(0),), VALUES, 128), ((header(1, 0),), b"", 0)], 0, 0)
    assert taken(frames, Piece(memoryview(header(0) + VALUES + b"short"), 144)) == ([((header(0),), VALUES, 128)], 0, 1)


def test_roce_framing_checks_each_packet_and_each_is_a_run() -> None:
    own, other = aggregation_frames(OWN, "roce"), aggregation_frames(OTHER, "roce")
    headers = tuple(aggregation.bth(slot, slot) + header(slot) for slot in range(2))
    (piece,) = own.lay_out(burst(*headers, payload=VALUES * 2, segment_bytes=128), OTHER, segmented=True)
    assert piece.segment_bytes == 12 + 16 + 128 + 4
    assert taken(other, piece) == ([((each,), VALUES, 128) for each in headers], 0, 0)
    broken = bytearray(piece.data)
    broken[40] ^= 1
    assert taken(other, Piece(memoryview(broken), piece.segment_bytes)) == ([((headers[1],), VALUES, 128)], 1, 0)
