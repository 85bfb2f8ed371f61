"""The messages of one iteration, alike ones together, and what one costs on its way at the least."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.collective.cost import transfer_bytes
from testbed.collective.schedule import Schedule, Transfers
from testbed.plan.framing import Framing
from testbed.plan.timing import NS_PER_BYTE_BPS, Route

Buffer = tuple[int, int]  # elements, bytes of each
Kind = tuple[int, int, int]  # source and target rank, payload bytes
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cost:
    """The least times of a message alone: until its head reaches the last link, that link's work, until all is in."""

    head_ns: float
    work_ns: float
    whole_ns: float


def kinds(schedule: Schedule, buffer: Buffer) -> tuple[Transfers, list[Kind], Numbers]:
    """The transfers of a buffer that are not empty, their different kinds, and which kind each is."""
    elements, element_bytes = buffer
    size = transfer_bytes(schedule, elements * element_bytes, element_bytes)
    rows, size = schedule.transfers[size > 0], size[size > 0]
    sizes, which = np.unique(size, return_inverse=True)
    key = (rows["source"].astype(np.int64) * schedule.ranks + rows["destination"]) * max(1, len(sizes)) + which
    found, kind = np.unique(key, return_inverse=True)
    pair, which = np.divmod(found, max(1, len(sizes)))
    source, target = np.divmod(pair, schedule.ranks)
    return rows, list(zip(source.tolist(), target.tolist(), sizes[which].tolist(), strict=True)), kind


def messages(schedule: Schedule, buffers: Sequence[Buffer]) -> Iterator[tuple[Kind, int]]:
    """All messages of one iteration by kind, and how many there are of it."""
    for buffer in buffers:
        _, found, kind = kinds(schedule, buffer)
        yield from zip(found, np.bincount(kind).tolist(), strict=True)


def least_cost(route: Route, framing: Framing, size_bytes: int) -> Cost:
    """Store and forward, packet by packet: one link does all of them, each other link at least one."""
    total = framing.wire_bytes(size_bytes)
    first, last = framing.first_packet_bytes(size_bytes), framing.last_packet_bytes(size_bytes)
    per_byte = [NS_PER_BYTE_BPS / rate for rate in route.rates_bps]
    # In a flow shop, every way through packets and links that never steps back is a lower bound. These take the first
    # packet to link b, all packets over it, and the last one on; on equal links b at the end is exact.
    whole = max(
        first * sum(per_byte[:b]) + total * per_byte[b] + last * sum(per_byte[b + 1 :]) for b in range(len(per_byte))
    )
    head = route.delay_ns + first * sum(per_byte[:-1])
    return Cost(head, total * per_byte[-1], route.delay_ns + whole)
