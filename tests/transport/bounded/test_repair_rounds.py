"""How many passes over a message a bound costs: the model ceil(ln theta / ln p), and its Monte-Carlo figures.

Source of the figures: our notes on DBLP, for a message of 1000 chunks whose every chunk is lost with probability p.
"""

from math import ceil, log
from random import Random
from statistics import mean

import pytest

from .pairs import MTU, carry, is_data

pytestmark = pytest.mark.slow

FIGURES = {
    0.1: {0.001: 3.3, 0.03: 2.0, 0.1: 1.5, 0.2: 1.0},
    0.3: {0.001: 5.9, 0.03: 3.3, 0.1: 2.2, 0.2: 2.0, 0.4: 1.0},
    0.5: {0.001: 9.9, 0.03: 5.6, 0.1: 4.0, 0.2: 3.0, 0.4: 2.0},
}


def passes(kind: str, loss: float, bound: float, seed: int) -> int:
    random = Random(seed)

    def fate(_sender, burst, index):
        return () if is_data(burst.headers[index]) and random.random() < loss else (10_000,)

    return carry(kind, 1000 * MTU, fate, seed, bound=bound).rounds


@pytest.mark.parametrize("kind", ["dblp", "dlcp"])
@pytest.mark.parametrize(("loss", "bound"), [(loss, bound) for loss, row in FIGURES.items() for bound in row])
def test_passes_are_as_many_as_the_model_says(kind, loss, bound):
    found = mean(passes(kind, loss, bound, seed) for seed in range(6))
    assert found == pytest.approx(FIGURES[loss][bound], abs=0.6)
    assert found <= ceil(log(bound) / log(loss)) + 1
