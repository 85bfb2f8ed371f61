"""`gradients: digits-mlp`: a small network learns scikit-learn's handwritten digits while the run goes on.

64 pixels, 256 hidden units (ReLU), 10 classes (softmax, cross entropy), plain synchronous data-parallel SGD. All ranks
start from the same weights; every iteration has one batch, drawn from the seed, of which each rank takes its share.
What ranks contribute is scaled so that their sum divided by their number is the whole batch's mean gradient: the
weights follow those of one process that sees the whole batch.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import chunk_ranges
from testbed.errors import MachineLacks
from testbed.streams import derive
from testbed.training.source import Layer

PIXELS, HIDDEN, CLASSES = 64, 256, 10
LAYER_ELEMENTS = ((HIDDEN + 1) * CLASSES, (PIXELS + 1) * HIDDEN)  # weights and biases, last layer first

_BATCH = 256
_LEARNING_RATE = 0.5
_HELD_OUT = 297  # of 1797 samples: accuracy is measured on these

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Digits:
    """Rows of pixels within 0 … 1 and their classes, apart for training and for measuring."""

    inputs: Floats
    classes: npt.NDArray[np.int64]
    test_inputs: Floats
    test_classes: npt.NDArray[np.int64]


class DigitsMlp:
    """One rank of the training. The weights are float32; gradients cross the network as `dtype`."""

    def __init__(self, *, rank: int, ranks: int, seed: int, dtype: npt.DTypeLike) -> None:
        self._ranks = ranks
        self._seed = seed
        self._dtype = np.dtype(dtype)
        self._share = slice(*chunk_ranges(_BATCH, ranks)[rank])
        self._digits = load_digits(seed)
        generator = np.random.default_rng(derive(seed, "weights"))
        self._hidden = _initial(generator, PIXELS, HIDDEN)
        self._output = _initial(generator, HIDDEN, CLASSES)

    @property
    def size_bytes(self) -> int:
        return sum(LAYER_ELEMENTS) * self._dtype.itemsize

    def layers(self, iteration: int) -> list[Layer]:
        chosen = self._batch(iteration)[self._share]
        inputs, classes = _with_bias(self._digits.inputs[chosen]), self._digits.classes[chosen]
        hidden, output = self._forward(inputs)
        error = _softmax(output)
        error[np.arange(len(classes)), classes] -= 1
        error *= self._ranks / _BATCH
        hidden_error = (error @ self._output[:-1].T) * (hidden[:, :-1] > 0)
        return [(hidden.T @ error).astype(self._dtype).ravel(), (inputs.T @ hidden_error).astype(self._dtype).ravel()]

    def apply(self, iteration: int, reduced: list[Layer]) -> None:  # noqa: ARG002
        for weights, gradient in zip((self._output, self._hidden), reduced, strict=True):
            step = _LEARNING_RATE / self._ranks * gradient.astype(np.float32).reshape(weights.shape)
            np.subtract(weights, step, out=weights)

    def digest(self) -> str:
        return hashlib.blake2b(self._hidden.tobytes() + self._output.tobytes(), digest_size=8).hexdigest()

    def metrics(self) -> dict[str, float]:
        """Cross entropy and accuracy on the samples held out."""
        _, output = self._forward(_with_bias(self._digits.test_inputs))
        classes = self._digits.test_classes
        likelihood = _softmax(output)[np.arange(len(classes)), classes]
        right = output.argmax(axis=1) == classes
        return {"loss": float(-np.log(np.maximum(likelihood, 1e-30)).mean()), "accuracy": float(right.mean())}

    def _batch(self, iteration: int) -> npt.NDArray[np.int64]:
        return np.random.default_rng(derive(self._seed, "batch", iteration)).permutation(len(self._digits.classes))[
            :_BATCH
        ]

    def _forward(self, inputs: Floats) -> tuple[Floats, Floats]:
        hidden = _with_bias(np.maximum(inputs @ self._hidden, 0))
        return hidden, hidden @ self._output


def load_digits(seed: int) -> Digits:
    """The 1797 samples in an order drawn from the seed; raises MachineLacks without scikit-learn."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise MachineLacks(
            "gradients: digits-mlp needs scikit-learn, which is not installed", hint="pip install 'testbed[train]'"
        ) from error
    pixels, classes = load(return_X_y=True)
    order = np.random.default_rng(derive(seed, "digits")).permutation(len(classes))
    inputs, classes = (pixels[order] / 16).astype(np.float32), classes[order].astype(np.int64)
    return Digits(inputs[_HELD_OUT:], classes[_HELD_OUT:], inputs[:_HELD_OUT], classes[:_HELD_OUT])


def _initial(generator: np.random.Generator, inputs: int, outputs: int) -> Floats:
    """He et al., "Delving deep into rectifiers", 2015; the last row are the biases."""
    weights = generator.standard_normal((inputs + 1, outputs), np.float32) * np.float32(np.sqrt(2 / inputs))
    weights[-1] = 0
    return weights


def _with_bias(rows: Floats) -> Floats:
    return np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1)


def _softmax(rows: Floats) -> Floats:
    powers = np.exp(rows - rows.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)
