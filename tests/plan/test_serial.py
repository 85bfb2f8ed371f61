"""A plan survives JSON whole, whatever it holds."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.plan.serial import from_json, to_json
from tests.plan.specs import STOCK, planned

NETWORKS = st.sampled_from(
    [
        ({"kind": "fat-tree", "k": 4}, 8),
        ({"kind": "torus", "dims": [2, 3]}, 6),
        ({"kind": "star", "hosts": 4}, 4),
        ({"kind": "graph", "hosts": 2, "switches": 2, "links": ["h0-s0", ["s0", "s1"], "s1-h1"]}, 2),
    ]
)
LINKS = st.fixed_dictionaries(
    {"rate": st.integers(1, 10**9).map("{}Kbps".format)},
    optional={
        "delay": st.integers(0, 10**9).map("{}ns".format),
        "jitter": st.just("3us"),
        "reorder": st.booleans(),
        "queue": st.integers(1600, 1 << 20).map("{}B".format),
        "ecn": st.just({"min": "10kB", "max": "20kB", "probability": 0.25}),
        "loss": st.sampled_from(["0.5%", 0, {"kind": "gilbert-elliott", "mean": 0.01, "burst": 3.5}]),
        "duplicate": st.floats(0, 1),
        "corrupt": st.floats(0, 1),
    },
)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 2**63),
        "engine": st.sampled_from(["emulation", "simulation"]),
        "time_dilation": st.sampled_from(["auto", 3]),
        "routing": st.sampled_from([{"kind": kind} for kind in ("ecmp", "spray", "single")]),
        "faults": st.just([{"kind": "link-down", "select": "s*", "at": "5ms", "for": "1ms"}]),
        "traffic": st.just([{"kind": "incast", "from": ["h0"], "to": "h1", "size": "64KiB", "every": "2ms"}]),
        "transport": st.just({"kind": "roce", "timeout": 14, "congestion": {"kind": "dcqcn", "g": "0.4%"}}),
        "switches": st.sampled_from(
            [
                {"kind": "native"},
                {
                    "kind": "native",
                    "controller": "ecmp",
                    "buffer": {"shared": "1MiB", "alpha": 0.125, "headroom": "20KiB"},
                    "pfc": {"priorities": 3, "xoff": "64KiB", "xon": "48KiB"},
                    "overrides": [{"select": "all", "program": "trim", "trim": "64B", "scheduler": "strict"}],
                },
                {"kind": "auto", "scheduler": {"weighted": {"3": 4}}, "pfc": {"xoff": "1B", "xon": 0}},
                {"kind": "native", "scheduler": {"weighted": [1, 2, 3, 4, 5, 6, 7, 8]}},
            ]
        ),
        "capture": st.just({"select": ["h0"], "snap": "128B"}),
        "sweep": st.just({"topology.k": [4, 6], "routing.kind": ["ecmp", "spray"]}),
        "expect": st.just([{"metric": "cct_ns.p50", "of": {"seed": 1}, "at_most": 1.5}]),
    },
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(NETWORKS, LINKS, EXTRAS, st.sampled_from(["packed", "spread", "random"]))
def test_there_and_back(network: Any, link: dict[str, Any], extras: dict[str, Any], placement: str) -> None:
    topology, ranks = network
    if topology["kind"] == "fat-tree":
        extras = {key: value for key, value in extras.items() if key != "faults"}
    made = planned(
        STOCK,
        topology=topology,
        links=[link],
        workers={"count": ranks, "placement": placement},
        workload={"size": "1KiB", "compute": "1ms"},
        **extras,
    )
    again = from_json(json.loads(json.dumps(to_json(made))))
    assert again == made
    assert to_json(again) == to_json(made)


def test_what_other_programs_read_stands_by_name() -> None:
    data = to_json(planned())
    link = data["graph"]["links"][3]
    assert (link["index"], link["source"], link["source_port"], link["target"]) == (3, "e0_0", 2, "h1")
    assert data["graph"]["link_parameters"][link["parameters"]]["rate_bps"] == 10**9
    assert data["switches"]["c0"]["entries"][0] == {"prefix": "10.0.0.0/16", "kind": "single", "ports": [1]}
    assert data["addresses"]["h0"]["ip"] == "10.0.0.2"


def test_what_the_fabric_reads_of_native_switches_stands_by_name() -> None:
    buffer, pfc = {"shared": "1MiB"}, {"priorities": [5, 3], "xoff": "2kB", "xon": "1kB"}
    data = to_json(planned(switches={"kind": "native", "buffer": buffer, "pfc": pfc, "trim": "64B"}))
    assert data["datapath"] is None
    assert (data["switching"]["kind"], data["switching"]["controller"]) == ("native", None)
    assert data["switching"]["native"]["c0"] == {
        "program": "l3_ecmp",
        "entries": None,
        "scheduler": "strict",
        "buffer": {"shared_bytes": 1 << 20, "alpha": 1.0, "headroom_bytes": 0},
        "pfc": {"priorities": (3, 5), "xoff_bytes": 2000, "xon_bytes": 1000},
        "trim_bytes": 64,
    }


def test_another_schema_is_refused() -> None:
    with pytest.raises(UsageError, match="schema 99"):
        from_json({**to_json(planned()), "schema": 99})
