"""Which packets of a gradient matter: DLCP's reason to have switches drop those of small magnitude first."""

import numpy as np
import pytest

from testbed.training.digits_mlp import DigitsMlp

EACH = 256  # values a packet
SEEDS = (1, 2, 3)

pytestmark = pytest.mark.slow


def train(which: str, seed: int, share: float = 0.01, iterations: int = 60) -> tuple[float, float, float]:
    """Loss and accuracy where so many packets of every gradient are zeros, and the error of these (NMSE)."""
    model = DigitsMlp(rank=0, ranks=1, seed=seed, dtype="float32")
    draws, errors = np.random.default_rng(seed), []
    for iteration in range(iterations):
        layers = model.layers(iteration)
        gradient = np.concatenate(layers)
        whole = len(gradient) // EACH
        packets = gradient[: whole * EACH].reshape(whole, EACH)
        order = np.argsort(np.abs(packets).mean(axis=1))
        count = round(share * whole)
        lost = {
            "none": order[:0],
            "small": order[:count],
            "large": order[-count:],
            "any": draws.permutation(whole)[:count],
        }
        total = float(np.square(gradient, dtype=np.float64).sum())
        errors.append(float(np.square(packets[lost[which]], dtype=np.float64).sum()) / total)
        packets[lost[which]] = 0
        model.apply(iteration, np.split(gradient, np.cumsum([len(layer) for layer in layers])[:-1]))
    metrics = model.metrics()
    return metrics["loss"], metrics["accuracy"], float(np.mean(errors))


@pytest.mark.parametrize("seed", SEEDS)
def test_one_packet_of_a_hundred_that_is_large_hurts_more_than_one_that_is_small(seed: int) -> None:
    loss, accuracy, error = zip(*(train(which, seed) for which in ("none", "small", "any", "large")), strict=True)
    assert loss[0] == pytest.approx(loss[1], rel=1e-3)
    assert loss[1] < loss[2] < loss[3]
    assert error[1] < 1e-4 < error[2] < error[3]
    assert all(abs(each - accuracy[0]) < 0.01 for each in accuracy[1:3]), "within a point"
