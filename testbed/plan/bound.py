"""The alpha-beta bound: a time below which a schedule cannot end on these links, whatever its transport does.

Two things hold it back. *Dependencies*: a rank cannot send what it has not received, and a message takes at least its
latency (alpha: delays, and one packet's serialisation at every further hop) plus its bytes at the slowest link (beta).
*Ports*: all that crosses a link, or the links that share a stage of the paths, takes at least its bytes at their rate,
after the earliest of it can be there and before the last of it is home (Carlier's one-machine bound). Where a rank
receives from several in one step, both meet: it has all only when its port has carried all. The bound is the larger of
the two; for a ring on equal links it is 2(n-1)(alpha + beta * size / n) with all headers counted (Thakur, Rabenseifner
and Gropp, IJHPCA 2005, section 4).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import Schedule, Transfers, spans
from testbed.plan.framing import Framing
from testbed.plan.messages import Buffer, Cost, Kind, Numbers, kinds, least_cost
from testbed.plan.paths import RankPaths
from testbed.plan.timing import NS_PER_BYTE_BPS, Route, StageTimes

_Floats = npt.NDArray[np.float64]
_ROUNDING_NS = 1e-3  # floating point must not cost the last whole nanosecond


def bound_ns(paths: RankPaths, framing: Framing, schedule: Schedule, buffers: Sequence[Buffer]) -> int:
    """The bound for one iteration in whole ns; its buffers may be under way together."""
    network = _Network(paths, framing)
    loads: dict[tuple[int, ...], _Load] = defaultdict(_Load)
    end = 0.0
    for buffer in buffers:
        rows, found, kind = kinds(schedule, buffer)
        if len(rows):
            costs = [network.cost(*key) for key in found]
            head, work, whole = np.array([(c.head_ns, c.work_ns, c.whole_ns) for c in costs])[kind].T
            ready, last = _follow(schedule, rows, head, work, whole)
            end = max(end, last)
            earliest = np.full(len(found), np.inf)
            np.minimum.at(earliest, kind, ready)
            for key, first, count in zip(found, earliest.tolist(), np.bincount(kind).tolist(), strict=True):
                network.load(loads, key, first, count)
    return int(max([end, *(load.head_ns + load.work_ns + load.tail_ns for load in loads.values())]) + _ROUNDING_NS)


@dataclass(slots=True)
class _Load:
    """On the links of one stage: when the first of it can be there, the work, the least time from there to the end."""

    head_ns: float = np.inf
    work_ns: float = 0.0
    tail_ns: float = np.inf


class _Network:
    """What messages cost and ask of links, by kind."""

    def __init__(self, paths: RankPaths, framing: Framing) -> None:
        self._paths = paths
        self._times = StageTimes(paths.graph)
        self._framing = framing
        self._costs: dict[tuple[Route, int], Cost] = {}

    def cost(self, source: int, target: int, size_bytes: int) -> Cost:
        key = self._times.fastest(self._paths.stages(source, target)), size_bytes
        if key not in self._costs:
            self._costs[key] = least_cost(key[0], self._framing, size_bytes)
        return self._costs[key]

    def load(self, loads: dict[tuple[int, ...], _Load], kind: Kind, ready_ns: float, count: int) -> None:
        """Add what `count` messages, the first ready at `ready_ns`, ask of each stage of their path."""
        source, target, size_bytes = kind
        stages = self._paths.stages(source, target)
        route = self._times.fastest(stages)
        bytes_ = count * self._framing.wire_bytes(size_bytes)
        packet_bytes = min(self._framing.last_packet_bytes(size_bytes), self._framing.full_bytes)
        packet_ns = [packet_bytes * NS_PER_BYTE_BPS / rate for rate in route.rates_bps]
        for i, stage in enumerate(stages):
            load = loads[stage]
            load.work_ns += bytes_ * NS_PER_BYTE_BPS / route.total_bps[i]
            load.head_ns = min(load.head_ns, ready_ns + sum(packet_ns[:i]))
            load.tail_ns = min(load.tail_ns, route.delay_ns + sum(packet_ns[i + 1 :]))


def _follow(schedule: Schedule, rows: Transfers, head: _Floats, work: _Floats, whole: _Floats) -> tuple[_Floats, float]:
    """When each transfer could start at the earliest, and the end of the last, by its dependencies."""
    have = np.zeros((schedule.ranks, schedule.chunks))  # when a rank has a chunk as the next step wants it
    ready = np.zeros(len(rows))
    borders = [0, *(np.flatnonzero(np.diff(rows["step"])) + 1).tolist(), len(rows)]
    for first, last in pairwise(borders):
        now, step = rows[first:last], slice(first, last)
        if schedule.barrier:
            ready[step] = have.max(axis=1)[now["source"]]
        else:
            which, chunk = _cells(now["chunk"], now["count"])
            np.maximum.at(ready[step], which, have[now["source"][which], chunk])
        which, chunk = _cells(now["at"], now["count"])
        cells = now["destination"][which], chunk
        np.maximum.at(have, cells, (ready[step] + whole[step])[which])
        if schedule.incast and schedule.barrier:
            _share_round(have, now["destination"], ready[step] + head[step], work[step])
        elif schedule.incast:
            _share_ports(have, cells, (ready[step] + head[step])[which], work[step][which])
    return ready, float(have.max())


def _share_ports(have: _Floats, cells: tuple[npt.NDArray[np.int32], Numbers], head: _Floats, work: _Floats) -> None:
    """A chunk that several send to a rank in one step is there only when its port has carried them all."""
    earliest, total = np.full(have.shape, np.inf), np.zeros(have.shape)
    np.minimum.at(earliest, cells, head)
    np.add.at(total, cells, work)
    touched = total > 0
    have[touched] = np.maximum(have[touched], earliest[touched] + total[touched])


def _share_round(have: _Floats, rank: npt.NDArray[np.int32], head: _Floats, work: _Floats) -> None:
    """A rank that waits for all of a step has it only when its port has carried it all."""
    earliest, total = np.full(len(have), np.inf), np.zeros(len(have))
    np.minimum.at(earliest, rank, head)
    np.add.at(total, rank, work)
    touched = total > 0
    at = earliest[touched] + total[touched]
    have[touched] = np.maximum(have[touched], at[:, np.newaxis])


def _cells(chunk: npt.NDArray[np.int32], count: npt.NDArray[np.int32]) -> tuple[Numbers, Numbers]:
    """(transfer, chunk) of every chunk that some transfers move."""
    return np.repeat(np.arange(len(chunk)), count), spans(chunk, count)
