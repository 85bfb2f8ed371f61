"""The packet helpers of the native core as Python calls them, against zlib, a hardware vector and real sockets."""

import ipaddress
import re
import resource
import select
import socket
import struct
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed import netcore

SOURCE, TARGET = (int(ipaddress.IPv4Address(ip)) for ip in ("10.1.0.1", "10.1.0.2"))
SOURCE_PORT, ROCE_PORT = 50_000, 4791
FIRST, MIDDLE, LAST, ONLY, ACKNOWLEDGE = 0x06, 0x07, 0x08, 0x0A, 0x11
BEGINS = 0x80
HEADER_BYTES = {FIRST: 28, MIDDLE: 12, LAST: 12, ONLY: 28, ACKNOWLEDGE: 16}
OPCODES = bytes(HEADER_BYTES.get(i, 0) | (BEGINS if i in (FIRST, ONLY) else 0) for i in range(256))

# IPv4 header to ICRC of two packets in scapy's test/contrib/roce.uts: a congestion notification captured on a
# ConnectX-4 Lx, and a UC SEND ONLY.
VECTORS = {
    "ConnectX-4 Lx": "45c2003c718c4000401191610a0011010a001201 000012b700280000 8100ffff4000011800000000"
    "00000000000000000000000000000000 82fd002a",
    "UC SEND ONLY": "450100400478400040110000c0a80007c0a80007 c00012b7002c0000 2460ffff000000d300cf1710"
    "4630818be28935d90e9a95505401be885e500000 78f353f3",
}


def zlib_icrc(source: int, target: int, ports: tuple[int, int], identification: int, data: bytes) -> int:
    """Annex A17 spelt out with zlib: masked fields are ones."""
    length = len(data) + 4
    ip = struct.pack("!BBHHHBBHII", 0x45, 255, 28 + length, identification, 0x4000, 255, 17, 65535, source, target)
    udp = struct.pack("!HHHH", *ports, 8 + length, 65535)
    return zlib.crc32(b"\xff" * 8 + ip + udp + data[:4] + b"\xff" + data[5:])


def bth(opcode: int, psn: int, queue_pair: int = 7, pad: int = 0) -> bytes:
    base = struct.pack("!BBHII", opcode, pad << 4, 0xFFFF, queue_pair, psn)
    return base + bytes(HEADER_BYTES[opcode] - len(base))


