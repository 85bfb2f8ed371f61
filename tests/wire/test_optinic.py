"""OptiNIC's packets: what is encoded is decoded, in the places that RoCEv2 has for it, and bad bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.wire import MalformedError, optinic, roce
from testbed.wire.optinic import Data, Timings

DATA = st.builds(
    Data,
    queue_pair=st.integers(0, 2**24 - 1),
    psn=st.integers(0, 2**24 - 1),
    asks=st.booleans(),
    parity=st.booleans(),
    offset=st.integers(0, 2**31),
    tag=st.integers(0, 2**32 - 1),
    bytes=st.integers(0, 4096),
    sequence=st.integers(0, 2**32 - 1),
)
TIME = st.integers(0, 2**64 - 1)


@given(DATA)
def test_data_round_trip(data: Data) -> None:
    header = optinic.encode_data(data)
    assert optinic.decode_data(header) == data
    assert optinic.HEADERS[header[0]] == 0x80 | len(header)


def test_a_data_packet_to_the_byte() -> None:
    """UC WRITE ONLY with immediate: BTH (3 bytes of padding), RETH (offset 1024, key 7, 5 bytes), immediate 9."""
    header = optinic.encode_data(Data(0x123456, 0x654321, True, False, 1024, 7, 5, 9))
    assert header.hex(" ", -4) == (
        "2b30ffff 00123456 80654321 00000000 00000400 00000007 00000005 00000009"  # opcode, flags, key; QP; PSN; ...
    )


@given(st.binary(max_size=40))
def test_random_bytes_are_refused_or_are_a_packet(data: bytes) -> None:
    for decode in (optinic.decode_data, optinic.decode_other, optinic.decode_timings):
        try:
            decode(data)
        except MalformedError:
            continue


@pytest.mark.parametrize("flags", [0x01, 0x30, 0x10])
def test_versions_and_padding_must_fit(flags: int) -> None:
    header = bytearray(optinic.encode_data(Data(1, 2, False, False, 0, 3, 256, 4)))
    header[1] = flags
    with pytest.raises(MalformedError):
        optinic.decode_data(bytes(header))


def test_what_roce_sends_besides_is_none_of_ours() -> None:
    with pytest.raises(MalformedError):
        optinic.decode_other(roce.only_write(1, 2, True, 4, 5))


def test_hints_and_control_messages() -> None:
    told = optinic.decode_other(optinic.hint(0x200, 77, 13, True))
    assert (told.opcode, told.destination_qp, told.psn, told.becn) == (roce.ACKNOWLEDGE, 0x200, 77, True)
    assert told.aeth is not None
    assert told.aeth.msn == 13
    sent = optinic.decode_other(optinic.control(0x200, 5, 30))
    assert (sent.opcode, sent.destination_qp, sent.psn, sent.pad) == (roce.SEND_ONLY, 0x200 | 1 << 23, 5, 2)
    answer = optinic.decode_other(optinic.control_acknowledgement(0x200, 5))
    assert (answer.opcode, answer.destination_qp, answer.psn) == (roce.ACKNOWLEDGE, 0x200 | 1 << 23, 5)


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), TIME, TIME), max_size=optinic.MOST_TIMINGS))
def test_timings_round_trip(steps: list[tuple[int, int, int]]) -> None:
    encoded = optinic.encode_timings(Timings(7, 2**40, steps))
    assert optinic.decode_timings(encoded) == Timings(7, 2**40, steps)
    assert len(encoded) <= 1024
    with pytest.raises(MalformedError):
        optinic.decode_timings(encoded + b"x")
