"""The adaptive timeout: what a collective cost per byte at the ranks, and until when a receive of the next one waits.

Each rank logs, of a collective over B bytes, the time that it took until it had what came of each step; the ranks tell
each other. With c_i = elapsed_i / B of rank i, for each step,

    c = median of the c_i,   C = (1 - a) C + a c,   timeout of the next collective's step = slack C B

from the rank's own start on, and never before that of an earlier step. Warm-up sets the first C. Source: per-byte cost,
median, moving average and warm-up by a reading note of arXiv 2512.22743; a and the slack are our choice.

Our readings:
  - A collective is timed step by step ("per collective type and step" in the note), from its start, so that what one
    step saves the next may use.
  - The first C is the median over the collectives of warm-up (the first collective, if there is no warm-up), and a rank
    takes its own cost where that is more than the ranks' median: in trees and incasts ranks have parts of a step that
    take longer than others', and so they have behind a link that is always congested. From then on ranks tell c_i as a
    multiple of their own C_i: C_i = (1 - a) C_i + a C_i median(c_j / C_j), which is the same where all C_i are.
  - In warm-up timers are long: `first_slack` times what is known, and before anything is, so many times what a rank's
    link takes for the bytes of all ranks.
  - `elapsed` is until the last byte of a step that came, less what the rank waited for nothing: where the timer ended a
    step, the next one is timed from then. Else each timeout would lengthen the next one: were all receives of S steps
    ended by the timer, C would grow without end once (S - 1) (slack - 1) > 1.
  - Where the timer cut a step off, the time from the first to the last packet of what came is scaled up to all of it,
    so that a slower network is learnt, and not that somebody began late.
  - A rank to which nothing came tells how long it waited. The median bears fewer than half of such.
  - Who sends gives up when the collective is over for all: at the latest timeout of any rank. (The note has a timeout
    in the sender's work requests too, and does not say what becomes of it.)
"""

from collections.abc import Sequence
from statistics import median

from testbed.transport.endpoint import Operation, Path
from testbed.wire.optinic import Timings

_NS = 10**9


class Costs:
    """The cost per byte of each step at one rank, as far as it is known. Times in nanoseconds."""

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self._samples: dict[int, list[float]] = {}  # by step: of warm-up
        self._costs: dict[int, float] = {}  # by step: C, nanoseconds a byte
        self._end = 0.0  # the longest of any rank

    def learn(self, own: Timings, others: Sequence[Timings], *, warmup: bool) -> None:
        """Take in what ranks measured of one collective; a rank may tell in several pieces."""
        told: dict[int, list[tuple[float, float]]] = {}
        for timings in (own, *others):
            for step, elapsed_ns, usual_ns in timings.steps:
                size = max(1, timings.bytes)
                told.setdefault(step, []).append((elapsed_ns / size, usual_ns / size))
        for step, elapsed_ns, usual_ns in own.steps:
            if warmup or not usual_ns:
                samples = self._samples.setdefault(step, [])
                samples.append(max(elapsed_ns / max(1, own.bytes), median(cost for cost, _ in told[step])))
                self._costs[step] = median(samples)
            else:
                ratios = [cost / usual for cost, usual in told[step] if usual]
                self._costs[step] *= 1 - self._weight + self._weight * median(ratios)
        self._end = max((usual for each in told.values() for _, usual in each), default=0.0)

    def usual_ns(self, step: int, size: int) -> float | None:
        """What `step` takes in a collective over so many bytes; None: nothing is known."""
        cost = self._costs.get(step)
        return None if cost is None else cost * size

    def end_ns(self, size: int) -> float:
        """What all of such a collective takes at all ranks; 0: nothing is known."""
        return self._end * size


class First:
    """How long the first collective's timers are: `slack` times what a rank's link takes for the bytes of all ranks."""

    def __init__(self, path: Path, ranks: int, slack: float) -> None:
        self.slack = slack
        self._path = path
        self._ranks = ranks

    def timeout_ns(self, steps: int, size: int) -> int:
        """Of all of a collective of so many steps over `size` bytes."""
        path = self._path
        bits = 8 * size * self._ranks
        return round(self.slack * (steps * path.base_rtt_ns + bits * _NS / path.rate_bps)) + path.queueing_ns


class _Step:
    """The receives of one step at this rank."""

    __slots__ = ("came", "cut", "ended_ns", "expected", "first_ns", "last_ns", "open")

    def __init__(self) -> None:
        self.expected = self.came = 0  # bytes
        self.open = 0  # receives
        self.first_ns = self.last_ns = self.ended_ns = 0
        self.cut = False  # by the timer, the last of them


class Stopwatch:
    """One collective at one rank: until when each step is waited for, and what it took."""

    def __init__(self, operation: Operation, costs: Costs, first: First, slack: float) -> None:
        self.number = operation.number
        self.warmup = operation.warmup
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
        slack = first.slack if operation.warmup else slack
        self._usual: dict[int, float] = {}  # by step, counted from the start, as the timeouts
        self._timeouts: dict[int, int] = {}
        longest_ns = 0
        for number in sorted(self._steps):
            usual_ns = costs.usual_ns(number, self._bytes)
            own_ns = first_ns * (number + 1) // steps if usual_ns is None else round(slack * usual_ns)
            self._usual[number] = usual_ns or 0.0
            self._timeouts[number] = longest_ns = max(longest_ns, own_ns)
        self._end_ns = max(round(slack * costs.end_ns(self._bytes)) or first_ns, longest_ns)

    @property
    def over(self) -> bool:
        """All that this rank was to receive has ended."""
        return not self._open

    @property
    def expires_ns(self) -> int | None:
        """From when on nobody waits for what this rank sends; None: it has not begun."""
        return None if self.start_ns is None else self.start_ns + self._end_ns

    def deadline_ns(self, step: int) -> int | None:
        """Until when a step's receives are waited for; None: it has not begun."""
        return None if self.start_ns is None else self.start_ns + self._timeouts[step]

    def came(self, step: int, size: int, now: int) -> None:
        """Bytes of a step came."""
        one = self._steps[step]
        if not one.came:
            one.first_ns = now
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
            elapsed_ns += max(0, until_ns - base_ns)
            if step.cut and step.came:
                came_ns = max(0, step.last_ns - max(base_ns, step.first_ns))  # none of it, if before the step began
                elapsed_ns += came_ns * (step.expected / step.came - 1)
            base_ns = max(base_ns, step.ended_ns if step.cut else until_ns)
            told.append((number, round(elapsed_ns), round(self._usual[number])))
        return Timings(self.number, self._bytes, told)
