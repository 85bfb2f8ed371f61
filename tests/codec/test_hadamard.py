"""The randomised Hadamard transform is what its docstring says, and loses what the model of the papers' effect loses.

The figures of lost tails are those of a gradient whose squared elements fall off exponentially: worked out here.
"""

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.codec import CODECS, CodecError, coded_elements, settle
from testbed.codec.hadamard import HadamardCoder, transform
from testbed.codec.layers import CodedLayers

Numbers = npt.NDArray[Any]


def coder(elements: int, block: int = 0, stride: int = 1, seed: int = 1) -> HadamardCoder:
    return HadamardCoder(elements, {"block": block, "stride": stride}, seed)


def encode(made: HadamardCoder, gradient: Numbers, size: int, iteration: int = 0) -> Numbers:
    out = np.empty(size, gradient.dtype)
    made.encode(gradient, iteration, out)
    return out


def decode(made: HadamardCoder, coded: Numbers, elements: int, iteration: int = 0) -> Numbers:
    out = np.empty(elements, coded.dtype)
    made.decode(coded, iteration, out)
    return out


def sylvester(size: int) -> Numbers:
    """H_2n = [[H_n, H_n], [H_n, -H_n]] (Sylvester, 1867)."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32, 128, 256])
def test_the_transform_is_sylvesters_matrix(size: int) -> None:
    rows = np.random.default_rng(1).integers(-9, 9, (3, size)).astype(np.float32)
    assert np.array_equal(transform(rows.copy()), rows @ sylvester(size))  # of small whole numbers: exactly


@pytest.mark.parametrize(("block", "stride", "size"), [(0, 1, 2048), (16, 1, 1504), (64, 7, 1536), (64, 64, 1536)])
def test_it_is_orthonormal(block: int, stride: int, size: int) -> None:
    """Norms and inner products stay, whatever the blocks and in whichever order coefficients go."""
    elements = 1500
    made, draws = coder(elements, block, stride), np.random.default_rng(2)
    one, other = draws.standard_normal((2, elements)).astype(np.float32)
    coded = [encode(made, each, size).astype(float) for each in (one, other)]
    assert coded_elements({"kind": "hadamard", "block": block, "stride": stride}, elements) == size
    assert coded[0] @ coded[0] == pytest.approx(float(one.astype(float) @ one), rel=1e-6)
    assert coded[0] @ coded[1] == pytest.approx(float(one.astype(float) @ other), abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    elements=st.integers(1, 3000),
    block=st.sampled_from([0, 1, 2, 16, 64, 1024]),
    stride=st.integers(1, 70),
    dtype=st.sampled_from(["float32", "float16"]),
    ranks=st.integers(1, 5),
)
def test_a_decoded_sum_is_the_sum_to_within_its_bound(
    elements: int, block: int, stride: int, dtype: str, ranks: int
) -> None:
    made = coder(elements, block, stride if block else 1)
    size = coded_elements({"kind": "hadamard", "block": block}, elements)
    gradients = np.random.default_rng(elements).standard_normal((ranks, elements)).astype(dtype)
    total = np.zeros(size, dtype)
    for gradient in gradients:
        total += encode(made, gradient, size, iteration=3)
    error = np.abs(decode(made, total, elements, 3).astype(float) - gradients.astype(float).sum(axis=0))
    bound = made.error_bound(list(gradients))
    assert bound.shape == (elements,)
    assert np.all(error <= bound)


def test_ranks_of_one_seed_have_the_same_signs_and_every_iteration_others() -> None:
    gradient = np.ones(64, np.float32)
    first, again = (encode(coder(64, seed=7), gradient, 64) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, encode(coder(64, seed=8), gradient, 64))
    assert not np.array_equal(first, encode(coder(64, seed=7), gradient, 64, iteration=1))


def test_the_bound_of_an_exact_sum_is_small_beside_its_elements() -> None:
    """float32 has 24 bits: of 8 ranks of a mebi-element nothing is off by a thousandth of what is usual."""
    elements = 1 << 20
    gradients = list(np.random.default_rng(3).standard_normal((2, elements)).astype(np.float32))
    made = coder(elements, 1024)
    total = sum(encode(made, each, elements) for each in gradients)
    off = np.abs(decode(made, total, elements) - sum(gradients))
    assert off.max() < 1e-5
    assert made.error_bound(gradients).max() < 1e-3


# What losing costs: relative squared error, over some iterations of signs.


def falling(elements: int = 4096, last_tenth_has: float = 0.445) -> Numbers:
    """A gradient whose energy rises exponentially along it, so that its last tenth has so much of all.

    With e^(k x), x from 0 to 1, that share is (1 - e^(-k / 10)) / (1 - e^(-k)) from the high end.
    """
    low, high = 1e-6, 100.0
    for _ in range(100):
        k = (low + high) / 2
        low, high = (k, high) if (1 - np.exp(-k / 10)) / (1 - np.exp(-k)) < last_tenth_has else (low, k)
    position = (np.arange(elements) + 0.5) / elements
    signs = np.random.default_rng(4).choice([-1.0, 1.0], elements)
    return (signs * np.exp(k * position / 2)).astype(np.float32)


def lost(gradient: Numbers, gone: Numbers, *, coded: bool, iteration: int = 0) -> float:
    """The squared error over the squared norm, where elements or coefficients are zeros that were lost."""
    if not coded:
        return float((gradient[gone] ** 2).sum() / (gradient**2).sum())
    made = coder(len(gradient))
    values = encode(made, gradient, len(gradient), iteration)
    values[gone] = 0
    error = decode(made, values, len(gradient), iteration) - gradient
    return float((error**2).sum() / (gradient**2).sum())


def test_uniform_loss_costs_the_same_with_and_without() -> None:
    """5 % of coefficients lost at random cost 5 % of the energy, as 5 % of elements do."""
    gradient, draws = falling(), np.random.default_rng(5)
    plain, spread = [], []
    for iteration in range(200):
        gone = draws.random(len(gradient)) < 0.05
        plain.append(lost(gradient, gone, coded=False))
        spread.append(lost(gradient, gone, coded=True, iteration=iteration))
    assert np.mean(plain) == pytest.approx(0.05, rel=0.05)
    assert np.mean(spread) == pytest.approx(np.mean(plain), rel=0.05)


def test_uniform_loss_has_a_smaller_largest_error() -> None:
    gradient, draws = falling(), np.random.default_rng(6)
    gone = draws.random(len(gradient)) < 0.05
    values = encode(coder(4096), gradient, 4096)
    values[gone] = 0
    spread = np.abs(decode(coder(4096), values, 4096) - gradient).max()
    deviation = np.sqrt(0.05 * np.mean(gradient**2))  # errors are normal, as sums of many: five of these is rare
    assert spread < 5 * deviation
    assert spread < np.abs(gradient[gone]).max() / 2


@pytest.mark.parametrize(("share", "factor"), [(0.445, 4.45), (0.9, 9.0)])
def test_a_lost_tail_that_is_large_costs_as_much_less_as_it_is_larger_than_the_rest(
    share: float, factor: float
) -> None:
    """A tenth is lost that has 44.5 % of the energy, or 90 %: of coefficients it has a tenth, whatever it had."""
    gradient = falling(last_tenth_has=share)
    gone = np.arange(len(gradient)) >= len(gradient) * 9 // 10
    plain = lost(gradient, gone, coded=False)
    spread = np.mean([lost(gradient, gone, coded=True, iteration=i) for i in range(50)])
    assert plain == pytest.approx(share, rel=0.01)
    assert spread == pytest.approx(0.1, rel=0.05)
    assert plain / spread == pytest.approx(factor, rel=0.05)


def test_the_papers_model_of_a_lost_tail() -> None:
    """5 % are lost that have 44.5 % of the energy: 0.445 becomes 0.050, nine times less, and the angle closes."""
    gradient = np.random.default_rng(7).standard_normal(4096).astype(np.float32)
    gone = np.arange(4096) >= 4096 * 19 // 20
    kept, tail = ((gradient[~gone] ** 2).sum(), (gradient[gone] ** 2).sum())
    gradient[gone] *= np.sqrt(0.445 / 0.555 * kept / tail)
    plain = lost(gradient, gone, coded=False)
    spread = np.mean([lost(gradient, gone, coded=True, iteration=i) for i in range(50)])
    assert plain == pytest.approx(0.445, abs=0.001)
    assert spread == pytest.approx(0.05, abs=0.003)
    assert plain / spread == pytest.approx(9, rel=0.05)
    cosine = np.sqrt(1 - np.array([plain, spread]))  # of what is left with the whole: an orthogonal part is gone
    assert cosine == pytest.approx([0.745, 0.975], abs=0.002)


def test_a_lost_tail_that_is_small_costs_more() -> None:
    gradient = falling(last_tenth_has=0.445)[::-1].copy()
    gone = np.arange(len(gradient)) >= len(gradient) * 9 // 10
    plain = lost(gradient, gone, coded=False)
    spread = np.mean([lost(gradient, gone, coded=True, iteration=i) for i in range(50)])
    assert spread == pytest.approx(0.1, rel=0.05)
    assert plain < 0.01 < spread


# Blocks and strides.


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.integers(1, 40),
    block=st.sampled_from([4, 16, 64]),
    stride=st.integers(1, 64),
    data=st.data(),
)
def test_what_is_lost_in_a_row_costs_each_block_its_share_at_most(
    blocks: int, block: int, stride: int, data: st.DataObject
) -> None:
    """Of m coefficients in a row ceil(m / S) of each block, or of all blocks if there are fewer than S."""
    size = blocks * block
    made = coder(size, block, stride)
    number = np.empty(size, np.int64)  # the block of each coefficient: tried out one by one
    for each in range(blocks):
        one = np.zeros(size, np.float32)
        one[each * block : (each + 1) * block] = np.random.default_rng(each).standard_normal(block)
        number[np.flatnonzero(encode(made, one, size))] = each
    first = data.draw(st.integers(0, size - 1))
    length = data.draw(st.integers(1, size - first))
    counts = np.bincount(number[first : first + length])
    assert counts.max() <= -(-length // min(stride, blocks))


def test_with_the_full_stride_a_packet_costs_each_block_one_coefficient() -> None:
    """OptiNIC's S = p: 256 float32 of a packet are of 256 blocks."""
    block = 256
    size = 512 * block
    gradient = np.random.default_rng(8).standard_normal(size).astype(np.float32)
    made = coder(size, block, stride=block)
    values = encode(made, gradient, size)
    values[10 * 256 : 11 * 256] = 0
    error = (decode(made, values, size) - gradient).reshape(-1, block)
    struck = np.flatnonzero((error**2).sum(axis=1) > 1e-6)
    assert len(struck) == 256
    bursty = encode(coder(size, block), gradient, size)
    bursty[10 * 256 : 11 * 256] = 0
    alone = (decode(coder(size, block), bursty, size) - gradient).reshape(-1, block)
    assert np.count_nonzero((alone**2).sum(axis=1) > 1e-6) == 1
    assert (error**2).sum() == pytest.approx((alone**2).sum(), rel=0.3)  # the same in all, spread over blocks


