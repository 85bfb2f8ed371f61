"""The proof of a schedule: it is run on sets of contributions in place of numbers.

Every place (rank, chunk) holds the number of the chunk its data is of and the set of ranks whose contribution is in it.
A transfer may only send what is there, a reduction may only add what is not there yet, in one step a port (rank, lane,
direction) may serve one peer, and in the end each rank must have what the collective promises it.
"""

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import COPY, POOL, REDUCE, Schedule, Transfers, by_chunk
from testbed.errors import UsageError

Numbers = npt.NDArray[np.int32]
Sets = npt.NDArray[np.uint64]  # (…, words): bit q % 64 of word q // 64 says that the contribution of rank q is in it


class ScheduleError(UsageError):
    """A schedule that does not do what its collective promises."""


def check(schedule: Schedule) -> None:
    """Prove `schedule`; raises ScheduleError, which names the step, the rank and the chunk."""
    _check_form(schedule)
    if not schedule.incast:
        _check_ports(schedule)
    _check_pools(schedule)
    places = _Places(schedule)
    rows = schedule.transfers
    bounds = np.searchsorted(rows["step"], np.arange(schedule.steps + 1))
    for step in range(schedule.steps):
        places.move(step, by_chunk(rows[bounds[step] : bounds[step + 1]]))
    places.check_end()


def _check_form(schedule: Schedule) -> None:
    rows, ranks, chunks = schedule.transfers, schedule.ranks, schedule.chunks
    if chunks < 1 or (schedule.collective in ("reduce-scatter", "all-gather", "all-to-all") and chunks % ranks):
        raise ScheduleError(f"{schedule.collective} over {ranks} ranks cannot be cut into {chunks} chunks")
    outside_ranks = [(rows[end] < 0) | (rows[end] >= ranks) for end in ("source", "destination")]
    outside_chunks = [(rows[place] < 0) | (rows[place] + rows["count"] > chunks) for place in ("chunk", "at")]
    wrong = {
        "is out of order": np.diff(rows["step"], prepend=0) < 0,
        f"names a rank outside 0 … {ranks - 1}": outside_ranks[0] | outside_ranks[1],
        "sends to itself": rows["source"] == rows["destination"],
        f"names a chunk outside 0 … {chunks - 1}": outside_chunks[0] | outside_chunks[1],
        "moves no chunk": rows["count"] < 1,
        "has an unknown operation": ~np.isin(rows["op"], (REDUCE, COPY, POOL)),
    }
    for what, where in wrong.items():
        if where.any():
            row = rows[np.argmax(where)]
            name = f"chunk {row['chunk']} (+{row['count']}) from rank {row['source']} to rank {row['destination']}"
            raise ScheduleError(f"step {row['step']}: the transfer of {name} {what}")


def _check_ports(schedule: Schedule) -> None:
    for end, peer, verb in (("source", "destination", "sends to"), ("destination", "source", "receives from")):
        rows = schedule.transfers
        rows = rows[np.lexsort((rows[peer], rows["lane"], rows[end], rows["step"]))]
        before, after = rows[:-1], rows[1:]
        clash = before[peer] != after[peer]
        for name in ("step", end, "lane"):
            clash &= before[name] == after[name]
        if clash.any():
            first, second = before[np.argmax(clash)], after[np.argmax(clash)]
            raise ScheduleError(
                f"step {first['step']}: rank {first[end]} {verb} both rank {first[peer]} and rank {second[peer]}"
                f" on lane {first['lane']} (chunks {first['chunk']} and {second['chunk']})",
                hint="give them different steps or lanes, or set incast=True if it is meant",
            )


def _check_pools(schedule: Schedule) -> None:
    """What is pooled at one place has one range, and nothing else comes there before the last of it."""
    if not (schedule.transfers["op"] == POOL).any():
        return
    range_of: dict[tuple[int, int], tuple[int, int]] = {}  # by rank and chunk
    last: dict[tuple[int, int], int] = {}
    for row in schedule.transfers[schedule.transfers["op"] == POOL]:
        ends = int(row["at"]), int(row["count"])
        for chunk in range(ends[0], ends[0] + ends[1]):
            place = int(row["destination"]), chunk
            if range_of.setdefault(place, ends) != ends:
                raise _misplaced(row, "is pooled with others of another range")
            last[place] = int(row["step"])
    begun = set[tuple[int, int]]()
    for row in schedule.transfers:
        places = {(int(row["destination"]), int(row["at"]) + i) for i in range(row["count"])} & last.keys()
        if row["op"] == POOL:
            begun |= places
        elif any(place in begun and row["step"] <= last[place] for place in places):
            raise _misplaced(row, "comes where others are still pooled")


def _misplaced(row: np.void, what: str) -> ScheduleError:
    where = f"chunk {row['at']} (+{row['count']}) from rank {row['source']} to rank {row['destination']}"
    return ScheduleError(f"step {row['step']}: {where} {what}")


