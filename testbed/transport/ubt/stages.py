"""When each stage of a collective begins and ends at a rank.

A stage is a step of the schedule: with Transpose AllReduce whose rounds are left to the transport there are two, the
scatter and the gather. They come one after the other; each has a clock, and ends when all has come, at t_B of its clock
at the latest, or early (`bounds`).

Our reading of where clocks start. The paper has a dissemination barrier over TCP before each stage. Here the first
starts with the rank itself: ranks are released together. Each next one starts when the one before has ended here and
all who send to this rank in it have come that far too, as their packets or notices say; but no later than t_B and a
round trip, for a notice to come, after the clock before, so that nobody is waited for longer than that. No clock holds
anything back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from testbed.transport.ubt.bounds import Bounds, Ending, Silence, cost_ns


@dataclass(slots=True)
class Stage:
    """One stage: what is to come in it, and from whom."""

    number: int
    absent: set[int] = field(default_factory=set)  # who sends in it and is not known to have come that far
    left: int = 0  # messages that are not over
    unmarked: int = 0  # of these, those whose end has not been seen
    expected_bytes: int = 0
    received_bytes: int = 0
    opened_ns: int | None = None  # this rank came to it
    before_ns: int = 0  # the clock of the one before started
    begins_by_ns: int | None = None  # its clock starts then whoever is absent; None: it waits for all
    begun_ns: int | None = None  # its clock started
    heard_ns: int = 0  # when something of it came last
    bound_ns: int | None = None
    silence_ns: int | None = None  # None: it does not end early


class Course:
    """The stages of one collective. bounded: they end by their clocks, and not only when all has come."""

    def __init__(
        self, stages: Sequence[Stage], bounds: Bounds, silence: Silence, rtt_ns: int, *, bounded: bool, early: bool
    ) -> None:
        self.stages = stages
        self._bounds = bounds
        self._silence = silence
        self._rtt_ns = rtt_ns
        self._bounded = bounded
        self._early = early
        self._current = 0

    @property
    def over(self) -> bool:
        return self._current == len(self.stages)

    def start(self, now: int) -> None:
        """The rank begins."""
        if self.stages:
            self.stages[0].opened_ns = now
            self.stages[0].absent.clear()

    def present(self, peer: int, number: int) -> None:
        """A peer has come to the stage of this number."""
        if peer in self.stages[number].absent:
            for stage in self.stages[self._current : number + 1]:
                stage.absent.discard(peer)

    def deadline(self) -> int | None:
        """When `advance` has something to do unless something comes."""
        if self.over:
            return None
        stage = self.stages[self._current]
        if stage.opened_ns is None:
            return None
        if stage.begun_ns is None:
            return stage.begins_by_ns
        ends = [at for at in (self._bound_at_ns(stage), self._early_at_ns(stage)) if at is not None]
        return min(ends, default=None)

    def advance(self, now: int, *, due: bool) -> list[tuple[Stage, Ending]]:
        """Let begin and end what does by now; by its clock only if `due`: all that comes at this instant has come."""
        ended = []
        while not self.over:
            stage = self.stages[self._current]
            if stage.opened_ns is None:
                break
            if stage.begun_ns is None:
                self._begin(stage, now)
            ending = self._ending(stage, now, due)
            if ending is None:
                break
            self._end(stage, ending, now)
            ended.append((stage, ending))
        return ended

    def _begin(self, stage: Stage, now: int) -> None:
        if stage.absent:
            if stage.begins_by_ns is None or stage.begins_by_ns > now:
                return
            stage.begun_ns = stage.begins_by_ns
        else:
            stage.begun_ns = now
        if stage.number and not self._bounded:
            self._bounds.came(stage.number, stage.begun_ns - stage.before_ns)
        early_ns = self._bounds.early_ns(stage.number)
        if self._bounded:  # by clocks that come after this instant, whatever they were rounded to
            stage.bound_ns = self._bounds.lasts_ns(stage.number)
            if self._early and early_ns is not None:
                stage.silence_ns = max(1, round(self._silence.share * early_ns))

    def _ending(self, stage: Stage, now: int, due: bool) -> Ending | None:
        if not stage.left:
            return Ending.WHOLE
        if not due:
            return None
        if (at := self._bound_at_ns(stage)) is not None and at <= now:
            return Ending.BOUND
        if (at := self._early_at_ns(stage)) is not None and at <= now:
            return Ending.EARLY
        return None

    def _end(self, stage: Stage, ending: Ending, now: int) -> None:
        self._current += 1
        since_ns = stage.opened_ns if stage.begun_ns is None else stage.begun_ns
        assert since_ns is not None
        if not self.over:
            self._open(self.stages[self._current], since_ns, now)
        if not stage.expected_bytes:
            return
        elapsed_ns = now - since_ns
        cost = cost_ns(ending, elapsed_ns, stage.bound_ns, stage.expected_bytes, stage.received_bytes)
        self._bounds.ended(stage.number, cost)
        if self._bounded:
            self._silence.ended(1 - stage.received_bytes / stage.expected_bytes)
        else:
            self._bounds.measured(stage.number, elapsed_ns)

    def _open(self, stage: Stage, since_ns: int, now: int) -> None:
        """The rank comes to `stage`; the clock of the one before has run since then."""
        stage.opened_ns, stage.before_ns = now, since_ns
        comes_ns = self._bounds.comes_ns(stage.number) if self._bounded else None
        stage.begins_by_ns = None if comes_ns is None else since_ns + comes_ns + self._rtt_ns

    def _bound_at_ns(self, stage: Stage) -> int | None:
        return None if stage.begun_ns is None or stage.bound_ns is None else stage.begun_ns + stage.bound_ns

    def _early_at_ns(self, stage: Stage) -> int | None:
        if stage.begun_ns is None or stage.silence_ns is None or stage.unmarked:
            return None
        return max(stage.heard_ns, stage.begun_ns) + stage.silence_ns
