"""The RoCEv2 codec against three others: the native core's, scapy's and tshark's."""

import ipaddress
import shutil
import struct
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed import netcore
from testbed.wire import roce
from testbed.wire.roce import Aeth, Header, Reth

unhurried = settings(deadline=None)  # the machine may be busy with something else

SOURCE, TARGET, PORT = "10.0.0.1", "10.0.1.2", 0xC123
HEADERS = (
    (Header(roce.SEND_FIRST, 0x12, 1), b"a" * 256),
    (Header(roce.SEND_MIDDLE, 0x12, 2), b"b" * 256),
    (Header(roce.SEND_LAST_IMMEDIATE, 0x12, 3, ack_request=True, pad=3, immediate=0xCAFE), b"c"),
    (Header(roce.WRITE_FIRST, 0x345678, 0xFFFFFE, reth=Reth(0x1000, 7, 515)), b"d" * 256),
    (Header(roce.WRITE_MIDDLE, 0x345678, 0xFFFFFF), b"e" * 256),
    (Header(roce.WRITE_LAST_IMMEDIATE, 0x345678, 0, ack_request=True, pad=1, immediate=7), b"fff"),
    (Header(roce.WRITE_ONLY_IMMEDIATE, 0x345678, 1, reth=Reth(0, 8, 0), immediate=8), b""),
    (Header(roce.ACKNOWLEDGE, 0x99, 5, aeth=Aeth(0x1F, 3)), b""),
    (Header(roce.ACKNOWLEDGE, 0x99, 5, aeth=Aeth(0x60, 3)), b""),
    (Header(roce.CNP, 0x99, 0, becn=True), b""),
)


def ipv4_udp(udp_payload_bytes: int) -> bytes:
    """The 28 bytes of IPv4 and UDP before so much payload (ICRC included), identification 0, do not fragment."""
    addresses = ipaddress.IPv4Address(SOURCE).packed + ipaddress.IPv4Address(TARGET).packed
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + udp_payload_bytes, 0, 0x4000, 64, 17, 0) + addresses
    return ip + struct.pack(">HHHH", PORT, roce.UDP_PORT, 8 + udp_payload_bytes, 0)


def frame(header: Header, payload: bytes) -> bytes:
    data = roce.packet(roce.encode(header), payload)
    headers = ipv4_udp(len(data) + roce.ICRC_BYTES)
    return bytes(12) + b"\x08\x00" + headers + data + roce.icrc(headers, data).to_bytes(4, "little")


