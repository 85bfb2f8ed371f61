"""Flow sizes: published distributions have their means; one's own file is read as written, or refused by its line."""

from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.stress.sizes import SIZES, sizes_of


@pytest.mark.parametrize(("name", "mean_bytes"), [("web-search", 1.71e6), ("data-mining", 12.7e6), ("hadoop", 120e3)])
def test_published_means(name: str, mean_bytes: float) -> None:
    assert sizes_of(name).mean_bytes == pytest.approx(mean_bytes, rel=0.01)


@pytest.mark.parametrize("name", SIZES)
def test_the_mean_is_that_of_what_is_drawn(name: str) -> None:
    """By the midpoints of a million equal shares, of which the largest flows are few."""
    sizes, count = sizes_of(name), 100_000
    assert sum(sizes.at((index + 0.5) / count) for index in range(count)) / count == pytest.approx(
        sizes.mean_bytes, rel=1e-3
    )


def test_shares_lie_between_the_points() -> None:
    web = sizes_of("web-search")
    assert [round(web.at(share)) for share in (0, 0.15, 0.175, 0.53, 0.985, 1)] == [
        0, 10_000, 15_000, 80_000, 20_000_000, 30_000_000,
    ]  # fmt: skip


def test_one_size_is_all_there_is() -> None:
    assert (sizes_of("64KiB").mean_bytes, sizes_of("64KiB").at(0.01)) == (65_536, 65_536)


@pytest.mark.parametrize("text", ["1000 0.5\n3000 1\n", "# bytes, percent\n1000, 50\n\n3000, 100  # all\n"])
def test_a_file_of_one_s_own(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.txt").write_text(text)
    mine = sizes_of(str(tmp_path / "mine.txt"))
    assert mine.points == ((1000, 0.5), (3000, 1.0))
    assert mine.mean_bytes == 0.5 * 500 + 0.5 * 2000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1000 0.5\n500 1\n", "mine.csv:2: sizes and shares must grow"),
        ("1000\n", "mine.csv:1: '1000' is not a size"),
        ("1000 0.5\n2000 0.9\n", "mine.csv: ends at a share of 0.9"),
        ("", "mine.csv: ends at a share of 0"),
        ("1000 nan\n2000 1\n", "mine.csv:1: sizes and shares must grow"),
    ],
)
def test_a_wrong_file_is_refused_by_its_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(UsageError, match=told):
        sizes_of(str(tmp_path / "mine.csv"))


@pytest.mark.parametrize("text", ["web-serch", "64", "0B", "/nowhere/at/all.txt"])
def test_what_is_no_distribution_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        sizes_of(text)
