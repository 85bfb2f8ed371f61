"""The proof of a schedule: it is run on sets of contributions in place of numbers.

Every place (rank, chunk) holds the number of the chunk its data is of and the set of ranks whose contribution is in it.
A transfer may only send what is there, a reduction may only add what is not there yet, in one step a port (rank, lane,
direction) may serve one peer, and in the end each rank must have what the collective promises it.
"""

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import COPY, REDUCE, Schedule, Transfers, by_chunk
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
        "has an unknown operation": ~np.isin(rows["op"], (REDUCE, COPY)),
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

    def _turns(self, rows: Transfers) -> list[npt.NDArray[np.intp]]:
        """Indices of `rows` in groups that write no place twice; writes to one place are in their order."""
        target = rows["destination"].astype(np.int64) * self.schedule.chunks + rows["at"]
        order = np.argsort(target, kind="stable")
        starts = np.flatnonzero(np.diff(target[order], prepend=-1))
        turn = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
        return [order[turn == number] for number in range(int(turn.max(initial=-1)) + 1)]

    def _land(self, step: int, rows: Transfers, sent_of: Numbers, sent_sets: Sets) -> None:
        target = rows["destination"], rows["at"]
        reduced = rows["op"] == REDUCE
        kept = np.where(reduced[:, np.newaxis], self.sets[target], np.uint64(0))
        stray = reduced & ((self.of[target] != sent_of) | ~kept.any(axis=1))
        if stray.any():
            row, of = rows[np.argmax(stray)], sent_of[np.argmax(stray)]
            raise ScheduleError(
                f"step {step}: rank {row['destination']} adds data of chunk {of} from rank {row['source']} to chunk"
                f" {row['at']}, where it has no data of that chunk"
            )
        twice = (kept & sent_sets).any(axis=1)
        if twice.any():
            index = int(np.argmax(twice))
            row, again = rows[index], _members(kept[index] & sent_sets[index])[0]
            raise ScheduleError(
                f"step {step}: rank {row['destination']} adds the contribution of rank {again} to chunk {row['at']}"
                f" twice (it comes again from rank {row['source']})"
            )
        self.sets[target] = kept | sent_sets
        self.of[target] = sent_of

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