def write_run(payload: bytes, segment_bytes: int, psn: int = 100) -> list[bytes]:
    count = max(1, -(-len(payload) // segment_bytes))
    pad = -len(payload) % segment_bytes and -(len(payload) % segment_bytes) % 4
    opcodes = [ONLY] if count == 1 else [FIRST, *[MIDDLE] * (count - 2), LAST]
    return [bth(op, (psn + i) & 0xFFFFFF, pad=pad if i == count - 1 else 0) for i, op in enumerate(opcodes)]


def encode(headers: list[bytes], payload: bytes, segment_bytes: int, segmented: bool = True) -> list[tuple[bytes, int]]:
    buffer = bytearray(len(payload) + sum(len(h) + 7 for h in headers))
    pieces = netcore.roce_encode(
        buffer, headers, payload, segment_bytes, SOURCE, TARGET, SOURCE_PORT, ROCE_PORT, segmented
    )
    return [(bytes(buffer[offset : offset + size]), segment) for offset, size, segment in pieces]


def decode(data: bytes, segment_bytes: int) -> tuple[list[tuple[tuple[bytes, ...], bytes, int]], int, int]:
    runs, wrong, malformed = netcore.roce_decode(
        memoryview(bytearray(data)), segment_bytes, SOURCE, TARGET, SOURCE_PORT, ROCE_PORT, OPCODES
    )
    return [(headers, bytes(payload), segment) for headers, payload, segment in runs], wrong, malformed


def test_the_stub_names_what_there_is() -> None:
    stub = Path(netcore.__file__).with_suffix(".pyi").read_text()
    declared = {
        max(names) for names in re.findall(r"^(?:def (\w+)|class (\w+)|(\w+): Final|(Run) = )", stub, re.MULTILINE)
    }
    assert declared == {name for name in dir(netcore) if not name.startswith("_")}
    for kind in (netcore.Fabric, netcore.FastPath):
        body = re.search(rf"^class {kind.__name__}:\n(.*?)(?=^\S|\Z)", stub, re.MULTILINE | re.DOTALL)
        assert body is not None
        methods = set(re.findall(r"^    def ([a-z_]+)\(", body[1], re.MULTILINE))
        assert methods - {"__init__"} == {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_icrc_of_published_packets(vector: str) -> None:
    packet = bytes.fromhex(vector)
    assert netcore.icrc(packet[:28], packet[28:-4]).to_bytes(4, "little") == packet[-4:]


@given(st.binary(min_size=12, max_size=1500), st.integers(0, 65535))
def test_icrc_equals_zlib(data: bytes, identification: int) -> None:
    length = len(data) + 4
    ip = struct.pack("!BBHHHBBHII", 0x45, 3, 28 + length, identification, 0x4000, 61, 17, 9, SOURCE, TARGET)
    udp = struct.pack("!HHHH", SOURCE_PORT, ROCE_PORT, 8 + length, 7)
    expected = zlib_icrc(SOURCE, TARGET, (SOURCE_PORT, ROCE_PORT), identification, data)
    assert netcore.icrc(ip + udp, data) == expected


@pytest.mark.parametrize(
    ("headers", "data"), [(b"", bytes(12)), (bytes(28), bytes(12)), (b"\x46" + bytes(27), bytes(12))]
)
def test_icrc_refuses_what_is_no_packet(headers: bytes, data: bytes) -> None:
    with pytest.raises(ValueError, match="headers"):
        netcore.icrc(headers, data)


def test_packets_without_payload_share_a_piece() -> None:
    headers = [bth(MIDDLE, psn) for psn in (5, 9, 7)]
    ((data, segment),) = encode(headers, b"", 0)
    assert (len(data), segment) == (3 * 16, 16)
    for index, header in enumerate(headers):
        crc = zlib_icrc(SOURCE, TARGET, (SOURCE_PORT, ROCE_PORT), index, header)
        assert data[16 * index :][:16] == header + crc.to_bytes(4, "little")


@pytest.mark.parametrize("segmented", [True, False])
def test_encoded_packets_have_the_icrc_that_zlib_gives(segmented: bool) -> None:
    payload = bytes(range(256)) * 19 + b"xyz"
    pieces = encode(write_run(payload, 1024), payload, 1024, segmented)
    assert [(len(data), segment) for data, segment in pieces] == [(1056 + 1040, 1056), (2 * 1040 + 788, 1040)]
    for data, segment in pieces:
        for index in range(-(-len(data) // segment)):
            packet = data[index * segment : (index + 1) * segment]
            identification = index if segmented else 0
            expected = zlib_icrc(SOURCE, TARGET, (SOURCE_PORT, ROCE_PORT), identification, packet[:-4])
            assert int.from_bytes(packet[-4:], "little") == expected


@given(st.binary(max_size=20_000), st.sampled_from([256, 512, 1024, 4096]), st.booleans(), st.integers(0, 0xFFFFFF))
def test_what_is_encoded_decodes(payload: bytes, segment_bytes: int, segmented: bool, psn: int) -> None:
    headers = write_run(payload, segment_bytes, psn)
    decoded_headers: list[bytes] = []
    decoded_payload = b""
    for data, segment in encode(headers, payload, segment_bytes, segmented):
        runs, wrong, malformed = decode(data, segment)
        assert (wrong, malformed, len(runs)) == (0, 0, 1)
        assert len(runs[0][0]) <= netcore.MAX_SEGMENTS
        decoded_headers += runs[0][0]
        decoded_payload += runs[0][1]
    assert (decoded_headers, decoded_payload) == (headers, payload)


def test_pieces_keep_to_the_limits_of_a_super_packet() -> None:
    payload = bytes(200 * 4096)
    pieces = encode(write_run(payload, 4096), payload, 4096)
    assert max(len(data) for data, _ in pieces) <= netcore.MAX_DATAGRAM_BYTES
    small = bytes(200 * 256)
    assert max(-(-len(data) // segment) for data, segment in encode(write_run(small, 256), small, 256)) == 64


@given(st.data())
def test_a_flipped_bit_costs_exactly_its_packet(data: st.DataObject) -> None:
    payload = bytes(1024 * 8)
    headers = [bth(MIDDLE, 50 + i) for i in range(8)]
    ((encoded, segment),) = encode(headers, payload, 1024)
    bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
    bad = bytearray(encoded)
    bad[bit // 8] ^= 1 << bit % 8
    masked = bit // 8 % segment == 4  # FECN and BECN are not covered
    runs, wrong, malformed = decode(bytes(bad), segment)
    assert (wrong, malformed) == (0 if masked else 1, 0)
    hit = bit // 8 // segment
    expected = headers if masked else headers[:hit] + headers[hit + 1 :]
    assert [len(h) for headers, _, _ in runs for h in headers] == [12] * len(expected)
    assert len(runs) == (1 if masked or hit in (0, 7) else 2)


def test_runs_break_at_gaps_queue_pairs_messages_and_short_packets() -> None:
    cases = {
        "consecutive": ([bth(MIDDLE, 1), bth(MIDDLE, 2), bth(MIDDLE, 3)], [3]),
        "gap": ([bth(MIDDLE, 1), bth(MIDDLE, 3), bth(MIDDLE, 4)], [1, 2]),
        "repeated": ([bth(MIDDLE, 1), bth(MIDDLE, 1), bth(MIDDLE, 2)], [1, 2]),
        "wraps": ([bth(MIDDLE, 0xFFFFFE), bth(MIDDLE, 0xFFFFFF), bth(MIDDLE, 0)], [3]),
        "other queue pair": ([bth(MIDDLE, 1), bth(MIDDLE, 2, queue_pair=8), bth(MIDDLE, 3, queue_pair=8)], [1, 2]),
    }
    for name, (headers, expected) in cases.items():
        ((data, segment),) = encode(headers, bytes(3 * 256), 256)
        assert [len(run[0]) for run in decode(data, segment)[0]] == expected, name
    begins = [bth(ONLY, 1), bth(ONLY, 2)]
    ((data, segment),) = encode(begins, bytes(512), 256)
    assert [len(run[0]) for run in decode(data, segment)[0]] == [1, 1]


def test_acknowledgements_stay_apart_and_unknown_opcodes_are_malformed() -> None:
    data = b"".join(encode([bth(ACKNOWLEDGE, psn)], b"", 0)[0][0] for psn in (1, 2))
    runs, wrong, malformed = decode(data, len(data) // 2)
    assert ([run[0][0][:12] for run in runs], wrong, malformed) == ([bth(ACKNOWLEDGE, p)[:12] for p in (1, 2)], 0, 0)
    unknown = bytes([0xFF]) + bth(MIDDLE, 1)[1:]
    ((data, segment),) = encode([unknown], bytes(4), 4)
    assert decode(data, segment) == ([], 0, 1)


@given(st.binary(max_size=3000), st.integers(0, 3000))
def test_arbitrary_bytes_decode_to_nothing(data: bytes, segment_bytes: int) -> None:
    runs, wrong, malformed = decode(data, segment_bytes)
    packets = -(-len(data) // segment_bytes) if 0 < segment_bytes < len(data) else bool(data)
    assert len(runs) + wrong + malformed == packets
    assert not runs  # a random ICRC is right once in 2^26


@pytest.mark.parametrize(
    ("headers", "payload", "segment_bytes", "room"),
    [
        ([bth(MIDDLE, 1)], bytes(300), 256, 4096),  # two segments, one header
        ([bth(MIDDLE, 1)] * 2, b"", 256, 4096),
        ([bth(MIDDLE, 1)], bytes(256), 256, 100),  # no room
        ([b"short"], b"", 256, 4096),
        ([bth(MIDDLE, 1)], bytes(66_000), 66_000, 99_999),  # no UDP packet is so long
    ],
)
def test_encode_refuses(headers: list[bytes], payload: bytes, segment_bytes: int, room: int) -> None:
    with pytest.raises(ValueError, match=r"header|buffer"):
        netcore.roce_encode(bytearray(room), headers, payload, segment_bytes, SOURCE, TARGET, SOURCE_PORT, ROCE_PORT)


class TestSockets:
    """On loopback, which takes super-packets whole."""

    @pytest.fixture
    def pair(self) -> "tuple[socket.socket, socket.socket]":
        sockets = tuple(socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        for each in sockets:
            each.bind(("127.0.0.1", 0))
            netcore.prepare_udp(each.fileno())
        return sockets[0], sockets[1]

    @staticmethod
    def receive(sock: socket.socket) -> list[tuple[bytes, tuple[int, int, int, int, int]]]:
        assert netcore.ppoll([(sock.fileno(), select.POLLIN)], 2_000_000_000) == [(sock.fileno(), select.POLLIN)]
        buffer = bytearray(8 * netcore.SLOT_BYTES)
        messages = netcore.receive_segments(sock.fileno(), buffer)
        return [(bytes(buffer[message[0] : message[0] + message[1]]), message[2:]) for message in messages]

    @pytest.mark.parametrize("segmented", [True, False])
    def test_a_run_goes_and_comes(self, pair: "tuple[socket.socket, socket.socket]", segmented: bool) -> None:
        sender, receiver = pair
        data = bytes(range(250)) * 41
        port = receiver.getsockname()[1]
        before = time.monotonic_ns()
        sent = netcore.send_segments(sender.fileno(), 0x7F000001, port, data, 1000, 0x62, segmented)
        received = self.receive(receiver)
        after = time.monotonic_ns()
        assert sent == len(data)
        assert b"".join(message[0] for message in received)[: len(data)] == data[: sum(len(m[0]) for m in received)]
        for _, (segment, source_ip, source_port, tos, at_ns) in received:
            assert segment == (1000 if segmented else 0)
            assert (source_ip, source_port, tos) == (0x7F000001, sender.getsockname()[1], 0x62)
            assert before - 1_000_000 <= at_ns <= after + 1_000_000
        assert len(received) == (1 if segmented else 8)

    def test_nothing_is_there(self, pair: "tuple[socket.socket, socket.socket]") -> None:
        fd = pair[0].fileno()
        assert netcore.receive_segments(fd, bytearray(netcore.SLOT_BYTES)) == []
        started = time.monotonic_ns()
        assert netcore.ppoll([(fd, select.POLLIN)], 3_000_000) == []
        assert time.monotonic_ns() - started >= 3_000_000

    def test_many_descriptors_are_watched(self, pair: "tuple[socket.socket, socket.socket]") -> None:
        many = 3000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < many:
            pytest.skip(f"only {hard} files may be open")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, many), hard))  # poll(2) takes no more than these
        try:
            pair[0].sendto(b"x", pair[1].getsockname())
            watched = [(pair[0].fileno(), select.POLLIN)] * (many - 1) + [(pair[1].fileno(), select.POLLIN)]
            assert netcore.ppoll(watched, 2_000_000_000) == [watched[-1]]
            with pytest.raises(TypeError, match="tuples"):
                netcore.ppoll([*watched, 7], 0)  # type: ignore[list-item]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_drops_are_counted(self, pair: "tuple[socket.socket, socket.socket]") -> None:
        sender, receiver = pair
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        port = receiver.getsockname()[1]
        for _ in range(100):
            netcore.send_segments(sender.fileno(), 0x7F000001, port, bytes(1000), 1000, 0)
        received = 0
        while messages := netcore.receive_segments(receiver.fileno(), bytearray(32 * netcore.SLOT_BYTES)):
            received += len(messages)
        assert netcore.socket_drops(receiver.fileno()) == 100 - received > 0

    def test_errors_are_told(self, pair: "tuple[socket.socket, socket.socket]") -> None:
        fd = pair[0].fileno()
        with pytest.raises(OSError, match="too long"):
            netcore.send_segments(fd, 0x7F000001, 9, bytes(65_508), 65_507, 0, False) and netcore.send_segments(
                fd, 0x7F000001, 9, bytes(65_600), 60_000, 0
            )
        with pytest.raises(ValueError, match="multiple"):
            netcore.receive_segments(fd, bytearray(10))
        with pytest.raises(OSError, match="Bad file"):
            netcore.prepare_udp(-1)


class TestFabric:
    """Without devices: what the binding itself refuses."""

    def test_links_need_ports_and_sensible_parameters(self) -> None:
        fabric = netcore.Fabric(1)
        with pytest.raises(IndexError):
            fabric.add_link(0, 1, 0)
        with pytest.raises(IndexError):
            fabric.set_link_up(0, True)
        assert fabric.counters() == []

    def test_a_device_that_cannot_be_is_told(self) -> None:
        with pytest.raises(OSError, match="long"):
            netcore.open_tap("a-name-that-is-too-long", virtio=True, segmentation=True)
