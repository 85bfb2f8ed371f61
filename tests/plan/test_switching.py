"""Which switches the plan has: native ones with their programs and buffers, Open vSwitch, and how `auto` chooses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import execute
from testbed.errors import MachineLacks, UsageError
from testbed.plan import DEFAULT_CAPABILITIES
from testbed.plan.model import Buffer, Carried, NativeSwitch, Pfc
from testbed.plan.planner import explain_dilation
from testbed.spec.resolved import resolved_data
from tests.plan.specs import STOCK, path_of, planned, star

KERNEL = replace(STOCK, native=Carried(packet_hops_per_s=1e6, path_excess_ns=0))
USERSPACE = replace(KERNEL, datapath="user")
NO_COMPILER = replace(USERSPACE, native=None)


def test_open_vswitch_has_the_controller_and_no_programs() -> None:
    made = planned(KERNEL)
    assert (made.switching.kind, made.switching.controller, made.switching.native) == ("ovs", "ecmp", {})
    assert made.datapath == "kernel"


def test_native_switches_forward_by_a_program_and_their_cables_are_the_fabrics() -> None:
    made = planned(KERNEL, switches={"kind": "native"})
    assert (made.switching.kind, made.switching.controller, made.datapath) == ("native", None, None)
    assert made.switching.native == dict.fromkeys(made.graph.switches, NativeSwitch("l3_ecmp", "strict", None, None, 0))
    assert set(made.drivers) == {"netcore"}


def test_spraying_has_a_program_of_its_own() -> None:
    for kind, program in (("ecmp", "l3_ecmp"), ("single", "l3_ecmp"), ("spray", "spray")):
        made = planned(KERNEL, switches={"kind": "native"}, routing={"kind": kind})
        assert {switch.program for switch in made.switching.native.values()} == {program}


def test_a_controller_that_is_named_drives_native_switches() -> None:
    assert planned(KERNEL, switches={"kind": "native", "controller": "ecmp"}).switching.controller == "ecmp"


@pytest.mark.parametrize(
    ("machine", "keys", "kind"),
    [
        (KERNEL, {}, "ovs"),
        (USERSPACE, {}, "native"),
        (NO_COMPILER, {}, "ovs"),
        (KERNEL, {"trim": "64B"}, "native"),  # only native switches have it
        (KERNEL, {"overrides": [{"select": "core", "program": "trim"}]}, "native"),
    ],
)
def test_auto(machine: Any, keys: dict[str, Any], kind: str) -> None:
    switching = planned(machine, switches={"kind": "auto", **keys}).switching
    assert (switching.kind, switching.controller) == (kind, "ecmp")


@pytest.mark.parametrize(
    ("machine", "routing", "asked", "used"),
    [
        (USERSPACE, "ecmp", {"kind": "auto"}, {"kind": "native", "controller": "ecmp", "program": "l3_ecmp"}),
        (USERSPACE, "spray", {"kind": "auto"}, {"kind": "native", "controller": "ecmp", "program": "spray"}),
        (USERSPACE, "ecmp", {"kind": "native"}, {"kind": "native", "program": "l3_ecmp"}),
        (KERNEL, "ecmp", {"kind": "auto"}, {"kind": "ovs", "controller": "ecmp"}),
    ],
)
def test_the_spec_of_a_plan_says_what_its_switches_became(
    machine: Any, routing: str, asked: dict[str, str], used: dict[str, str]
) -> None:
    made = planned(machine, routing={"kind": routing}, switches=asked)
    found = resolved_data(made.spec)["switches"]
    assert {key: found.get(key) for key in ("kind", "controller", "program")} == {
        "controller": None,
        "program": None,
        **used,
    }
    assert planned(machine, routing={"kind": routing}, switches=found).switching == made.switching


def test_auto_where_a_switch_has_more_ports_than_programs_can_number() -> None:
    kinds = [planned(USERSPACE, **star(hosts), switches={"kind": "auto"}).switching.kind for hosts in (509, 510)]
    assert kinds == ["native", "ovs"]


def test_native_switches_need_a_compiler() -> None:
    with pytest.raises(MachineLacks, match="C compiler"):
        planned(NO_COMPILER, switches={"kind": "native"})


def test_overrides_in_order_key_by_key() -> None:
    keys = {
        "kind": "native",
        "program": "ecn_priority",
        "entries": "ecn_priority",
        "buffer": {"shared": "1MiB", "headroom": "20KiB"},
        "pfc": {"priorities": [4, 3], "xoff": "64KiB", "xon": "48KiB"},
        "overrides": [
            {"select": ["edge", "c0"], "program": "trim", "trim": "64B"},
            {"select": "e0_*", "scheduler": {"weighted": {"7": 9}}, "trim": 0},
            {"select": "c0", "pfc": {"priorities": 0, "xoff": "1KiB", "xon": "1KiB"}},
            {"select": "c1", "scheduler": {"weighted": [1, 2, 3, 4, 5, 6, 7, 8]}, "pfc": {"xoff": "2KiB", "xon": 0}},
        ],
    }
    native = planned(KERNEL, switches=keys).switching.native
    buffer, pfc = Buffer(1 << 20, 1.0, 20 << 10), Pfc((3, 4), 64 << 10, 48 << 10)
    assert native["a0_0"] == NativeSwitch("ecn_priority", "strict", buffer, pfc, 0, "ecn_priority")
    assert native["e1_0"] == NativeSwitch("trim", "strict", buffer, pfc, 64)
    assert native["e0_1"] == NativeSwitch("trim", (1, 1, 1, 1, 1, 1, 1, 9), buffer, pfc, 0)
    assert native["c0"] == NativeSwitch("trim", "strict", buffer, Pfc((0,), 1024, 1024), 64)
    all_eight = Pfc(tuple(range(8)), 2048, 0)
    assert native["c1"] == NativeSwitch("ecn_priority", tuple(range(1, 9)), buffer, all_eight, 0, "ecn_priority")


def test_the_dilation_is_by_what_the_machine_carries_through_native_switches() -> None:
    slow = replace(KERNEL, switch_ns=10**6, path_excess_ns=10**6)
    keys = star(2, workload={"size": "1MiB"}, switches={"kind": "native"})
    made = planned(slow, **keys)
    dilation = explain_dilation(made, slow)
    assert (dilation.by_timing, dilation.by_switches) == (1, 1)
    assert dilation.by_load == -(-made.prediction.packet_hops_per_s // 500_000)
    assert len(dilation.reasons) == 2  # a native switch takes no time
    later = replace(slow, native=Carried(packet_hops_per_s=1e12, path_excess_ns=made.prediction.base_rtt_ns))
    assert planned(later, **keys).dilation == 20  # twice the base round trip late, a tenth of it allowed


def test_a_queue_in_a_shared_buffer_is_bounded_by_its_threshold() -> None:
    # One queue alone comes to alpha / (1 + alpha) of the buffer (Choudhury and Hahne, 1998): here to two thirds.
    keys = star(2, switches={"kind": "native", "buffer": {"shared": "3MiB", "alpha": 2}})
    assert path_of(planned(KERNEL, **keys)).queueing_ns == (2 << 20) * 8
    assert path_of(planned(KERNEL, **star(2))).queueing_ns == (256 << 10) * 8


SPEC = """\
name: native
topology: {kind: leaf-spine, spines: 2, leaves: 2, hosts: 2}
workers: {count: 4}
workload: {size: 64KiB}
switches: {kind: native}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # a machine that was never measured
    file = tmp_path / "native.yaml"
    file.write_text(SPEC)
    return file


