"""Packets whose payload travels by reference, on every way through a switch: copied, cut, flipped, and captured.

What is told is compared with what was sent; captures are read by readers that are not ours, and their ICRCs checked
with zlib over the fields that annex A17 of the InfiniBand Architecture names.
"""

import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.netcore import CPU_PORT
from tests.netcore.pcapng import INBOUND, OUTBOUND, Capture, read_pcapng
from tests.netcore.row import ECT, LAST, MIDDLE, NEXT, Loaded, Row, bth, ip, message, ways
from tests.sanitizers import assert_clean

SEGMENT = 4096
PLAIN, MULTICAST, TAG, CLONE, TRUNCATE, PUNT, RECIRCULATE, SPOIL = (dscp << 2 | ECT for dscp in range(8))  # of ways.p4
FRAME_BYTES = 42 + 12 + SEGMENT + 4


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return ways()


@pytest.fixture
def row(loaded: Loaded) -> Row:
    return Row(loaded, (0, 0, 1))


def data(packets: int) -> bytes:
    return bytes((7 * i + i // SEGMENT) % 256 for i in range(packets * SEGMENT))


def whole(row: Row, host: int) -> bytes:
    return b"".join(told.payload for told in row.told[host])


def icrc_is_right(frame: bytes) -> bool:
    """The variant fields are ones: ToS, TTL, checksums, and the byte before the queue pair."""
    masked = bytearray(b"\xff" * 8 + frame[14:-4])
    for at in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 8 + 26, 8 + 27, 8 + 28 + 4):
        masked[at] = 0xFF
    return zlib.crc32(masked) == int.from_bytes(frame[-4:], "little")


# --- ways -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tos", [PLAIN, TAG, RECIRCULATE])
def test_what_goes_one_way_arrives_as_it_was_sent(row: Row, tos: int) -> None:
    """Also where a header comes before the others at one switch, and goes at the next."""
    row.send(0, 2, message(5), data(5), SEGMENT, tos=tos)
    row.settle()
    assert whole(row, 2) == data(5)
    assert [told.psns for told in row.told[2]] == [[0], [1, 2, 3, 4]]


def test_each_copy_refers_to_the_same_memory(row: Row) -> None:
    row.fabric.set_group(row.switches[0], 1, [(1, 0), (2, 0), (2, 1), (NEXT, 0)])
    for host in range(3):
        row.fabric.set_address(row.hosts[host], b"\2\0\0\0\0\2", ip(1))  # all are meant
    row.fabric.send_run(row.sockets[0], ip(1), 1, MULTICAST, message(3), data(3), SEGMENT)
    row.settle()
    assert whole(row, 0) == data(3)
    psns = [psn for told in row.told[1] for psn in told.psns]
    assert sorted(psns) == [0, 0, 1, 1, 2, 2]
    assert all(
        told.payload == data(3)[psn * SEGMENT : (psn + len(told.psns)) * SEGMENT]
        for told in row.told[1]
        for psn in told.psns[:1]
    )


def test_a_clone_goes_elsewhere(loaded: Loaded) -> None:
    row = Row(loaded, (0, 0, 0))
    row.fabric.set_session(row.switches[0], 1, [(3, 5)])
    row.fabric.set_address(row.hosts[2], b"\2\0\0\0\0\2", ip(1))
    row.fabric.set_address(row.hosts[1], b"\2\0\0\0\0\2", ip(1))
    row.send(0, 1, message(2), data(2), SEGMENT, tos=CLONE)
    row.settle()
    assert whole(row, 1) == whole(row, 2) == data(2)


def test_a_header_that_a_program_changed_is_told_as_it_is(row: Row) -> None:
    """The change is at each of two switches; the ICRC, which is not made, is taken to be kept up by who changes."""
    row.send(0, 2, [bth(LAST, 5, ask=True)], data(1), SEGMENT, tos=SPOIL)
    row.settle()
    assert [told.psns for told in row.told[2]] == [[205]]
    assert whole(row, 2) == data(1)


def test_the_control_plane_gets_all_of_a_packet(row: Row) -> None:
    row.send(0, 1, message(1), data(1), SEGMENT, tos=PUNT)
    row.settle()
    ((switch, port, frame),) = row.fabric.punted()
    assert (switch, port, len(frame)) == (row.switches[0], 1, FRAME_BYTES)
    assert frame[54:-4] == data(1)
    assert icrc_is_right(frame)
    assert CPU_PORT == 510


def test_what_is_for_no_socket_is_taken_whole(row: Row) -> None:
    other = row.fabric.open_socket(row.hosts[0], 5555, lambda *_: None, framing="roce")
    row.fabric.send_run(other, ip(1), 1, 0, message(1), data(1), SEGMENT)
    row.settle()
    ((port, _, frame),) = row.fabric.taken()
    assert port == row.hosts[1]
    assert frame[54:-4] == data(1)
    assert icrc_is_right(frame)


# --- cut and flipped --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trim", [58, 64, 200])
def test_a_trimmed_packet_is_told_as_corrupt(row: Row, trim: int) -> None:
    row.set_link(row.out_of[1], rate_bps=10**9, queue_bytes=2 * FRAME_BYTES + 1000)
    row.fabric.configure_switch(row.switches[0], trim=trim)
    row.send(0, 1, message(8), data(8), SEGMENT)
    row.fabric.alarm(row.sockets[1], 10**8)
    row.settle()
    counts = row.fabric.counters()[row.out_of[1]][0]
    trimmed = row.fabric.switch_counters(row.switches[0])["trimmed"]
    assert trimmed == counts["shortened"] == sum(told.corrupt for told in row.told[1]) > 0
    assert counts["bytes"] == trimmed * trim + (8 - trimmed) * FRAME_BYTES
    assert sum(len(told.headers) for told in row.told[1]) == 8 - trimmed
    assert all(told.payload == b"" for told in row.told[1] if told.corrupt)


def test_a_truncated_packet_is_none_to_a_host(row: Row) -> None:
    """Its IPv4 header tells of more bytes than there are."""
    row.send(0, 1, message(1), data(1), SEGMENT, tos=TRUNCATE)
    row.settle()
    assert row.told[1] == []
    assert [frame[54:] for _, _, frame in row.fabric.taken()] == [data(1)[:46]]
    assert row.fabric.counters()[row.out_of[1]][0]["bytes"] == 100


def test_a_flipped_packet_is_told_as_corrupt_and_others_are_whole(row: Row) -> None:
    row.set_link(row.into[0], corrupt=0.3)
    for number in range(0, 400, 4):
        row.send(0, 1, message(4, number), data(4), SEGMENT)
    row.settle()
    corrupted = row.fabric.counters()[row.into[0]][0]["corrupted"]
    assert 80 < corrupted < 160
    # A bit of the one byte of 4112 that no ICRC covers may be flipped unseen.
    assert corrupted - 1 <= sum(told.corrupt for told in row.told[1]) <= corrupted
    for told in row.told[1]:
        expected = b"".join(data(4)[psn % 4 * SEGMENT :][:SEGMENT] for psn in told.psns)
        assert told.payload == expected


def test_duplicates_arrive_twice(row: Row) -> None:
    row.set_link(row.into[0], duplicate=1.0)
    row.send(0, 1, message(3), data(3), SEGMENT)
    row.settle()
    psns = [psn for told in row.told[1] for psn in told.psns]
    assert sorted(psns) == [0, 0, 1, 1, 2, 2]
    assert len(whole(row, 1)) == 6 * SEGMENT


def test_jitter_that_reorders_changes_no_payload(row: Row) -> None:
    row.set_link(row.into[0], jitter_ns=1000, reorder=True)
    row.send(0, 1, message(40), data(40), SEGMENT)
    row.settle()
    got = {psn: told.payload[i * SEGMENT :][:SEGMENT] for told in row.told[1] for i, psn in enumerate(told.psns)}
    assert b"".join(got[psn] for psn in range(40)) == data(40)
    assert [psn for told in row.told[1] for psn in told.psns] != list(range(40))


def test_loss_loses_no_memory(row: Row) -> None:
    row.set_link(row.into[0], loss=(0.5, 1.0))
    row.send(0, 1, message(100), data(100), SEGMENT)
    row.fabric.call_at(10_000, lambda _: row.fabric.set_link_up(row.out_of[1], False))
    row.settle()
    lost = sum(all_["dropped_loss"] + all_["dropped_down"] for all_, _, _ in row.fabric.counters())
    assert lost + sum(len(told.headers) for told in row.told[1]) == 100
    assert row.fabric.statistics()["packets"] == 0


# --- captures ---------------------------------------------------------------------------------------------------------


def captured(loaded: Loaded, folder: Path) -> tuple[Row, list[Path]]:
    """A run's files: at both hosts, and at the port of a switch; one link flips and one duplicates."""
    row = Row(loaded, (0, 1), seed=3)
    row.set_link(row.into[0], corrupt=0.2)
    row.set_link(row.out_of[1], duplicate=0.2)
    ports = {"source": row.hosts[0], "target": row.hosts[1], "between": row.hosts[1] + 1}
    for name, port in ports.items():
        row.fabric.capture_start(port, str(folder / f"{name}.pcapng"), 65_535, interface=name)
    payload = data(9)[:-1]
    headers = [bth(0, 0), *(bth(MIDDLE, i) for i in range(1, 8)), bth(LAST, 8, ask=True, pad=1)]
    row.send(0, 1, headers, payload, SEGMENT)
    row.fabric.call_at(10**6, lambda _: row.send(1, 0, [bth(0x11, 8) + bytes(4)], b"", 0))
    row.settle()
    row.fabric.capture_stop()
    return row, [folder / f"{name}.pcapng" for name in ports]


def test_captures_have_whole_frames_and_virtual_times(loaded: Loaded, tmp_path: Path) -> None:
    row, (source, target, between) = captured(loaded, tmp_path)
    files: list[Capture] = [read_pcapng(path) for path in (source, target, between)]
    sent, came = files[0].records, files[1].records
    assert [(r.direction, r.at_ns) for r in sent[:9]] == [(OUTBOUND, 0)] * 9
    assert b"".join(r.frame[54 : -4 - (i == 8)] for i, r in enumerate(sent[:9])) == data(9)[:-1]
    assert all(icrc_is_right(r.frame) for r in sent)
    assert [int.from_bytes(IP(r.frame[14:]).id.to_bytes(2, "big"), "big") for r in sent[:9]] == list(range(9))
    received = [r for r in came if r.direction == INBOUND]
    assert sum(not icrc_is_right(r.frame) for r in received) == sum(told.corrupt for told in row.told[1]) > 0
    assert sum(len(told.headers) for told in row.told[1]) == sum(icrc_is_right(r.frame) for r in received)
    for record in (*sent, *received):
        ether = Ether(record.frame)
        chksum = ether[IP].chksum
        del ether[IP].chksum
        assert Ether(bytes(ether))[IP].chksum == chksum
        assert (ether.src, ether.dst) in {
            ("02:00:00:00:00:01", "02:00:00:00:00:02"),
            ("02:00:00:00:00:02", "02:00:00:00:00:01"),
        }
        assert (ether[UDP].sport, ether[UDP].dport, ether[IP].flags) == (50_000, 4791, "DF")
        assert record.length == len(record.frame) == 14 + ether[IP].len
    assert [(f.received, f.dropped) for f in files] == [(len(f.records), 0) for f in files]


def test_captures_are_the_same_each_time(loaded: Loaded, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    first, second = ([path.read_bytes() for path in captured(loaded, folder)[1]] for folder in folders)
    assert first == second


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not there to read captures")
def test_tshark_reads_captures(loaded: Loaded, tmp_path: Path) -> None:
    _, (source, *_) = captured(loaded, tmp_path)
    fields = [part for name in ("infiniband.bth.psn", "infiniband.bth.padcnt", "frame.len") for part in ("-e", name)]
    command = ["tshark", "-r", str(source), "-Y", "infiniband && !_ws.malformed", "-T", "fields", *fields]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert lines[:8] == [f"{psn}\t0\t{FRAME_BYTES}" for psn in range(8)]
    assert lines[8:] == [f"8\t1\t{FRAME_BYTES}", "8\t0\t62"]


@pytest.mark.slow
def test_all_of_this_under_the_sanitizers() -> None:
    assert_clean(__file__, "-m", "not slow")
