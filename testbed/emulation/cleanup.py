"""Finding and removing what dead runs left behind: only what a record in the registry names, and never a live run's.

A record names the run's namespaces and its children with their start times; whatever else belongs to a run lives inside
those namespaces (its interfaces, bridges and sockets vanish with them) or in the record's own directory.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.emulation import namespaces, processes
from testbed.emulation.state import ROOT, RunState, person, runs, unborn


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a dead run left."""

    state: RunState
    pids: tuple[int, ...]
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """The registry, sorted: dead runs that may be removed, live ones, and dead ones of other people."""

    leftovers: tuple[Leftover, ...]
    live: tuple[RunState, ...]
    others: tuple[RunState, ...]


def survey(*, everyone: bool = False, root: Path = ROOT) -> Survey:
    """Look at all registered runs; `everyone`: leftovers of other people may be removed too."""
    leftovers, live, others = [], [], []
    for state in runs(root):
        if state.alive:
            live.append(state)
        elif everyone or state.record.uid == person():
            leftovers.append(leftover_of(state))
        else:
            others.append(state)
    return Survey(tuple(leftovers), tuple(live), tuple(others))


def remove(leftover: Leftover) -> list[str]:
    """Remove one dead run's leftovers; returns what went wrong (then its record stays, for another try)."""
    problems = processes.end_all(leftover.pids)
    # What the first look missed: a process that one of those had just started.
    problems += processes.end_all(_pids(leftover.state))
    problems += namespaces.delete(leftover.namespaces)
    if not problems:
        leftover.state.remove()
    return problems


def remove_unborn(root: Path = ROOT) -> None:
    """Remove directories of owners that died while registering their run."""
    for directory in unborn(root):
        for entry in directory.iterdir():
            entry.unlink()
        directory.rmdir()


def leftover_of(state: RunState) -> Leftover:
    """What there is of a run now."""
    existing = tuple(name for name in _namespaces(state) if namespaces.path(name).exists())
    return Leftover(state, _pids(state), existing)


def _namespaces(state: RunState) -> Sequence[str]:
    """The record's namespaces that carry the run's own number."""
    outer = namespaces.outer_name(state.run_id)
    return [name for name in state.record.namespaces if name == outer or name.startswith(f"{outer}-")]


def _pids(state: RunState) -> tuple[int, ...]:
    children = {key.pid for key in state.record.children.values() if key.alive}
    return tuple(sorted(children | namespaces.pids_inside(_namespaces(state)).keys() - {os.getpid()}))
