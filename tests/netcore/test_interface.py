"""Existing interfaces as ports of the fabric: what kernels leave unfinished on a veth pair comes out finished."""

import contextlib
import hashlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from testbed import netcore
from testbed.emulation import namespaces
from tests.netcore.pcapng import INBOUND, OUTBOUND, Record, read_pcapng
from tests.netcore.rig import run, wait_until
from tests.netcore.veths import Leaf, veths

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces and packet sockets"),
]

SIZE = 1 << 20
LIMIT_S = 20
VLAN = 42
SOL_PACKET, PACKET_AUXDATA = 263, 8  # linux/socket.h, linux/if_packet.h


class Wire:
    """Two hosts whose interfaces' peers a fabric joins; `captured` is what it saw at the first one's."""

    def __init__(self, fabric: netcore.Fabric, middle: str, hosts: list[Leaf], path: Path) -> None:
        self.fabric = fabric
        self.middle = middle
        self.hosts = hosts
        self._path = path

    def captured(self) -> list[Record]:
        self.fabric.capture_stop()
        return read_pcapng(self._path).records

    def udp(self, number: int, ip: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        made = namespaces.inside(self.hosts[number].netns, lambda: socket.socket(family, socket.SOCK_DGRAM))
        made.settimeout(LIMIT_S)
        made.bind((ip, 4000))
        return made

    def raw(self, netns: str, interface: str) -> socket.socket:
        made = namespaces.inside(netns, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        made.settimeout(LIMIT_S)
        made.bind((interface, 3))  # ETH_P_ALL
        return made


@contextlib.contextmanager
def wire(path: Path) -> Iterator[Wire]:
    with veths(2) as (middle, hosts):
        fabric = netcore.Fabric(1)
        fds = [namespaces.inside(middle, lambda name=h.interface: netcore.open_packet(name)) for h in hosts]
        ports = [fabric.add_port(fd, virtio=True, host=True, switch=0, spray=False, join=False) for fd in fds]
        for index in range(2):
            link = fabric.add_link(ports[index], ports[1 - index], index)
            fabric.set_link(link, rate_bps=10**11, delay_ns=0, queue_bytes=1 << 20)
        fabric.capture_start(ports[0], str(path), 65535)
        thread = threading.Thread(target=fabric.run)
        thread.start()
        try:
            yield Wire(fabric, middle, hosts, path)
        finally:
            fabric.stop()
            thread.join()


def whole(frame: bytes) -> bool:
    """Whether every checksum and length is as scapy computes it."""
    again = Ether(frame)
    for layer in (IP, IPv6, TCP, UDP):
        if layer in again:
            for name in ("chksum", "len", "plen"):
                if name in again[layer].fields:
                    delattr(again[layer], name)
    return bytes(again) == frame


def transfer(wire: Wire, ips: list[str]) -> None:
    """SIZE bytes over kernel TCP from the first host to the second."""
    family = socket.AF_INET6 if ":" in ips[0] else socket.AF_INET
    data = os.urandom(SIZE)
    sending, listening = (namespaces.inside(h.netns, lambda: socket.socket(family)) for h in wire.hosts)
    with sending, listening:
        listening.bind((ips[1], 5000))
        listening.listen()
        sending.settimeout(LIMIT_S)
        sending.connect((ips[1], 5000))
        thread = threading.Thread(target=lambda: (sending.sendall(data), sending.shutdown(socket.SHUT_WR)))
        thread.start()
        taking, _ = listening.accept()
        digest = hashlib.sha256()
        with taking:
            taking.settimeout(LIMIT_S)
            while piece := taking.recv(1 << 16):
                digest.update(piece)
        thread.join()
    assert digest.digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("version", [4, 6])
def test_tcp_crosses_in_whole_wire_packets(tmp_path: Path, version: int) -> None:
    with wire(tmp_path / "capture") as its:
        transfer(its, [host.ip if version == 4 else host.ip6 for host in its.hosts])
        records = [r for r in its.captured() if TCP in Ether(r.frame)]
    assert all(len(r.frame) == r.length <= 1514 and whole(r.frame) for r in records)
    sent = [Ether(r.frame)[TCP] for r in records if r.direction == OUTBOUND]
    assert len({tcp.seq for tcp in sent if len(tcp.payload)}) > SIZE / 1460 - 1
    assert any(r.direction == INBOUND for r in records)


@pytest.mark.parametrize("version", [4, 6])
def test_udp_segments_are_cut(tmp_path: Path, version: int) -> None:
    segment, count = 1000, 40
    with wire(tmp_path / "capture") as its:
        ips = [host.ip if version == 4 else host.ip6 for host in its.hosts]
        with its.udp(0, ips[0]) as sending, its.udp(1, ips[1]) as taking:
            data = os.urandom(segment * count)
            sending.setsockopt(socket.IPPROTO_UDP, 103, segment)  # UDP_SEGMENT
            sending.sendto(data, (ips[1], 4000))
            assert b"".join(taking.recv(2000) for _ in range(count)) == data
        frames = [r.frame for r in its.captured() if UDP in Ether(r.frame)]
    assert [len(Ether(frame)[UDP].payload) for frame in frames] == [segment] * count
    assert all(whole(frame) for frame in frames)


def test_a_vlan_tag_stays(tmp_path: Path) -> None:
    """A kernel takes the tag off before packet sockets see the frame, the receiver's too."""
    first = "02:00:00:00:00:01"
    frame = bytes(Ether(dst="02:00:00:00:00:02", src=first) / Dot1Q(vlan=VLAN, prio=5) / IP() / UDP() / bytes(40))
    with wire(tmp_path / "capture") as its:
        sending, taking = (its.raw(host.netns, "eth0") for host in its.hosts)
        with sending, taking:
            taking.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            sending.send(frame)
            while True:
                data, [(_, _, about)], _, _ = taking.recvmsg(2000, 100)
                if data[6:12] == frame[6:12]:
                    break
        (seen,) = [r.frame for r in its.captured() if Ether(r.frame).src == first]
    assert seen == frame
    assert data == frame[:12] + frame[16:]
    assert struct.unpack_from("=HH", about, 16) == (5 << 13 | VLAN, 0x8100)


def test_what_others_send_out_of_the_interface_is_not_read(tmp_path: Path) -> None:
    with wire(tmp_path / "capture") as its:
        host = its.hosts[0]
        with (
            its.raw(its.middle, host.interface) as other,
            its.udp(0, host.ip) as sending,
            its.udp(1, its.hosts[1].ip) as taking,
        ):
            other.send(bytes(Ether(dst=host.mac, src="02:00:00:00:00:99", type=0x88B5)) + bytes(50))
            sending.sendto(b"after", (its.hosts[1].ip, 4000))
            assert taking.recv(100) == b"after"
        assert not [r for r in its.captured() if Ether(r.frame).type == 0x88B5]


def test_an_interface_may_go_down_and_up(tmp_path: Path) -> None:
    with wire(tmp_path / "capture") as its:
        for state in ("down", "up"):
            run("ip", "-n", its.middle, "link", "set", its.hosts[0].interface, state)
        first, second = its.hosts
        wait_until("the carrier is back", lambda: "state UP" in first.command("ip", "link", "show", "eth0"))
        with its.udp(0, first.ip) as sending, its.udp(1, second.ip) as taking:
            sending.sendto(b"back", (second.ip, 4000))
            assert taking.recv(100) == b"back"


def test_there_is_no_such_interface() -> None:
    with pytest.raises(OSError, match=r"No such device.*none0"):
        netcore.open_packet("none0")
