"""The packets of transports with bounded loss: layouts written out by hand, and nothing else is taken for one."""

import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.wire import MalformedError, dblp, dlcp
from testbed.wire.bounded import Data, Feedback, Holes, Notice, Probe, Stop

CHUNK = 256


def test_a_chunk_of_dlcp():
    header = dlcp.data(0x01020304, 5, 2 * CHUNK, 10, 0x0A0B0C, asks=True, magnitude=dlcp.SMALL)
    assert header.hex(" ", 2) == "d021 0005 0102 0304 800a 0b0c 0000 0200 000a 0000"  # 2 bytes of padding, small
    assert dlcp.decode(header, 10, CHUNK) == Data(0x01020304, 2, 0x0A0B0C, True)


def test_what_dlcp_says_besides():
    said = {
        "d100 0007 0000 0009 0000 0000": (dlcp.probe(9, 7), Probe(9, 7)),
        "d200 0000 0000 0009 0000 0000": (dlcp.stop(9), Stop(9)),
        "d310 0007 0000 0009 0000 0800": (dlcp.holes(9, 2048, 7, 3), Holes(9, 2048, 7)),
        "d401 0000 0000 0000 7fff ffff": (dlcp.feedback(-1, marked=True), Feedback(2**31 - 1, True)),
        "d500 0000 0000 0000 0000 0000": (dlcp.notice(), Notice()),
    }
    for layout, (header, meaning) in said.items():
        assert header.hex(" ", 2) == layout
        assert dlcp.decode(header, 3 if isinstance(meaning, Holes) else 0, CHUNK) == meaning


def test_dblp():
    payload = b"gradient"
    header = dblp.data(7, 3, payload)
    assert header == bytes([0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 8]) + zlib.crc32(payload).to_bytes(4, "big")
    assert dblp.decode(header, payload) == Data(7, 3)
    assert (dblp.probe(7), dblp.stop(7)) == (b"P\0\0\0\7", b"S\0\0\0\7")
    assert dblp.decode(dblp.probe(7), b"") == Probe(7)
    assert dblp.decode(dblp.stop(7), b"") == Stop(7)
    assert dblp.holes(7, 2048) == b"B\0\0\0\7\0\0\x08\0"
    assert dblp.decode(dblp.holes(7, 2048), b"\1") == Holes(7, 2048)


@pytest.mark.parametrize("wire", [dlcp, dblp])
def test_headers_are_as_long_as_their_first_byte_says(wire):
    said = [wire.probe(1, 1), wire.stop(1), wire.holes(1, 0, 0, 1)] if wire is dlcp else [wire.probe(1), wire.stop(1)]
    said += [dlcp.data(1, 0, 0, 1, 0, asks=False, magnitude=0)] if wire is dlcp else [dblp.data(1, 2**30 - 1, b"")]
    assert all(wire.HEADERS[header[0]] & 0x3F == len(header) for header in said)


@given(st.binary(max_size=24), st.binary(max_size=8))
def test_noise_is_refused_or_read(header, payload):
    for decode in (lambda: dlcp.decode(header, len(payload), CHUNK), lambda: dblp.decode(header, payload)):
        with suppress(MalformedError):
            decode()


def test_a_chunk_that_was_changed_on_its_way():
    header = dblp.data(7, 3, b"gradient")
    for payload in (b"gradienT", b"gradien", b""):
        with pytest.raises(MalformedError):
            dblp.decode(header, payload)
    with pytest.raises(MalformedError):
        dlcp.decode(dlcp.data(7, 0, CHUNK, 8, 0, asks=False, magnitude=0), 7, CHUNK)
    with pytest.raises(MalformedError):
        dlcp.decode(dlcp.data(7, 0, CHUNK + 1, 8, 0, asks=False, magnitude=0), 8, CHUNK)
