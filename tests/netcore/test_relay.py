"""The fabric process with real TAPs in namespaces of its own: loss, order, capture, faults, clean-up.

Rates and delays are in `test_relay_times`.
"""

import hashlib
import json
import math
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scapy.utils import RawPcapNgReader

from testbed.errors import RunFailed
from testbed.fabric.counters import total
from testbed.fabric.model import FabricConfig, FabricLink, LinkEnd
from testbed.topology.graph import LinkParameters, Loss
from tests.netcore.pcapng import INBOUND, OUTBOUND, read_pcapng
from tests.netcore.rig import (
    FRAME_BYTES,
    PAYLOAD_BYTES,
    Rig,
    check_balance,
    fabric_process,
    numbered,
    numbers,
    run,
    wait_until,
)

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces and TAP devices"),
]

SIGMAS = 5.0


@pytest.mark.parametrize("loss", [Loss(0.02), Loss(0.05, 6.0)])
def test_loss_is_within_its_bounds_and_the_same_for_the_same_seed(tmp_path: Path, loss: Loss) -> None:
    packets, fates = 20_000, []
    for _ in range(2):
        with Rig(tmp_path, LinkParameters(500_000_000, 50_000, loss=loss), seed=5) as rig:
            sender, receiver = rig.hosts
            got: list[int] = []
            for first in range(0, packets, 1000):
                sender.send(receiver, numbered(first, 1000), PAYLOAD_BYTES)
                lost = 0
                while lost + len(got) < first + 1000:
                    got += numbers(b"".join(arrival.data for arrival in receiver.receive(1)))
                    if rig.fabric.in_flight() == (0, 0):
                        lost = rig.fabric.counters()[0].all.dropped_loss
            counts = rig.fabric.counters()[0].all
            assert len(got) == counts.packets == packets - counts.dropped_loss
            assert got == sorted(got)
            check_balance(counts)
            fates.append(got)
    sigma = math.sqrt(packets * loss.mean * (1 - loss.mean) * (2 * loss.burst_packets - 1))
    assert abs(packets - len(fates[0]) - packets * loss.mean) <= SIGMAS * sigma
    assert fates[0] == fates[1]


def test_jitter_keeps_the_order_and_delays(tmp_path: Path) -> None:
    parameters = LinkParameters(100_000_000, 2_000_000, jitter_ns=1_000_000)
    with Rig(tmp_path, parameters) as rig:
        sender, receiver = rig.hosts
        sender.send(receiver, numbered(0, 500), PAYLOAD_BYTES)
        arrivals = receiver.receive(500 * PAYLOAD_BYTES)
        assert numbers(b"".join(arrival.data for arrival in arrivals)) == list(range(500))


@pytest.mark.parametrize("port", [4791, 9000])
def test_corruption_is_stopped_by_the_kernel_or_left_to_roce_and_duplicates_arrive(port: int, tmp_path: Path) -> None:
    parameters = LinkParameters(200_000_000, 50_000, corrupt=0.05, duplicate=0.1)
    with Rig(tmp_path, parameters, port=port) as rig:
        sender, receiver = rig.hosts
        sender.send(receiver, numbered(0, 2000), PAYLOAD_BYTES)
        arrivals = receiver.receive(2000 * PAYLOAD_BYTES * 2, quiet_s=0.5)
        counts = rig.fabric.counters()[0].all
        data = b"".join(arrival.data for arrival in arrivals)
        assert counts.corrupted > 50
        assert counts.duplicated > 100
        stopped = 0 if port == 4791 else counts.corrupted
        payloads = [data[start : start + PAYLOAD_BYTES] for start in range(0, len(data), PAYLOAD_BYTES)]
        assert len(payloads) == 2000 + counts.duplicated - stopped
        struck = sum(int.from_bytes(payload[:4], "big") >= 2000 or any(payload[4:]) for payload in payloads)
        assert counts.corrupted - stopped - 5 <= struck <= counts.corrupted - stopped  # less those within the number
        snmp = [line.split() for line in receiver.command("cat", "/proc/net/snmp").splitlines() if line[:4] == "Udp:"]
        assert dict(zip(*snmp, strict=True))["InCsumErrors"] == str(stopped)


def test_super_packets_cross_the_kernel_whole_where_it_can(tmp_path: Path) -> None:
    """At 10 Gb/s packets are due faster than the loop wakes up, so they are joined; marks and sizes keep them apart."""
    with Rig(tmp_path, LinkParameters(10**10, 10_000)) as rig:
        sender, receiver = rig.hosts
        sender.send(receiver, numbered(0, 600), PAYLOAD_BYTES)
        arrivals = receiver.receive(600 * PAYLOAD_BYTES)
        assert numbers(b"".join(arrival.data for arrival in arrivals)) == list(range(600))
        if not rig.segmentation:
            pytest.skip("this kernel has no UDP segmentation in TUN (Linux 6.2)")
        assert max(len(arrival.data) for arrival in arrivals) > 5 * PAYLOAD_BYTES
        assert {arrival.segment_bytes for arrival in arrivals} <= {0, PAYLOAD_BYTES}


