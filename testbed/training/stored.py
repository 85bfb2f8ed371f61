"""`gradients: FILE.npy` or `FILE.npz`: numbers recorded elsewhere, the same in every iteration; nothing is learnt.

A `.npy` is one layer. In a `.npz` each array is a layer, in the file's order; but if its arrays are called rank0,
rank1, and so on, each is the one layer of that rank. Arrays of any shape are flattened. Where ranks have no array of
their own all contribute the same.
"""

import math
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.errors import UsageError
from testbed.training.source import Layer


class StoredGradients:
    """The layers of `path` as `dtype`; with `elements`, one layer of so many: all of them cut or repeated to fit."""

    def __init__(self, path: Path, *, rank: int, ranks: int, dtype: npt.DTypeLike, elements: int | None) -> None:
        layers = [values.astype(dtype) for values in _of_rank(path, _load(path), rank, ranks)]
        self._layers = layers if elements is None else [np.resize(np.concatenate(layers), elements)]

    @property
    def size_bytes(self) -> int:
        return sum(layer.nbytes for layer in self._layers)

    def layers(self, iteration: int) -> list[Layer]:  # noqa: ARG002
        return self._layers

    def apply(self, iteration: int, reduced: list[Layer]) -> None:
        pass

    def digest(self) -> str:
        return ""

    def metrics(self) -> dict[str, float]:
        return {}


def stored_elements(path: Path) -> list[int]:
    """The number of elements of each layer."""
    return [len(values) for values in _of_rank(path, _load(path), 0, 1)]


def _load(path: Path) -> dict[str, Layer]:
    """All arrays of a file by name, flattened; raises UsageError."""
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = (
            {path.stem: loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
        )
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"gradients: {path} cannot be read: {error}", hint="write it with numpy.save or .savez"
        ) from error
    for name, values in arrays.items():
        if not np.issubdtype(values.dtype, np.floating):
            raise UsageError(f"gradients: {name!r} in {path} holds {values.dtype}, not floating-point numbers")
        if not np.isfinite(values).all():
            raise UsageError(f"gradients: {name!r} in {path} holds infinite numbers or NaNs, whose sum says nothing")
    if not sum(math.prod(values.shape) for values in arrays.values()):
        raise UsageError(f"gradients: {path} holds no numbers")
    return {name: values.reshape(-1) for name, values in arrays.items()}


def _of_rank(path: Path, arrays: dict[str, Layer], rank: int, ranks: int) -> list[Layer]:
    if "rank0" not in arrays:
        return list(arrays.values())
    missing = [f"rank{r}" for r in range(ranks) if f"rank{r}" not in arrays]
    if missing:
        raise UsageError(f"gradients: {path} has no {missing[0]!r} but {ranks} ranks want one each")
    if len({len(values) for values in arrays.values()}) > 1:
        raise UsageError(f"gradients: the arrays of {path} differ in size", hint="all ranks contribute equally many")
    return [arrays[f"rank{rank}"]]
