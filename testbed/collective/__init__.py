"""Collectives: schedules as data, the algorithms that make them, their proof, their cost and their execution.

`ALGORITHMS` is the registry: an algorithm is one file with a `generate(collective, ranks, root)` and one line here; its
parameters are further keywords. One more, `in-network`, has no schedule: each rank hands its buffer to the network,
which adds up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed import plugins
from testbed.collective import (
    binomial,
    bruck,
    double_tree,
    halving_doubling,
    pairwise,
    parameter_server,
    recursive_doubling,
    ring,
    swing,
    transpose,
)
from testbed.collective.checker import check
from testbed.collective.schedule import Schedule
from testbed.errors import UsageError
from testbed.suggest import did_you_mean
from testbed.transport.parameters import Parameter, problems


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A generator of schedules, the collectives it serves, and what it may be told besides.

    any_ranks: it serves every number of ranks.
    """

    generate: Callable[..., Schedule]
    collectives: tuple[str, ...]
    doc: str
    parameters: tuple[Parameter, ...] = ()
    any_ranks: bool = True


ALGORITHMS = {
    "ring": Algorithm(
        ring.generate,
        ("allreduce", "reduce-scatter", "all-gather", "broadcast"),
        "2(n-1) steps of 1/n of the buffer between neighbours; broadcast: a pipelined chain",
    ),
    "halving-doubling": Algorithm(
        halving_doubling.generate,
        ("allreduce", "reduce-scatter", "all-gather"),
        "2 lg n steps, the ring's bytes (Rabenseifner); extras beyond a power of two are folded",
    ),
    "recursive-doubling": Algorithm(
        recursive_doubling.generate, ("allreduce",), "lg n exchanges of the whole buffer; for small ones"
    ),
    "binomial": Algorithm(
        binomial.generate, ("broadcast", "allreduce"), "a binomial tree from the root; allreduce: up it and down"
    ),
    "parameter-server": Algorithm(
        parameter_server.generate, ("allreduce",), "all push to the root rank, it adds up and sends all the sum"
    ),
    "pairwise": Algorithm(pairwise.generate, ("all-to-all",), "disjoint pairs swap their chunks, n-1 steps"),
    "bruck": Algorithm(
        bruck.generate,
        ("all-gather", "all-to-all"),
        "⌈lg n⌉ steps, for small buffers; all-to-all of powers of two",
        any_ranks=False,
    ),
    "swing": Algorithm(
        swing.generate, ("allreduce",), "2 lg n steps to and fro along a ring, the ring's bytes; extras are folded"
    ),
    "double-tree": Algorithm(
        double_tree.generate,
        ("allreduce",),
        "two complementary binary trees, half of the buffer up and down each in chunks: 2 lg n deep, 2 buffers a port",
        (
            Parameter(
                "chunks",
                "of each tree's half, which follow each other",
                16,
                "chunks",
                "our reading",
                least=1,
                most=4096,
            ),
        ),
    ),
    "tar": Algorithm(
        transpose.generate,
        ("allreduce", "reduce-scatter", "all-gather"),
        "OptiReduce's transpose allreduce: shard i to rank i, the sum to all; the ring's bytes, nothing is passed on",
        (
            Parameter(
                "incast",
                "senders that a receiver takes at a time: 2 ceil((n-1) / incast) rounds; 0: all",
                1,
                "senders",
                "OptiReduce, NSDI 2025; recalled",
            ),
        ),
    ),
    "tar-2d": Algorithm(
        transpose.generate_2d,
        ("allreduce",),
        "tar in groups and between them: 2(n/groups-1) + groups-1 rounds, more bytes",
        (
            Parameter(
                "groups",
                "a divisor of the ranks; 0: that with the fewest rounds",
                0,
                "groups",
                "OptiReduce, NSDI 2025; recalled",
            ),
        ),
    ),
}

IN_NETWORK = "in-network"
IN_NETWORK_DOC = "switches add up what all ranks send, and send the sum to all (allreduce; with transport: aggregation)"

DEFAULTS = {
    "allreduce": "ring",
    "reduce-scatter": "ring",
    "all-gather": "ring",
    "broadcast": "binomial",
    "all-to-all": "pairwise",
}


def algorithms_for(collective: str) -> tuple[str, ...]:
    """The names of the algorithms that serve `collective`, its default first."""
    serving = [name for name, algorithm in ALGORITHMS.items() if collective in algorithm.collectives]
    return tuple(sorted(serving, key=lambda name: name != DEFAULTS[collective]))


def generate(
    collective: str,
    algorithm: str | None,
    ranks: int,
    root: int = 0,
    parameters: Mapping[str, Any] | None = None,
) -> Schedule:
    """The schedule of `collective` over `ranks` by `algorithm` (None: the collective's default) with its parameters.

    `algorithm` may be `FILE.py:NAME`, a function of (collective, ranks, root) and its own keywords; what it makes is
    proved before it is returned. Raises UsageError for an unknown name, a collective that the algorithm does not serve,
    parameters that it does not have or that do not go with the ranks, or a failed proof.
    """
    if collective not in DEFAULTS:
        raise UsageError(f"there is no collective {collective!r}", hint=did_you_mean(collective, DEFAULTS))
    if not 0 <= root < ranks:
        raise UsageError(f"root {root} is not one of the ranks 0 … {ranks - 1}")
    name = algorithm or DEFAULTS[collective]
    if plugins.is_reference(name):
        return _own(name, collective, ranks, root, parameters or {})
    if name == IN_NETWORK:
        raise UsageError(
            f"{name} has no schedule: switches add up what ranks send", hint="`testbed plan` shows where they do"
        )
    if name not in ALGORITHMS:
        raise UsageError(f"there is no algorithm {name!r}", hint=did_you_mean(name, ALGORITHMS))
    if collective not in ALGORITHMS[name].collectives:
        raise UsageError(
            f"algorithm {name!r} does not serve {collective!r}",
            hint=f"{collective} can be done by {', '.join(algorithms_for(collective))}",
        )
    for key, (message, hint) in problems(ALGORITHMS[name].parameters, parameters or {}).items():
        raise UsageError(f"algorithm {name}: {key}: {message}", hint=hint)
    return ALGORITHMS[name].generate(collective, ranks, root, **(parameters or {}))


def _own(reference: str, collective: str, ranks: int, root: int, parameters: Mapping[str, Any]) -> Schedule:
    function = plugins.load(reference)
    schedule = function(collective, ranks, root, **parameters) if callable(function) else None
    if not isinstance(schedule, Schedule) or (schedule.collective, schedule.ranks) != (collective, ranks):
        raise UsageError(
            f"algorithm {reference!r} does not make a schedule of {collective} over {ranks} ranks",
            hint="it must be a function (collective, ranks, root) -> testbed.collective.schedule.Schedule",
        )
    check(schedule)
    return schedule