class _Places:
    """What is at every (rank, chunk): `of`, the number of the chunk that the data is of, and `sets`, whose it is."""

    def __init__(self, schedule: Schedule) -> None:
        ranks, chunks = schedule.ranks, schedule.chunks
        self.schedule = schedule
        self.of: Numbers = np.tile(np.arange(chunks, dtype=np.int32), (ranks, 1))
        self.sets: Sets = np.repeat(_alone(ranks)[:, np.newaxis], chunks, axis=1)
        if schedule.collective == "all-gather":
            self.sets[np.arange(chunks) * ranks // chunks != np.arange(ranks)[:, np.newaxis]] = 0
        elif schedule.collective == "broadcast":
            self.sets[np.arange(ranks) != schedule.root] = 0
        single = by_chunk(schedule.transfers[schedule.transfers["op"] == POOL])
        self.pooled: Sets = np.zeros_like(self.sets) if len(single) else self.sets  # what is held by places
        self.pours = np.full((ranks, chunks), -1)  # in which step it is added
        np.maximum.at(self.pours, (single["destination"], single["at"]), single["step"])

    def move(self, step: int, rows: Transfers) -> None:
        """All transfers of a step: what they send is what was there before the step."""
        sent_of, sent_sets = self.of[rows["source"], rows["chunk"]], self.sets[rows["source"], rows["chunk"]]
        missing = ~sent_sets.any(axis=1)
        if missing.any():
            row = rows[np.argmax(missing)]
            what = f"chunk {row['chunk']}, which it does not have yet"
            raise ScheduleError(f"step {step}: rank {row['source']} sends {what}")
        for turn in self._turns(rows):
            self._land(step, rows[turn], sent_of[turn], sent_sets[turn])
        poured = self.pours == step
        if poured.any():
            self.sets[poured] |= self.pooled[poured]

    def _turns(self, rows: Transfers) -> list[npt.NDArray[np.intp]]:
        """Indices of `rows` in groups that write no place twice; writes to one place are in their order."""
        target = rows["destination"].astype(np.int64) * self.schedule.chunks + rows["at"]
        order = np.argsort(target, kind="stable")
        starts = np.flatnonzero(np.diff(target[order], prepend=-1))
        turn = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
        return [order[turn == number] for number in range(int(turn.max(initial=-1)) + 1)]

    def _land(self, step: int, rows: Transfers, sent_of: Numbers, sent_sets: Sets) -> None:
        target = rows["destination"], rows["at"]
        reduced, pools = rows["op"] != COPY, rows["op"] == POOL
        kept = np.where(reduced[:, np.newaxis], self.sets[target], np.uint64(0))
        stray = reduced & ((self.of[target] != sent_of) | ~kept.any(axis=1))
        if stray.any():
            row, of = rows[np.argmax(stray)], sent_of[np.argmax(stray)]
            raise ScheduleError(
                f"step {step}: rank {row['destination']} adds data of chunk {of} from rank {row['source']} to chunk"
                f" {row['at']}, where it has no data of that chunk"
            )
        before = np.where(pools[:, np.newaxis], kept | self.pooled[target], kept) if pools.any() else kept
        twice = (before & sent_sets).any(axis=1)
        if twice.any():
            index = int(np.argmax(twice))
            row, again = rows[index], _members(before[index] & sent_sets[index])[0]
            raise ScheduleError(
                f"step {step}: rank {row['destination']} adds the contribution of rank {again} to chunk {row['at']}"
                f" twice (it comes again from rank {row['source']})"
            )
        there, held = tuple(each[~pools] for each in target), tuple(each[pools] for each in target)
        self.sets[there] = (kept | sent_sets)[~pools]
        self.of[there] = sent_of[~pools]
        self.pooled[held] |= sent_sets[pools]

    def check_end(self) -> None:
        """Every rank has what the collective promises it."""
        for rank in range(self.schedule.ranks):
            due, of, sets = self._promise(rank)
            wrong = due & ((self.sets[rank] != sets).any(axis=1) | (self.of[rank] != of))
            if wrong.any():
                chunk = int(np.argmax(wrong))
                self._refuse(rank, chunk, int(of[chunk]), sets[chunk])

    def _promise(self, rank: int) -> tuple[npt.NDArray[np.bool_], Numbers, Sets]:
        """Per chunk of `rank`: whether it is due at all, the chunk that the data must be of, and whose it must be."""
        ranks, chunks, collective = self.schedule.ranks, self.schedule.chunks, self.schedule.collective
        chunk = np.arange(chunks, dtype=np.int32)
        owner = chunk * ranks // chunks
        due, alone = np.ones(chunks, bool), _alone(ranks)
        everyone = np.broadcast_to(np.bitwise_or.reduce(alone), (chunks, alone.shape[1]))
        if collective == "reduce-scatter":
            return owner == rank, chunk, everyone
        if collective == "all-gather":
            return due, chunk, alone[owner]
        if collective == "all-to-all":
            share = chunks // ranks
            return due, rank * share + chunk % share, alone[owner]
        if collective == "broadcast":
            return due, chunk, np.broadcast_to(alone[self.schedule.root], everyone.shape)
        return due, chunk, everyone

    def _refuse(self, rank: int, chunk: int, of: int, sets: Sets) -> None:
        where = f"after step {self.schedule.steps - 1}: rank {rank} ends with chunk {chunk}"
        if self.of[rank, chunk] != of:
            raise ScheduleError(f"{where} holding data of chunk {self.of[rank, chunk]} in place of {of}")
        lacking = _members(sets & ~self.sets[rank, chunk])
        if lacking:
            raise ScheduleError(f"{where} lacking the contribution of rank {lacking[0]}")
        raise ScheduleError(f"{where} with a stray contribution of rank {_members(self.sets[rank, chunk] & ~sets)[0]}")


def _alone(ranks: int) -> Sets:
    """(ranks, words): for each rank the set of it alone."""
    rank = np.arange(ranks)
    sets: Sets = np.zeros((ranks, -(-ranks // 64)), np.uint64)
    sets[rank, rank // 64] = np.uint64(1) << (rank % 64).astype(np.uint64)
    return sets


def _members(words: Sets) -> list[int]:
    return [64 * i + bit for i, word in enumerate(words) for bit in range(64) if int(word) >> bit & 1]
