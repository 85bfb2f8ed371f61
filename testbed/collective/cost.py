"""What a schedule costs on any network: bytes, and its α-β form (the bound on given links is in `testbed.plan`).

α is the time that a message takes besides being sent, β the time a byte takes at a port. Step by step, a schedule takes
T = steps·α + bytes·β, where `bytes` adds up what the busiest port carries in each step (Thakur, Rabenseifner and Gropp,
"Optimization of collective communication operations in MPICH", IJHPCA 2005). The additions' own time is not counted.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import Schedule


class AlphaBeta(NamedTuple):
    """T = steps·α + bytes·β."""

    steps: int
    bytes: int


def transfer_bytes(schedule: Schedule, size_bytes: int, itemsize: int = 1) -> npt.NDArray[np.int64]:
    """The payload of each transfer when the buffer has `size_bytes`, cut between elements of `itemsize` bytes."""
    ranges = np.array(schedule.ranges(size_bytes // itemsize), np.int64)
    rows = schedule.transfers
    elements = ranges[rows["chunk"] + rows["count"] - 1, 1] - ranges[rows["chunk"], 0]
    return np.asarray(elements * itemsize, np.int64)


def bytes_sent(schedule: Schedule, size_bytes: int, itemsize: int = 1) -> npt.NDArray[np.int64]:
    """The payload that each rank sends, retransmissions aside."""
    sent = np.zeros(schedule.ranks, np.int64)
    np.add.at(sent, schedule.transfers["source"], transfer_bytes(schedule, size_bytes, itemsize))
    return sent


def alpha_beta(schedule: Schedule, size_bytes: int, itemsize: int = 1) -> AlphaBeta:
    """The α-β form of `schedule` step by step, empty steps left out."""
    payload = transfer_bytes(schedule, size_bytes, itemsize)
    rows = schedule.transfers
    lanes = int(rows["lane"].max(initial=0)) + 1
    busiest = np.zeros(schedule.steps, np.int64)
    for end in ("source", "destination"):
        ports = np.zeros((schedule.steps, schedule.ranks, lanes), np.int64)
        np.add.at(ports, (rows["step"], rows[end], rows["lane"]), payload)
        busiest = np.maximum(busiest, ports.max(axis=(1, 2), initial=0))
    return AlphaBeta(int(np.count_nonzero(busiest)), int(busiest.sum()))
