"""Every algorithm is proved for many numbers of ranks, and costs what the textbook says."""

from fractions import Fraction
from math import ceil, log2
from pathlib import Path

import numpy as np
import pytest

from testbed.collective import DEFAULTS, algorithms_for, generate
from testbed.collective.checker import check
from testbed.collective.cost import alpha_beta, bytes_sent
from testbed.collective.schedule import REDUCE, Schedule, chunk_ranges
from testbed.collective.swing import peers
from testbed.errors import UsageError

from .served import SERVED, fitting

MANY = [*range(1, 18), 31, 32, 33, 64, 65, 100, 128]
SIZE = 2**4 * 3**2 * 5 * 7 * 11 * 13 * 17  # bytes: divisible by every number of ranks up to 17


@pytest.mark.parametrize(("name", "collective"), SERVED)
def test_every_schedule_is_proved(name: str, collective: str) -> None:
    for ranks in sorted({fitting(name, collective, each) for each in MANY}):
        for root in {0, ranks // 2, ranks - 1}:
            schedule = generate(collective, name, ranks, root)
            check(schedule)
            assert _sorted(schedule)


def _sorted(schedule: Schedule) -> bool:
    rows = schedule.transfers
    order = np.lexsort((rows["source"], rows["step"]))
    return bool(np.array_equal(order, np.arange(len(rows))))


# (steps, share of the buffer at the busiest port): Thakur, Rabenseifner and Gropp, IJHPCA 2005, section 4; Patarasuk
# and Yuan, JPDC 2009 (ring); Chan et al. 2007 (pipelined chain with k = n chunks: n-2+k steps of 1/k).
def _power(n: int) -> int:
    return 2 ** int(log2(n))


def _fold(n: int) -> int:
    return int(_power(n) != n)


TEXTBOOK = {
    ("ring", "allreduce"): lambda n: (2 * (n - 1), Fraction(2 * (n - 1), n)),
    ("ring", "reduce-scatter"): lambda n: (n - 1, Fraction(n - 1, n)),
    ("ring", "all-gather"): lambda n: (n - 1, Fraction(n - 1, n)),
    ("ring", "broadcast"): lambda n: (2 * (n - 1), Fraction(2 * (n - 1), n)),
    ("halving-doubling", "allreduce"): lambda n: (
        2 * int(log2(n)) + 2 * _fold(n),
        Fraction(2 * (_power(n) - 1), _power(n)) + 2 * _fold(n),
    ),
    ("recursive-doubling", "allreduce"): lambda n: (int(log2(n)) + 2 * _fold(n),) * 2,
    ("binomial", "broadcast"): lambda n: (ceil(log2(n)),) * 2,
    ("binomial", "allreduce"): lambda n: (2 * ceil(log2(n)),) * 2,
    ("parameter-server", "allreduce"): lambda n: (2, 2 * (n - 1)),
    ("tar", "allreduce"): lambda n: (2 * (n - 1), Fraction(2 * (n - 1), n)),  # OptiReduce, NSDI 2025
    ("tar", "reduce-scatter"): lambda n: (n - 1, Fraction(n - 1, n)),
    ("tar", "all-gather"): lambda n: (n - 1, Fraction(n - 1, n)),
    ("swing", "allreduce"): lambda n: (  # De Sensi et al., NSDI 2024; folded as halving-doubling is
        2 * int(log2(n)) + 2 * _fold(n),
        Fraction(2 * (_power(n) - 1), _power(n)) + 2 * _fold(n),
    ),
    ("bruck", "all-gather"): lambda n: (ceil(log2(n)), Fraction(n - 1, n)),  # Bruck et al., IEEE TPDS 1997
    ("bruck", "all-to-all"): lambda n: (int(log2(n)), Fraction(int(log2(n)), 2)),
    ("pairwise", "all-to-all"): lambda n: (n - 1 + n % 2, Fraction(n - 1 + n % 2, n)),  # odd n: each rank rests once
}


@pytest.mark.parametrize(("name", "collective"), TEXTBOOK)
def test_steps_and_bytes_are_the_closed_form(name: str, collective: str) -> None:
    for ranks in sorted({fitting(name, collective, each) for each in range(2, 18)}):
        steps, share = TEXTBOOK[name, collective](ranks)
        schedule = generate(collective, name, ranks)
        assert alpha_beta(schedule, SIZE) == (steps, share * SIZE), ranks
        assert schedule.steps == steps


@pytest.mark.parametrize("ranks", range(2, 18))
def test_an_incast_of_transpose_allreduce_saves_rounds_and_no_bytes(ranks: int) -> None:
    """2 ceil((n - 1) / I) rounds; a receiver has I senders in a round, but for those that are left in the last."""
    for incast in range(1, ranks):
        schedule = generate("allreduce", "tar", ranks, parameters={"incast": incast})
        check(schedule)
        rounds = 2 * ceil((ranks - 1) / incast)
        assert schedule.steps == rounds
        assert schedule.incast == (incast > 1)
        assert alpha_beta(schedule, SIZE) == (rounds, Fraction(2 * (ranks - 1), ranks) * SIZE)
        assert set(bytes_sent(schedule, SIZE)) == {Fraction(2 * (ranks - 1), ranks) * SIZE}


def test_shards_go_to_the_rank_before_first_as_in_the_authors_code() -> None:
    rows = generate("allreduce", "tar", 8).transfers
    mine = rows[rows["source"] == 2]
    assert mine["destination"].tolist() == [1, 0, 7, 6, 5, 4, 3] * 2
    assert mine["chunk"].tolist() == [1, 0, 7, 6, 5, 4, 3] + [2] * 7
    together = generate("allreduce", "tar", 8, parameters={"incast": 0}).transfers  # all
    assert together["destination"][together["source"] == 2].tolist() == [1, 0, 7, 6, 5, 4, 3] * 2


@pytest.mark.parametrize("ranks", range(1, 18))
def test_two_dimensions_take_the_rounds_that_the_paper_says(ranks: int) -> None:
    """2 (n / G - 1) + G - 1 rounds, of 1 / m of the buffer each, m = n / G."""
    for groups in (each for each in range(1, ranks + 1) if ranks % each == 0):
        schedule, size = generate("allreduce", "tar-2d", ranks, parameters={"groups": groups}), ranks // groups
        check(schedule)
        rounds = 2 * (size - 1) + groups - 1
        assert schedule.steps == rounds
        assert alpha_beta(schedule, SIZE) == (rounds, Fraction(rounds, size) * SIZE)
        assert set(bytes_sent(schedule, SIZE)) == {Fraction(rounds, size) * SIZE}


def test_two_dimensions_as_in_the_papers_example() -> None:
    """64 ranks in 16 groups: 21 rounds, where one dimension has 126. Fewest is 2 (n / G - 1) + G - 1 at G = √(2n)."""
    assert generate("allreduce", "tar-2d", 64, parameters={"groups": 16}).steps == 21
    assert generate("allreduce", "tar", 64).steps == 126
    assert generate("allreduce", "tar-2d", 64).steps == 21
    assert generate("allreduce", "tar-2d", 8).steps == 5
    assert generate("allreduce", "tar-2d", 7).steps == generate("allreduce", "tar", 7).steps  # a prime has one group


@pytest.mark.parametrize("ranks", [*range(1, 18), 31, 64, 100])
def test_double_tree(ranks: int) -> None:
    """Two trees of height ⌈lg n⌉, pipelined: c + 2 ⌈lg n⌉ - 1 steps; no port carries more than 2 buffers each way."""
    for chunks in (1, 2, 5, 16):
        schedule, size = generate("allreduce", "double-tree", ranks, parameters={"chunks": chunks}), 160 * 4
        check(schedule)
        height = ceil(log2(ranks))
        assert schedule.steps == (chunks + 2 * height - 1 if ranks > 1 else 0)
        sent = bytes_sent(schedule, size)
        assert sent.sum() == 2 * (ranks - 1) * size
        assert sent.max() <= 2 * size
        received = np.bincount(schedule.transfers["destination"], minlength=ranks)
        assert received.max(initial=0) * size <= 2 * size * 2 * chunks


@pytest.mark.parametrize("ranks", range(2, 33))
def test_who_is_within_one_tree_is_a_leaf_of_the_other(ranks: int) -> None:
    """But for one rank, and for an odd number one more (Sanders, Speck and Träff, 2009)."""
    rows = generate("allreduce", "double-tree", ranks, parameters={"chunks": 1}).transfers
    parents = [set(rows["destination"][(rows["op"] == REDUCE) & (rows["chunk"] == tree)].tolist()) for tree in (0, 1)]
    assert len(parents[0] & parents[1]) <= (0 if ranks % 2 == 0 else 1)


def test_many_chunks_of_a_double_tree_are_two_buffers_through_the_busiest_port() -> None:
    """2 lg n α + 2 S β, as the textbook says of two trees."""
    steps, bytes_ = alpha_beta(generate("allreduce", "double-tree", 16, parameters={"chunks": 1024}), 2048 * 1024)
    assert (steps, bytes_) == (1024 + 7, pytest.approx(2 * 2048 * 1024, rel=0.01))


def test_swing_goes_to_and_fro() -> None:
    """Peers are 1, 1, 3, 5, 11 away, one way and the other (their equation (1)), and meet each other."""
    distances = []
    for step in range(5):
        met = peers(64, step)
        assert np.array_equal(met[met], np.arange(64))
        away = (met - np.arange(64)) % 64
        distances.append(int(min(away[0], 64 - away[0])))
        assert set(away.tolist()) == {int(away[0]), 64 - int(away[0])}
    assert distances == [1, 1, 3, 5, 11]
    half = generate("allreduce", "swing", 64).transfers
    first = half[half["step"] == 0]
    assert set(np.abs((first["source"] - first["destination"] + 32) % 64 - 32).tolist()) == {1}
    assert first["count"].sum() == 64 * 32  # half of the buffer, to a neighbour


def test_what_is_one_message_is_one_row() -> None:
    """The last step of an all-gather of eight brings a rank four chunks, which may go round the end of the buffer."""
    rows = generate("all-gather", "bruck", 8).transfers
    last = rows[rows["step"] == 2]
    assert sorted(last["count"][last["source"] == 6].tolist()) == [2, 2]
    assert last["count"][last["source"] == 1].tolist() == [4]


def test_all_to_all_by_bruck_is_refused_for_other_than_powers_of_two() -> None:
    with pytest.raises(UsageError, match="powers of two, not for 6") as refused:
        generate("all-to-all", "bruck", 6)
    assert "pairwise" in refused.value.hint


@pytest.mark.parametrize(
    ("algorithm", "parameters", "says"),
    [
        ("tar", {"incast": 4}, "a receiver has 1 to 3 senders"),
        ("tar", {"incast": -1}, "out of range"),
        ("tar", {"incast": "all"}, "not a whole number"),
        ("tar", {"insact": 2}, "unknown key"),
        ("tar-2d", {"groups": 3}, "cannot be cut into so many groups"),
        ("double-tree", {"chunks": 0}, "out of range"),
        ("ring", {"chunks": 4}, "unknown key"),
    ],
)
def test_parameters_that_are_wrong_are_refused(algorithm: str, parameters: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        generate("allreduce", algorithm, 4, parameters=parameters)


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("collective", ["reduce-scatter", "all-gather"])
def test_halving_and_doubling_alone_take_lg_n_steps_and_the_fewest_bytes(collective: str, ranks: int) -> None:
    schedule = generate(collective, "halving-doubling", ranks)
    assert alpha_beta(schedule, SIZE) == (log2(ranks), SIZE * (ranks - 1) // ranks)


def test_bandwidth_optimal_algorithms_send_the_fewest_bytes_from_every_rank() -> None:
    for name in ("ring", "halving-doubling", "tar", "swing"):
        assert set(bytes_sent(generate("allreduce", name, 16), SIZE)) == {2 * SIZE * 15 // 16}


def test_the_parameter_server_alone_carries_the_incast() -> None:
    sent = bytes_sent(generate("allreduce", "parameter-server", 5, root=2), 100, 4)
    assert list(sent) == [100, 100, 400, 100, 100]


def test_pairs_meet_once_and_leave_nobody_out_for_even_n() -> None:
    rows = generate("all-to-all", "pairwise", 12).transfers
    assert len(rows) == 12 * 11
    assert all(len(set(rows["source"][rows["step"] == step])) == 12 for step in range(11))


def test_chunks_differ_by_one_element_at_most_and_all_to_all_leaves_a_remainder() -> None:
    assert chunk_ranges(10, 4) == [(0, 3), (3, 6), (6, 8), (8, 10)]
    assert chunk_ranges(2, 3) == [(0, 1), (1, 2), (2, 2)]
    assert generate("all-to-all", None, 4).ranges(10) == [(0, 2), (2, 4), (4, 6), (6, 8)]


def test_defaults_serve_their_collectives() -> None:
    assert [generate(collective, None, 4).algorithm for collective in DEFAULTS] == list(DEFAULTS.values())
    assert algorithms_for("broadcast") == ("binomial", "ring")


@pytest.mark.parametrize(
    ("collective", "algorithm", "root", "says", "hint"),
    [
        ("allredcue", None, 0, "no collective 'allredcue'", "allreduce"),
        ("allreduce", "rings", 0, "no algorithm 'rings'", "ring"),
        ("all-to-all", "ring", 0, "does not serve", "pairwise"),
        ("broadcast", None, 4, "root 4", ""),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(
    collective: str, algorithm: str | None, root: int, says: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        generate(collective, algorithm, 4, root)
    assert hint in refused.value.hint


OWN = """
from testbed.collective.schedule import COPY, Schedule, transfers

def flat(collective, ranks, root):  # the root sends to one after another
    steps = range(ranks - 1)
    rows = transfers(steps, root, [(root + 1 + i) % ranks for i in steps], 0, COPY)
    return Schedule(collective, "flat", ranks, 1, rows, root=root)

def parts(collective, ranks, root, *, size=1):
    chunks = -(-4 // size)
    rows = transfers(range((ranks - 1) * chunks), 0, [1 + i // chunks for i in range((ranks - 1) * chunks)],
                     [i % chunks for i in range((ranks - 1) * chunks)], COPY)
    return Schedule(collective, "parts", ranks, chunks, rows)

def lazy(collective, ranks, root):
    return Schedule(collective, "lazy", ranks, 1, transfers(0, root, (root + 1) % ranks, 0, COPY), root=root)

def nothing(collective, ranks, root):
    return None
"""


def test_an_algorithm_of_ones_own_is_loaded_and_proved(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    assert generate("broadcast", f"{file}:flat", 5, 3).steps == 4
    assert generate("broadcast", f"{file}:parts", 3, parameters={"size": 2}).steps == 4
    with pytest.raises(UsageError, match="rank 2 ends with chunk 0 lacking the contribution of rank 0"):
        generate("broadcast", f"{file}:lazy", 5)
    with pytest.raises(UsageError, match="does not make a schedule"):
        generate("broadcast", f"{file}:nothing", 5)


@pytest.mark.slow
def test_a_thousand_ranks_are_one_array() -> None:
    schedule = generate("allreduce", "ring", 1024)
    assert len(schedule.transfers) == 2 * 1023 * 1024
    assert set(bytes_sent(schedule, 1 << 20)) == {2 * 1023 * 1024}
