"""What a host's link counts of packets that are not addressed to its host."""

import ipaddress

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from testbed.netcore import Fabric

MAC, OTHER_MAC, EVERYBODY = "02:00:00:00:00:01", "02:00:00:00:00:02", "ff:ff:ff:ff:ff:ff"
IP_ADDRESS, OTHER_IP = "10.0.0.1", "10.0.0.2"
ROCE_PORT = 4791


class Cable:
    """One cable to a host, in a fabric under a virtual clock."""

    def __init__(self) -> None:
        self.fabric = Fabric(1, virtual=True)
        self.source, self.host = self.fabric.add_memory_port(), self.fabric.add_memory_port()
        self.fabric.set_link(
            self.fabric.add_link(self.source, self.host, 0), rate_bps=10**9, delay_ns=0, queue_bytes=10**6
        )
        self.fabric.set_job((ROCE_PORT,), 5000, 5999)

    def strayed(self, *frames: Ether) -> tuple[int, int]:
        """Of all packets, and of the job's."""
        for frame in frames:
            self.fabric.send(self.source, bytes(frame))
        self.fabric.advance(10**9)
        ((every, job, _),) = self.fabric.counters()
        assert every["packets"] == len(frames), "a host gets them all the same"
        return every["strayed"], job["strayed"]


@pytest.fixture
def cable() -> Cable:
    made = Cable()
    made.fabric.set_address(made.host, bytes.fromhex(MAC.replace(":", "")), int(ipaddress.IPv4Address(IP_ADDRESS)))
    return made


def roce(mac: str, ip: str, port: int = ROCE_PORT) -> Ether:
    return Ether(dst=mac) / IP(dst=ip) / UDP(dport=port) / bytes(40)


def test_what_is_for_the_host_does_not_stray(cable: Cable) -> None:
    assert cable.strayed(roce(MAC, IP_ADDRESS), roce(EVERYBODY, IP_ADDRESS), Ether(dst=EVERYBODY) / ARP()) == (0, 0)


@pytest.mark.parametrize(("mac", "ip"), [(OTHER_MAC, IP_ADDRESS), (MAC, OTHER_IP), (EVERYBODY, OTHER_IP)])
def test_what_is_for_another_strays(cable: Cable, mac: str, ip: str) -> None:
    assert cable.strayed(roce(mac, ip), roce(mac, ip), roce(mac, ip, port=9)) == (3, 2)


def test_nothing_is_known_to_stray_where_no_address_is_known() -> None:
    assert Cable().strayed(roce(OTHER_MAC, OTHER_IP)) == (0, 0)


def test_only_hosts_have_addresses(cable: Cable) -> None:
    with pytest.raises(ValueError, match="6 bytes"):
        cable.fabric.set_address(cable.host, b"\2", 0)
    with pytest.raises(IndexError, match="no port 7"):
        cable.fabric.set_address(7, bytes(6), 0)