TCP_SERVER = """
import hashlib, socket
listener = socket.create_server(("", 5001))
print("up", flush=True)
connection, _ = listener.accept()
digest = hashlib.sha256()
while data := connection.recv(1 << 20):
    digest.update(data)
print(digest.hexdigest())
"""

TCP_CLIENT = """
import socket, sys
socket.create_connection((sys.argv[1], 5001), 10).sendall(sys.stdin.buffer.read())
"""


def test_tcp_gets_through_in_super_packets(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    with Rig(tmp_path, LinkParameters(400_000_000, 100_000, loss=Loss(0.001), corrupt=0.001)) as rig:
        sender, receiver = rig.hosts
        server = subprocess.Popen(
            ["ip", "netns", "exec", receiver.netns, sys.executable, "-c", TCP_SERVER], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout
            assert server.stdout.readline() == "up\n"
            command = ["ip", "netns", "exec", sender.netns, sys.executable, "-c", TCP_CLIENT, receiver.ip]
            subprocess.run(command, input=data, timeout=60, check=True)
            digest = server.communicate(timeout=30)[0].strip()
        finally:
            server.kill()
            server.wait()
        assert digest == hashlib.sha256(data).hexdigest()
        counters = rig.fabric.counters()
        assert counters[0].job.packets > 2000
        assert counters[0].job.dropped_loss + counters[0].job.corrupted > 0
        assert all(link.malformed == 0 for link in counters)


def test_a_down_cable_loses_and_an_up_one_carries(tmp_path: Path) -> None:
    with Rig(tmp_path, LinkParameters(100_000_000, 100_000)) as rig:
        sender, receiver = rig.hosts
        rig.fabric.link_down(0)
        sender.send(receiver, numbered(0, 10), PAYLOAD_BYTES)
        wait_until("the drops are counted", lambda: rig.fabric.counters()[0].all.dropped_down == 10)
        rig.fabric.link_up(0)
        sender.send(receiver, numbered(10, 10), PAYLOAD_BYTES)
        arrivals = receiver.receive(10 * PAYLOAD_BYTES)
        assert numbers(b"".join(arrival.data for arrival in arrivals)) == list(range(10, 20))
        check_balance(total(rig.fabric.counters()))


def test_both_directions_of_a_port_are_captured(tmp_path: Path) -> None:
    with Rig(tmp_path, LinkParameters(100_000_000, 100_000)) as rig:
        first, second = rig.hosts
        target = tmp_path / "h0.pcapng"
        rig.fabric.capture_start("h0", 0, str(target), snap_bytes=64)
        first.send(second, numbered(0, 3), PAYLOAD_BYTES)
        second.receive(3 * PAYLOAD_BYTES)
        second.send(first, numbered(7, 2), PAYLOAD_BYTES)
        first.receive(2 * PAYLOAD_BYTES)
        now = time.time()
        rig.fabric.capture_stop()
        capture = read_pcapng(target)
        assert (capture.application, capture.interface, capture.link_type) == ("Testbed", "h0-eth0", 1)
        assert capture.comment == "node h0, port 0; time_dilation 1: model time = real time / 1"
        assert (capture.snap_bytes, capture.received, capture.dropped) == (64, 5, 0)
        assert all(0 <= now - record.at_ns / 1e9 < 5 for record in capture.records)
        assert [
            (r.direction, r.frame[29], struct.unpack_from("!I", r.frame, 42)[0], len(r.frame), r.length)
            for r in capture.records
        ] == [
            *[(OUTBOUND, 1, number, 64, FRAME_BYTES) for number in range(3)],
            *[(INBOUND, 2, number, 64, FRAME_BYTES) for number in (7, 8)],
        ]
        with pytest.raises(RunFailed, match="File exists"):
            rig.fabric.capture_start("h0", 0, str(target), snap_bytes=64)


def test_another_reader_understands_a_capture(tmp_path: Path) -> None:
    with Rig(tmp_path, LinkParameters(100_000_000, 100_000)) as rig:
        target = tmp_path / "h0.pcapng"
        rig.fabric.capture_start("h0", 0, str(target), snap_bytes=1001)  # no multiple of 4
        rig.hosts[0].send(rig.hosts[1], numbered(0, 400), PAYLOAD_BYTES)  # more than is buffered at once
        rig.hosts[1].receive(400 * PAYLOAD_BYTES)
        rig.fabric.capture_stop()
    read = [(bytes(frame), about) for frame, about in RawPcapNgReader(str(target))]
    assert [struct.unpack_from("!I", frame, 42)[0] for frame, _ in read] == list(range(400))
    assert {(len(frame), about.wirelen, about.ifname, about.tsresol) for frame, about in read} == {
        (1001, FRAME_BYTES, b"h0-eth0", 10**9)
    }
    own = read_pcapng(target)
    assert [about.tshigh << 32 | about.tslow for _, about in read] == [record.at_ns for record in own.records]


def test_captures_are_complete_when_the_fabric_has_quit(tmp_path: Path) -> None:
    with Rig(tmp_path, LinkParameters(100_000_000, 100_000)) as rig:
        target = tmp_path / "h0.pcapng"
        rig.fabric.capture_start("h0", 0, str(target), snap_bytes=64)
        rig.hosts[0].send(rig.hosts[1], numbered(0, 30), PAYLOAD_BYTES)
        rig.hosts[1].receive(30 * PAYLOAD_BYTES)
        rig.fabric.quit()
        assert rig.process.wait(5) == 0
        capture = read_pcapng(target)
        assert (capture.received, len(capture.records)) == (30, 30)


@pytest.mark.parametrize("end", ["capture_stop", "quit"])
def test_a_capture_that_could_not_be_written_is_told(tmp_path: Path, end: str) -> None:
    full, whole = tmp_path / "small", tmp_path / "h1.pcapng"
    full.mkdir()
    with Rig(tmp_path, LinkParameters(100_000_000, 100_000)) as rig:
        run("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(full))
        try:
            rig.fabric.capture_start("h0", 0, str(full / "h0.pcapng"), snap_bytes=1500)
            rig.fabric.capture_start("h1", 0, str(whole), snap_bytes=1500)
            rig.hosts[0].send(rig.hosts[1], numbered(0, 30), PAYLOAD_BYTES)
            rig.hosts[1].receive(30 * PAYLOAD_BYTES)
            with pytest.raises(RunFailed, match=r"No space left on device.*small/h0\.pcapng"):
                getattr(rig.fabric, end)()
            assert read_pcapng(whole).received == 30  # the others are complete all the same
            if end == "quit":
                assert rig.process.wait(5) == 0
        finally:
            run("umount", "--lazy", str(full))


def test_nothing_is_left_when_the_run_dies(tmp_path: Path) -> None:
    with Rig(tmp_path, LinkParameters(10**9)) as rig:
        host = rig.hosts[0]
        assert host.end.interface in host.command("ip", "-br", "link")
        rig.fabric.channel.close()
        rig.process.wait(5)
        assert rig.process.returncode == 0
        assert host.end.interface not in host.command("ip", "-br", "link")


def test_nothing_is_left_when_the_fabric_is_killed(tmp_path: Path) -> None:
    with Rig(tmp_path, LinkParameters(10**9)) as rig:
        host = rig.hosts[0]
        rig.process.send_signal(signal.SIGKILL)
        rig.process.wait(5)
        assert host.end.interface not in host.command("ip", "-br", "link")
        with pytest.raises(RunFailed):
            rig.fabric.mark()


def test_a_fabric_that_cannot_start_says_why(tmp_path: Path) -> None:
    end = LinkEnd("h0", 0, "h0-eth0", "there-is-no-such-namespace", host=True)
    config = FabricConfig(1, 1, (FabricLink(0, end, end, LinkParameters(10**9)),))
    assert FabricConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    with (
        pytest.raises(RunFailed, match="there-is-no-such-namespace"),
        fabric_process(tmp_path, config),
    ):
        pass


@pytest.mark.parametrize("delay_ns", [2**60, 2**63, 2**70])
def test_times_that_no_clock_holds_are_refused(tmp_path: Path, delay_ns: int) -> None:
    name = f"ft{os.getpid():x}"
    ends = [LinkEnd(f"h{i}", 0, f"h{i}-eth0", name, host=True) for i in range(2)]
    run("ip", "netns", "add", name)
    try:
        config = FabricConfig(1, 2, (FabricLink(0, ends[0], ends[1], LinkParameters(10**9, delay_ns)),))
        with pytest.raises(RunFailed, match=r"delay .* slowed down 2 times"), fabric_process(tmp_path, config):
            pass
        config = FabricConfig(1, 2, (FabricLink(0, ends[0], ends[1], LinkParameters(10**9, 2**59)),))
        with fabric_process(tmp_path, config) as (_, fabric, _):
            with pytest.raises(RunFailed, match=r"delay .* slowed down 2 times"):
                fabric.set_link(0, LinkParameters(10**9, delay_ns))
            with pytest.raises(RunFailed, match=r"jitter .* slowed down 2 times"):
                fabric.set_link(0, LinkParameters(10**9, 0, jitter_ns=delay_ns))
            fabric.set_link(0, LinkParameters(10**9, 2**59, jitter_ns=2**59))
    finally:
        run("ip", "netns", "del", name)


def test_a_request_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with Rig(tmp_path, LinkParameters(10**9)) as rig:
        with pytest.raises(RunFailed, match="h9"):
            rig.fabric.capture_start("h9", 0, "/nowhere", 64)
        with pytest.raises(RunFailed, match="burst"):
            rig.fabric.set_link(0, LinkParameters(10**9, loss=Loss(0.9, 2.0)))
        rig.fabric.mark()
