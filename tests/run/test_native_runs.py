"""`testbed run` on native switches: results bit by bit, every packet accounted for, and what only these switches do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli import runs
from tests.cli.runs import Run

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
NATIVE = {"kind": "native", "program": "l3_ecmp"}
# All workers send to one at a time, into a port whose queue does not hold what they have under way.
INCAST: dict[str, Any] = {
    "time_dilation": 5,
    "topology": {"kind": "star", "hosts": 5},
    "links": [{"rate": "100Mbps", "delay": "50us", "queue": "16KiB"}],
    "workers": {"count": 5},
    "workload": {"algorithm": "parameter-server", "size": "64KiB", "iterations": 2, "warmup": 0},
}


PAUSING = {
    **NATIVE,
    "buffer": {"shared": "64KiB", "alpha": 8, "headroom": "32KiB"},
    "pfc": {"priorities": 0, "xoff": "8KiB", "xon": "4KiB"},
}


def measured(run: Run) -> dict[str, Any]:
    """Wait for a run that must succeed; its result."""
    result = runs.measured(run)
    assert set(runs.reasons(result)) <= {"start-skew", "late-departures", "rtt-excess", "rate"}, "a busy machine's"
    return result


def test_a_star(tmp_path: Path) -> None:
    with Run(tmp_path, switches=NATIVE) as run:
        result = measured(run)
    assert result["packets"]["dropped_program"] == result["packets"]["trimmed"] == 0
    rows = {(row["kind"], row["name"]): row for row in run.table("switches.csv")}
    assert {name for kind, name in rows if kind == "port"} == {"s0-eth1", "s0-eth2", "s0-eth3"}
    flows = {name: int(row["packets"]) for (kind, name), row in rows.items() if kind == "flow"}
    assert flows.pop("miss") == 0
    assert len(flows) == 3, "one a host"
    assert sum(flows.values()) == int(rows["program", "received"]["packets"]) >= result["packets"]["sent"]
    assert all(int(row["packets"]) > 0 for (kind, _), row in rows.items() if kind == "port")
    assert {path.name for path in (run.directory / "logs").iterdir()} == {"fabric.log", "worker.log"}


@pytest.mark.parametrize("switches", [NATIVE, {"kind": "native", "controller": "ecmp"}])
def test_integers_across_a_fat_tree_while_a_cable_fails(switches: dict[str, str], tmp_path: Path) -> None:
    fault = {"kind": "link-down", "select": "e0_0-a0_0", "at": "5ms", "for": "20ms"}
    with Run(
        tmp_path,
        switches=switches,
        topology={"kind": "fat-tree", "hosts": None, "k": 4},
        links=[{"rate": "100Mbps", "delay": "20us", "queue": "256KiB"}],
        workers={"count": 8, "placement": "spread"},
        workload={"size": "64KiB", "dtype": "int32", "iterations": 4},
        faults=[fault],
        limits={"wall": "100s", "stall": "20s"},
    ) as run:
        result = measured(run)
    assert {event["fault"] for event in run.events("fault")} == {"link-down", "link-up"}
    others = [name for name, packets in run.links("job_packets").items() if packets and name.startswith("e0_0>a")]
    assert sorted(others) == ["e0_0>a0_0", "e0_0>a0_1"]
    assert result["packets"]["dropped_loss"] == sum(run.links("job_dropped_down").values())


def test_spraying_uses_every_port_evenly(tmp_path: Path) -> None:
    with Run(
        tmp_path,
        switches={"kind": "native"},
        routing={"kind": "spray"},
        topology={"kind": "leaf-spine", "hosts": 1, "spines": 4, "leaves": 2},
        workers={"count": 2},
        workload={"size": "64KiB"},
    ) as run:
        measured(run)
    up = [packets for name, packets in run.links("packets").items() if name.startswith("leaf0>spine")]
    assert len(up) == 4
    assert min(up) > sum(up) / 4 * 0.5


def test_pfc_loses_nothing_where_the_same_network_without_it_drops(tmp_path: Path) -> None:
    with Run(tmp_path / "without", switches=NATIVE, **INCAST) as run:
        without = measured(run)
    with Run(tmp_path / "with", switches=PAUSING, capture={"select": ["h1"]}, **INCAST) as run:
        with_pfc = measured(run)
    assert without["packets"]["dropped_queue"] > 0
    assert without["packets"]["retransmitted"] > 0
    assert with_pfc["packets"]["dropped_queue"] == with_pfc["packets"]["retransmitted"] == 0
    assert sum(run.links("pfc_sent").values()) > 0
    paused = {name for name, ns in run.links("paused_ns").items() if ns}
    assert paused
    assert all(name.startswith("h") for name in paused), "hosts' own ports wait"
    (captured,) = (run.directory / "pcap").iterdir()
    pause = bytes.fromhex("0180c2000001") + b"......" + bytes.fromhex("8808 0101 0001 ffff")  # IEEE 802.1Qbb, figure 1
    assert re.search(pause, captured.read_bytes(), re.DOTALL), "the first priority alone, for as long as can be said"


def test_a_run_that_pauses_never_end_tells_what_is_paused(tmp_path: Path) -> None:
    """The port that all send to all but stops, and with it whoever sends to it."""
    stop = {"kind": "link-set", "select": "s0>h0", "at": "1ms", "for": "10min", "rate": "20Kbps"}
    with Run(tmp_path, switches=PAUSING, faults=[stop], **INCAST) as run:
        assert run.end() == 1
    told = r"paused by PFC: priority 0 of h\d>s0 for 0\.\d+ s with [\d,]+ B waiting, priority 0 of h\d>s0 .* and 1 more"
    assert re.search(told, run.result["failure"])


def test_trimmed_packets_are_counted(tmp_path: Path) -> None:
    with Run(tmp_path, switches={**NATIVE, "trim": "64B"}, **INCAST) as run:
        result = measured(run)
    packets = result["packets"]
    assert packets["trimmed"] > 0
    assert packets["dropped_trimmed"] > 0, "RoCE's receivers cannot use them"
    assert packets["dropped_corrupt"] == 0, "no cable corrupts any"
    assert packets["retransmitted"] > 0
    rows = {row["name"]: int(row["packets"]) for row in run.table("switches.csv") if row["kind"] == "program"}
    assert rows["trimmed"] >= packets["trimmed"]


OWN = """
#include <core.p4>
#include <v1model.p4>
struct metadata_t { }
#include "include/ipv4.p4"
#include "include/flow_hash.p4"
#include "include/routing.p4"

