"""How long a stage may take: t_B at the most, and t_C, by which it may end before, with the share of it to be silent.

t_B is a percentile of what stages took in warm-up, or as given. With Transpose AllReduce all stages are alike; one that
usually takes longer than that (of a tree, say) has a percentile of its own: our reading. t_C is what the ranks think a
stage takes: each stamps its packets with how long its own last one took,

    all had come                     c = elapsed
    ended at the bound               c = t_B                                 (recalled)
    ended early                      c = elapsed x expected / received       (recalled; the public code: for all three)

and t_C of the next is min(median of all c, its own with them, t_B) (public code), smoothed by a moving average (a
reading note). A stage ends early when nothing has come for x of t_C: x doubles when much was lost, and falls when
nothing nearly was (recalled). Warm-up, which loses nothing, does not count for that: the paper's runs over TCP, without
an x (our reading).
"""

import math
from collections import defaultdict
from enum import Enum, auto
from statistics import median

from testbed.transport.ubt.parameters import Constants
from testbed.units import format_duration


class Ending(Enum):
    """Why a stage is over."""

    WHOLE = auto()  # all has come
    EARLY = auto()
    BOUND = auto()


def cost_ns(ending: Ending, elapsed_ns: int, bound_ns: int | None, expected_bytes: int, received_bytes: int) -> int:
    """c of a stage that took so long, at least 1."""
    if ending is Ending.BOUND and bound_ns is not None:
        return max(1, bound_ns)
    if ending is Ending.EARLY and received_bytes:
        return max(1, elapsed_ns * expected_bytes // received_bytes)
    return max(1, elapsed_ns)


class Bounds:
    """t_B, and t_C of each stage of the collectives that are run, by the stage's number."""

    def __init__(self, constants: Constants) -> None:
        self._given_ns = constants.bound_ns
        self._percentile = constants.percentile
        self._smoothing = constants.smoothing
        self._times: dict[int, list[int]] = defaultdict(list)  # in warm-up, by stage
        self._measured_ns: dict[int, int] = {}  # what these come to
        self._comings: dict[int, list[int]] = defaultdict(list)  # in warm-up, by stage
        self._own: dict[int, int] = {}
        self._stamps: dict[int, dict[int, int]] = defaultdict(dict)  # stage -> peer -> c
        self._smoothed: dict[int, float] = {}

    def measured(self, stage: int, elapsed_ns: int) -> None:
        """A stage took so long in warm-up."""
        self._times[stage].append(elapsed_ns)
        self._measured_ns.clear()

    def bound_ns(self, stage: int) -> int | None:
        """t_B; None: neither given nor measured."""
        if self._given_ns is not None or not self._times:
            return self._given_ns
        if stage not in self._measured_ns:
            usual_ns = _nearest_rank([each for times in self._times.values() for each in times], self._percentile)
            own = self._times.get(stage, [])
            longer = own and median(own) > usual_ns
            self._measured_ns[stage] = _nearest_rank(own, self._percentile) if longer else usual_ns
        return self._measured_ns[stage]

    def lasts_ns(self, stage: int) -> int | None:
        """How long a stage lasts at the most, at least 1: until t_B as given, or until it has taken longer than t_B as
        measured, so that what took as long in warm-up is whole, and what comes at that very instant is in time."""
        bound_ns = self.bound_ns(stage)
        if bound_ns is None:
            return None
        return bound_ns + 1 if self._given_ns is None else max(1, bound_ns)

    @property
    def origin(self) -> str:
        """Where t_B is from, and how to have more of it, in words."""
        if self._given_ns is not None:
            return f"t_B is transport.bound, {format_duration(self._given_ns)}"
        samples = [each for times in self._times.values() for each in times]
        usual = format_duration(_nearest_rank(samples, self._percentile)) if samples else "nothing"
        return (
            f"t_B, {usual}, is what {len(samples)} stages took in warm-up: with few of them, or where times vary more "
            "than that, a larger workload.warmup or a transport.bound of one's own waits for what comes late"
        )

    def came(self, stage: int, after_ns: int) -> None:
        """In warm-up all had come to a stage so long after the clock before it had started."""
        self._comings[stage].append(after_ns)

    def comes_ns(self, stage: int) -> int | None:
        """How long after the clock before it all are waited for to come to a stage; None: for ever.

        As long as the stage before may take, or, where the schedule has some come later as a rule, as long as usual.
        """
        before_ns = self.bound_ns(stage - 1)
        return None if before_ns is None else max(before_ns, round(median(self._comings.get(stage, [0]))))

    def ended(self, stage: int, cost_ns: int) -> None:
        """c of this rank."""
        self._own[stage] = cost_ns

    def cost_ns(self, stage: int) -> int:
        """c of this rank for the last time that it went through `stage`; 0: not known."""
        return self._own.get(stage, 0)

    def stamped(self, stage: int, peer: int, cost_ns: int) -> None:
        """A peer says what its c is."""
        self._stamps[stage][peer] = cost_ns

    def early_ns(self, stage: int) -> int | None:
        """t_C of a stage that begins now, which moves the average; None: nobody knows anything."""
        bound_ns = self.bound_ns(stage)
        costs = [*self._stamps[stage].values(), *([self._own[stage]] if stage in self._own else [])]
        if not costs:
            return bound_ns
        new = median(costs)
        before = self._smoothed.get(stage, new)
        self._smoothed[stage] = smoothed = before + self._smoothing * (new - before)
        return round(smoothed) if bound_ns is None else min(round(smoothed), bound_ns)


class Silence:
    """x: for what share of t_C nothing must have come."""

    def __init__(self, constants: Constants) -> None:
        self.share = constants.idle
        self._constants = constants

    def ended(self, lost: float) -> None:
        """A stage has lost this share of its bytes."""
        constants = self._constants
        if lost > constants.loss_high:
            self.share = min(constants.idle_most, 2 * self.share)
        elif lost < constants.loss_low:
            self.share = max(constants.idle_least, self.share - constants.idle_step)


def _nearest_rank(times: list[int], share: float) -> int:
    return sorted(times)[max(1, math.ceil(share * len(times))) - 1]
