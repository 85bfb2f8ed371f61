"""Where gradients come from: drawn by key, read from files, or learnt from."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from testbed.errors import MachineLacks, UsageError
from testbed.training import buffer_elements, gradient_source
from testbed.training.digits_mlp import DigitsMlp
from testbed.training.source import GradientSource


def _drawn(rank: int, dtype: str = "float32", seed: int = 1, ranks: int = 4) -> GradientSource:
    return gradient_source("random", rank=rank, ranks=ranks, seed=seed, dtype=dtype, size_bytes=40_000)


def test_drawn_numbers_depend_on_seed_rank_and_iteration_alone() -> None:
    first, again, other = _drawn(0), _drawn(0), _drawn(1)
    later = first.layers(7)[0]
    assert np.array_equal(again.layers(7)[0], later)
    drawn = [first.layers(0)[0], later, other.layers(7)[0], _drawn(0, seed=2).layers(7)[0]]
    assert len({values.tobytes() for values in drawn}) == 4


@pytest.mark.parametrize(("dtype", "elements"), [("float32", 10_000), ("float16", 20_000)])
def test_drawn_floats_are_standard_normal(dtype: str, elements: int) -> None:
    (values,) = _drawn(0, dtype).layers(0)
    assert (values.dtype, values.shape) == (np.dtype(dtype), (elements,))
    wide = values.astype(np.float64)
    assert abs(wide.mean()) < 5 / np.sqrt(elements)  # five standard errors
    assert abs(wide.std() - 1) < 5 / np.sqrt(2 * elements)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_no_gradients_are_zeros_of_the_size_asked_for(dtype: str) -> None:
    source = gradient_source("none", rank=1, ranks=4, seed=1, dtype=dtype, size_bytes=40_000)
    (values,) = source.layers(3)
    assert (values.dtype, values.nbytes, source.size_bytes) == (np.dtype(dtype), 40_000, 40_000)
    assert not values.any()
    assert (source.digest(), source.metrics()) == ("", {})
    with pytest.raises(UsageError, match="without a size"):
        gradient_source("none", rank=1, ranks=4, seed=1, dtype=dtype, size_bytes=None)


def test_drawn_integers_use_the_range_and_their_sum_cannot_overflow() -> None:
    ranks = 7
    values = [_drawn(rank, "int32", ranks=ranks).layers(0)[0] for rank in range(ranks)]
    exact = np.sum(values, axis=0, dtype=np.int64)
    assert np.array_equal(np.sum(values, axis=0, dtype=np.int32), exact)
    assert max(np.abs(v).max() for v in values) > 0.99 * (2**31 / ranks)


def _stored(path: Path, *, rank: int = 0, ranks: int = 2, size_bytes: int | None = None) -> list[npt.NDArray[Any]]:
    source = gradient_source(str(path), rank=rank, ranks=ranks, seed=1, dtype="float32", size_bytes=size_bytes)
    layers = source.layers(0)
    assert source.size_bytes == sum(layer.nbytes for layer in layers)
    assert [layer.dtype for layer in layers] == [np.float32] * len(layers)
    return layers


def test_an_array_is_one_layer_and_a_size_cuts_or_repeats_it(tmp_path: Path) -> None:
    path = tmp_path / "g.npy"
    np.save(path, np.arange(6.0).reshape(2, 3))
    assert buffer_elements(str(path)) == [6]
    assert _stored(path)[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert _stored(path, size_bytes=16)[0].tolist() == [0, 1, 2, 3]
    assert _stored(path, size_bytes=32)[0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1]


def test_the_arrays_of_an_npz_are_layers_in_the_files_order(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, second=np.ones((2, 2)), first=np.zeros(3))
    assert buffer_elements(str(path)) == [4, 3]
    assert [layer.tolist() for layer in _stored(path)] == [[1, 1, 1, 1], [0, 0, 0]]


def test_arrays_named_for_ranks_are_theirs(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, rank0=np.zeros(3), rank1=np.ones(3))
    assert buffer_elements(str(path)) == [3]
    assert _stored(path, rank=1)[0].tolist() == [1, 1, 1]
    with pytest.raises(UsageError, match="no 'rank2' but 3 ranks"):
        _stored(path, ranks=3)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.arange(3), "holds int64"),
        (np.array([1.0, np.nan]), "infinite numbers or NaNs"),
        (np.zeros(0), "holds no numbers"),
        (np.array([{}], object), "cannot be read"),
    ],
)
def test_what_is_no_gradient_is_refused(tmp_path: Path, values: npt.NDArray[Any], says: str) -> None:
    path = tmp_path / "g.npy"
    np.save(path, values)
    with pytest.raises(UsageError, match=says):
        _stored(path)


@pytest.mark.parametrize("content", [b"", b"no array", b"PK\x03\x04 cut short"])
def test_what_is_no_file_of_arrays_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "g.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        buffer_elements(str(path))
    with pytest.raises(UsageError, match="cannot be read"):
        buffer_elements(str(tmp_path / "none.npy"))


def _train(ranks: int, iterations: int, dtype: str = "float32") -> list[DigitsMlp]:
    sources = [DigitsMlp(rank=rank, ranks=ranks, seed=1, dtype=dtype) for rank in range(ranks)]
    for iteration in range(iterations):
        parts = [source.layers(iteration) for source in sources]
        reduced = [np.sum(layer, axis=0, dtype=np.float64).astype(dtype) for layer in zip(*parts, strict=True)]
        for source in sources:
            source.apply(iteration, reduced)
    return sources


def test_the_layers_come_last_first_and_are_as_long_as_promised() -> None:
    source = DigitsMlp(rank=0, ranks=2, seed=1, dtype="float16")
    layers = source.layers(0)
    assert [layer.shape for layer in layers] == [(n,) for n in buffer_elements("digits-mlp")]
    assert [layer.dtype for layer in layers] == [np.float16] * 2
    assert source.size_bytes == sum(layer.nbytes for layer in layers) == 19_210 * 2


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    """Against central differences of the loss of the whole batch, computed apart from the code under test."""
    source = DigitsMlp(rank=0, ranks=1, seed=1, dtype="float32")
    output, hidden = (layer.copy() for layer in source.layers(0))
    chosen = source._batch(0)
    inputs, classes = source._digits.inputs[chosen].astype(np.float64), source._digits.classes[chosen]

    def loss(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
        active = np.maximum(inputs @ first[:-1] + first[-1], 0)
        scores = active @ second[:-1] + second[-1]
        return float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(classes)), classes]).mean())

    weights = [source._hidden.astype(np.float64), source._output.astype(np.float64)]
    generator = np.random.default_rng(1)
    for which, gradient in ((0, hidden), (1, output)):
        for index in generator.choice(len(gradient), 12, replace=False):
            nudged = []
            for nudge in (1e-5, -1e-5):
                changed = [w.copy() for w in weights]
                changed[which].reshape(-1)[index] += nudge
                nudged.append(loss(*changed))
            assert gradient[index] == pytest.approx((nudged[0] - nudged[1]) / 2e-5, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "ranks", [2, 5, pytest.param(300, marks=pytest.mark.slow)]
)  # also shares of unequal size, and more ranks than samples in a batch
def test_many_ranks_learn_what_one_process_learns(ranks: int) -> None:
    alone, many = _train(1, 5)[0], _train(ranks, 5)
    assert len({source.digest() for source in many}) == 1
    for mine, whole in ((many[0]._hidden, alone._hidden), (many[0]._output, alone._output)):
        assert np.allclose(mine, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_it_learns_the_digits(dtype: str) -> None:
    before, after = _train(4, 0, dtype)[0].metrics(), _train(4, 60, dtype)[0].metrics()
    assert after["loss"] < before["loss"] / 4
    assert before["accuracy"] < 0.3
    assert after["accuracy"] >= 0.9


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MachineLacks, match="scikit-learn") as lacks:
        gradient_source("digits-mlp", rank=0, ranks=1, seed=1, dtype="float32", size_bytes=None)
    assert "testbed[train]" in lacks.value.hint
