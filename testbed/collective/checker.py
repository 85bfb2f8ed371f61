"""The proof of a schedule: it is run on sets of contributions in place of numbers.

Every place (rank, chunk) holds the number of the chunk its data is of and the set of ranks whose contribution is in it.
A transfer may only send what is there, a reduction may only add what is not there yet, in one step a port (rank, lane,
direction) may serve one peer, and in the end each rank must have what the collective promises it.
"""

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import COPY, REDUCE, Schedule, Transfers
from testbed.errors import UsageError

Places = npt.NDArray[np.int32]  # (ranks, chunks): the number of the chunk that the data is of
Sets = npt.NDArray[np.uint64]  # (ranks, chunks, words): bit q % 64 of word q // 64: the contribution of rank q is in it


class WrongSchedule(UsageError):
    """A schedule that does not do what its collective promises."""


def check(schedule: Schedule) -> None:
    """Prove `schedule`; raises WrongSchedule, which names the step, the rank and the chunk."""
    _check_form(schedule)
    if not schedule.incast:
        _check_ports(schedule)
    places, sets = _at_start(schedule)
    rows = schedule.transfers
    bounds = np.searchsorted(rows["step"], np.arange(schedule.steps + 1))
    for step in range(schedule.steps):
        _move(step, _by_chunk(rows[bounds[step] : bounds[step + 1]]), places, sets)
    _check_end(schedule, places, sets)


def _check_form(schedule: Schedule) -> None:
    rows, ranks, chunks = schedule.transfers, schedule.ranks, schedule.chunks
    if schedule.collective in ("reduce-scatter", "all-gather", "all-to-all") and chunks % ranks:
        raise WrongSchedule(f"{schedule.collective} over {ranks} ranks cannot be cut into {chunks} chunks")
    wrong = {
        "is out of order": np.r_[False, np.diff(rows["step"]) < 0] | (rows["step"] < 0),
        f"names a rank outside 0 … {ranks - 1}": ~_within(rows["source"], 1, ranks)
        | ~_within(rows["destination"], 1, ranks),
        "sends to itself": rows["source"] == rows["destination"],
        f"names a chunk outside 0 … {chunks - 1}": ~_within(rows["chunk"], rows["count"], chunks)
        | ~_within(rows["at"], rows["count"], chunks),
        "moves no chunk": rows["count"] < 1,
        "has an unknown operation": ~np.isin(rows["op"], (REDUCE, COPY)),
    }
    for what, where in wrong.items():
        if len(rows) and where.any():
            row = rows[np.argmax(where)]
            raise WrongSchedule(f"step {row['step']}: the transfer {_name(row)} {what}")


def _within(first: npt.NDArray[np.int32], count: npt.ArrayLike, limit: int) -> npt.NDArray[np.bool_]:
    return np.asarray((first >= 0) & (first + count <= limit))


def _name(row: np.void) -> str:
    return f"of chunk {row['chunk']} (+{row['count']}) from rank {row['source']} to rank {row['destination']}"


def _check_ports(schedule: Schedule) -> None:
    rows = schedule.transfers
    for end, peer, verb in (("source", "destination", "sends to"), ("destination", "source", "receives from")):
        order = np.lexsort((rows[peer], rows["lane"], rows[end], rows["step"]))
        sorted_rows = rows[order]
        same_port = np.ones(max(len(rows) - 1, 0), bool)
        for name in ("step", "lane", end):
            same_port &= sorted_rows[name][1:] == sorted_rows[name][:-1]
        clash = same_port & (sorted_rows[peer][1:] != sorted_rows[peer][:-1])
        if clash.any():
            first, second = sorted_rows[np.argmax(clash)], sorted_rows[np.argmax(clash) + 1]
            raise WrongSchedule(
                f"step {first['step']}: rank {first[end]} {verb} both rank {first[peer]} and rank {second[peer]}"
                f" on lane {first['lane']} (chunks {first['chunk']} and {second['chunk']})",
                hint="give them different steps or lanes, or set incast=True if it is meant",
            )


