"""Units that average as OptINC's do: what they round, in one and in a cascade, and what they do not wait for."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pytest

from testbed.dataplane.native.exchange import Exchange
from tests.dataplane.aggregation import WORKER, Job, Values, add, configure, program, unframed

pytestmark = pytest.mark.slow

VALUES, SLOTS, UP = 256, 64, 100


def words(workers: int, chunks: int, bits: int) -> Values:
    """By worker and chunk."""
    drawn = np.random.default_rng(bits).integers(0, 1 << bits, (workers, chunks, VALUES))
    return drawn.astype(np.int32)


def job_of(inputs: Sequence[int], shift: int, index: int | None = None) -> Job:
    """`inputs` are addresses; input i is at port i."""
    return Job([*enumerate(inputs)], slots=SLOTS, values=VALUES, shift=shift, index=index, up_port=UP)


def rounded_mean(of: Values) -> Values:
    """Halves to even; float64 has these means exactly."""
    return np.rint(of.mean(axis=0)).astype(np.int32)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("workers", [2, 4, 8, 16, 32])
def test_one_unit_gives_all_the_rounded_mean(workers: int, bits: int) -> None:
    of = words(workers, 4, bits)
    job = job_of([WORKER + i + 1 for i in range(workers)], workers.bit_length() - 1)
    with Exchange(program("aggregate_optical")) as switch:
        configure(switch, job)
        for chunk, expected in enumerate(rounded_mean(of)):
            sent = [switch.inject(i, add(job, i, chunk, of[i, chunk])) for i in range(workers)]
            assert [len(each) for each in sent] == [0] * (workers - 1) + [workers]
            assert sorted(port for port, _ in sent[-1]) == [*range(workers)]
            for _, data in sent[-1]:
                assert (unframed(data)[1] == expected).all()


def cascade(of: Values, fraction: int) -> Iterator[Values]:
    """What 16 workers get by chunk from four units and one above, the same all; `fraction`: bits between them."""
    with ExitStack() as stack:
        root = stack.enter_context(Exchange(program("aggregate_optical")))
        configure(root, job_of([WORKER + 0x8000 + i for i in range(4)], 2 + fraction))
        jobs = [job_of([WORKER + 4 * i + j + 1 for j in range(4)], 2 - fraction, index=i) for i in range(4)]
        units = [stack.enter_context(Exchange(program("aggregate_optical"))) for _ in jobs]
        for unit, job in zip(units, jobs, strict=True):
            configure(unit, job)
        for chunk in range(of.shape[1]):
            up = []
            for i in range(16):
                up += [
                    (i // 4, *each)
                    for each in units[i // 4].inject(i % 4, add(jobs[i // 4], i % 4, chunk, of[i, chunk]))
                ]
            assert [port for _, port, _ in up] == [UP] * 4
            down = [each for unit, _, data in up for each in root.inject(unit, data)]
            came = [unframed(data)[1] for unit, result in down for _, data in units[unit].inject(UP, result)]
            assert len(came) == 16
            assert all((each == came[0]).all() for each in came)
            yield came[0]


@pytest.mark.parametrize("bits", [8, 16])
def test_a_cascade_of_16_is_exact_with_two_bits_of_fraction(bits: int) -> None:
    of = words(16, 64, bits)
    assert (np.array([*cascade(of, 2)]) == rounded_mean(of)).all()


def test_a_cascade_without_fraction_is_off_by_one_in_13_percent() -> None:
    """It rounds twice, which changes 543 of 4096 means: counted over all remainders of four sums of four words."""
    of = words(16, 256, 16)
    off = np.array([*cascade(of, 0)]) - rounded_mean(of)
    assert set(np.unique(off)) == {-1, 0, 1}
    assert np.mean(off != 0) == pytest.approx(543 / 4096, abs=0.006)  # 4 standard deviations of 65536 draws


def test_a_newer_chunk_takes_the_place_of_one_that_is_not_complete() -> None:
    of = words(4, 3, 8)
    job = job_of([WORKER + i + 1 for i in range(4)], 2)
    with Exchange(program("aggregate_optical")) as switch:
        configure(switch, job)
        assert not any(switch.inject(i, add(job, i, 0, of[i, 0])) for i in range(3))
        assert not switch.inject(0, add(job, 0, SLOTS, of[0, 1]))
        assert not switch.inject(3, add(job, 3, 0, of[3, 0]))  # it comes too late
        assert not any(switch.inject(i, add(job, i, SLOTS, of[i, 1])) for i in (1, 2))
        ((_, data), *_) = switch.inject(3, add(job, 3, SLOTS, of[3, 1]))
        assert (unframed(data)[1] == rounded_mean(of)[1]).all()
        assert not switch.inject(3, add(job, 3, SLOTS, of[3, 1]))  # nobody is answered
        counts = [switch.control.read_counter(name, 0)[0] for name in ("completed", "abandoned", "ignored")]
        assert counts == [1, 1, 2]
