"""UBT's header, bit by bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.wire import MalformedError
from testbed.wire.ubt import BUCKETS, FEEDBACK, LAST, NOTICE, PLAIN, Header, decode, encode, encode_run

headers = st.builds(
    Header,
    st.integers(0, BUCKETS - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**16 - 1),
    st.sampled_from([PLAIN, LAST, NOTICE, FEEDBACK]),
    st.integers(0, 15),
)


def test_the_nine_bytes_by_hand() -> None:
    encoded = encode(Header(bucket=0x1234, offset=0x56789ABC, timeout=0xDEF0, mark=LAST, incast=7))
    assert encoded.hex(" ") == "12 34 56 78 9a bc de f0 17"


@given(headers)
def test_what_is_encoded_is_decoded(header: Header) -> None:
    assert decode(encode(header)) == header


def test_a_run_marks_its_packets_from_an_offset_on() -> None:
    marks = [decode(each).mark for each in encode_run(3, range(0, 400, 100), 9, 2, 200)]
    assert marks == [PLAIN, PLAIN, LAST, LAST]
    assert decode(encode_run(3, range(0, 400, 100), 9, 2, 200)[1]) == Header(3, 100, 9, PLAIN, 2)


@pytest.mark.parametrize("data", [b"", bytes(8), bytes(10), bytes(8) + b"\x20", bytes(8) + b"\xd1"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(data)