def test_the_larger_the_stride_the_less_blocks_differ() -> None:
    """A packet of m coefficients costs S of B blocks m / S each: as much in all, with a variance of m^2 / (S B)."""
    block, blocks, packet = 256, 512, 256
    gradient = np.random.default_rng(9).choice([-1.0, 1.0], blocks * block).astype(np.float32)
    totals, variances = {}, {}
    for stride in (1, 4, 16, 256):
        made, energy = coder(len(gradient), block, stride), []
        for iteration in range(8):
            values = encode(made, gradient, len(gradient), iteration)
            values[20 * packet : 21 * packet] = 0
            error = decode(made, values, len(gradient), iteration) - gradient
            energy.append((error.reshape(blocks, block) ** 2).sum(axis=1))
        totals[stride] = float(np.sum(energy) / 8)
        variances[stride] = float(np.mean(np.var(energy, axis=1)))
    assert list(totals.values()) == pytest.approx([packet] * 4, rel=0.1)  # a packet's worth
    assert variances[1] / variances[4] == pytest.approx(4, rel=0.3)
    assert variances[1] / variances[16] == pytest.approx(16, rel=0.3)
    assert variances[1] / variances[256] > 60  # a coefficient's square itself varies by twice its mean: 256 / 3


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"kind": "hadamard", "block": 1000}, "block", "512 and 1024 are"),
        ({"kind": "hadamard", "stride": 4}, "stride", "needs a block"),
        ({"kind": "hadamard", "blok": 4}, "blok", "unknown key"),
        ({"kind": "hadamard", "block": 16, "stride": 0}, "stride", "out of range"),
        ("hadamrad", "kind", "no codec is called"),
    ],
)
def test_what_is_wrong_is_told(given: object, key: str, says: str) -> None:
    with pytest.raises(CodecError, match=says) as error:
        settle(given)  # type: ignore[arg-type]
    assert error.value.key == key


