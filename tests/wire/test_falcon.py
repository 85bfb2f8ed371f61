"""Headers of the Falcon-like transport: what is encoded is decoded, and nothing else is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.wire import MalformedError
from testbed.wire.falcon import (
    ACK,
    BITMAP_BITS,
    EACK,
    HEADERS,
    Ack,
    Data,
    Refusal,
    decode,
    encode_ack,
    encode_data,
    encode_refusal,
)

psns, words, bytes8 = (st.integers(0, 2**bits - 1) for bits in (24, 32, 8))
datas = st.builds(Data, psns, st.booleans(), st.integers(0, 3), words, bytes8, st.integers(0, 2**64 - 1), words, words)
acks = st.builds(Ack, psns, words, words, bytes8, st.booleans(), st.integers(0, 2**BITMAP_BITS - 1))


@given(psns, datas)
def test_data(queue_pair, data):
    header = encode_data(queue_pair, data)
    assert decode(header) == (queue_pair, data)
    assert HEADERS[header[0]] & 0x3F == len(header)


@given(psns, acks)
def test_acks(queue_pair, ack):
    header = encode_ack(queue_pair, ack)
    assert decode(header) == (queue_pair, ack)
    assert header[0] == (EACK if ack.bitmap else ACK)
    assert HEADERS[header[0]] & 0x3F == len(header)


@given(psns, st.builds(Refusal, psns, bytes8))
def test_refusals(queue_pair, refusal):
    assert decode(encode_refusal(queue_pair, refusal)) == (queue_pair, refusal)


def test_the_layout_by_hand():
    data = Data(psn=0x010203, asks=True, pad=1, t1=0x11223344, label=2, offset=0x400, tag=7, length=0x401)
    assert encode_data(0x102, data).hex() == (
        "f010ffff" "00000102" "80010203" "11223344" "02000000" "0000000000000400" "00000007" "00000401"
    )  # fmt: skip
    ack = Ack(psn=5, t1=1, held_ns=2, label=3, marked=True, bitmap=0b101)
    assert encode_ack(0x102, ack).hex() == "f200ffff400001020000000500000001000000020300000005" + "00" * 31


@given(st.binary(max_size=70))
def test_other_bytes_are_refused(header):
    try:
        decode(header)
    except MalformedError:
        return
    assert len(header) == HEADERS[header[0]] & 0x3F
    assert header[2:4] == b"\xff\xff"


@pytest.mark.parametrize("at", [1, 2])
def test_another_version_or_partition_is_refused(at):
    header = bytearray(encode_refusal(1, Refusal(0, 0x20)))
    header[at] ^= 1
    with pytest.raises(MalformedError):
        decode(bytes(header))