def _at_start(schedule: Schedule) -> tuple[Places, Sets]:
    ranks, chunks = schedule.ranks, schedule.chunks
    places: Places = np.tile(np.arange(chunks, dtype=np.int32), (ranks, 1))
    sets: Sets = np.zeros((ranks, chunks, -(-ranks // 64)), np.uint64)
    for rank in range(ranks):
        has: int | slice = slice(None)
        if schedule.collective == "all-gather":
            has = slice(rank * chunks // ranks, (rank + 1) * chunks // ranks)
        elif schedule.collective == "broadcast" and rank != schedule.root:
            continue
        sets[rank, has, rank // 64] = _bit(rank)
    return places, sets


def _by_chunk(rows: Transfers) -> Transfers:
    """The same transfers, one row a chunk."""
    count = rows["count"]
    if np.all(count == 1):
        return rows
    single = np.repeat(rows, count)
    within = np.arange(len(single)) - np.repeat(np.cumsum(count) - count, count)
    single["chunk"] += within
    single["at"] += within
    return single


def _move(step: int, rows: Transfers, places: Places, sets: Sets) -> None:
    moved_places = places[rows["source"], rows["chunk"]]
    moved_sets = sets[rows["source"], rows["chunk"]]
    missing = ~moved_sets.any(axis=1)
    if missing.any():
        row = rows[np.argmax(missing)]
        raise WrongSchedule(f"step {step}: rank {row['source']} sends chunk {row['chunk']}, which it does not have yet")
    for turn in _turns(rows, places.shape[1]):
        _land(step, rows[turn], moved_places[turn], moved_sets[turn], places, sets)


def _turns(rows: Transfers, chunks: int) -> list[npt.NDArray[np.int64]]:
    """Indices of `rows` in groups that write no place twice; a place that is written twice is in two, in order."""
    target = rows["destination"].astype(np.int64) * chunks + rows["at"]
    order = np.argsort(target, kind="stable")
    target = target[order]
    starts = np.flatnonzero(np.r_[True, target[1:] != target[:-1]])
    if len(starts) == len(rows):
        return [order]
    turn = np.arange(len(rows)) - np.repeat(starts, np.diff(np.r_[starts, len(rows)]))
    return [order[turn == number] for number in range(int(turn.max()) + 1)]


def _land(step: int, rows: Transfers, moved_places: Places, moved_sets: Sets, places: Places, sets: Sets) -> None:
    target = rows["destination"], rows["at"]
    there = sets[target]
    reduce = rows["op"] == REDUCE
    other = reduce & ((places[target] != moved_places) | ~there.any(axis=1))
    if other.any():
        row, of = rows[np.argmax(other)], moved_places[np.argmax(other)]
        raise WrongSchedule(
            f"step {step}: rank {row['destination']} adds data of chunk {of} from rank {row['source']} at place"
            f" {row['at']}, which does not hold data of that chunk"
        )
    twice = there & moved_sets & reduce[:, np.newaxis].astype(np.uint64) * ~np.uint64(0)
    if twice.any():
        index = int(np.argmax(twice.any(axis=1)))
        row, again = rows[index], _members(twice[index])[0]
        raise WrongSchedule(
            f"step {step}: rank {row['destination']} adds the contribution of rank {again} to chunk {row['at']} twice"
            f" (it comes again from rank {row['source']})"
        )
    sets[target] = np.where(reduce[:, np.newaxis], there | moved_sets, moved_sets)
    places[target] = moved_places


def _check_end(schedule: Schedule, places: Places, sets: Sets) -> None:
    ranks, chunks, collective = schedule.ranks, schedule.chunks, schedule.collective
    everyone = np.bitwise_or.reduce(np.stack([_only(rank, ranks) for rank in range(ranks)]))
    share = chunks // ranks  # chunks of a rank, in the collectives that give each its own
    number = np.arange(chunks)
    for rank in range(ranks):
        due, of = np.ones(chunks, bool), number
        if collective in ("allreduce", "reduce-scatter"):
            wanted = np.broadcast_to(everyone, sets[rank].shape)
            if collective == "reduce-scatter":
                due = number // share == rank
        elif collective == "broadcast":
            wanted = np.broadcast_to(_only(schedule.root, ranks), sets[rank].shape)
        else:
            wanted = np.stack([_only(int(owner), ranks) for owner in number // share])
            if collective == "all-to-all":
                of = rank * share + number % share
        wrong = due & ((sets[rank] != wanted).any(axis=1) | (places[rank] != of))
        if wrong.any():
            _refuse_end(schedule, rank, int(np.argmax(wrong)), places, sets, wanted, of)


def _refuse_end(
    schedule: Schedule, rank: int, chunk: int, places: Places, sets: Sets, wanted: Sets, of: npt.NDArray[np.int64]
) -> NoReturn:
    where = f"after step {schedule.steps - 1}: rank {rank} ends with chunk {chunk}"
    if places[rank, chunk] != of[chunk]:
        raise WrongSchedule(f"{where} holding data of chunk {places[rank, chunk]} in place of {of[chunk]}")
    lacks = _members(wanted[chunk] & ~sets[rank, chunk])
    if lacks:
        raise WrongSchedule(f"{where} lacking the contribution of rank {lacks[0]}")
    raise WrongSchedule(f"{where} holding a contribution of rank {_members(sets[rank, chunk] & ~wanted[chunk])[0]}")


def _bit(rank: int) -> np.uint64:
    return np.uint64(1 << (rank % 64))


def _only(rank: int, ranks: int) -> npt.NDArray[np.uint64]:
    word = np.zeros(-(-ranks // 64), np.uint64)
    word[rank // 64] = _bit(rank)
    return word


def _members(words: npt.NDArray[np.uint64]) -> list[int]:
    return [64 * i + bit for i, word in enumerate(words) for bit in range(64) if int(word) >> bit & 1]