def test_padding_is_on_the_wire() -> None:
    assert coded_elements("hadamard", 19_210) == 32_768
    assert coded_elements({"kind": "hadamard", "block": 1024}, 19_210) == 19 * 1024
    assert coded_elements(None, 19_210) == 19_210


def test_layers_are_coded_each_by_itself() -> None:
    layers = CodedLayers({"kind": "hadamard", "block": 16}, (20, 7), seed=3)
    assert (layers.coded, layers.elements) == ((32, 16), 27)
    gradient = np.arange(27, dtype=np.float32)
    coded, back = np.empty(48, np.float32), np.empty(27, np.float32)
    layers.encode(gradient, 2, coded)
    coded[32:] = 0
    layers.decode(coded, 2, back)
    assert back[:20] == pytest.approx(gradient[:20], abs=1e-4)
    assert not back[20:].any()
    assert len(layers.error_bound([gradient])) == 27


def test_sixteen_mebibytes_take_well_under_a_second() -> None:
    elements = 4 << 20
    gradient = np.ones(elements, np.float32)
    for block, stride in ((0, 1), (1024, 256)):
        made = coder(elements, block, stride)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            encode(made, gradient, elements)
            times.append(time.perf_counter() - begin)
        assert min(times) < 0.8  # some 0.15 s on an idle machine


def test_every_codec_has_a_name_and_sources() -> None:
    for name, codec in CODECS.items():
        assert codec.name == name
        assert all(parameter.source for parameter in codec.parameters)
