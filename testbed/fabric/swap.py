"""What the exchange of a native switch's program takes: the new one is filled and tried out before it takes over.

Packets stand still only while registers are carried over and the two change places: the blackout. What waits in queues
then leaves by the old program's egress, and what comes goes to the new one.
"""

import ipaddress
import struct
from collections.abc import Iterable, Mapping, Sequence

from testbed.dataplane.bmv2model import Array, Program
from testbed.dataplane.native.configurable import ConfigurableSwitch
from testbed.dataplane.native.control import Control
from testbed.dataplane.stf_runner import Configurable
from testbed.errors import RunFailed
from testbed.routing.lookup import Lookup
from testbed.routing.model import Entry
from testbed.wire.ethernet import IPV4_BYTES, UDP_BYTES
from testbed.wire.roce import PROBE_PORT

MOST_CARRIED = 1 << 19  # elements of registers: two or three seconds if none is 0, and a fabric is held for 5 at most
_NOBODY = ipaddress.IPv4Address("10.255.255.254")
_SEVERAL = -1  # as `Fabric.probe_program` says: copies are the program's own affair
_UDP, _TTL = 17, 64


class Deferred:
    """A switch whose tables are filled now, and whose groups and sessions are set once it is there."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self._groups: dict[int, Sequence[tuple[int, int]]] = {}
        self._sessions: dict[int, dict[str, int | None]] = {}

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        self._groups[group] = replicas

    def set_session(self, session: int, *, port: int | None = None, group: int | None = None) -> None:
        self._sessions[session] = {"port": port, "group": group}

    def set_queue_depth(self, depth: int) -> None:
        raise NotImplementedError(depth)  # entries of a network have none

    def carry_out(self, switch: Configurable) -> None:
        """Set them."""
        for group, replicas in self._groups.items():
            switch.set_group(group, replicas)
        for session, where in self._sessions.items():
            switch.set_session(session, **where)


def check_routes(switch: ConfigurableSwitch, name: str, entries: Mapping[str, Entry]) -> None:
    """Have the loaded program see a packet to each prefix; raises RunFailed if it sends one the wrong way, or none.

    A program may have its reasons to drop a packet, but not for all of them.
    """
    reachable = [entry for entry in entries.values() if entry.ports]
    lookup, arrived = Lookup(reachable), 0
    for each in reachable:
        network = ipaddress.IPv4Network(each.prefix)
        target = network.network_address if network.prefixlen == network.max_prefixlen else network.network_address + 1
        entry = lookup.of(int(target)) or each
        port = switch.probe(reachable[0].ports[0], _frame_to(target))
        if port not in (*entry.ports, _SEVERAL, None):
            raise RunFailed(
                f"the program for {name} sends what is for {target} to port {port} instead of {entry.ports}",
                hint="the old program stays; `testbed p4 test` finds out why",
            )
        arrived += port is not None
    if reachable and not arrived:
        raise RunFailed(
            f"the program for {name} forwards nothing: it dropped a packet to each of {len(reachable)} prefixes",
            hint="the old program stays; `testbed p4 test` finds out why",
        )


def carried(old: Program, new: Program) -> list[Array]:
    """Registers that may be kept: of the same name, width and size. Raises RunFailed if they are too large for that."""
    theirs = {_shape(array) for array in old.registers}
    kept = [array for array in new.registers if _shape(array) in theirs]
    if (elements := sum(array.size for array in kept)) > MOST_CARRIED:
        raise RunFailed(
            f"the registers to be kept have {elements:,} elements: packets would stand still for too long; at most"
            f" {MOST_CARRIED:,} are kept",
            hint="the old program stays; registers that begin anew have no limit",
        )
    return kept


def carry_registers(kept: Iterable[Array], source: Control, target: Control) -> None:
    """Copy their elements, but for those that are 0."""
    for array in kept:
        for index, value in source.nonzero(array.name):
            target.write_register(array.name, index, value)


def _frame_to(target: ipaddress.IPv4Address) -> bytes:
    """An empty UDP datagram in Ethernet, without a UDP checksum (RFC 768)."""
    udp = struct.pack("!HHHH", PROBE_PORT, PROBE_PORT, UDP_BYTES, 0)
    ipv4 = (
        struct.pack("!BBHHHBBH", 0x45, 0, IPV4_BYTES + UDP_BYTES, 0, 0, _TTL, _UDP, 0) + _NOBODY.packed + target.packed
    )
    total = sum(struct.unpack("!10H", ipv4))  # RFC 1071
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ipv4 = ipv4[:10] + checksum.to_bytes(2, "big") + ipv4[12:]
    return b"".join((bytes(12), b"\x08\x00", ipv4, udp))


def _shape(array: Array) -> tuple[str, int, int]:
    return array.name, array.bits, array.size
