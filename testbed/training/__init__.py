"""Training: where the numbers come from that ranks reduce, and what becomes of the sum.

`GRADIENTS` are the sources that a spec can name; a `.npy` or `.npz` file is one too.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.errors import UsageError
from testbed.training.digits_mlp import LAYER_ELEMENTS, DigitsMlp
from testbed.training.drawn import DrawnGradients
from testbed.training.none import NoGradients
from testbed.training.source import GradientSource
from testbed.training.stored import StoredGradients, stored_elements

GRADIENTS = {
    "random": "normally distributed numbers (integers: evenly), of any size",
    "none": "no numbers: the same bytes on the wire, of any size, with nothing drawn, added up or checked",
    "digits-mlp": "a network of 64-256-10 units that learns scikit-learn's digits, two layers, 19,210 parameters",
}

DRAWN = "random"
NONE = "none"
OF_ANY_SIZE = (DRAWN, NONE)  # the spec says how large


def is_stored(gradients: str) -> bool:
    """Whether `gradients` names a file."""
    return gradients.endswith((".npy", ".npz"))


def buffer_elements(gradients: str) -> list[int]:
    """The elements of each layer, in the order of `GradientSource.layers`, of a source that has a size of its own."""
    if is_stored(gradients):
        return stored_elements(Path(gradients))
    if gradients == "digits-mlp":
        return list(LAYER_ELEMENTS)
    raise UsageError(f"gradients: {gradients} needs a size")


def gradient_source(
    gradients: str, *, rank: int, ranks: int, seed: int, dtype: npt.DTypeLike, size_bytes: int | None
) -> GradientSource:
    """The source that a spec's `gradients` names, for one rank; raises UsageError, MachineLacks."""
    elements = None if size_bytes is None else size_bytes // np.dtype(dtype).itemsize
    if is_stored(gradients):
        return StoredGradients(Path(gradients), rank=rank, ranks=ranks, dtype=dtype, elements=elements)
    if gradients == "digits-mlp":
        return DigitsMlp(rank=rank, ranks=ranks, seed=seed, dtype=dtype)
    if gradients not in OF_ANY_SIZE or elements is None:
        raise UsageError(
            f"gradients: {gradients!r} without a size is no source", hint=f"there are {', '.join(GRADIENTS)}"
        )
    if gradients == NONE:
        return NoGradients(dtype=dtype, elements=elements)
    return DrawnGradients(rank=rank, ranks=ranks, seed=seed, dtype=dtype, elements=elements)