class TestNative:
    """`testbed.netcore` has the fast path; this codec is its reference."""

    addresses = (int(ipaddress.IPv4Address(SOURCE)), int(ipaddress.IPv4Address(TARGET)), PORT, roce.UDP_PORT)

    @unhurried
    @given(st.binary(min_size=12, max_size=200))
    def test_icrc(self, data):
        headers = ipv4_udp(len(data) + 4)
        assert netcore.icrc(headers, data) == roce.icrc(headers, data)

    @pytest.mark.parametrize(("header", "payload"), HEADERS, ids=lambda value: getattr(value, "opcode", None))
    def test_encode(self, header, payload):
        buffer = bytearray(2048)
        pieces = netcore.roce_encode(buffer, [roce.encode(header)], payload, 256, *self.addresses, False)
        [(offset, size, _)] = pieces
        assert bytes(buffer[offset : offset + size]) == frame(header, payload)[42:]

    def test_a_whole_run_there_and_back(self):
        run = HEADERS[3:6]
        headers = tuple(roce.encode(header) for header, _ in run)
        payload = b"".join(piece for _, piece in run)
        buffer = bytearray(4096)
        pieces = netcore.roce_encode(buffer, headers, payload, 256, *self.addresses, False)
        wire = b"".join(bytes(buffer[offset : offset + size]) for offset, size, _ in pieces)
        assert wire == b"".join(frame(header, piece)[42:] for header, piece in run)
        found = []
        for offset, size, segment in pieces:
            runs, wrong, malformed = netcore.roce_decode(
                memoryview(buffer)[offset : offset + size], segment, *self.addresses, roce.OPCODES
            )
            assert (wrong, malformed) == (0, 0)
            found += [(tuple(heads), bytes(body)) for heads, body, _ in runs]
        assert tuple(head for heads, _ in found for head in heads) == headers
        assert b"".join(body for _, body in found) == payload

    @unhurried
    @given(st.sampled_from(HEADERS), st.data())
    def test_a_changed_bit_is_found(self, packet, data):
        wire = bytearray(frame(*packet)[42:])
        bit = data.draw(st.integers(0, 8 * len(wire) - 1))
        wire[bit // 8] ^= 1 << bit % 8
        runs, wrong, malformed = netcore.roce_decode(memoryview(wire), 0, *self.addresses, roce.OPCODES)
        if bit // 8 == 4:  # congestion bits are not covered
            assert len(runs) == 1
        else:
            assert (runs, wrong + malformed) == ([], 1)


class TestScapy:
    """scapy knows the BTH, the AETH and the CNP, and computes the ICRC on its own."""

    @pytest.mark.parametrize(("header", "payload"), HEADERS, ids=lambda value: getattr(value, "opcode", None))
    def test_icrc_and_base_header(self, header, payload):
        pytest.importorskip("scapy", reason="scapy is not installed")
        from scapy.contrib.roce import AETH, BTH, CNPPadding
        from scapy.layers.l2 import Ether

        ours = frame(header, payload)
        parsed = Ether(ours)
        base = parsed[BTH]
        assert (base.opcode, base.dqpn, base.psn) == (header.opcode, header.destination_qp, header.psn)
        assert (base.ackreq, base.padcount, base.becn) == (header.ack_request, header.pad, header.becn)
        if header.aeth is not None:
            assert (parsed[AETH].syndrome, parsed[AETH].msn) == (header.aeth.syndrome, header.aeth.msn)
        assert (CNPPadding in parsed) == (header.opcode == roce.CNP)
        del base.icrc
        assert parsed.build()[-4:] == ours[-4:]


FIELDS = (
    "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.a",
    "infiniband.bth.padcnt", "infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen",
    "infiniband.aeth.syndrome", "infiniband.aeth.msn", "infiniband.immdt", "infiniband.invariant.crc",
    "_ws.malformed", "_ws.expert.severity",
)  # fmt: skip


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    path = tmp_path_factory.mktemp("tshark") / "roce.pcap"
    frames = [frame(header, payload) for header, payload in HEADERS]
    path.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        + b"".join(struct.pack("<IIII", 0, 0, len(data), len(data)) + data for data in frames)
    )
    fields = [word for field in FIELDS for word in ("-e", field)]
    command = ["tshark", "-r", str(path), "-T", "fields", "-E", "separator=|", "-E", "occurrence=f", *fields]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [dict(zip(FIELDS, line.split("|"), strict=True)) for line in done.stdout.splitlines()]


class TestTshark:
    """tshark decodes each field and finds no packet malformed."""

    @pytest.mark.parametrize("index", range(len(HEADERS)))
    def test_fields(self, rows, index):
        header, row = HEADERS[index][0], rows[index]
        assert not row["_ws.malformed"]

        def number(field: str) -> int | None:
            text = row[f"infiniband.{field}"]
            return int(text, 0) if text else None

        assert (number("bth.opcode"), number("bth.destqp"), number("bth.psn")) == (
            header.opcode,
            header.destination_qp,
            header.psn,
        )
        assert row["infiniband.bth.a"] in (("1", "True") if header.ack_request else ("0", "False"))
        assert number("bth.padcnt") == header.pad
        if header.opcode == roce.CNP:
            return  # tshark 4.0 does not know the opcode
        reth = header.reth and (header.reth.address, header.reth.key, header.reth.length)
        assert (number("reth.va"), number("reth.r_key"), number("reth.dmalen")) == (reth or (None, None, None))
        assert number("aeth.msn") == (header.aeth.msn if header.aeth else None)
        immediate = row["infiniband.immdt"]
        assert (int(immediate, 16) if immediate else None) == header.immediate
