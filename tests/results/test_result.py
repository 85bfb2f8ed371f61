"""`result.json` from samples made by hand."""

import json
from typing import Any

import jsonschema
import pytest

from testbed.results import model
from testbed.results.result import bus_factors, distribution, make_result, timings, unfinished
from testbed.results.samples import Evidence, JobEvidence, LinkRow, RateProbe, RttProbe
from testbed.spec.model import Spec
from testbed.training.digits_mlp import LAYER_ELEMENTS

from .synthetic import a_link, a_plan, a_result, a_row, a_samples, a_spec, iterations

CONTRACT_KEYS = [
    *("schema", "name", "run_id", "status", "engine", "time_dilation", "verdict", "ranks", "collective", "algorithm"),
    *("transport", "size_bytes", "iterations", "cct_ns", "exposed_ns", "bound_ns", "algbw_bps", "busbw_bps"),
    *("busbw_factor", "wrong", "nmse", "missing_bytes", "packets", "bytes_on_wire", "payload_bytes", "wall_s"),
    *("setup_s", "teardown_s", "simulation"),
]


def as_json(result: model.Result) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(result.to_json())
    return data


def test_every_key_of_the_contract_in_its_order() -> None:
    assert list(as_json(a_result()))[: len(CONTRACT_KEYS)] == CONTRACT_KEYS


def test_completion_times_by_hand() -> None:
    result = as_json(a_result([1_000_000, 1_200_000, 1_100_000, 1_300_000]))
    cct = result["cct_ns"]
    assert cct["n"] == 4
    assert (cct["min"], cct["p50"], cct["p95"], cct["p99"], cct["max"]) == (1000000, 1100000, 1300000, 1300000, 1300000)
    assert cct["mean"] == 1_150_000
    assert cct["stdev"] == 129_099  # sqrt(5e10 / 3)
    # half width 3.182446 * 129099.44 / 2
    assert cct["ci95"] == {"mean": [944_574, 1_355_426], "p50": None, "p95": None, "p99": None}
    assert result["exposed_ns"] == {"p50": 1_099_000}  # rank 1 starts 1000 ns after rank 0
    assert result["algbw_bps"] == round(8 * 2**20 / 1.15e-3)
    assert result["busbw_factor"] == {"ring": 1.0, "in_network": None}
    assert result["busbw_bps"] == {"ring": result["algbw_bps"], "in_network": None}