def test_the_outline_tells_the_switches(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [
        "switches.program=ecn_priority",
        "switches.buffer={shared: 1MiB, alpha: 0.5, headroom: 64KiB}",
        "switches.pfc={priorities: [3, 4], xoff: 64KiB, xon: 48KiB}",
        "switches.overrides=[{select: leaf, program: p4/trim.p4, trim: 64B, scheduler: {weighted: {3: 4}}}]",
    ]
    assert execute(["plan", str(spec), *(word for setting in settings for word in ("-S", setting))]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "switches: native (trim.p4, ecn_priority, no controller)",
        "2 trim.p4 1:1:1:4:1:1:1:1 1MiB shared, alpha 0.5, headroom 64KiB 3,4: 64KiB / 48KiB 64B leaf0",
        "2 ecn_priority strict 1MiB shared, alpha 0.5, headroom 64KiB 3,4: 64KiB / 48KiB - spine0",
        f"this machine carries {DEFAULT_CAPABILITIES.through('native').packet_hops_per_s:,.0f} with native switches",
        "note: a packet cut to 64B fails roce's check on arrival",
    ):
        assert words in text
    assert "switches ask for" not in text
    assert "may drop" not in text


@pytest.mark.parametrize(
    ("kind", "trim", "told"),
    [("ndp", "64B", False), ("ndp", "60B", True), ("irn", "64B", True), ("dlcp", "64B", True)],
)
def test_what_is_cut_is_of_use_to_whom_reads_headers(
    spec: Path, capsys: pytest.CaptureFixture[str], kind: str, trim: str, told: bool
) -> None:
    assert execute(["plan", str(spec), "-S", f"transport={{kind: {kind}}}", "-S", f"switches.trim={trim}"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (f"fails {kind}'s check on arrival" in text) == told


PRIORITIES = (
    "switches={{kind: native, program: ecn_priority, buffer: {{shared: 1MiB, headroom: {headroom}B}}, "
    "pfc: {{priorities: {priorities}, xoff: 9KiB, xon: 0}}}}"
)


@pytest.mark.parametrize(
    ("setting", "note"),
    [
        ("switches.scheduler={weighted: {3: 2}}", "l3_ecmp gives packets no priority"),
        ("switches.program=spray", "spray has no salted hash"),
        ("switches={kind: native, program: l3_ecmp}", None),
        ("switches={kind: native, buffer: {shared: 1MiB}, pfc: {xoff: 9KiB, xon: 9KiB}}", "4 switches may drop"),
        # A gigabit and 10 us: 2500 bytes while both delays pass, two full frames of 1538 and a pause frame of 84.
        ("switches={kind: native, buffer: {shared: 1MiB, headroom: 5659B}, pfc: {xoff: 9KiB, xon: 0}}", "up to 5660B"),
        ("switches={kind: native, buffer: {shared: 1MiB, headroom: 5660B}, pfc: {xoff: 9KiB, xon: 0}}", None),
        # Eight priorities share the headroom of a port, where a program uses them.
        (PRIORITIES.format(priorities="[0, 1, 2, 3, 4, 5, 6, 7]", headroom=8 * 5660 - 1), "up to 45280B a port"),
        (PRIORITIES.format(priorities="[0, 1, 2, 3, 4, 5, 6, 7]", headroom=8 * 5660), None),
        (PRIORITIES.format(priorities="3", headroom=5660), None),
        # Without a buffer there is no headroom, and a queue holds what the link's does; with alpha 1 half of it all.
        ("switches={kind: native, pfc: {xoff: 256KiB, xon: 9KiB}}", "4 switches may drop"),
        ("switches={kind: native, buffer: {shared: 1MiB, headroom: 8KiB}, pfc: {xoff: 512KiB, xon: 0}}", None),
        (
            "switches={kind: native, buffer: {shared: 1MiB, headroom: 8KiB}, pfc: {xoff: 524289B, xon: 0}}",
            "at 4 switches an xoff is more than a queue comes to (at leaf0 512KiB)",
        ),
    ],
)
def test_json_has_the_notes(spec: Path, capsys: pytest.CaptureFixture[str], setting: str, note: str | None) -> None:
    assert execute(["plan", str(spec), "--json", "-S", setting]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["switching"]["kind"] == "native"
    assert len(data["notes"]) == (note is not None)
    assert note is None or note in data["notes"][0]


def test_an_xoff_over_the_link_s_queue_is_noted(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setting = "switches={kind: native, pfc: {xoff: 262145B, xon: 9KiB}}"
    assert execute(["plan", str(spec), "--json", "-S", setting]) == 0
    late, short = json.loads(capsys.readouterr().out)["notes"]
    assert "at 4 switches an xoff is more than a queue comes to (at leaf0 256KiB)" in late
    assert "4 switches may drop" in short


def test_spraying_by_a_program_that_hashes_is_noted(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["-S", "routing.kind=spray", "-S", "switches.program=l3_ecmp"]
    assert execute(["plan", str(spec), "--json", *wanted]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == ["l3_ecmp spreads flows by a hash, though routing is spray"]


def test_links_between_native_switches_are_no_load() -> None:
    """The far pair of a k=4 fat-tree is 6 links apart, of which 2 touch hosts."""
    spread = {"topology": {"kind": "fat-tree", "k": 4}, "workers": {"count": 2, "placement": ["h0", "h15"]}}
    openvswitch = planned(KERNEL, **spread).prediction
    native = planned(KERNEL, switches={"kind": "native"}, **spread).prediction
    assert openvswitch.packet_hops_per_iteration == 6 * openvswitch.packets_per_iteration
    assert native.packet_hops_per_iteration == 2 * native.packets_per_iteration
    assert native.packets_per_iteration == openvswitch.packets_per_iteration


def test_bmv2_has_programs_and_no_controller() -> None:
    made = planned(replace(KERNEL, bmv2=Carried(20_000, 0)), switches={"kind": "bmv2", "program": "spray"})
    assert (made.switching.kind, made.switching.controller, made.datapath) == ("bmv2", None, None)
    assert {switch.program for switch in made.switching.bmv2.values()} == {"spray"}
    assert set(made.drivers) == {"netcore"}


def test_bmv2_is_refused_where_it_is_not_installed() -> None:
    with pytest.raises(MachineLacks, match="simple_switch"):
        planned(replace(KERNEL, bmv2=None), switches={"kind": "bmv2"})


def test_bmv2_over_p4runtime_is_refused_where_only_the_other_one_is_installed() -> None:
    thrift_alone = replace(KERNEL, bmv2=Carried(20_000, 0), bmv2_grpc=False)
    assert planned(thrift_alone, switches={"kind": "bmv2"}).switching.kind == "bmv2"
    over_p4runtime = {"kind": "bmv2", "controller": "p4runtime"}
    with pytest.raises(MachineLacks, match="needs bmv2's simple_switch_grpc, and this machine has none"):
        planned(thrift_alone, switches=over_p4runtime)
    assert planned(replace(thrift_alone, bmv2_grpc=True), switches=over_p4runtime).switching.controller == "p4runtime"


def test_rates_that_bmv2_cannot_carry_are_refused_with_its_measured_ceiling() -> None:
    slow = replace(KERNEL, bmv2=Carried(20_000, 0))
    ring: dict[str, Any] = {"workers": {"count": 8}, "workload": {"size": "1MiB"}}
    with pytest.raises(UsageError, match=r"bmv2 carries 20,000 packet-hops/s on this machine \(measured\)"):
        planned(slow, switches={"kind": "bmv2"}, time_dilation=1, **ring)
    made = planned(slow, switches={"kind": "bmv2"}, time_dilation="auto", **ring)
    assert made.prediction.packet_hops_per_s / made.dilation <= 10_000, "half of it, as for all switches"
