"""The adaptive timeout: what a collective cost per byte at the ranks, and until when a receive of the next one waits.

Each rank logs, of a collective over B bytes, the time that it took until it had what came of each step; the ranks tell
each other. With c_i = elapsed_i / B of rank i, for each step,

    c = median of the c_i,   C = (1 - a) C + a c,   timeout of the next collective's step = slack C B

from the rank's own start on, and never before that of an earlier step. The first collective (warm-up) sets C. Source:
per-byte cost, median, moving average and warm-up by a reading note of arXiv 2512.22743; a and the slack are our choice.

Our readings:
  - A collective is timed step by step ("per collective type and step" in the note), from its start, so that what one
    step saves the next may use.
  - A rank takes its own c_i where that is more than the median, but no more than it waited for: in trees and incasts
    ranks have parts of a step that take longer than others', and so they have behind a link that is always congested.
    A rank that is held up once is soon as strict as the others again.
  - `elapsed` is until the last byte of a step that came, less what the rank waited for nothing: where the timer ended a
    step, the next one is timed from then. Else each timeout would lengthen the next one: were all receives of S steps
    ended by the timer, C would grow without end once (S - 1) (slack - 1) > 1.
  - Where the timer cut a step off, what came is scaled up to all of it, so that a slower network is learnt.
  - A rank to which nothing came tells how long it waited. The median bears fewer than half of such.
  - The first collective has no C yet: its timers are long, in proportion to what a rank's link takes for all ranks'
    bytes.
  - Who sends gives up when the collective is over for all: after the most that any rank told, averaged and with slack
    as C is. (The note has a timeout in the sender's work requests too, and does not say what becomes of it.)
"""

from collections.abc import Sequence
from statistics import median

from testbed.transport.endpoint import Operation, Path
from testbed.wire.optinic import Timings

_NS = 10**9


class Costs:
    """The cost per byte of each step at one rank, as far as it is known. Times in nanoseconds."""

    def __init__(self, weight: float, slack: float) -> None:
        self._weight = weight
        self._slack = slack
        self._costs: dict[int, float] = {}  # by step: C, nanoseconds a byte
        self._end: float | None = None  # the same of all steps at all ranks

    def learn(self, own: Timings, others: Sequence[Timings]) -> None:
        """Take in what ranks measured of one collective; a rank may tell in several pieces."""
        by_step: dict[int, list[float]] = {}
        for timings in (own, *others):
            for step, elapsed_ns in timings.steps:
                by_step.setdefault(step, []).append(elapsed_ns / max(1, timings.bytes))
        for step, elapsed_ns in own.steps:
            own_cost, before = elapsed_ns / max(1, own.bytes), self._costs.get(step)
            waited = own_cost if before is None else min(own_cost, self._slack * before)
            self._costs[step] = self._averaged(before, max(waited, median(by_step[step])))
        if by_step:
            self._end = self._averaged(self._end, max(max(costs) for costs in by_step.values()))

    def timeout_ns(self, step: int, size: int) -> int | None:
        """Of `step`, in a collective over so many bytes; None: nothing is known."""
        return self._with_slack(self._costs.get(step), size)

    def end_ns(self, size: int) -> int | None:
        """Of all of such a collective at all ranks."""
        return self._with_slack(self._end, size)

    def _averaged(self, before: float | None, cost: float) -> float:
        return cost if before is None else (1 - self._weight) * before + self._weight * cost

    def _with_slack(self, cost: float | None, size: int) -> int | None:
        return None if cost is None else round(self._slack * cost * size)


class First:
    """How long the first collective's timers are: `slack` times what a rank's link takes for the bytes of all ranks."""

    def __init__(self, path: Path, ranks: int, slack: float) -> None:
        self._path = path
        self._ranks = ranks
        self._slack = slack

    def timeout_ns(self, steps: int, size: int) -> int:
        """Of all of a collective of so many steps over `size` bytes."""
        path = self._path
        bits = 8 * size * self._ranks
        return round(self._slack * (steps * path.base_rtt_ns + bits * _NS / path.rate_bps)) + path.queueing_ns


class _Step:
    """The receives of one step at this rank."""

    __slots__ = ("came", "cut", "ended_ns", "expected", "last_ns", "open")

    def __init__(self) -> None:
        self.expected = self.came = 0  # bytes
        self.open = 0  # receives
        self.last_ns = self.ended_ns = 0
        self.cut = False  # by the timer, the last of them


class Stopwatch:
    """One collective at one rank: until when each step is waited for, and what it took."""

    def __init__(self, operation: Operation, costs: Costs, first: First) -> None:
        self.number = operation.number
        self.start_ns: int | None = None
        self.told = False  # its timings were
        messages = operation.messages
        self._bytes = max((message.first_byte + message.bytes for message in messages), default=0)
        self._steps: dict[int, _Step] = {}
        self.receives: dict[tuple[int, int], int] = {}  # (peer, tag) -> step
        for message in messages:
            if not message.send:
                self.receives[message.peer, message.tag] = message.step
                step = self._steps.setdefault(message.step, _Step())
                step.expected += message.bytes
                step.open += 1
        self._open = sum(step.open for step in self._steps.values())
        steps = 1 + max((message.step for message in messages), default=0)
        first_ns = first.timeout_ns(steps, self._bytes)
        end_ns = costs.end_ns(self._bytes)
        self._end_ns = first_ns if end_ns is None else end_ns
        self._timeouts: dict[int, int] = {}  # by step, counted from the start
        longest_ns = 0
        for number in sorted(self._steps):
            own_ns = costs.timeout_ns(number, self._bytes)
            longest_ns = max(longest_ns, first_ns * (number + 1) // steps if own_ns is None else own_ns)
            self._timeouts[number] = longest_ns

    @property
    def over(self) -> bool:
        """All that this rank was to receive has ended."""
        return not self._open

    @property
    def expires_ns(self) -> int | None:
        """From when on nobody waits for what this rank sends; None: it has not begun."""
        return None if self.start_ns is None else self.start_ns + max(self._end_ns, *self._timeouts.values(), 0)

    def deadline_ns(self, step: int) -> int | None:
        """Until when a step's receives are waited for; None: it has not begun."""
        return None if self.start_ns is None else self.start_ns + self._timeouts[step]

    def came(self, step: int, size: int, now: int) -> None:
        """Bytes of a step came."""
        one = self._steps[step]
        one.came += size
        one.last_ns = now

    def ended(self, step: int, now: int, *, cut: bool) -> None:
        """A receive of a step is over; `cut`: by the timer."""
        one = self._steps[step]
        one.open -= 1
        one.ended_ns, one.cut = now, cut
        self._open -= 1

    def timings(self) -> Timings:
        """What it took; once it is over."""
        base_ns = self.start_ns or 0
        elapsed_ns = 0.0
        told = []
        for number in sorted(self._steps):
            step = self._steps[number]
            until_ns = step.last_ns if step.came else step.ended_ns
            share = step.expected / step.came if step.cut and step.came else 1.0
            elapsed_ns += max(0, until_ns - base_ns) * share
            base_ns = max(base_ns, step.ended_ns if step.cut else until_ns)
            told.append((number, round(elapsed_ns)))
        return Timings(self.number, self._bytes, told)
