"""The verdict: whether a run's numbers can be trusted, judged from its evidence by the contract's rules alone.

With several jobs each is judged for itself too, and the run by all of them; then a reason's place names the job.

Each rule is a small function that yields the reasons it finds; `RULES` is the whole law. A reason carries the level it
asks for and the verdict is the worst of them. CPU use is no evidence and is never judged.

| rule | suspect | invalid |
|---|---|---|
| departures (p99) over 10 % of the base RTT late, or start skew over 1 % of CCT | over 5 % of iterations | over 25 % |
| measured RTT on the idle network off the modelled one | by over 10 % of the base RTT | |
| a rate that measures off | | by 3 % or more |
| wrong values over a reliable transport | | any |
| a run that failed or was interrupted | | always |
| a drop outside a modelled queue; unbalanced packet counts; shaping read back wrong | | any |
| a controller or switch that died; a time that could not be dilated | any | |
| no iteration measured, where some were asked for | | always |
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.results.samples import Evidence, IterationEvidence, JobEvidence, PacketTotals

Level = Literal["suspect", "invalid"]
Value = Literal["valid", "suspect", "invalid"]

LATE_SHARE_OF_RTT = 0.10
SKEW_SHARE_OF_CCT = 0.01
RTT_EXCESS_SHARE = 0.10
RATE_SHARE = 0.03
SUSPECT_ITERATIONS = 0.05
INVALID_ITERATIONS = 0.25
_NAMED_PLACES = 4


@dataclass(frozen=True, slots=True)
class Reason:
    """What was found: `value` against `limit` (in the unit the code's sentence gives), where, in which iterations."""

    code: str
    level: Level
    value: float
    limit: float
    where: str = ""
    iterations: tuple[int, ...] = ()

    def __str__(self) -> str:
        sentence = SENTENCES[self.code]
        said = sentence.format(value=self.value, limit=self.limit, where=self.where)
        if self.where and "{where}" not in sentence:
            said = f"{self.where}: {said}"
        return said + (f" in iterations {_ranges(self.iterations)}" if self.iterations else "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`suspect_iterations` lists all that were, also where they are too few to matter; of several jobs none."""

    value: Value
    reasons: tuple[Reason, ...] = ()
    suspect_iterations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JobCase:
    """What a job is judged by: its evidence and counts, and how many of the iterations asked for were measured."""

    evidence: JobEvidence
    packets: PacketTotals
    measured: int = 0
    asked: int = 0  # 0: none were asked for
    wrong: int = 0  # elements that a reliable transport did not bring right
    name: str = ""

    def place(self, where: str = "") -> str:
        """A place in it, with its name if it has one."""
        if not self.name or f"{self.name}/" in where:  # as in a rank's name
            return where
        return f"{where} (job {self.name})" if where else f"job {self.name}"


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged. finished: the run ended as planned."""

    jobs: tuple[JobCase, ...]
    evidence: Evidence
    finished: bool


SENTENCES = {
    "late-departures": "packets left up to {value:,.0f} ns later than asked (p99; limit {limit:,.0f} ns) at {where}",
    "start-skew": "ranks started up to {value:.2%} of the completion time apart (limit {limit:.0%})",
    "rtt-excess": "the idle round trip {where} is {value:,.0f} ns over its model (limit {limit:,.0f} ns)",
    "rtt-short": "the idle round trip {where} is {value:,.0f} ns under its model (limit {limit:,.0f} ns)",
    "rate": "the rate of {where} is {value:+.1%} off (limit {limit:.0%})",
    "unmodelled-drops": "{value:,.0f} packets were lost outside the modelled queues: {where}",
    "packet-balance": "{value:+,.0f} packets are unaccounted for (sent + duplicated - received - dropped - in flight)",
    "shaping": "what was read back is not the shaping that was asked for: {where}",
    "lost": "died while traffic went on: {where}",
    "undilated": "could not be slowed down with the network: {where}",
    "unfinished": "the run did not end as planned, so its packets were not counted",
    "wrong-values": "{value:,.0f} elements are not what the collective must give",
    "no-iterations": "none of the {limit:.0f} iterations asked for was measured",
}


def judge(jobs: Sequence[JobCase], evidence: Evidence, *, finished: bool = True) -> Verdict:
    """The verdict on these jobs of a run, in the light of what is evident of the run."""
    case = Case(tuple(jobs), evidence, finished)
    reasons = tuple(reason for rule in RULES for reason in rule(case))
    levels = {reason.level for reason in reasons}
    value: Value = "invalid" if "invalid" in levels else "suspect" if levels else "valid"
    return Verdict(value, reasons, _suspects(jobs[0].evidence) if len(jobs) == 1 else ())


def iteration_rule(case: Case) -> Iterator[Reason]:
    """Late departures and start skew: each alone makes an iteration suspect; their union is what is counted."""
    for job in case.jobs:
        yield from _iterations_of(job)


def _iterations_of(job: JobCase) -> Iterator[Reason]:
    evidence = job.evidence
    suspects = _suspects(evidence)
    share = len(suspects) / len(evidence.iterations) if suspects else 0.0
    if share <= SUSPECT_ITERATIONS:
        return
    level: Level = "invalid" if share > INVALID_ITERATIONS else "suspect"
    late = [i for i in evidence.iterations if _late(i, evidence.base_rtt_ns)]
    if late:
        worst = max(late, key=lambda i: i.late_p99_ns or 0)
        limit = LATE_SHARE_OF_RTT * evidence.base_rtt_ns
        yield Reason("late-departures", level, worst.late_p99_ns or 0, limit, job.place(worst.where), _numbers(late))
    skewed = [i for i in evidence.iterations if _skewed(i)]
    if skewed:
        value = max(i.start_skew_ns / max(i.cct_ns, 1) for i in skewed)
        yield Reason("start-skew", level, value, SKEW_SHARE_OF_CCT, job.place(), _numbers(skewed))


def rtt_rule(case: Case) -> Iterator[Reason]:
    """The idle network's round trip against its model. Without a base RTT (a single rank) there is no limit."""
    for job in case.jobs:
        limit = RTT_EXCESS_SHARE * job.evidence.base_rtt_ns
        excess = {f"{p.source}-{p.target}": p.measured_ns - p.modelled_ns for p in job.evidence.rtt}
        if limit and excess and max(excess.values()) > limit:
            where = max(excess, key=lambda path: excess[path])
            yield Reason("rtt-excess", "suspect", excess[where], limit, job.place(where))
        if limit and excess and min(excess.values()) < -limit:
            where = min(excess, key=lambda path: excess[path])
            yield Reason("rtt-short", "suspect", -excess[where], limit, job.place(where))


def rate_rule(case: Case) -> Iterator[Reason]:
    """The worst of the timed messages."""
    for job in case.jobs:
        rates = job.evidence.rates
        off = {f"{p.source}-{p.target} ({p.packets} packets)": p.measured_bps / p.expected_bps - 1 for p in rates}
        if off:
            where = max(off, key=lambda path: abs(off[path]))
            if abs(off[where]) >= RATE_SHARE:
                yield Reason("rate", "invalid", off[where], RATE_SHARE, job.place(where))


def drop_rule(case: Case) -> Iterator[Reason]:
    """Any packet lost where the model has no queue: socket buffers, TAP rings."""
    places = {where: n for where, n in sorted(case.evidence.unmodelled_drops.items()) if n}
    if places:
        where = _places(f"{place} {n}" for place, n in places.items())
        yield Reason("unmodelled-drops", "invalid", sum(places.values()), 0, where)


def balance_rule(case: Case) -> Iterator[Reason]:
    """sent + duplicated = received + drops + in flight."""
    for job in case.jobs:
        if job.packets.balance:
            yield Reason("packet-balance", "invalid", job.packets.balance, 0, job.place())


def shaping_rule(case: Case) -> Iterator[Reason]:
    """What was read back is not what was asked."""
    if mismatches := case.evidence.shaping_mismatches:
        yield Reason("shaping", "invalid", len(mismatches), 0, _places(mismatches))


def lost_rule(case: Case) -> Iterator[Reason]:
    """A controller or switch that died while traffic went on."""
    if lost := case.evidence.lost:
        yield Reason("lost", "suspect", len(lost), 0, _places(lost))


def dilation_rule(case: Case) -> Iterator[Reason]:
    """What could not be slowed down with the network runs too fast against it."""
    if undilated := case.evidence.undilated:
        yield Reason("undilated", "suspect", len(undilated), 0, _places(undilated))


def wrong_rule(case: Case) -> Iterator[Reason]:
    """A reliable transport that brings wrong values measures something else."""
    for job in case.jobs:
        if job.wrong:
            yield Reason("wrong-values", "invalid", job.wrong, 0, job.place())


def finished_rule(case: Case) -> Iterator[Reason]:
    """What was measured before the run broke off stays, but nothing has proved it."""
    if not case.finished:
        yield Reason("unfinished", "invalid", 1, 0)


def measured_rule(case: Case) -> Iterator[Reason]:
    """A run that measured nothing of what it was asked to has nothing to be valid."""
    for job in case.jobs:
        if job.asked and not job.measured:
            yield Reason("no-iterations", "invalid", 0, job.asked, job.place())


RULES: tuple[Callable[[Case], Iterator[Reason]], ...] = (
    iteration_rule,
    rtt_rule,
    rate_rule,
    drop_rule,
    balance_rule,
    shaping_rule,
    lost_rule,
    dilation_rule,
    wrong_rule,
    finished_rule,
    measured_rule,
)


def suspicious(iteration: IterationEvidence, base_rtt_ns: int) -> bool:
    """Whether an iteration's timing is in doubt: packets left late, or ranks started apart."""
    return _late(iteration, base_rtt_ns) or _skewed(iteration)


def _late(iteration: IterationEvidence, base_rtt_ns: int) -> bool:
    late_ns = iteration.late_p99_ns
    return bool(base_rtt_ns) and late_ns is not None and late_ns > LATE_SHARE_OF_RTT * base_rtt_ns


def _skewed(iteration: IterationEvidence) -> bool:
    return iteration.start_skew_ns > SKEW_SHARE_OF_CCT * iteration.cct_ns


def _suspects(evidence: JobEvidence) -> tuple[int, ...]:
    return _numbers(i for i in evidence.iterations if suspicious(i, evidence.base_rtt_ns))


def _numbers(iterations: Iterable[IterationEvidence]) -> tuple[int, ...]:
    return tuple(i.iteration for i in iterations)


def _places(places: Iterable[str]) -> str:
    names = list(places)
    more = f" and {len(names) - _NAMED_PLACES} more" if len(names) > _NAMED_PLACES else ""
    return ", ".join(names[:_NAMED_PLACES]) + more


def _ranges(numbers: tuple[int, ...]) -> str:
    """0, 1, 2, 5 -> `0-2, 5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
