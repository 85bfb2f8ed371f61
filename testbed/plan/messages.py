"""The messages of one iteration, alike ones together, and what one costs on its way at the least."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testbed.collective.cost import transfer_bytes
from testbed.collective.schedule import Schedule
from testbed.plan.framing import Framing
from testbed.plan.timing import NS_PER_BYTE_BPS, Route

Buffer = tuple[int, int]  # elements, bytes of each


@dataclass(frozen=True, slots=True)
class Messages:
    """`count` messages of `size_bytes` from rank `source` to rank `target`."""

    source: int
    target: int
    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Cost:
    """The least times of a message alone: until its head reaches the last link, that link's work, until all is in."""

    head_ns: float
    work_ns: float
    whole_ns: float


def messages(schedule: Schedule, buffers: Sequence[Buffer]) -> list[Messages]:
    """All messages of one iteration; empty transfers are none."""
    found = []
    for elements, element_bytes in buffers:
        size = transfer_bytes(schedule, elements * element_bytes, element_bytes)
        keys = np.stack([schedule.transfers["source"], schedule.transfers["destination"], size])
        kinds, counts = np.unique(keys[:, size > 0], axis=1, return_counts=True)
        found += [
            Messages(source, target, size_bytes, count)
            for (source, target, size_bytes), count in zip(kinds.T.tolist(), counts.tolist(), strict=True)
        ]
    return found


def least_cost(route: Route, framing: Framing, size_bytes: int) -> Cost:
    """Store and forward, packet by packet: one link does all of them, each other link at least one."""
    total, last = framing.wire_bytes(size_bytes), framing.last_packet_bytes(size_bytes)
    first = min(total, framing.full_bytes)
    per_byte = [NS_PER_BYTE_BPS / rate for rate in route.rates_bps]
    # In a flow shop, every way through packets and links that never steps back is a lower bound. These take the first
    # packet to link b, all packets over it, and the last one on; on equal links b at the end is exact.
    whole = max(
        first * sum(per_byte[:b]) + total * per_byte[b] + last * sum(per_byte[b + 1 :]) for b in range(len(per_byte))
    )
    head = route.delay_ns + first * sum(per_byte[:-1])
    return Cost(head, total * per_byte[-1], route.delay_ns + whole)
