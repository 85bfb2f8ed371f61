"""What a schedule costs: bytes, the textbook's α-β form, and a lower bound on its time over given ports.

α is the time that a message takes besides being sent, β the time a byte takes; T = messages·α + share·S·β for a buffer
of S bytes (Thakur, Rabenseifner and Gropp, IJHPCA 2005; Chan et al., "Collective communication: theory, practice, and
experience", 2007). The reduction's own time (γ) is not counted.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import Schedule, Transfers, by_chunk

Times = npt.NDArray[np.float64]  # ns


def closed_form(collective: str, algorithm: str, ranks: int) -> tuple[int, Fraction] | None:
    """(messages, share) of T = messages·α + share·S·β when all go step by step; None where the textbook has no form."""
    n, doublings = ranks, (ranks - 1).bit_length()
    power, extras = 1 << (n.bit_length() - 1), n & (n - 1) != 0
    halves = 2 if collective == "allreduce" else 1  # a reduce-scatter and an all-gather, or a reduction and a broadcast
    fair = Fraction(n - 1, n)
    match algorithm:
        case "ring" if collective == "broadcast":
            return 2 * (n - 1), 2 * fair  # the chain: n-2+k steps of 1/k, with k = n chunks
        case "ring":
            return halves * (n - 1), halves * fair
        case "halving-doubling" if collective == "allreduce":
            return 2 * (n.bit_length() - 1 + extras), 2 * (Fraction(power - 1, power) + extras)
        case "halving-doubling" if not extras:
            return doublings, fair
        case "recursive-doubling":
            return n.bit_length() - 1 + 2 * extras, Fraction(n.bit_length() - 1 + 2 * extras)
        case "binomial":
            return halves * doublings, Fraction(halves * doublings)
        case "parameter-server":
            return 2, Fraction(2 * (n - 1))
        case "pairwise" if n % 2 == 0:
            return n - 1, fair
    return None


def transfer_bytes(schedule: Schedule, size_bytes: int, itemsize: int) -> npt.NDArray[np.int64]:
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


def bound_ns(
    schedule: Schedule,
    size_bytes: int,
    itemsize: int,
    *,
    wire_bytes: Callable[[int], int],
    rate_bps: Callable[[int], int],
    latency_ns: Callable[[int, int], int],
    frame_bytes: int = 0,
) -> int:
    """The least time in which any network could carry `schedule` out, from the start to the last arrival.

    wire_bytes(payload): what a message occupies on a link, all its packets' overheads included. rate_bps(rank): of its
    port, each way. latency_ns(source, destination): from the departure of a message's last bit to its arrival on an
    empty network, so each link's delay and, on all links but the first, one frame. frame_bytes: that frame on the wire
    (it matters only where ports differ in rate).

    It is a lower bound whatever order a network serves messages in: a message leaves when all that it needs has come;
    what must all pass one port takes at least the sum of it after the first can begin (Carlier's one-machine bound).
    On a star with equal ports it equals the α-β form of every algorithm whose messages wait for each other.
    """
    ranks = schedule.ranks
    payload = transfer_bytes(schedule, size_bytes, itemsize)
    rows, payload = schedule.transfers[payload > 0], payload[payload > 0]
    if not len(rows):
        return 0
    source, destination = rows["source"].astype(np.int64), rows["destination"].astype(np.int64)
    wire = _each(wire_bytes, payload)
    ns_per_byte = 8e9 / _each(rate_bps, np.arange(ranks))
    send, receive = wire * ns_per_byte[source], wire * ns_per_byte[destination]
    latency = _each(lambda pair: latency_ns(*divmod(pair, ranks)), source * ranks + destination)
    # The last frame of latency_ns overlaps with a slow receiver's own time, save for the first frame at the source.
    overlap = frame_bytes * np.maximum(ns_per_byte[destination] - ns_per_byte[source], 0)

    lanes = int(rows["lane"].max()) + 1
    out_ports, in_ports = _Load(ranks * lanes), _Load(ranks * lanes)
    chunks = _Load(ranks * schedule.chunks)
    bounds = np.searchsorted(rows["step"], np.arange(schedule.steps + 1))
    for first, last in zip(bounds, bounds[1:], strict=False):
        step = slice(first, last)
        head = _ready(schedule, rows[step], chunks, in_ports, lanes)
        begins = head + latency[step] - overlap[step]
        arrives = np.maximum(head + send[step] + latency[step], begins + receive[step])
        singles = by_chunk(rows[step])
        which = np.repeat(np.arange(last - first), rows[step]["count"])
        places = singles["destination"].astype(np.int64) * schedule.chunks + singles["at"]
        chunks.add(places, begins[which], receive[step][which], arrives[which])
        in_ports.add(destination[step] * lanes + rows[step]["lane"], begins, receive[step], arrives)
        # Behind the last departure there is at least that message's latency.
        out_ports.add(source[step] * lanes + rows[step]["lane"], head, send[step], arrives, latency[step])
    return int(max(out_ports.ends().max(), in_ports.ends().max()) + 1e-6)  # not a ns less for a rounding error


def _ready(schedule: Schedule, rows: Transfers, chunks: "_Load", in_ports: "_Load", lanes: int) -> Times:
    """When the data of each transfer is there; with a barrier, when all of the rank's earlier receives are."""
    if schedule.barrier:
        return in_ports.ends().reshape(-1, lanes).max(axis=1)[rows["source"]]
    singles = by_chunk(rows)
    places = singles["source"].astype(np.int64) * schedule.chunks + singles["chunk"]
    starts = np.cumsum(rows["count"]) - rows["count"]
    return np.asarray(np.maximum.reduceat(chunks.ends(places), starts))


class _Load:
    """What must all pass each of some machines: when the first can begin, how long all take, the latest known end."""

    def __init__(self, machines: int) -> None:
        self._begins = np.full(machines, np.inf)
        self._takes = np.zeros(machines)
        self._ends = np.zeros(machines)
        self._tail = np.full(machines, np.inf)

    def add(
        self, machine: npt.NDArray[np.int64], begins: Times, takes: Times, ends: Times, tail: Times | float = 0.0
    ) -> None:
        np.minimum.at(self._begins, machine, begins)
        np.add.at(self._takes, machine, takes)
        np.maximum.at(self._ends, machine, ends)
        np.minimum.at(self._tail, machine, tail)

    def ends(self, machine: Any = slice(None)) -> Times:
        """When all that was added to each machine has ended at the earliest; 0 where there was nothing."""
        takes = self._takes[machine]
        last = np.where(takes > 0, self._begins[machine] + takes + self._tail[machine], 0.0)
        return np.asarray(np.maximum(self._ends[machine], last))


def _each(function: Callable[[int], int], arguments: npt.NDArray[np.int64]) -> Times:
    """`function` of each argument, called once for each that differs."""
    values, index = np.unique(arguments, return_inverse=True)
    return np.array([function(int(value)) for value in values], np.float64)[index]
