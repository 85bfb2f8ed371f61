"""Sweeps and repeats: which points, in which order, with which seeds, and whose mistake a wrong one is."""

from pathlib import Path

import numpy as np
import pytest

from testbed.spec.errors import SpecErrors
from testbed.spec.reader import Experiment, read_experiment
from testbed.spec.sweep import repeat_seed

from .examples import SMALL


def experiment(folder: Path, more: str) -> Experiment:
    path = folder / "spec.yaml"
    path.write_text(SMALL + more)
    return read_experiment(path)


def points(folder: Path, more: str) -> list[dict[str, object]]:
    """The points of one repeat as they are written."""
    return [dict(p.values) for p in sorted(experiment(folder, more).points, key=lambda p: p.index)]


def test_without_a_sweep_there_is_one_point_and_it_is_the_spec(tmp_path: Path) -> None:
    one = experiment(tmp_path, "")
    assert [(p.index, p.values, p.repeat) for p in one.points] == [(0, {}, 0)]
    assert one.points[0].spec == one.spec


def test_a_mapping_is_a_product_in_the_order_of_its_keys(tmp_path: Path) -> None:
    assert points(tmp_path, "sweep: {workers.count: [2, 4], transport.mtu: [256, 512]}\n") == [
        {"workers.count": 2, "transport.mtu": 256},
        {"workers.count": 2, "transport.mtu": 512},
        {"workers.count": 4, "transport.mtu": 256},
        {"workers.count": 4, "transport.mtu": 512},
    ]


def test_a_list_is_a_union_and_a_zip_goes_in_step(tmp_path: Path) -> None:
    text = "sweep: [{workers.count: [2]}, {zip: {workers.count: [3, 4], transport.mtu: [256, 512]}, seed: [5]}]\n"
    assert points(tmp_path, text) == [
        {"workers.count": 2},
        {"workers.count": 3, "transport.mtu": 256, "seed": 5},
        {"workers.count": 4, "transport.mtu": 512, "seed": 5},
    ]


def test_a_value_may_be_a_mapping_or_nothing(tmp_path: Path) -> None:
    text = "sweep: {transport: [{kind: tcp}, {kind: roce, mtu: 256}], links.all.loss: [null, {mean: 1%}]}\n"
    found = sorted(experiment(tmp_path, text).points, key=lambda p: p.index)
    kinds = [(p.spec.transport.kind, p.spec.links[0].loss and p.spec.links[0].loss.mean) for p in found]
    assert kinds == [("tcp", None), ("tcp", 0.01), ("roce", None), ("roce", 0.01)]


def test_an_expectation_names_a_point_by_its_files_as_the_sweep_does(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.ones(1000, np.float32))
    text = """
sweep: {workload.gradients: [random, mine.npy]}
expect: [{metric: wrong, of: {workload.gradients: mine.npy}, to: {workload.gradients: random}, equals: 0}]
"""
    found = experiment(tmp_path, text)
    (expected,) = found.spec.expect
    assert expected.of["workload.gradients"] == str(tmp_path / "mine.npy")
    assert expected.of["workload.gradients"] in [point.values["workload.gradients"] for point in found.points]


def test_the_constants_of_one_kind_do_not_trouble_the_others(tmp_path: Path) -> None:
    found = {
        p.values["transport.kind"]: p.spec
        for p in experiment(tmp_path, "sweep: {transport.kind: [tcp, roce]}\n").points
    }
    assert found["roce"].transport.parameters == {"mtu": 1024}
    assert (found["tcp"].transport.parameters, found["tcp"].transport.congestion) == ({}, "none")


def test_the_sweep_may_bring_what_the_spec_lacks(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(SMALL.replace("workload: {size: 4KiB}", "workload: {}") + "sweep: {workload.size: [4KiB, 8KiB]}\n")
    sizes = {p.spec.workload.size_bytes for p in read_experiment(path).points if p.spec.workload}
    assert sizes == {4096, 8192}


def test_repeats_have_seeds_of_their_own_that_are_the_same_at_every_point(tmp_path: Path) -> None:
    found = experiment(tmp_path, "seed: 3\nrepeat: 3\nsweep: {workers.count: [2, 3, 4]}\n").points
    seeds = {repeat: {p.spec.seed for p in found if p.repeat == repeat} for repeat in range(3)}
    assert all(len(each) == 1 for each in seeds.values())
    assert seeds[0] == {3}
    assert len({seed for each in seeds.values() for seed in each}) == 3


def test_a_repeat_seed_depends_on_seed_and_repeat_alone() -> None:
    # the first 63 bits of `printf 'testbed repeat 1 1' | sha256sum`
    assert repeat_seed(1, 1) == 0xC93566B97529BEBA >> 1
    assert repeat_seed(1, 0) == 1
    assert all(0 <= repeat_seed(s, r) < 2**63 for s in range(3) for r in range(20))


def test_points_come_in_an_order_of_their_own_in_each_repeat_and_the_same_each_time(tmp_path: Path) -> None:
    text = f"repeat: 4\nsweep: {{transport.window: {list(range(16, 28))}}}\n"
    orders = [[p.index for p in experiment(tmp_path, text).points if p.repeat == repeat] for repeat in range(4)]
    again = [[p.index for p in experiment(tmp_path, text).points if p.repeat == repeat] for repeat in range(4)]
    assert orders == again
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


def test_a_point_is_a_single_run(tmp_path: Path) -> None:
    text = "repeat: 2\nsweep: {workers.count: [2]}\nexpect: [{metric: wrong, of: {workers.count: 2}, equals: 0}]\n"
    whole = experiment(tmp_path, text)
    assert (whole.spec.repeat, whole.spec.sweep, len(whole.spec.expect)) == (2, {"workers.count": [2]}, 1)
    assert all((p.spec.repeat, p.spec.sweep, p.spec.expect) == (1, None, ()) for p in whole.points)


def test_a_point_that_is_wrong_only_with_the_others_is_told_at_its_value(tmp_path: Path) -> None:
    with pytest.raises(SpecErrors) as caught:
        experiment(tmp_path, "sweep: {topology.hosts: [4, 3], seed: [1, 2]}\n")
    (error,) = caught.value.errors
    assert (error.line, error.column, error.key) == (8, 29, "topology.hosts")
    assert error.message.startswith("with topology.hosts=3, seed=1, workers.count 4 workers on 3 hosts")


def test_a_value_that_the_sweep_replaces_must_be_right_too(tmp_path: Path) -> None:
    with pytest.raises(SpecErrors) as caught:
        experiment(tmp_path, "seed: one\nsweep: {seed: [1, 2]}\n")
    assert [(e.line, e.key) for e in caught.value.errors] == [(8, "seed")]


def test_too_many_points_are_refused_before_they_are_made(tmp_path: Path) -> None:
    values = list(range(100))
    with pytest.raises(SpecErrors, match="makes 1000000 points"):
        experiment(tmp_path, f"sweep: {{seed: {values}, transport.window: {values}, workload.iterations: {values}}}\n")