def test_facts_of_the_spec_and_the_plan() -> None:
    result = as_json(a_result(repeat=2, point={"transport.kind": "roce"}))
    expected = {
        "schema": 1,
        "name": "tour",
        "run_id": "abc123",
        "status": "ok",
        "engine": "emulation",
        "time_dilation": 10,
        "ranks": 2,
        "collective": "allreduce",
        "algorithm": "ring",
        "transport": "roce",
        "size_bytes": 1 << 20,
        "iterations": 4,
        "bound_ns": 800_000,
        "repeat": 2,
        "point": {"transport.kind": "roce"},
        "simulation": None,
    }
    assert {key: result[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("collective", "algorithm", "ring", "in_network"),
    [  # nccl-tests, doc/PERFORMANCE.md, for n = 8
        ("allreduce", "ring", 1.75, None),
        ("allreduce", "in-network", 1.75, 7 / 9),
        ("reduce-scatter", "ring", 0.875, None),
        ("all-gather", "ring", 0.875, None),
        ("all-to-all", "pairwise", 0.875, None),
        ("broadcast", "binomial", 1.0, None),
    ],
)
def test_bus_factors(collective: str, algorithm: str, ring: float, in_network: float | None) -> None:
    assert bus_factors(collective, algorithm, 8) == model.BusFactor(ring=ring, in_network=in_network)


def test_warm_up_and_incomplete_iterations_are_left_out_of_times_but_wrong_values_never() -> None:
    rows = (*iterations([1000, 2000]), a_row(2, 0, 9000, 90_000, wrong=3, missing_bytes=7))  # rank 1 never ended
    result = a_result(iterations=rows)
    assert (result.cct_ns.n, result.cct_ns.max) == (2, 2000)
    assert result.incomplete_iterations == (2,)
    assert (result.wrong, result.missing_bytes) == (3, 7)


def test_suspect_iterations_count() -> None:
    rows = (*iterations([1000]), *(a_row(1, rank, 2000, 9000, valid=False) for rank in range(2)))
    result = a_result(iterations=rows)
    assert (result.cct_ns.n, result.cct_ns.max, result.incomplete_iterations) == (2, 7000, ())


def test_an_iteration_counts_without_the_ranks_that_a_fault_killed() -> None:
    spec = a_spec(faults=[{"kind": "kill", "worker": 1, "at": "1ms"}])
    rows = (*iterations([1000]), a_row(1, 0, 2000, 5000))
    assert a_result(spec=spec, iterations=rows).cct_ns.n == 2


def test_nmse_is_the_mean_over_iterations() -> None:
    rows = (a_row(0, 0, 0, 9, nmse=0.1), a_row(0, 1, 0, 9, nmse=0.3), a_row(1, 0, 20, 29), a_row(1, 1, 20, 29))
    assert a_result(iterations=rows).nmse == pytest.approx(0.1)


def test_timings_span_all_ranks() -> None:
    rows = [a_row(0, 0, 5, 100), a_row(0, 1, 2, 90), a_row(0, 2, 7, 95)]
    (timing,), left_out = timings(rows, frozenset(range(3)))
    assert (timing.cct_ns, timing.exposed_ns, left_out) == (98, 93, ())


def test_nothing_measured_is_null_not_zero() -> None:
    assert as_json(a_result(iterations=()))["cct_ns"] == {
        **{"n": 0, "min": None, "mean": None, "stdev": None, "p50": None, "p95": None, "p99": None, "max": None},
        "ci95": {"mean": None, "p50": None, "p95": None, "p99": None},
    }


def test_a_single_iteration_has_no_spread() -> None:
    only = distribution([5])
    assert (only.mean, only.stdev, only.ci95.mean) == (5, None, None)


def test_a_model_s_gradients_give_the_size() -> None:
    spec = a_spec(workload={"algorithm": "ring", "gradients": "digits-mlp", "iterations": 4})
    result = make_result(spec, a_samples(), run_id="x", plan=a_plan(spec))
    size_bytes = 4 * sum(LAYER_ELEMENTS)
    assert result.size_bytes == size_bytes
    assert result.algbw_bps == round(8 * size_bytes / 1.15e-3)


def test_an_algorithm_that_the_spec_leaves_open_is_named() -> None:
    spec = a_spec(workload={"size": "1MiB", "iterations": 4})
    assert a_result(spec=spec).algorithm == "ring"


def test_background_is_what_is_not_the_job_s() -> None:
    links: tuple[LinkRow, ...] = (
        a_link("h0>s0", packets=100, job_packets=60, dropped_queue=5, job_dropped_queue=2),
        a_link("s0>h1", packets=90, job_packets=60, dropped_loss=4, job_dropped_loss=1, dropped_down=2),
    )
    background = a_result(links=links).background
    assert background == model.Background(received=30, dropped_queue=3, dropped_loss=5)


def test_probes_and_notes_are_kept() -> None:
    times = JobEvidence(
        base_rtt_ns=100_000,
        rtt=(RttProbe("h0", "h1", 95_000, 90_000),),
        rates=(RateProbe("h0", "h1", 16, 99, 100),),
    )
    result = as_json(a_result(times=times, evidence=Evidence(notes=("spray",))))
    assert result["rtt"] == [{"source": "h0", "target": "h1", "measured_ns": 95_000, "modelled_ns": 90_000}]
    assert result["rates"][0]["packets"] == 16
    assert result["notes"] == ["spray"]


def test_a_command_has_no_collective_and_may_report_nothing() -> None:
    spec = a_spec(workload={"kind": "command", "command": "true"})
    result = make_result(spec, a_samples(iterations=()), run_id="x", plan=a_plan(spec, bound_ns=0))
    assert (result.collective, result.size_bytes, result.algbw_bps, result.bound_ns) == (None, None, None, None)
    assert result.verdict.value == "valid"


def _failed_before_the_plan() -> model.Result:
    return make_result(a_spec(), unfinished("failed", "ovsdb did not start"), run_id="x")


@pytest.mark.parametrize(
    "result",
    [
        a_result(),
        a_result(iterations=(), status="interrupted", failure="Ctrl-C"),
        a_result([1000] * 400, evidence=Evidence(unmodelled_drops={"h0": 2})),
        _failed_before_the_plan(),
    ],
)
def test_results_keep_to_the_shipped_schema(result: model.Result) -> None:
    jsonschema.Draft202012Validator(json.loads(model.SCHEMA_FILE.read_text())).validate(as_json(result))


@pytest.mark.parametrize("damage", [{"status": "fine"}, {"cct_ns": 3}, {"schema": 2}, {"packets": {"sent": 1}}])
def test_the_schema_refuses_what_is_not_a_result(damage: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(model.SCHEMA_FILE.read_text()))
    assert not validator.is_valid(as_json(a_result()) | damage)
    for key in CONTRACT_KEYS:
        assert not validator.is_valid({k: v for k, v in as_json(a_result()).items() if k != key})


def test_the_shipped_schema_is_that_of_the_model() -> None:
    assert model.SCHEMA_FILE.read_text() == model.schema_text(), "run python -m testbed.results.model"


def test_a_failed_run_says_why_and_is_not_valid() -> None:
    result = _failed_before_the_plan()
    assert (result.status, result.failure, result.time_dilation) == ("failed", "ovsdb did not start", None)
    assert [r.code for r in result.verdict.reasons] == ["unfinished", "no-iterations"]
    assert (result.packets, result.bytes_on_wire, result.payload_bytes) == (None, None, None), "nobody counted"


def test_background_flows_of_a_failed_run_are_not_said_to_be_none() -> None:
    spec = a_spec(traffic=[{"kind": "flows", "sizes": "64KiB", "every": "1ms"}])
    assert a_result(spec=spec, status="failed", failure="worker 3 lost").traffic is None
    ended = a_result(spec=spec).traffic
    assert ended is not None
    assert ended.begun == 0


def test_a_newer_result_is_read_with_its_additions() -> None:
    text = json.dumps(as_json(a_result()) | {"energy_j": 3})
    assert model.Result.model_validate_json(text).model_extra == {"energy_j": 3}


def test_a_spec_without_workers_takes_its_ranks_from_the_placement() -> None:
    spec = Spec.model_validate({"name": "bare", "topology": {"kind": "star"}})
    assert make_result(spec, a_samples(), run_id="x", plan=a_plan(spec)).ranks == 2


def test_what_was_delivered() -> None:
    rows = (a_row(0, 0, 0, 1000, received_bytes=900, missing_bytes=100), a_row(0, 1, 0, 1100, received_bytes=1000))
    links = (a_link("h0>s0", pfc_sent=3, paused_ns=70), a_link("s0>h1", pfc_sent=1, paused_ns=5))
    result = a_result(iterations=rows, links=links, counters={"skipped": 1, "naks": 2}, training={"accuracy": 0.5})
    assert (result.missing_bytes, result.missing_share) == (100, 0.05)
    assert result.counters == {"naks": 2, "skipped": 1}
    assert (result.training.accuracy, result.training.loss) == (0.5, None)
    assert result.pfc == model.Pauses(frames=4, paused_ns=75)
