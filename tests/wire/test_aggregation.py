"""The aggregation header against its layout written out by hand, and against itself."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.wire import MalformedError, aggregation
from testbed.wire.aggregation import Header, Kind

unhurried = settings(deadline=None)  # the machine may be busy with something else

HEADER = Header(Kind.ADD, job=3, worker=0x0102, slot=0x1234, version=1, values=64, chunk=0xA0B0C0D0, exponent=-2)
#                      kind job worker slot with version values chunk exponent flags reserved
ENCODED = bytes.fromhex("01 03 0102 9234 0040 a0b0c0d0 fe 00 0000")

headers = st.builds(
    Header,
    kind=st.sampled_from(Kind),
    job=st.integers(0, 255),
    worker=st.integers(0, 65535),
    slot=st.integers(0, 32767),
    version=st.integers(0, 1),
    values=st.sampled_from(range(0, 257, 32)),
    chunk=st.integers(0, 2**32 - 1),
    exponent=st.integers(-128, 127),
    flags=st.integers(0, 255),
    upper=st.integers(0, 65535),
)


def test_the_layout():
    assert aggregation.encode(HEADER) == ENCODED
    assert aggregation.decode(ENCODED) == HEADER


@unhurried
@given(headers)
def test_what_is_encoded_is_decoded(header):
    assert aggregation.decode(aggregation.encode(header)) == header


def test_the_values_follow():
    header, values = aggregation.split(ENCODED + bytes(range(256)))
    assert (header, bytes(values)) == (HEADER, bytes(range(256)))
    for wrong in (255, 257, 0):
        with pytest.raises(MalformedError, match="64 values"):
            aggregation.split(ENCODED + bytes(wrong))


def test_chunk_numbers_wrap():
    assert aggregation.decode(aggregation.encode(dataclasses.replace(HEADER, chunk=2**32 + 5))).chunk == 5


@pytest.mark.parametrize(
    "changed",
    [
        {"values": 33},
        {"values": 288},
        {"slot": 32768},
        {"version": 2},
        {"job": 256},
        {"worker": 65536},
        {"exponent": 128},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(changed):
    with pytest.raises(MalformedError):
        aggregation.encode(dataclasses.replace(HEADER, **changed))


@pytest.mark.parametrize(
    "data", [ENCODED[:15], b"\x06" + ENCODED[1:], ENCODED[:6] + b"\x00\x41" + ENCODED[8:]], ids=bytes.hex
)
def test_other_bytes_are_no_header(data):
    with pytest.raises(MalformedError):
        aggregation.decode(data)


def test_roce_framing():
    before = aggregation.bth(0x012345, psn=0x1000002)
    assert before == bytes.fromhex("24 00 ffff 00012345 00000002")
    assert aggregation.decode(aggregation.without_bth(before + ENCODED)) == HEADER
    with pytest.raises(MalformedError):
        aggregation.without_bth(b"\x04" + before[1:] + ENCODED)
