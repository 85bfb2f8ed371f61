"""Packets that the kernel lost at hosts and switches outside every queue of the plan: the verdict must know of them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.emulation import namespaces
from testbed.emulation.commands import in_parallel, output_of

# /proc/net/snmp (RFC 4113 and Linux's own) -> what to call it.
CHECKSUM_WRONG = "UDP checksum wrong"
PORT_WITHOUT_LISTENER = "UDP port without a listener"
_UDP_COUNTERS = {
    "RcvbufErrors": "UDP receive buffer full",
    "SndbufErrors": "UDP send buffer full",
    "InCsumErrors": CHECKSUM_WRONG,
    "NoPorts": PORT_WITHOUT_LISTENER,
}
_RX_DROPPED = 3  # of the columns of /proc/net/dev


def host_drops(hosts: Mapping[str, str]) -> dict[str, int]:
    """Where -> packets, since each host's namespace was made; hosts: name -> namespace."""

    def one(item: tuple[str, str]) -> dict[str, int]:
        host, namespace = item
        snmp, devices = namespaces.inside(namespace, _read_tables)
        return {f"{host}: {what}": n for what, n in (parse_udp(snmp) | parse_receive_drops(devices)).items()}

    return {where: n for drops in in_parallel(one, hosts.items()) for where, n in drops.items()}


def packet_socket_drops(namespace: str) -> dict[str, int]:
    """Where -> packets that Open vSwitch's userspace datapath did not read in time."""
    listing = output_of(namespaces.entering(namespace, ["ss", "-0", "-n", "-m", "-H"]))
    drops = parse_packet_sockets(listing)
    return {f"{device}: not read in time by Open vSwitch": count for device, count in drops.items()}


def parse_udp(text: str) -> dict[str, int]:
    """`/proc/net/snmp` -> what was lost."""
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("Udp:"))
    counters = dict(zip(names, map(int, values), strict=True))
    return {what: counters[name] for name, what in _UDP_COUNTERS.items() if counters.get(name)}


def parse_receive_drops(text: str) -> dict[str, int]:
    """`/proc/net/dev` -> packets that interfaces got and dropped (the backlog between two ends of a veth was full)."""
    return {f"{device}: received and dropped": n for device, n in _receive_drops(text.splitlines()[2:]) if n}


def parse_packet_sockets(listing: str) -> dict[str, int]:
    """`ss -0 -n -m -H` -> device -> drops (field d of skmem, see ss(8)); those without any are left out."""
    drops: dict[str, int] = {}
    for line in listing.splitlines():
        words = line.split()
        memory = next((word for word in words if word.startswith("skmem:(")), "")
        count = int(memory.rstrip(")").rpartition(",d")[2] or 0)
        if count:
            device = words[3].rpartition(":")[2]
            drops[device] = drops.get(device, 0) + count
    return drops


def _receive_drops(lines: Iterable[str]) -> Iterable[tuple[str, int]]:
    for line in lines:
        device, _, columns = line.partition(":")
        yield device.strip(), int(columns.split()[_RX_DROPPED])


def _read_tables() -> tuple[str, str]:
    table = Path("/proc/thread-self/net")
    return (table / "snmp").read_text(), (table / "dev").read_text()
