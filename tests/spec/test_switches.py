"""`switches` of a spec: what native switches may be told, and each mistake at its line and column."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.spec.reader import read_spec
from testbed.spec.resolved import resolved_text
from testbed.spec.schema import json_schema

from .examples import mistakes

RIGHT = """\
name: native
topology: {kind: fat-tree, k: 4}
switches:
  kind: native
  program: ecn_priority
  scheduler: strict
  buffer: {shared: 1MiB, alpha: 0.5, headroom: 20KiB}
  pfc: {priorities: [3, 4], xoff: 64KiB, xon: 48KiB}
  trim: 64B
  overrides:
    - {select: core, scheduler: {weighted: {3: 4}}}
    - {select: [e0_*, edge], program: p4/trim.p4, entries: trim, trim: 0}
"""
_ADDING = "aggregate, aggregate_besteffort, aggregate_optical, aggregate_tree"
NAMED = f"{_ADDING}, ecn_priority, gradient_drop, l3_ecmp, spray, trim"

CASES = [  # what, a piece of RIGHT, what it becomes (§: where the mistake is told), key, in the message, suggestion
    ("unknown key", "trim: 64B", "§trimm: 64B", "switches.trimm", "unknown key", "trim"),
    (
        "unknown kind",
        "kind: native",
        "kind: §nativ",
        "switches.kind",
        "'nativ' is not one of auto, ovs, native, bmv2",
        "native",
    ),
    (
        "unknown program",
        "program: ecn_priority",
        "program: §ecn_priorty",
        "switches.program",
        f"no switch program is called 'ecn_priorty': there are {NAMED}, or a file (.p4 or .json)",
        "ecn_priority",
    ),
    (
        "unknown entries",
        "entries: trim",
        "entries: §trimm",
        "switches.overrides.1.entries",
        "no entries are called 'trimm': there are ecn_priority, gradient_drop, trim, or a file (.stf)",
        "trim",
    ),
    (
        "no such file of entries",
        "entries: trim",
        "entries: §p4/trimm.entries.stf",
        "switches.overrides.1.entries",
        "there is no file 'p4/trimm.entries.stf' beside the spec, in the current folder or in p4/",
        "trim",
    ),
    (
        "no such file",
        "p4/trim.p4",
        "§p4/trimm.p4",
        "switches.overrides.1.program",
        "there is no file 'p4/trimm.p4' beside the spec, in the current folder or in p4/",
        "trim",
    ),
    ("no scheduler", "scheduler: strict", "scheduler: §fair", "switches.scheduler", "is not strict or a mapping", ""),
    (
        "alpha 0",
        "alpha: 0.5",
        "alpha: §0",
        "switches.buffer.alpha",
        "is 0 and must be more than 0 and at most 1024",
        "",
    ),
    ("alpha too large", "alpha: 0.5", "alpha: §1025", "switches.buffer.alpha", "at most 1024", ""),
    (
        "no size of a buffer",
        "buffer: {shared: 1MiB, alpha",
        "§buffer: {alpha",
        "switches.buffer.shared",
        "is missing",
        "",
    ),
    (
        "a buffer that holds nothing",
        "shared: 1MiB, alpha: 0.5, headroom: 20KiB}\n  pfc: {priorities: [3, 4], xoff: 64KiB, xon: 48KiB}",
        "shared: §1517B, alpha: 0.5}",
        "switches.buffer.shared",
        "1517 bytes hold no frame of 1518 (an MTU of 1500)",
        "1518B",
    ),
    (
        "an alpha that lets nothing in",
        "alpha: 0.5",
        "alpha: §0.001",
        "switches.buffer.alpha",
        "0.001 x 1MiB, the most that a queue may hold, is no frame of 1518 (an MTU of 1500)",
        "0.002",
    ),
    (
        "headroom without pauses",
        "headroom: 20KiB}\n  pfc: {priorities: [3, 4], xoff: 64KiB, xon: 48KiB}",
        "§headroom: 20KiB}",
        "switches.buffer.headroom",
        "goes with pfc, which is not set",
        "",
    ),
    (
        "no xoff",
        "pfc: {priorities: [3, 4], xoff: 64KiB, ",
        "§pfc: {priorities: [3, 4], ",
        "switches.pfc.xoff",
        "is missing",
        "",
    ),
    ("xoff 0", "xoff: 64KiB, xon: 48KiB", "xoff: §0, xon: 0", "switches.pfc.xoff", "paused for ever", ""),
    ("xon over xoff", "xon: 48KiB", "xon: §65KiB", "switches.pfc.xon", "is 65KiB, more than xoff", "64KiB"),
    # Four queues, each filled to half of what is left when it begins: 15 parts of 16 are never exceeded at alpha 1.
    (
        "xoff over what a shared buffer comes to",
        "alpha: 0.5, headroom: 20KiB}\n  pfc: {priorities: [3, 4], xoff: 64KiB",
        "headroom: 20KiB}\n  pfc: {priorities: [3, 4], xoff: §983041B",
        "switches.pfc.xoff",
        "all queues of a switch together hold at most 960KiB: it is never reached",
        "",
    ),
    (
        "xoff over what four links' queues hold",
        "  buffer: {shared: 1MiB, alpha: 0.5, headroom: 20KiB}\n  pfc: {priorities: [3, 4], xoff: 64KiB",
        "  pfc: {priorities: [3, 4], xoff: §1048577B",
        "switches.pfc.xoff",
        "all queues of a switch together hold at most 1MiB: it is never reached",
        "",
    ),
    ("priority 8", "[3, 4]", "[3, §8]", "switches.pfc.priorities.1", "is 8 and must be from 0 to 7", ""),
    ("priority -1", "[3, 4]", "§-1", "switches.pfc.priorities", "is -1 and must be from 0 to 7", ""),
    ("priority twice", "[3, 4]", "[3, §3]", "switches.pfc.priorities.1", "3 is there twice", ""),
    ("no priority", "[3, 4]", "§[]", "switches.pfc.priorities", "names no priority", ""),
    ("trim under the headers", "trim: 64B", "trim: §41B", "switches.trim", "is 41B and must be at least 42B", "42B"),
    ("trim over the mtu", "trim: 64B", "trim: §1500B", "switches.trim", "must be below the MTU of 1500", ""),
    (
        "seven weights",
        "{3: 4}",
        "§[1, 1, 1, 1, 1, 1, 1]",
        "switches.overrides.0.scheduler.weighted",
        "has 7 weights",
        "",
    ),
    (
        "weight 0",
        "{3: 4}",
        "{3: §0}",
        "switches.overrides.0.scheduler.weighted.3",
        "is 0 and must be from 1 to 1000",
        "",
    ),
    ("half a weight", "{3: 4}", "{3: §0.5}", "switches.overrides.0.scheduler.weighted.3", "not a whole number", ""),
    ("weight of 8", "{3: 4}", "{§8: 4}", "switches.overrides.0.scheduler.weighted.8", "is no priority", ""),
    ("no weight", "{3: 4}", "§{}", "switches.overrides.0.scheduler.weighted", "names no priority", ""),
    (
        "unknown tier",
        "select: core",
        "select: §corr",
        "switches.overrides.0.select",
        "no switch or tier is called 'corr'",
        "core",
    ),
    (
        "a host",
        "select: core",
        "select: §h1",
        "switches.overrides.0.select",
        "'h1' is no switch but a host: this fat-tree has e.g. e0_0 (edge), a0_0 (aggregation), c0 (core)",
        "",
    ),
    ("one of several", "[e0_*, edge]", "[e0_*, §edgy]", "switches.overrides.1.select.1", "'edgy'", "edge"),
    (
        "nothing set",
        "{select: core, scheduler: {weighted: {3: 4}}}",
        "§{select: core}",
        "switches.overrides.0",
        "sets nothing: give it one of program, entries, scheduler, buffer, pfc, trim",
        "",
    ),
    ("no selector", "{select: core, ", "§{", "switches.overrides.0.select", "is missing", ""),
    (
        "a datapath",
        "trim: 64B",
        "§datapath: user",
        "switches.datapath",
        "goes with kind: ovs, and this is native",
        "kind: ovs",
    ),
    ("unknown controller", "trim: 64B", "controller: §ecmpp", "switches.controller", "no controller", "ecmp"),
]


@pytest.mark.parametrize(
    ("before", "after", "key", "message", "suggestion"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_mistake_is_told_where_it_is(
    tmp_path: Path, before: str, after: str, key: str, message: str, suggestion: str
) -> None:
    assert RIGHT.count(before) == 1, before
    text = RIGHT.replace(before, after)
    ahead = text[: text.index("§")].split("\n")
    found = mistakes(tmp_path, text.replace("§", ""))
    assert [(e.line, e.column, e.key, e.suggestion) for e in found] == [
        (len(ahead), len(ahead[-1]) + 1, key, suggestion)
    ]
    assert message in found[0].message


def test_the_right_spec_is_right_and_resolves_to_itself(tmp_path: Path) -> None:
    assert mistakes(tmp_path, RIGHT) == ()
    spec = read_spec(tmp_path / "spec.yaml")
    (tmp_path / "again.yaml").write_text(resolved_text(spec))
    assert read_spec(tmp_path / "again.yaml") == spec
    assert spec.switches.program == "ecn_priority"  # a bare name stays, so that the spec can be read elsewhere
    assert Path(str(spec.switches.overrides[1].program)).read_text().startswith("// Forwards as l3_ecmp does")


@pytest.mark.parametrize("key", ["program: spray", "scheduler: strict", "trim: 64B", "overrides: []"])
def test_what_open_vswitch_does_not_have(tmp_path: Path, key: str) -> None:
    (found,) = mistakes(tmp_path, f"name: n\ntopology: {{kind: star, hosts: 2}}\nswitches: {{{key}}}\n")
    assert (found.line, found.column) == (3, 12)
    assert found.message == "goes with kind: native (or auto), and this is ovs"
    assert found.suggestion == "kind: native"


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("scheduler: strict", "native (or auto)"),
        ("trim: 64B", "native (or auto)"),
        ("datapath: user", "ovs"),
    ],
)
def test_what_bmv2_does_not_have(tmp_path: Path, key: str, other: str) -> None:
    text = f"name: n\ntopology: {{kind: star, hosts: 2}}\nswitches: {{kind: bmv2, {key}}}\n"
    (found,) = mistakes(tmp_path, text)
    assert (found.line, found.column) == (3, 24)
    assert found.message == f"goes with kind: {other}, and this is bmv2"


def test_bmv2_speaks_p4runtime_and_no_openflow(tmp_path: Path) -> None:
    text = "name: n\ntopology: {kind: star, hosts: 2}\nswitches: {kind: bmv2, controller: %s}\n"
    assert mistakes(tmp_path, text % "p4runtime") == ()
    (found,) = mistakes(tmp_path, text % "ecmp")
    assert (found.line, found.column) == (3, 36)
    assert found.message == "bmv2 is driven by p4runtime, or without a controller"
    (found,) = mistakes(tmp_path, text % "p4runtime, program: trim, entries: trim")
    assert (found.line, found.column) == (3, 71)
    assert found.message == "with the controller p4runtime entries of bmv2 are its clients' affair"


def test_another_kind_from_the_command_line_or_a_sweep_leaves_the_files_keys_behind(tmp_path: Path) -> None:
    assert mistakes(tmp_path, RIGHT, "switches.kind=ovs") == ()
    assert mistakes(tmp_path, RIGHT, "sweep={switches.kind: [ovs, native, auto]}") == ()
    assert mistakes(tmp_path, RIGHT, "sweep={switches.program: [trim, ecn_priority], switches.trim: [0, 64B]}") == ()
    (found,) = mistakes(tmp_path, RIGHT, "switches.kind=ovs", "switches.program=spray")
    assert found.key == "switches.program"


def test_all_mistakes_are_told_in_one_pass(tmp_path: Path) -> None:
    text = RIGHT.replace("ecn_priority", "nothing").replace("0.5", "0").replace("64B", "1B").replace("core", "none")
    assert [e.key for e in mistakes(tmp_path, text)] == [
        "switches.program", "switches.buffer.alpha", "switches.trim", "switches.overrides.0.select",
    ]  # fmt: skip


def test_an_xoff_of_just_what_the_queues_hold(tmp_path: Path) -> None:
    shared = RIGHT.replace("alpha: 0.5", "alpha: 1")
    assert mistakes(tmp_path, shared.replace("xoff: 64KiB", "xoff: 960KiB")) == ()
    alone = RIGHT.replace("  buffer: {shared: 1MiB, alpha: 0.5, headroom: 20KiB}\n", "")
    assert mistakes(tmp_path, alone.replace("xoff: 64KiB", "xoff: 1MiB")) == ()


def test_a_pause_of_priorities_that_no_packet_has(tmp_path: Path) -> None:
    unset = RIGHT.replace("program: ecn_priority", "program: l3_ecmp")
    assert mistakes(tmp_path, unset) == ()  # p4/trim.p4, of the edge, gives priorities
    (found,) = mistakes(tmp_path, unset.replace(" program: p4/trim.p4, entries: trim,", ""))
    assert (found.line, found.column, found.key, found.suggestion) == (8, 21, "switches.pfc.priorities", "0")
    assert found.message == "l3_ecmp: gives packets no priority, so that all are of priority 0 and none is ever paused"


def own(folder: Path, source: str) -> tuple[Any, ...]:
    (folder / "own.p4").write_text(source)
    return mistakes(folder, "name: n\ntopology: {kind: star, hosts: 2}\nswitches: {kind: native, program: own.p4}\n")


def test_a_program_of_one_s_own_lies_beside_the_spec_and_includes_what_is_shipped(tmp_path: Path) -> None:
    shipped = Path(str(read_spec_program(tmp_path, "p4/l3_ecmp.p4"))).read_text()
    assert own(tmp_path, shipped) == ()
    assert read_spec_program(tmp_path, "own.p4") == str(tmp_path / "own.p4")


def entries(folder: Path, text: str) -> tuple[Any, ...]:
    (folder / "own.stf").write_text(text)
    switches = "switches: {kind: native, program: ecn_priority, entries: own.stf}"
    return mistakes(folder, f"name: n\ntopology: {{kind: star, hosts: 2}}\n{switches}\n")


def test_entries_of_one_s_own_are_told_with_their_lines(tmp_path: Path) -> None:
    right = "# mine\nadd priorities dscp:1 to_priority(priority:1)\n"
    assert entries(tmp_path, right) == ()
    assert read_spec(tmp_path / "spec.yaml").switches.entries == str(tmp_path / "own.stf")
    found = entries(tmp_path, right + "add priorities dscp:2 to_priority(priority:8)\nmirroring_add 1 3\n")
    assert [(e.line, e.column, e.key) for e in found] == [(3, 58, "switches.entries")] * 2
    assert [e.message for e in found] == [
        f"does not fit ecn_priority: {tmp_path}/own.stf:{place}: {what}"
        for place, what in (
            ("3:1", "SwitchIngress.to_priority: priority: 0x8 does not fit 3 bits"),
            ("4:1", "there is no port 3: they are 1 to 2, and 510 of the control plane"),
        )
    ]


def test_another_program_leaves_entries_behind_unless_it_names_its_own(tmp_path: Path) -> None:
    text = RIGHT.replace("program: ecn_priority", "program: ecn_priority\n  entries: ecn_priority")
    assert mistakes(tmp_path, text) == ()
    assert mistakes(tmp_path, text.replace(" entries: trim,", "")) == ()
    (*_, last) = mistakes(tmp_path, text.replace(" entries: trim,", " entries: gradient_drop,"))
    assert (last.line, last.column, last.key) == (13, 60, "switches.overrides.1.entries")
    assert last.message == "does not fit trim: 4 lines more"


def test_entries_are_of_native_switches(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, "name: n\ntopology: {kind: star, hosts: 2}\nswitches: {entries: trim}\n")
    assert found.message == "goes with kind: native (or auto), and this is ovs"


def read_spec_program(folder: Path, name: str) -> str | None:
    text = f"name: n\ntopology: {{kind: star, hosts: 2}}\nswitches: {{kind: native, program: {name}}}\n"
    (folder / "spec.yaml").write_text(text)
    return read_spec(folder / "spec.yaml").switches.program


def test_a_program_that_does_not_compile_is_told_with_its_own_place(tmp_path: Path) -> None:
    (found,) = own(
        tmp_path, "#include <core.p4>\n#include <v1model.p4>\nstruct m { bit<8> a; }\nstruct n { byte b; }\n"
    )
    assert (found.line, found.column, found.key) == (3, 35, "switches.program")
    assert found.message.startswith(f"does not compile: {tmp_path / 'own.p4'}:4:12: ")


def test_a_program_that_takes_no_routes_is_refused(tmp_path: Path) -> None:
    (found,) = own(
        tmp_path,
        "#include <core.p4>\n#include <v1model.p4>\nstruct none { }\n"
        "parser P(packet_in p, out none h, inout none m, inout standard_metadata_t s) {\n"
        "  state start { transition accept; }\n}\n"
        "control C(inout none h, inout none m) { apply { } }\n"
        "control I(inout none h, inout none m, inout standard_metadata_t s) { apply { } }\n"
        "control D(packet_out p, in none h) { apply { } }\n"
        "V1Switch(P(), C(), I(), I(), C(), D()) main;\n",
    )
    assert "has no tables `routes` and `members`" in found.message


def test_a_file_that_is_no_bmv2_json(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text("{}")
    text = "name: n\ntopology: {kind: star, hosts: 2}\nswitches: {kind: native, program: own.json}\n"
    (found,) = mistakes(tmp_path, text)
    assert found.message.startswith("cannot be run: ")


def test_more_ports_than_a_program_can_number(tmp_path: Path) -> None:
    text = "name: n\ntopology: {kind: star, hosts: %d}\nswitches: {kind: native}\n"
    assert mistakes(tmp_path, text % 509) == ()
    (found,) = mistakes(tmp_path, text % 510)
    assert (found.line, found.column, found.suggestion) == (3, 18, "ovs")
    assert found.message == "s0 has 510 ports and a P4 program knows 509"


def test_the_schema_takes_native_switches() -> None:
    jsonschema: Any = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json_schema())
    spec = yaml.safe_load(RIGHT.replace("{3: 4}", '{"3": 4}'))
    assert list(validator.iter_errors(spec)) == []
    for wrong in ({"buffer": {"shared": 5}}, {"trim": "64"}, {"scheduler": "fair"}, {"pfc": {"xoff": "1KiB"}}):
        assert list(validator.iter_errors({**spec, "switches": wrong})), wrong


def test_entries_that_come_with_another_program_are_told_with_their_lines_too(tmp_path: Path) -> None:
    swap = "faults: [{{kind: swap-program, select: all, at: 1ms, program: ecn_priority, entries: {}}}]"
    text = "name: n\ntopology: {{kind: star, hosts: 2}}\nswitches: {{kind: native}}\n" + swap
    assert mistakes(tmp_path, text.format("ecn_priority")) == ()
    (found,) = mistakes(tmp_path, text.format("trim"))
    assert found.key == "faults.0.entries"
    assert found.message.startswith("does not fit ecn_priority: ")
