"""Every rule of the verdict below, at and above its limit."""

from typing import Any

import pytest

from testbed.results.samples import Evidence, IterationEvidence, JobEvidence, PacketTotals, RateProbe, RttProbe
from testbed.results.verdict import JobCase, Verdict, judge

RTT_NS = 100_000
CCT_NS = 1_000_000


def judged(packets: PacketTotals | None = None, *, measured: int = 20, asked: int = 20, **evidence: Any) -> Verdict:
    times = {key: evidence.pop(key) for key in ("base_rtt_ns", "iterations", "rtt", "rates") if key in evidence}
    job = JobEvidence(**({"base_rtt_ns": RTT_NS} | times))
    return judge([JobCase(job, packets or PacketTotals(), measured, asked)], Evidence(**evidence))


def some_iterations(bad: int, of: int, *, late_ns: int = 0, skew_ns: int = 0) -> tuple[IterationEvidence, ...]:
    return tuple(
        IterationEvidence(i, CCT_NS, late_ns if i < bad else 0, skew_ns if i < bad else 0, "h3") for i in range(of)
    )


def codes(verdict: Verdict) -> list[tuple[str, str]]:
    return [(reason.code, reason.level) for reason in verdict.reasons]


def test_nothing_against_it_is_valid() -> None:
    assert judged() == Verdict("valid")


@pytest.mark.parametrize(
    ("late_ns", "value"),
    [(9_999, "valid"), (10_000, "valid"), (10_001, "invalid")],  # over 10 % of the base RTT
)
def test_late_departures(late_ns: int, value: str) -> None:
    assert judged(iterations=some_iterations(20, 20, late_ns=late_ns)).value == value


@pytest.mark.parametrize(
    ("skew_ns", "value"),
    [(9_999, "valid"), (10_000, "valid"), (10_001, "invalid")],  # passes 1 % of CCT
)
def test_start_skew(skew_ns: int, value: str) -> None:
    assert judged(iterations=some_iterations(20, 20, skew_ns=skew_ns)).value == value


@pytest.mark.parametrize(
    ("bad", "of", "value"),
    [
        (1, 20, "valid"),  # 5 % exactly
        (2, 39, "suspect"),
        (2, 20, "suspect"),
        (5, 20, "suspect"),  # 25 % exactly
        (6, 20, "invalid"),
        (1, 3, "invalid"),
    ],
)
def test_share_of_suspect_iterations(bad: int, of: int, value: str) -> None:
    verdict = judged(iterations=some_iterations(bad, of, late_ns=50_000))
    assert verdict.value == value
    assert verdict.suspect_iterations == tuple(range(bad))
    assert codes(verdict) == ([] if value == "valid" else [("late-departures", value)])


def test_late_and_skewed_iterations_are_counted_together_and_named_apart() -> None:
    iterations = (
        IterationEvidence(0, CCT_NS, 40_000, 0, "h1>s0"),
        IterationEvidence(1, CCT_NS, 70_000, 0, "s0>h2"),
        IterationEvidence(2, CCT_NS, 0, 30_000),
        *(IterationEvidence(i, CCT_NS, None, 0) for i in range(3, 10)),
    )
    verdict = judged(iterations=iterations)
    assert verdict.value == "invalid"  # 3 of 10
    late, skewed = verdict.reasons
    assert (late.code, late.value, late.limit, late.where, late.iterations) == (
        "late-departures",
        70_000,
        10_000,
        "s0>h2",
        (0, 1),
    )
    assert (skewed.code, skewed.value, skewed.limit, skewed.iterations) == ("start-skew", 0.03, 0.01, (2,))
    assert str(late).endswith("70,000 ns later than asked (p99; limit 10,000 ns) at s0>h2 in iterations 0-1")


def test_lateness_that_was_not_measured_is_not_held_against_it() -> None:
    assert judged(iterations=(IterationEvidence(0, CCT_NS, None, 0),)).value == "valid"


def test_without_a_base_rtt_nothing_can_be_late() -> None:
    late = some_iterations(5, 5, late_ns=1)
    assert judged(base_rtt_ns=0, iterations=late, rtt=(RttProbe("h0", "h1", 9, 0),)).value == "valid"


