"""The links that flows cross, for many flows at once and without a table a switch.

A switch sends to a neighbour that is one hop nearer to the destination's edge switch, as `testbed.routing` has it;
which of several is chosen as `p4/l3_ecmp.p4` does: by a hash of the flow, salted per switch (`ecmp`), or by the one
draw that a switch and a subnet have (`single`). Only distances are kept, a byte for each switch and edge switch, so
that the routes of 65,536 hosts are megabytes. Cables that are down are left out.
"""

from collections.abc import Collection, Sequence
from ipaddress import IPv4Address
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from testbed.routing.addressing import Addressing
from testbed.routing.router import salts
from testbed.topology.graph import Graph

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]

_FAR = 255
_AT_ONCE = 1 << 14  # flows that are looked at together, which bounds the memory
_UDP = 17  # the protocol's number in IPv4
_CRC32 = 0xEDB88320  # reflected: HashAlgorithm.crc32 of v1model is Ethernet's


class Routes:
    """Routes between the hosts of `graph`, which are numbers here, as in `graph.hosts`."""

    def __init__(
        self,
        graph: Graph,
        addressing: Addressing,
        kind: Literal["ecmp", "single"],
        seed: int,
        down: Collection[int] = (),
    ) -> None:
        self.nothing = len(graph.links)  # stands in paths where a shorter one has no link
        self._kind = kind
        names = graph.switches
        number = {name: i for i, name in enumerate(names)}
        self._salt = np.array(salts(seed, len(names)), np.uint64)
        self._up = np.array([graph.links_from(host)[0].index for host in graph.hosts], np.int64)
        self._edge = np.array([number[graph.edge_switch(host)] for host in graph.hosts], np.int64)
        self._ip = np.array([int(IPv4Address(addressing.hosts[host])) for host in graph.hosts], np.uint32)
        subnets = {IPv4Address(subnet.prefix.split("/")[0]): i for i, subnet in enumerate(addressing.subnets)}
        prefixes, which = np.unique(self._ip & np.uint32(0xFFFFFF00), return_inverse=True)
        self._subnet = np.array([subnets[IPv4Address(int(prefix))] for prefix in prefixes], np.int64)[which]
        between = [
            [
                (number[link.target], link.index, link.source_port)
                for link in graph.links_from(name)
                if link.target in number and link.cable not in down
            ]
            for name in names
        ]
        most = max(1, *map(len, between)) if between else 1
        self._neighbour = np.full((len(names), most), len(names), np.int64)
        self._link = np.full((len(names), most), self.nothing, np.int64)
        self._port = np.zeros((len(names), most), np.int64)
        for i, row in enumerate(between):
            for j, (other, link, port) in enumerate(row):
                self._neighbour[i, j], self._link[i, j], self._port[i, j] = other, link, port
        self._targets, self._target_of = np.unique(self._edge, return_inverse=True)
        self._distance = self._distances()

    def paths(self, source: Ints, target: Ints, source_port: Ints, target_port: int) -> Ints:
        """(flows, links of the longest): of UDP flows from one host to another, the links in order, then `nothing`.

        A flow that cannot reach its target has -1 in place of the links that lack.
        """
        parts = [
            self._walk(source[i : i + _AT_ONCE], target[i : i + _AT_ONCE], source_port[i : i + _AT_ONCE], target_port)
            for i in range(0, len(source), _AT_ONCE)
        ]
        return one_below_another(parts, self.nothing) if parts else np.zeros((0, 2), np.int64)

    def unlike(self, hosts: Ints, byte_ns: npt.NDArray[np.float64]) -> tuple[Ints, Ints]:
        """(source, target): for a host of each edge switch and kind of link one of `hosts` at each distance.

        byte_ns: by link; hosts with other ones are of another kind.
        """
        kind = np.stack((self._edge[hosts].astype(float), byte_ns[self._up[hosts]], byte_ns[self._up[hosts] ^ 1]))
        _, first, which = np.unique(kind, axis=1, return_index=True, return_inverse=True)
        which = which.reshape(-1)
        some = hosts[first]
        distance = self._distance[self._target_of[some][np.newaxis, :], self._edge[some][:, np.newaxis]]
        source, target = [], []
        for hops in np.unique(distance[distance > 0]):
            there = (distance == hops) & (distance > 0)
            source.append(some[there.any(axis=1)])
            target.append(some[there.argmax(axis=1)[there.any(axis=1)]])
        again = np.ones(len(hosts), bool)
        again[first] = False
        source.append(some[which[again]])  # of one switch
        target.append(hosts[again])
        return np.concatenate(source), np.concatenate(target)

    def _walk(self, source: Ints, target: Ints, source_port: Ints, target_port: int) -> Ints:
        flow = _flow_hash(self._ip[source], self._ip[target], source_port, target_port)
        here, to = self._edge[source], self._target_of[target]
        columns, moving = [self._up[source]], np.flatnonzero(here != self._edge[target])
        while len(moving):
            at, end = here[moving], to[moving]
            nearer = self._distance[end[:, np.newaxis], self._neighbour[at]] < self._distance[end, at][:, np.newaxis]
            choices = nearer.sum(axis=1)
            if self._kind == "ecmp":
                number = (_mixed(flow[moving] ^ self._salt[at]) >> np.uint64(16)).astype(np.int64) * choices >> 16
                chosen = (np.cumsum(nearer, axis=1) > number[:, np.newaxis]).argmax(axis=1)
            else:
                subnet = self._subnet[target[moving]]
                drawn = _draws(self._salt[at][:, np.newaxis], subnet[:, np.newaxis], self._port[at])
                chosen = np.where(nearer, drawn, 0).argmax(axis=1)
            column = np.full(len(source), self.nothing)
            column[moving] = np.where(choices > 0, self._link[at, chosen], -1)
            columns.append(column)
            here[moving] = self._neighbour[at, chosen]
            moving = moving[(choices > 0) & (here[moving] != self._edge[target[moving]])]
        columns.append(self._up[target] ^ 1)
        return _closed_up(np.stack(columns, axis=1), self.nothing)

    def _distances(self) -> npt.NDArray[np.uint8]:
        """(targets, switches and one that is no switch): hops to each edge switch, found for all of these at once."""
        switches, targets = len(self._neighbour), len(self._targets)
        words = -(-targets // 64)
        near = np.zeros((switches + 1, words), np.uint64)  # bit t % 64 of word t // 64: target t is `hops` away
        index = np.arange(targets)
        near[self._targets, index // 64] = np.uint64(1) << (index % 64).astype(np.uint64)
        seen, distance = near.copy(), np.full((targets, switches + 1), _FAR, np.uint8)
        hops = 0
        while near.any():
            bits = np.unpackbits(near.view(np.uint8), axis=1, count=targets, bitorder="little")
            distance[bits.T.astype(bool)] = hops
            hops += 1
            further = np.zeros_like(near)
            for column in self._neighbour.T:
                further[:switches] |= near[column]
            near = further & ~seen
            seen |= near
        return distance


def one_below_another(parts: Sequence[Ints], nothing: int) -> Ints:
    """The rows of all, as long as the longest; `nothing` fills up shorter ones."""
    if len(parts) == 1:
        return parts[0]
    longest, first = max((part.shape[1] for part in parts), default=0), 0
    rows = np.full((sum(map(len, parts)), longest), nothing, np.int64)
    for part in parts:
        rows[first : first + len(part), : part.shape[1]] = part
        first += len(part)
    return rows


def _closed_up(links: Ints, nothing: int) -> Ints:
    """The rows without gaps: `nothing` only at their ends."""
    order = np.argsort(links == nothing, axis=1, kind="stable")
    return np.take_along_axis(links, order, axis=1)


def _flow_hash(source: Words, target: Words, source_port: Ints, target_port: int) -> npt.NDArray[np.uint64]:
    """The CRC-32 of p4/include/flow_hash.p4: addresses, protocol and ports, in network order."""
    crc = np.full(len(source), 0xFFFFFFFF, np.uint32)
    for part, size in ((source, 4), (target, 4), (_UDP, 1), (source_port, 2), (target_port, 2)):
        number = np.asarray(part, np.uint32)
        for shift in range(8 * size - 8, -8, -8):
            byte = number >> np.uint32(shift) & np.uint32(0xFF)
            crc = _TABLE[(crc ^ byte) & np.uint32(0xFF)] ^ crc >> np.uint32(8)
    return (crc ^ np.uint32(0xFFFFFFFF)).astype(np.uint64)


def _crc_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> np.uint32(1) ^ np.uint32(_CRC32), table >> np.uint32(1))
    return table


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`mixed` of p4/include/flow_hash.p4: the finaliser of A. Appleby's MurmurHash3."""
    low = np.uint64(0xFFFFFFFF)
    x = (x ^ x >> np.uint64(16)) * np.uint64(0x85EBCA6B) & low
    x = (x ^ x >> np.uint64(13)) * np.uint64(0xC2B2AE35) & low
    return x ^ x >> np.uint64(16)


def _draws(*words: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """The draw that `testbed.routing.router` ranks a switch's ports to a subnet by, of arrays."""
    state: npt.NDArray[np.uint64] = np.zeros(1, np.uint64)
    for word in words:
        state = (state ^ word.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        state = state ^ state >> np.uint64(31)
    return state


_TABLE = _crc_table()
