"""XOR parity: which packets of a message share a parity packet, and what is made of them.

A message's packets are cut into blocks of `depth` groups of at most `size` packets. In a block the groups take turns,
so that a burst that loses up to as many packets in a row as the block has groups costs none of them more than one.
Behind each block follow its parity packets, one a group: the XOR of the members, each filled up with zeros. One that is
lost of a group is made again from the others.

Of data packets that are lost independently with probability p, p (1 - (1 - p)^k) stay lost with groups of k, for 1/k
more packets. Source: erasure coding is what OptiNIC's paper names in place of the Hadamard transform; that it is XOR
over groups is our reading, and so are the groups that take turns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from testbed.transport.endpoint import Buffer


class Block(NamedTuple):
    """The packets [first, first + packets) of a message; its group g has first + g, first + g + groups, ..."""

    first: int
    packets: int
    groups: int

    def members(self, group: int) -> range:
        return range(self.first + group, self.first + self.packets, self.groups)


@dataclass(frozen=True, slots=True)
class Parity:
    """Groups of `size` packets, `depth` of them taking turns. mtu_bytes: of every packet of a message but the last."""

    size: int
    depth: int
    mtu_bytes: int

    def blocks(self, packets: int) -> Iterator[Block]:
        """Those of a message of so many packets."""
        span = self.size * self.depth
        for first in range(0, packets, span):
            yield self._block(first, packets)

    def group(self, packet: int, packets: int) -> range:
        """The members of the group that `packet` belongs to."""
        block = self._block(packet // (self.size * self.depth) * self.size * self.depth, packets)
        return block.members((packet - block.first) % block.groups)

    def of(self, block: Block, message: memoryview) -> memoryview:
        """The payloads of the block's parity packets, end to end; all have the length of their longest member."""
        begin = block.first * self.mtu_bytes
        data = np.frombuffer(message[begin : begin + block.packets * self.mtu_bytes], np.uint8)
        rows = np.zeros((block.packets, self.mtu_bytes), np.uint8)
        rows.reshape(-1)[: len(data)] = data
        found = np.stack([np.bitwise_xor.reduce(rows[group :: block.groups]) for group in range(block.groups)])
        size = (block.groups - 1) * self.mtu_bytes + self.payload_bytes(block.members(block.groups - 1), len(message))
        return found.reshape(-1).data[:size]

    def payload_bytes(self, members: range, message_bytes: int) -> int:
        """Of a parity packet."""
        return min(self.mtu_bytes, message_bytes - members[0] * self.mtu_bytes)

    def repaired(self, parity: Buffer, members: range, lost: int, message: memoryview) -> memoryview:
        """The payload of member `lost`, from the others, which are in place in `message`."""
        value = np.frombuffer(parity, np.uint8).copy()
        for member in members:
            if member != lost:
                begin = member * self.mtu_bytes
                data = np.frombuffer(message[begin : begin + self.mtu_bytes], np.uint8)
                value[: len(data)] ^= data
        return value.data[: min(self.mtu_bytes, len(message) - lost * self.mtu_bytes)]

    def _block(self, first: int, packets: int) -> Block:
        count = min(self.size * self.depth, packets - first)
        return Block(first, count, -(-count // self.size))