@pytest.mark.parametrize(("measured_ns", "value"), [(85_000, "valid"), (100_000, "valid"), (100_001, "suspect")])
def test_idle_round_trip(measured_ns: int, value: str) -> None:
    probes = (RttProbe("h0", "h1", 90_000, 90_000), RttProbe("h0", "h5", measured_ns, 90_000))
    verdict = judged(rtt=probes)
    assert verdict.value == value
    assert codes(verdict) == ([] if value == "valid" else [("rtt-excess", "suspect")])


@pytest.mark.parametrize(("measured_ns", "value"), [(80_000, "valid"), (79_999, "suspect")])
def test_an_idle_round_trip_that_no_such_links_have(measured_ns: int, value: str) -> None:
    verdict = judged(rtt=(RttProbe("h0", "h1", 90_000, 90_000), RttProbe("h0", "h5", measured_ns, 90_000)))
    assert verdict.value == value
    assert codes(verdict) == ([] if value == "valid" else [("rtt-short", "suspect")])


@pytest.mark.parametrize(
    ("measured_bps", "value"),
    [(97_000_001, "valid"), (97_000_000, "invalid"), (102_999_999, "valid"), (103_000_000, "invalid")],
)
def test_rate(measured_bps: int, value: str) -> None:
    verdict = judged(
        rates=(RateProbe("h0", "h1", 16, 100_000_000, 100_000_000), RateProbe("h0", "h2", 1000, measured_bps, 10**8))
    )
    assert verdict.value == value
    assert codes(verdict) == ([] if value == "valid" else [("rate", "invalid")])


def test_the_worst_rate_is_named() -> None:
    (reason,) = judged(rates=(RateProbe("h0", "h1", 16, 96, 100), RateProbe("h2", "h1", 1000, 90, 100))).reasons
    assert reason.where == "h2-h1 (1000 packets)"
    assert str(reason) == "the rate of h2-h1 (1000 packets) is -10.0% off (limit 3%)"


def test_a_single_drop_outside_the_modelled_queues_is_invalid() -> None:
    assert judged(unmodelled_drops={"socket of h1": 0}).value == "valid"
    verdict = judged(unmodelled_drops={"socket of h1": 0, "tap s0-eth1": 1})
    assert codes(verdict) == [("unmodelled-drops", "invalid")]
    assert verdict.reasons[0].where == "tap s0-eth1 1"


@pytest.mark.parametrize(("received", "value"), [(90, "valid"), (91, "invalid"), (89, "invalid")])
def test_packets_must_balance(received: int, value: str) -> None:
    packets = PacketTotals(
        sent=100, duplicated=3, received=received, dropped_queue=6, dropped_loss=4, dropped_corrupt=1, in_flight=2
    )
    assert judged(packets).value == value


@pytest.mark.parametrize(
    ("evidence", "code", "level"),
    [
        ({"shaping_mismatches": ("s0-eth1: rate",)}, "shaping", "invalid"),
        ({"lost": ("controller",)}, "lost", "suspect"),
        ({"undilated": ("tcp delayed acknowledgement",)}, "undilated", "suspect"),
    ],
)
def test_any_of_these_counts(evidence: dict[str, Any], code: str, level: str) -> None:
    verdict = judged(**evidence)
    assert codes(verdict) == [(code, level)]
    assert verdict.value == level


def test_many_places_are_shortened() -> None:
    (reason,) = judged(lost=tuple(f"s{i}" for i in range(6))).reasons
    assert (reason.value, reason.where) == (6, "s0, s1, s2, s3 and 2 more")


def test_the_worst_level_wins() -> None:
    assert judged(lost=("controller",), unmodelled_drops={"h0": 1}).value == "invalid"


@pytest.mark.parametrize(("measured", "asked", "value"), [(0, 20, "invalid"), (1, 20, "valid"), (0, 0, "valid")])
def test_nothing_measured(measured: int, asked: int, value: str) -> None:
    assert judged(measured=measured, asked=asked).value == value


def test_notes_are_not_judged() -> None:
    assert judged(notes=("CPU at 99 %",)).value == "valid"
