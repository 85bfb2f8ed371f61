"""Words for units that average: what they hold, and how far a sum may be off."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.codec.block_exponent import LEAST_EXPONENT, exponents
from testbed.codec.words import BITS, WordQuantiser

FLOATS = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=8, max_size=8)


def test_eight_bits_have_steps_of_a_127th() -> None:
    """Below 1 the exponent above all is 0: a step is 1/127, and words lie around 128."""
    words = WordQuantiser(1, 8).quantise(np.array([[0, 1 / 127, -1 / 127, 0.999, -0.999]], np.float32), np.array([-1]))
    assert words.tolist() == [[128, 129, 127, 255, 1]]


def test_zeros_alone_stay_zeros() -> None:
    quantiser, none = WordQuantiser(4, 16), np.array([LEAST_EXPONENT], np.int8)
    words = quantiser.quantise(np.zeros((1, 3), np.float32), none)
    assert words.tolist() == [[32768] * 3]
    assert quantiser.restore(words, none, np.float32).tolist() == [[0.0] * 3]


@pytest.mark.parametrize("bits", BITS)
@given(parts=st.lists(FLOATS, min_size=2, max_size=2) | st.lists(FLOATS, min_size=8, max_size=8))
def test_a_sum_is_within_the_bound(bits: int, parts: list[list[float]]) -> None:
    rows = [np.array([part], np.float32) for part in parts]
    common = np.max([exponents(row) for row in rows], axis=0)
    quantiser = WordQuantiser(len(parts), bits)
    words = np.array([quantiser.quantise(row, common) for row in rows]).astype(np.int64)
    assert words.min() >= 1
    assert words.max() < 1 << bits
    mean = np.rint(words.mean(axis=0)).astype(np.int32)
    sums = quantiser.restore(mean, common, np.float64)[0]
    exact = [math.fsum(float(row[0, i]) for row in rows) for i in range(8)]
    assert (np.abs(sums - exact) <= quantiser.error_bound(common)[0, 0]).all()
