"""The check of results against the inputs of all ranks."""

import numpy as np
import pytest

from testbed.worker import verify as module
from testbed.worker.verify import verify, verify_all

INPUTS = [np.arange(1000, dtype=np.int32) * rank for rank in range(1, 4)]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ELEMENTS_AT_A_TIME", 64)


def test_an_exact_sum_has_nothing_wrong() -> None:
    assert verify("allreduce", INPUTS, np.arange(1000, dtype=np.int32) * 6, 0, 0) == (0, 0.0)


def test_wrong_elements_are_counted_in_every_piece() -> None:
    result = np.arange(1000, dtype=np.int32) * 6
    result[[0, 63, 64, 999]] += 1
    wrong, nmse = verify("allreduce", INPUTS, result, 1, 0)
    assert wrong == 4
    assert nmse == pytest.approx(4 / sum((6 * i) ** 2 for i in range(1000)))


def test_floats_may_differ_by_rounding_only() -> None:
    inputs = [np.full(100, 0.1, np.float32) for _ in range(4)]
    result = np.full(100, 0.4, np.float32)
    assert verify("allreduce", inputs, result, 0, 0)[0] == 0
    result[7] = 0.4001
    assert verify("allreduce", inputs, result, 0, 0)[0] == 1


def test_only_the_own_share_counts_after_a_reduce_scatter() -> None:
    """1000 elements over three ranks: the first has one more (334, 333, 333)."""
    result = np.zeros(1000, np.int32)
    result[334:667] = np.arange(334, 667) * 6
    assert verify("reduce-scatter", INPUTS, result, 1, 0) == (0, 0.0)
    assert verify("reduce-scatter", INPUTS, result, 0, 0)[0] == 333  # element 0 is 0 anyway


def test_a_broadcast_is_the_roots() -> None:
    assert verify("broadcast", INPUTS, INPUTS[2].copy(), 0, 2) == (0, 0.0)
    assert verify("broadcast", INPUTS, INPUTS[1].copy(), 0, 2)[0] == 999


def test_ranks_with_the_same_bits_are_found_alike_and_others_by_themselves() -> None:
    """Bits tell, not values: of two zeros the negative one is looked at for itself, and is right too."""
    inputs = [np.array([1.0, -1.0], np.float32), np.array([-1.0, 3.0], np.float32)]
    right, negative = np.array([0.0, 2.0], np.float32), np.array([-0.0, 2.0], np.float32)
    wrong = np.array([0.0, 3.0], np.float32)
    found = verify_all("allreduce", inputs, dict(enumerate([right, wrong, wrong.copy(), negative, right])), root=0)
    assert found == {0: (0, 0.0), 1: (1, 0.25), 2: (1, 0.25), 3: (0, 0.0), 4: (0, 0.0)}


@pytest.mark.parametrize("collective", ["allreduce", "broadcast", "all-gather", "reduce-scatter", "all-to-all"])
def test_all_ranks_together_are_checked_as_each_by_itself(collective: str) -> None:
    inputs = [np.arange(200, dtype=np.float32) * rank for rank in range(1, 4)]
    results = {rank: np.arange(200, dtype=np.float32) * 6 + rank + 1 for rank in (0, 2)}
    together = verify_all(collective, inputs, results, root=1)
    assert together == {rank: verify(collective, inputs, result, rank, 1) for rank, result in results.items()}
    assert all(wrong for wrong, _ in together.values())
