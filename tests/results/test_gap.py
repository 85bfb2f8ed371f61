"""How far an emulation is from its simulation, and what it can resolve."""

from pathlib import Path

import pytest

from testbed.results.gap import gaps
from testbed.results.reading import read_runs

from .synthetic import write_run


def test_the_gap_is_that_of_the_medians_and_runs_resolve_what_their_spread_allows(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [900, 1000, 1000, 1100])
    write_run(tmp_path / "b", [800, 800, 800, 800])
    (gap,) = gaps(read_runs(tmp_path / "a"), read_runs(tmp_path / "b"))
    assert (gap.label, gap.measured_ns, gap.reference_ns) == ("", 1000, 800)
    assert gap.ratio.value == pytest.approx(1.25)
    # Student's t with 3 degrees of freedom, 3.182 (tables); standard deviation sqrt(20000 / 3) = 81.65
    assert gap.resolves == pytest.approx(2**0.5 * 3.182 * 81.65 / 2 / 1000, rel=1e-3)


def test_repeats_are_paired_and_points_kept_apart(tmp_path: Path) -> None:
    for r in range(3):
        for size, cct in ((1, 1000 + r), (2, 4000 + r)):
            write_run(tmp_path / "a" / f"{size}-{r}", [2 * cct], repeat=r, point={"size": size})
            write_run(tmp_path / "b" / f"{size}-{r}", [cct], repeat=r, point={"size": size})
    found = gaps(read_runs(tmp_path / "a"), read_runs(tmp_path / "b"))
    assert [gap.label for gap in found] == ["size=1", "size=2"]
    for gap in found:
        assert gap.ratio.value == pytest.approx(2)
        assert gap.ratio.interval == pytest.approx((2, 2))


def test_one_iteration_resolves_nothing_that_could_be_told(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [1000])
    write_run(tmp_path / "b", [1000])
    (gap,) = gaps(read_runs(tmp_path / "a"), read_runs(tmp_path / "b"))
    assert (gap.resolves, gap.ratio.interval) == (None, None)
