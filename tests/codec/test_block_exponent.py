"""Sums of quantised floats against exact ones (math.fsum), and the exponents against frexp."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from testbed.codec.block_exponent import LEAST_EXPONENT, NotFiniteError, Quantiser, exponents

unhurried = settings(deadline=None)  # the machine may be busy with something else

VALUES = 4
finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
finite16 = st.floats(width=16, allow_nan=False, allow_infinity=False)


def blocks(dtype, elements):
    """Rows of all workers: shape (workers, 1, VALUES)."""
    shape = st.integers(1, 32).map(lambda workers: (workers, 1, VALUES))
    return shape.flatmap(lambda shape: arrays.arrays(dtype, shape, elements=elements))


def summed(rows):
    """(integer sums, the exponents that hold for all)."""
    workers = len(rows)
    common = np.max([exponents(row) for row in rows], axis=0)
    values = [Quantiser(workers).quantise(row, common) for row in rows]
    total = np.sum(values, axis=0, dtype=np.int64)
    assert np.abs(total).max() <= 2**31 - 1, "the sum of 32-bit integers has overflowed"
    return total.astype(">i4"), common


def exact(rows):
    return np.array([[math.fsum(rows[:, 0, i].astype(np.float64)) for i in range(VALUES)]])


@unhurried
@given(arrays.arrays(np.float32, (3, VALUES), elements=finite32))
def test_exponents_are_those_of_the_largest_magnitude(rows):
    for row, exponent in zip(rows, exponents(rows).tolist(), strict=True):
        largest = max(abs(float(value)) for value in row)
        if not largest:
            assert exponent == LEAST_EXPONENT
        elif largest < 2.0**-126:  # subnormal
            assert exponent == -127
        else:
            assert exponent == math.frexp(largest)[1] - 1


@pytest.mark.parametrize(
    ("dtype", "value", "exponent"),
    [
        (np.float32, 1.0, 0),
        (np.float32, -1.0, 0),
        (np.float32, np.nextafter(np.float32(2), np.float32(0)), 0),
        (np.float32, 2.0, 1),
        (np.float32, np.finfo(np.float32).max, 127),
        (np.float32, np.finfo(np.float32).tiny, -126),
        (np.float32, np.finfo(np.float32).smallest_subnormal, -127),
        (np.float32, -0.0, -128),
        (np.float16, 65504, 15),
        (np.float16, np.finfo(np.float16).tiny, -14),
        (np.float16, np.finfo(np.float16).smallest_subnormal, -15),
        (np.float16, 0.0, -128),
    ],
)
def test_exponents_at_the_edges(dtype, value, exponent):
    assert exponents(np.array([[0, value, 0]], dtype)).tolist() == [exponent]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_named(dtype, value):
    rows = np.ones((5, 6), dtype)
    rows[3, 4] = rows[4, 0] = value
    with pytest.raises(NotFiniteError, match=f"element 4 of row 3 is {value}") as caught:
        exponents(rows)
    assert (caught.value.row, caught.value.column) == (3, 4)


@unhurried
@given(blocks(np.float32, finite32))
def test_a_sum_of_float32_is_within_the_bound(rows):
    total, common = summed(rows)
    quantiser = Quantiser(len(rows))
    bound = quantiser.error_bound(common)
    error = np.abs(quantiser.restore(total, common, np.float64) - exact(rows))
    assert (error <= bound).all()
    rounded = quantiser.restore(total, common, np.float32)
    with np.errstate(over="ignore"):
        spacing = np.spacing(np.abs(quantiser.restore(total, common, np.float64).astype(np.float32)))
    within = np.isfinite(rounded)  # beyond its range a float32 is infinite
    assert (np.abs(rounded.astype(np.float64) - exact(rows))[within] <= (bound + spacing / 2)[within]).all()
    assert (np.abs(exact(rows) + bound)[~within] > np.finfo(np.float32).max * (1 - 2.0**-24)).all()


@unhurried
@given(blocks(np.float16, finite16))
def test_a_sum_of_float16_is_within_the_bound(rows):
    total, common = summed(rows)
    quantiser = Quantiser(len(rows))
    error = np.abs(quantiser.restore(total, common, np.float64) - exact(rows))
    assert (error <= quantiser.error_bound(common)).all()


@unhurried
@given(blocks(np.float32, finite32))
def test_the_bound_is_what_is_promised_of_the_largest_value(rows):
    """n^2 / 2^31 of the largest |x|, where that is not subnormal."""
    _, common = summed(rows)
    workers, largest = len(rows), float(np.abs(rows).max())
    if largest >= np.finfo(np.float32).tiny:
        promised = workers**2 / 2**31 * largest * (1 + 2 * workers / 2**31 + 2.0**-18)
        assert (Quantiser(workers).error_bound(common) <= promised).all()


@pytest.mark.parametrize("workers", range(1, 33))
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_values_of_all_workers_do_not_overflow(workers, sign):
    """With (2^31 - 1) / n, not rounded down, two workers' would."""
    rows = np.full((workers, 1, VALUES), sign * np.nextafter(np.float32(1), np.float32(0)))
    total, common = summed(rows)
    restored = Quantiser(workers).restore(total, common, np.float64)
    assert np.abs(restored - exact(rows)).max() <= Quantiser(workers).error_bound(common)[0, 0]


def test_zeros_stay_zeros_and_subnormals_are_not_lost():
    tiny = np.full((1, VALUES), np.finfo(np.float32).smallest_subnormal)
    zeros = np.zeros((1, VALUES), np.float32)
    total, common = summed(np.stack([tiny, zeros, tiny]))
    assert (Quantiser(3).restore(total, common, np.float32) == 2 * tiny).all()
    total, common = summed(np.stack([zeros, zeros]))
    assert (common == LEAST_EXPONENT).all()
    assert not Quantiser(2).restore(total, common, np.float32).any()


def test_a_sum_beyond_the_range_is_infinite():
    rows = np.full((2, 1, VALUES), np.finfo(np.float32).max)
    total, common = summed(rows)
    assert np.isinf(Quantiser(2).restore(total, common, np.float32)).all()


def test_values_are_big_endian():
    assert Quantiser(1).quantise(np.array([[1.0]], np.float32), np.array([0], np.int8)).tobytes().hex() == "40000000"
