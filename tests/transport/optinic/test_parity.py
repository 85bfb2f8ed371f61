"""Groups of packets with a parity packet each: who is in them, and what they repair."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.transport.optinic.parity import Parity

MTU = 16


def packets(message: bytes) -> list[bytes]:
    return [message[at : at + MTU] for at in range(0, len(message), MTU)]


def test_groups_take_turns_in_a_block() -> None:
    """Ten packets in groups of three, two of which take turns: two blocks, of six and of four."""
    blocks = list(Parity(3, 2, MTU).blocks(10))
    assert [[list(block.members(group)) for group in range(block.groups)] for block in blocks] == [
        [[0, 2, 4], [1, 3, 5]],
        [[6, 8], [7, 9]],
    ]


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 100))
def test_every_packet_is_in_one_group_of_at_most_k(size: int, depth: int, count: int) -> None:
    parity = Parity(size, depth, MTU)
    groups = [block.members(group) for block in parity.blocks(count) for group in range(block.groups)]
    assert sorted(packet for group in groups for packet in group) == list(range(count))
    assert all(len(group) <= size for group in groups)
    assert all(parity.group(packet, count) == group for group in groups for packet in group)
    if count % (size * depth) == 0:
        assert len(groups) * size == count  # 1/k more packets


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 400), st.integers(0, 2**32))
def test_one_that_is_lost_of_a_group_is_made_again(size: int, depth: int, length: int, seed: int) -> None:
    message = Random(seed).randbytes(length)
    parity, data = Parity(size, depth, MTU), packets(message)
    for block in parity.blocks(len(data)):
        payloads = parity.of(block, memoryview(message))
        for group in range(block.groups):
            members = block.members(group)
            longest = max(len(data[member]) for member in members)
            value = payloads[group * MTU : group * MTU + longest]
            assert parity.payload_bytes(members, length) == len(value) == longest
            for lost in members:
                holed = bytearray(message)
                holed[lost * MTU : lost * MTU + len(data[lost])] = b"?" * len(data[lost])
                assert parity.repaired(value, members, lost, memoryview(holed)) == data[lost]


@pytest.mark.parametrize("depth", [1, 4])
def test_a_burst_as_long_as_groups_take_turns_costs_no_group_two(depth: int) -> None:
    parity = Parity(4, depth, MTU)
    for block in parity.blocks(8 * depth):
        for first in range(block.first, block.first + block.packets - depth + 1):
            hit = [parity.group(packet, 8 * depth)[0] for packet in range(first, first + depth)]
            assert len(set(hit)) == depth