control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    FlowHash() flow_hash;
    Routing() routing;
    apply {
        bit<32> draw;
        SOMETHING;
        flow_hash.apply(headers, draw);
        routing.apply(headers, draw, standard_metadata);
    }
}
control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}
V1Switch(HeadersParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
"""


@pytest.mark.parametrize(("port", "transport"), [(4, "roce"), (1, "roce"), (4, "tcp")])
def test_copies_for_a_monitor_balance(port: int, transport: str, tmp_path: Path) -> None:
    """A program mirrors everything to a host without a rank, h3, or to a rank's."""
    (tmp_path / "mirror.p4").write_text(OWN.replace("SOMETHING", "clone(CloneType.I2E, 1)"))
    (tmp_path / "mirror.stf").write_text(f"mirroring_add 1 {port}\n")
    with Run(
        tmp_path,
        topology={"kind": "star", "hosts": 4},
        transport={"kind": transport},
        switches={"kind": "native", "program": "mirror.p4", "entries": "mirror.stf"},
    ) as run:
        packets = runs.measured(run)["packets"]
    assert packets["sent"] > 0
    assert packets["dropped_strayed"] > packets["sent"] * (0.3 if port == 1 else 0.99)
    assert packets["received"] + packets["dropped_strayed"] == packets["sent"] + packets["duplicated"]
    strays = {name: count for name, count in run.links("job_strayed").items() if count}
    assert list(strays) == [f"s0>h{port - 1}"]


def test_a_run_that_fails_tells_what_a_program_dropped(tmp_path: Path) -> None:
    no_way_to_h1 = "if (headers.ipv4.destination == 0x0A000002) { headers.ipv4.destination = 0x0A00FFFF; }"
    (tmp_path / "own.p4").write_text(OWN.replace("SOMETHING;", no_way_to_h1))
    with Run(tmp_path, switches={"kind": "native", "program": "own.p4"}, limits={"stall": "100ms"}) as run:
        assert run.end() == 1
    rows = {(row["kind"], row["name"]): int(row["packets"]) for row in run.table("switches.csv")}
    dropped = re.search(r"packets lost: ([\d,]+) by switch s0's program \(DROP_NO_ROUTE\)", run.result["failure"])
    assert dropped
    assert 0 < int(dropped[1].replace(",", "")) <= rows["program", "dropped_program"]
    assert dropped[0] in run.stderr
    assert run.links("packets")["h0>s0"] > 0


def test_entries_of_a_spec_give_priorities_and_marks(tmp_path: Path) -> None:
    """Bursts into the port of the rank that all send to; the job waits for them, or with a larger priority does not."""
    keys: dict[str, Any] = {
        **INCAST,
        "links": [{"rate": "100Mbps", "delay": "20us", "queue": "256KiB"}],
        "transport": {"congestion": "dcqcn"},  # whose packets are ECN-capable
        "workers": {"count": 3},
        "traffic": [{"kind": "incast", "from": ["h3", "h4"], "to": "h0", "size": "16kB", "every": "4ms"}],
    }
    results = {}
    for priority in (0, 3):
        own = tmp_path / f"{priority}.stf"
        own.write_text(
            f"# RoCE's DSCP\nadd priorities dscp:26 to_priority(priority:{priority})\n"
            f"register_write mark_above {priority} 9000\n"
        )
        switches = {"kind": "native", "program": "ecn_priority", "entries": str(own)}
        with Run(tmp_path / str(priority), switches=switches, **keys) as run:
            results[priority] = measured(run)
            rows = {(row["kind"], row["name"]): int(row["packets"]) for row in run.table("switches.csv")}
            plan = json.loads((run.directory / "plan.json").read_text())
        assert plan["switching"]["native"]["s0"]["entries"] == str(own)
        packets = results[priority]["packets"]
        assert rows["entry", "SwitchIngress.priorities:2"] > packets["sent"] * 0.8, "all but CNPs"
        assert rows["counter", f"SwitchEgress.marked[{priority}]"] == packets["ecn_marked"] > 0
    assert results[3]["cct_ns"]["p50"] < 0.8 * results[0]["cct_ns"]["p50"]
