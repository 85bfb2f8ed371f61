"""The fabric process with real TAPs, as far as times are judged: rates, delays, and a queue that fills and drains."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.fabric.counters import total
from testbed.fabric.model import FabricConfig, FabricLink, LinkEnd
from testbed.topology.graph import Ecn, LinkParameters
from tests.netcore.rig import (
    FRAME_BYTES,
    PAYLOAD_BYTES,
    Host,
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
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces and TAP devices"),
]

WIRE_BYTES = FRAME_BYTES + 24


@pytest.mark.parametrize("segmentation", ["auto", "off"])
@pytest.mark.parametrize(("packets", "rate_bps"), [(16, 20_000_000), (1000, 100_000_000)])
def test_a_train_arrives_at_the_rate(tmp_path: Path, packets: int, rate_bps: int, segmentation: str) -> None:
    with Rig(tmp_path, LinkParameters(rate_bps, 100_000), segmentation=segmentation) as rig:  # type: ignore[arg-type]
        sender, receiver = rig.hosts
        measured = []
        for _ in range(5):
            sender.send(receiver, numbered(0, packets), PAYLOAD_BYTES)
            arrivals = receiver.receive(packets * PAYLOAD_BYTES)
            assert numbers(b"".join(arrival.data for arrival in arrivals)) == list(range(packets))
            behind = sum(len(arrival.data) // PAYLOAD_BYTES for arrival in arrivals[1:])
            measured.append(behind * WIRE_BYTES * 8 * 1e9 / (arrivals[-1].at_ns - arrivals[0].at_ns))
        assert statistics.median(measured) == pytest.approx(rate_bps, rel=0.03)
        counters = rig.fabric.counters()[0]
        if packets == 1000:
            assert counters.measured_bps == pytest.approx(rate_bps, rel=0.03)
        assert counters.job.packets == 5 * packets == counters.job.bytes // FRAME_BYTES
        assert counters.job.dropped_queue == 0  # a host's own port holds its sender back
        assert counters.ring_dropped == counters.malformed == counters.write_errors == 0


@pytest.mark.parametrize("delay_ns", [0, 200_000, 5_000_000])
def test_the_median_delay_of_a_link_alone(tmp_path: Path, delay_ns: int) -> None:
    with Rig(tmp_path, LinkParameters(10**9, delay_ns)) as rig:
        sender, receiver = rig.hosts
        for number in range(100):
            sender.send(receiver, numbered(number, 1), PAYLOAD_BYTES)
            receiver.receive(PAYLOAD_BYTES)
        late_ns = rig.fabric.counters()[0].late_p50_ns
        assert late_ns is not None
        assert late_ns <= max(50_000, delay_ns // 20)
        rig.fabric.mark()
        assert rig.fabric.counters()[0].late_p50_ns is None


def test_parameters_change_while_packets_are_inside(tmp_path: Path) -> None:
    slow, fast = LinkParameters(1_000_000, 1000), LinkParameters(10**9, 1000)
    with Rig(tmp_path, slow) as rig:
        sender, receiver = rig.hosts
        sender.send(receiver, numbered(0, 200), PAYLOAD_BYTES)  # 1.7 s at the slow rate
        wait_until("packets are inside", lambda: rig.fabric.in_flight()[1] > 100)
        before = time.monotonic()
        rig.fabric.set_link(0, fast)
        arrivals = receiver.receive(200 * PAYLOAD_BYTES)
        assert time.monotonic() - before < 0.5
        assert numbers(b"".join(arrival.data for arrival in arrivals)) == list(range(200))


def test_marks_and_drops_of_a_switch_queue(tmp_path: Path) -> None:
    """h0 sends over a fast cable into a namespace that bridges it to a slow one, as a switch would."""
    tag = f"fw{os.getpid():x}"
    names = {kind: f"{tag}-{kind}" for kind in ("a", "b", "s")}
    ecn = Ecn(20 * FRAME_BYTES, 20 * FRAME_BYTES, 1.0)
    fast = LinkParameters(10**9, 10_000)
    slow = LinkParameters(20_000_000, 10_000, queue_bytes=60 * FRAME_BYTES, ecn=ecn)
    hosts = [Host(names["a"], 0), Host(names["b"], 1)]
    ports = [LinkEnd("s0", i + 1, f"s0-eth{i + 1}", names["s"], host=False) for i in range(2)]
    links = (
        FabricLink(0, hosts[0].end, ports[0], fast),
        FabricLink(1, ports[0], hosts[0].end, fast),
        FabricLink(2, ports[1], hosts[1].end, slow),
        FabricLink(3, hosts[1].end, ports[1], slow),
    )
    for name in names.values():
        run("ip", "netns", "add", name)
    try:
        with fabric_process(tmp_path, FabricConfig(1, 1, links, spray=True)) as (_, fabric, _):
            for host in hosts:
                host.bring_up(1500)
            hosts[0].knows(hosts[1])
            inner = ["ip", "netns", "exec", names["s"]]
            for port in ports:
                run(*inner, "ip", "link", "set", "dev", port.interface, "up")
            switch = subprocess.Popen(
                [*inner, sys.executable, "-c", FORWARD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            try:
                assert switch.stdout
                assert switch.stdout.readline() == b"up\n"
                hosts[0].send(hosts[1], numbered(0, 100), PAYLOAD_BYTES, tos=2)
                arrivals = hosts[1].receive(100 * PAYLOAD_BYTES, quiet_s=0.3)
                counters = {link.index: link for link in fabric.counters()}
                marked = sum(len(a.data) // PAYLOAD_BYTES for a in arrivals if a.tos & 3 == 3)
                got = sum(len(a.data) // PAYLOAD_BYTES for a in arrivals)
                assert counters[2].job.entered == 100 == got + counters[2].job.dropped_queue
                assert counters[2].job.dropped_queue > 20
                assert counters[2].max_queue_bytes == 60 * FRAME_BYTES
                assert marked == counters[2].job.ecn_marked > 30
                fabric.link_down(1)
                state = f"/sys/class/net/{ports[1].interface}/operstate"
                assert run(*inner, "cat", state) == "dormant\n"
                hosts[0].send(hosts[1], numbered(100, 30), PAYLOAD_BYTES)
                wait_until("the lost are counted", lambda: fabric.counters()[2].job.dropped_down == 30)
                fabric.link_up(1)
                assert run(*inner, "cat", state) == "up\n"
                hosts[0].send(hosts[1], numbered(130, 20), PAYLOAD_BYTES)
                assert len(b"".join(a.data for a in hosts[1].receive(20 * PAYLOAD_BYTES))) == 20 * PAYLOAD_BYTES
                assert all(link.ring_dropped == 0 for link in fabric.counters())
                check_balance(total(fabric.counters()))
                sources = {
                    bytes.fromhex(line.decode())[11] & 15 for line in switch.communicate(b"", timeout=5)[0].split()
                }
                assert len(sources) == 16  # sprayed: 100 draws of 16 miss one with a chance of 2.5 %, seed 1 does not
            finally:
                switch.kill()
                switch.wait()
                for host in hosts:
                    host.socket.close()
    finally:
        for name in names.values():
            run("ip", "netns", "del", name)


FORWARD = """
import select, socket, sys
ports = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2)]
for i, port in enumerate(ports):
    port.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
    port.bind((f"s0-eth{i + 1}", 0))
print("up", flush=True)
seen = []
while sys.stdin not in (ready := select.select([*ports, sys.stdin], [], [])[0]):
    for port in ready:
        frame, address = port.recvfrom(65536)
        if address[2] != socket.PACKET_OUTGOING:
            ports[1 - ports.index(port)].send(frame)
            seen.append(frame[:12].hex())
print("\\n".join(seen))
"""
