"""The RoCEv2 codec against captured frames, the layouts of the standard, and itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.wire import MalformedError, roce
from testbed.wire.roce import Aeth, Header, Reth

unhurried = settings(deadline=None)  # the machine may be busy with something else

# Captured on a ConnectX-4 Lx (a CNP), and a UC SEND ONLY of the same family; both stand in scapy's public RoCE test.
CONNECTX_CNP = bytes.fromhex(
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b700280000"
    "8100ffff4000011800000000" + "00" * 16 + "82fd002a"
)
UC_SEND = bytes.fromhex(
    "248a07a8fa22248a07a8fa220800450100400478400040 11b4d5c0a80007c0a80007c00012b7002caca2"
    "2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000".replace(" ", "")
)
UC_SEND_ICRC = bytes.fromhex("78f353f3")


def test_the_icrc_of_a_captured_cnp():
    crc = roce.icrc(CONNECTX_CNP[14:42], CONNECTX_CNP[42:-4])
    assert crc.to_bytes(4, "little") == CONNECTX_CNP[-4:] == bytes.fromhex("82fd002a")


def test_the_icrc_of_a_data_packet():
    assert roce.icrc(UC_SEND[14:42], UC_SEND[42:]).to_bytes(4, "little") == UC_SEND_ICRC


@pytest.mark.parametrize("offset", [1, 8, 10, 11, 26, 27])
def test_what_routers_change_does_not_change_the_icrc(offset):
    headers, data = bytearray(UC_SEND[14:42]), UC_SEND[42:]
    headers[offset] ^= 0xFF
    assert roce.icrc(headers, data).to_bytes(4, "little") == UC_SEND_ICRC


@pytest.mark.parametrize("offset", [0, 1, 4, 5, 19, 20, 27])
def test_only_the_congestion_bits_of_the_bth_are_free(offset):
    data = bytearray(UC_SEND[42:])
    data[offset] ^= 0x40
    assert (roce.icrc(UC_SEND[14:42], data).to_bytes(4, "little") == UC_SEND_ICRC) == (offset == 4)


def test_an_icrc_of_something_else_is_refused():
    for headers, data in ((b"", UC_SEND[42:]), (b"\x46" + bytes(27), UC_SEND[42:]), (UC_SEND[14:42], bytes(11))):
        with pytest.raises(MalformedError):
            roce.icrc(headers, data)


def test_the_captured_cnp_is_what_we_make():
    made = roce.cnp(0x118)
    assert made == CONNECTX_CNP[42:-4]
    assert roce.decode(made) == Header(roce.CNP, destination_qp=0x118, psn=0, becn=True)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (Header(roce.SEND_MIDDLE, 0x12, 0xABCDEF, ack_request=True), "0100ffff00000012 80abcdef"),
        (Header(roce.SEND_ONLY_IMMEDIATE, 0x12, 1, pad=3, immediate=7), "0530ffff00000012 00000001 00000007"),
        (
            Header(roce.WRITE_FIRST, 0xFFFFFF, 0, reth=Reth(0x1122334455667788, 0x99AABBCC, 0xDDEEFF00)),
            "0600ffff00ffffff 00000000 1122334455667788 99aabbcc ddeeff00",
        ),
        (
            Header(roce.WRITE_ONLY_IMMEDIATE, 1, 2, pad=1, reth=Reth(0, 3, 4), immediate=5),
            "0b10ffff00000001 00000002 0000000000000000 00000003 00000004 00000005",
        ),
        (Header(roce.ACKNOWLEDGE, 1, 2, aeth=Aeth(0x60, 0x030405)), "1100ffff00000001 00000002 60030405"),
        (Header(roce.WRITE_LAST, 1, 2, solicited=True, migration=True, fecn=True), "08c0ffff80000001 00000002"),
    ],
)
def test_layouts(header, expected):
    assert roce.encode(header) == bytes.fromhex(expected.replace(" ", ""))
    assert roce.decode(roce.encode(header)) == header


def test_opcodes_of_the_reliable_connection():
    names = {code: operation.name for code, operation in roce.OPERATIONS.items()}
    assert names[0x03] == "SEND LAST with immediate"
    assert names[0x04] == "SEND ONLY"
    assert names[0x06] == "WRITE FIRST"
    assert names[0x09] == "WRITE LAST with immediate"
    assert names[0x0B] == "WRITE ONLY with immediate"
    assert (roce.OPCODES[0x06], roce.OPCODES[0x07], roce.OPCODES[0x81], roce.OPCODES[0x55]) == (0xDC, 0x4C, 0x9C, 0)


def headers() -> st.SearchStrategy[Header]:
    """Every header there is."""

    def of(opcode: int) -> st.SearchStrategy[Header]:
        word = st.integers(0, 2**32 - 1)
        with_reth = opcode in (roce.WRITE_FIRST, roce.WRITE_ONLY, roce.WRITE_ONLY_IMMEDIATE)
        return st.builds(
            Header,
            opcode=st.just(opcode),
            destination_qp=st.integers(0, 2**24 - 1),
            psn=st.integers(0, 2**24 - 1),
            ack_request=st.booleans(),
            pad=st.integers(0, 3),
            reth=st.builds(Reth, st.integers(0, 2**64 - 1), word, word) if with_reth else st.none(),
            aeth=st.builds(Aeth, st.integers(0, 255), st.integers(0, 2**24 - 1))
            if opcode == roce.ACKNOWLEDGE
            else st.none(),
            immediate=word if roce.OPERATIONS[opcode].immediate else st.none(),
            solicited=st.booleans(),
            migration=st.booleans(),
            fecn=st.booleans(),
            becn=st.booleans(),
            pkey=st.integers(0, 0xFFFF),
        )

    return st.sampled_from(sorted(roce.OPERATIONS)).flatmap(of)


@unhurried
@given(headers())
def test_decode_undoes_encode(header):
    assert roce.decode(roce.encode(header)) == header


@unhurried
@given(headers(), st.binary(max_size=40))
def test_split_undoes_packet(header, payload):
    header = header._replace(pad=-len(payload) & 3)
    encoded = roce.encode(header)
    data = roce.packet(encoded, payload)
    assert len(data) % 4 == 0
    assert roce.split(data) == (encoded, payload)


@unhurried
@given(st.binary(max_size=48))
def test_bad_bytes_are_refused_and_nothing_else(data):
    for call in (roce.decode, roce.split):
        try:
            call(data)
        except MalformedError:
            continue
    if (
        len(data) >= 12
        and data[0] in roce.OPERATIONS
        and not data[1] & 0x0F
        and len(data) == (roce.OPCODES[data[0]] & 0x7F)
    ):
        roce.decode(data)


@pytest.mark.parametrize(
    "data",
    [b"", bytes(11), bytes([0x81]) + bytes(11), bytes([0x1F]) + bytes(11), bytes(13), bytes([0, 1]) + bytes(10)],
    ids=["empty", "short", "cnp without its reserve", "unknown opcode", "too long", "version 1"],
)
def test_refused(data):
    with pytest.raises(MalformedError):
        roce.decode(data)


@pytest.mark.parametrize(
    "header",
    [
        Header(0x55, 0, 0),
        Header(roce.WRITE_FIRST, 0, 0),
        Header(roce.SEND_FIRST, 0, 0, immediate=1),
        Header(roce.ACKNOWLEDGE, 0, 0, immediate=1),
        Header(roce.SEND_LAST_IMMEDIATE, 0, 0, aeth=Aeth(0, 0)),
    ],
)
def test_a_header_with_other_extensions_than_its_opcode_has_is_not_encoded(header):
    with pytest.raises(MalformedError):
        roce.encode(header)


@unhurried
@given(st.integers(0, 2**24 - 1), st.integers(-(2**23), 2**23 - 1))
def test_psn_difference_is_the_short_way_round(psn, step):
    assert roce.psn_difference((psn + step) % 2**24, psn) == step


@unhurried
@given(st.integers(0, 2**24 - 1), st.integers(1, 80), st.booleans(), st.integers(0, 80))
def test_consecutive_finds_the_run_it_was_made_of(psn, count, asks, at):
    run = roce.middle_headers(roce.WRITE_MIDDLE, 9, psn, count, asks)
    assert [roce.decode(header).psn for header in run] == [(psn + step) % 2**24 for step in range(count)]
    assert [roce.decode(header).ack_request for header in run] == [False] * (count - 1) + [asks]
    last = roce.encode(Header(roce.WRITE_LAST_IMMEDIATE, 9, (psn + count) % 2**24, immediate=1))
    assert roce.consecutive([*run, last], 0) == min(count, 2**24 - psn)
    broken = list(run)
    at %= count
    broken[at] = bytes([broken[at][0], broken[at][1] ^ 0x10]) + broken[at][2:]  # another pad count
    assert roce.consecutive(broken, 0) == min(at or 1, 2**24 - psn)


def test_only_middle_packets_stand_for_each_other():
    two = [roce.encode(Header(roce.SEND_FIRST, 9, psn)) for psn in (1, 2)]
    assert roce.consecutive(two, 0) == 1


@pytest.mark.parametrize(("payload", "pad"), [(0, 0), (1, 3), (2, 2), (3, 1), (4, 0), (1023, 1)])
def test_padding(payload, pad):
    assert roce.pad_bytes(payload) == pad


def test_the_rnr_timer_table():
    table = roce.RNR_TIMER_NS
    assert len(table) == 32
    assert (table[0], table[1], table[12], table[31]) == (655_360_000, 10_000, 640_000, 491_520_000)
    assert list(table[1:]) == sorted(table[1:])


@unhurried
@given(qp=st.integers(0, 2**24 - 1), psn=st.integers(0, 2**24 - 1), asks=st.booleans(), size=st.integers(0, 4096))
def test_what_is_made_at_once_is_what_encode_makes(qp, psn, asks, size):
    aeth = Aeth(size & 0x7F, psn)
    slowly = Header(roce.ACKNOWLEDGE, qp, psn, aeth=aeth, becn=asks)
    assert roce.acknowledgement(qp, psn, aeth, asks) == roce.encode(slowly)
    pad, key = -size % 4, psn + 2**31
    slowly = Header(roce.WRITE_ONLY_IMMEDIATE, qp, psn, asks, pad, Reth(0, key, size), immediate=key)
    assert roce.only_write(qp, psn, asks, size, key) == roce.encode(slowly)
