"""Runs as UDP payloads and back: plain ones, and RoCE-framed ones that are messages of their own."""

from typing import Any

import pytest

from testbed.transport.endpoint import Burst
from testbed.transport.framing import Framing, of_aggregation, plain
from testbed.wire import aggregation
from testbed.wire.aggregation import Header, Kind
from testbed.worker.frames import Frames, Piece, frames_of

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
    frames = frames_of(plain(48864, 16), OWN)
    sent = burst(header(0), header(1), payload=VALUES + VALUES[::-1], segment_bytes=128)
    (piece,) = frames.lay_out(sent, OTHER, segmented=True)
    assert bytes(piece.data) == header(0) + VALUES + header(1) + VALUES[::-1]
    assert piece.segment_bytes == 16 + 128
    assert taken(frames, piece) == ([(sent.headers, sent.payload, 128)], 0, 0)


def test_exponents_alone_have_no_payload() -> None:
    frames = frames_of(plain(48864, 16), OWN)
    (piece,) = frames.lay_out(burst(header(0, 0), header(1, 0)), OTHER, segmented=True)
    assert (bytes(piece.data), piece.segment_bytes) == (header(0, 0) + header(1, 0), 16)
    assert taken(frames, piece) == ([((header(0, 0), header(1, 0)), b"", 0)], 0, 0)


@pytest.mark.parametrize("segment_bytes", [0, 200])
def test_a_datagram_of_one_packet(segment_bytes: int) -> None:
    piece = Piece(memoryview(header(3) + VALUES), segment_bytes)
    assert taken(frames_of(plain(48864, 16), OWN), piece) == ([((header(3),), VALUES, 128)], 0, 0)


def test_a_last_packet_may_be_shorter_and_too_short() -> None:
    frames = frames_of(plain(48864, 16), OWN)
    both = Piece(memoryview(header(0) + VALUES + header(1, 0)), 144)
    assert taken(frames, both) == ([((header(0),), VALUES, 128), ((header(1, 0),), b"", 0)], 0, 0)
    assert taken(frames, Piece(memoryview(header(0) + VALUES + b"short"), 144)) == ([((header(0),), VALUES, 128)], 0, 1)


def test_roce_framing_checks_each_packet_and_each_is_a_run() -> None:
    own, other = (frames_of(of_aggregation("roce"), address) for address in (OWN, OTHER))
    headers = tuple(aggregation.bth(slot, slot) + header(slot) for slot in range(2))
    (piece,) = own.lay_out(burst(*headers, payload=VALUES * 2, segment_bytes=128), OTHER, segmented=True)
    assert piece.segment_bytes == 12 + 16 + 128 + 4
    assert taken(other, piece) == ([((each,), VALUES, 128) for each in headers], 0, 0)
    broken = bytearray(piece.data)
    broken[40] ^= 1
    assert taken(other, Piece(memoryview(broken), piece.segment_bytes)) == ([((headers[1],), VALUES, 128)], 1, 0)


def test_a_message_of_its_own_format_goes_in_one_piece_with_a_shorter_last_packet() -> None:
    frames = frames_of(plain(11000, 9), OWN)
    sent = burst(b"first...1", b"second..2", b"third...3", payload=VALUES[:70], segment_bytes=32)
    (piece,) = frames.lay_out(sent, OTHER, segmented=True)
    assert bytes(piece.data) == b"first...1" + VALUES[:32] + b"second..2" + VALUES[32:64] + b"third...3" + VALUES[64:70]
    assert piece.segment_bytes == 9 + 32
    whole, last = taken(frames, piece)[0]
    assert whole == ((b"first...1", b"second..2"), VALUES[:64], 32)
    assert last == ((b"third...3",), VALUES[64:70], 6)


def test_headers_differ_in_length_by_their_first_byte() -> None:
    sizes = bytearray(256)
    sizes[1], sizes[2] = 16, 5
    frames = frames_of(Framing(20000, bytes(sizes), "udp", 16, 5), OWN)
    pieces = frames.lay_out(burst(b"\1" * 16, b"\2" * 5, payload=VALUES[:40], segment_bytes=30), OTHER, segmented=True)
    assert [bytes(piece.data) for piece in pieces] == [b"\1" * 16 + VALUES[:30], b"\2" * 5 + VALUES[30:40]]
    mixed = Piece(memoryview(b"\1" * 20 + b"\2" * 20 + b"\3" * 20 + b"\1" * 15), 20)
    assert taken(frames, mixed) == (
        [((b"\1" * 16,), b"\1" * 4, 4), ((b"\2" * 5,), b"\2" * 15, 15)],
        0,
        2,  # one of a kind that there is not, and one too short
    )


@pytest.mark.parametrize("sizes", [b"", bytes([8]) * 256])
def test_a_framing_must_make_sense(sizes: bytes) -> None:
    with pytest.raises(ValueError, match=r"a framing tells|a header has"):
        Framing(20000, sizes, "icrc", 12, 12)
