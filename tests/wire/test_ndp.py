"""NDP's packets: what is encoded is decoded, a cut header is whole at 64 bytes, and what is not right is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.wire import MalformedError, ndp
from testbed.wire.ethernet import UDP_HEADERS_BYTES
from testbed.wire.ndp import ACK, NACK, PULL, REFUSAL, Control, Data

WORD, PSN, COUNT = st.integers(0, 2**32 - 1), st.integers(0, 2**24 - 1), st.integers(0, 2**16 - 1)
DATA = st.builds(Data, psn=PSN, target=COUNT, tag=WORD, offset=WORD, length=WORD)
CONTROL = st.builds(
    Control,
    kind=st.sampled_from([ACK, NACK, PULL, REFUSAL]),
    expected=PSN,
    pulls=COUNT,
    waiting=COUNT,
    came=PSN,
    syndrome=st.integers(0, 255),
)
PAIR = st.integers(0, 2**24 - 1)


def encode(pair: int, packet: Data | Control) -> bytes:
    start = ndp.checked_from(pair)
    return ndp.encode_data(start, packet) if isinstance(packet, Data) else ndp.encode_control(start, packet)


@given(PAIR, DATA | CONTROL)
def test_round_trip(pair: int, packet: Data | Control) -> None:
    header = encode(pair, packet)
    assert ndp.decode(ndp.checked_from(pair), header) == packet
    assert ndp.HEADERS[header[0]] == len(header)


def test_a_header_is_what_ndp_s_switches_leave() -> None:
    """64 bytes with Ethernet, IPv4 and UDP; answers are no longer, so that they are never cut."""
    data = encode(1, Data(1, 2, 3, 4, 5))
    assert UDP_HEADERS_BYTES + len(data) == 64
    assert data[:-4].hex(" ", -4) == "e0000001 00020000 00030000 00040000 0005"
    control = encode(1, Control(NACK, 1, 2, 3, 4, 0))
    assert control[:-4].hex(" ", -4) == "e2000001 00000004 00020003"
    assert len(control) <= len(data)


@given(PAIR, DATA | CONTROL, st.integers(0, 8 * 22 - 1))
def test_a_flipped_bit_is_seen(pair: int, packet: Data | Control, bit: int) -> None:
    header = bytearray(encode(pair, packet))
    header[bit // 8 % len(header)] ^= 1 << bit % 8
    with pytest.raises(MalformedError):
        ndp.decode(ndp.checked_from(pair), bytes(header))


@given(PAIR, PAIR, DATA | CONTROL)
def test_a_header_for_another_queue_pair_is_none(pair: int, other: int, packet: Data | Control) -> None:
    if pair != other:
        with pytest.raises(MalformedError):
            ndp.decode(ndp.checked_from(other), encode(pair, packet))


@given(st.binary(max_size=64))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        ndp.decode(ndp.checked_from(7), data)


@pytest.mark.parametrize(
    ("a", "b", "difference"), [(5, 3, 2), (3, 5, -2), (1, 65535, 2), (65535, 1, -2), (32768, 0, -32768)]
)
def test_counts_wrap_around(a: int, b: int, difference: int) -> None:
    assert ndp.count_difference(a, b) == difference
