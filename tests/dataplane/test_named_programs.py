"""Switch programs by name, and what is known of one before it runs."""

import json
from pathlib import Path

import pytest

from testbed.dataplane.programs import Facts, document_of, facts_of, path_of, shipped
from testbed.errors import UsageError
from testbed.resources import shared_folder


@pytest.mark.parametrize(
    ("name", "hashes", "sets_priority"),  # as the programs' own first comments say
    [
        ("l3_ecmp", True, False),
        ("spray", False, False),
        ("ecn_priority", True, True),
        ("gradient_drop", True, True),
        ("trim", True, True),
    ],
)
def test_what_shipped_programs_do(name: str, hashes: bool, sets_priority: bool, tmp_path: Path) -> None:
    facts = Facts(takes_routes=True, hashes=hashes, sets_priority=sets_priority)
    assert facts_of(path_of(name)) == facts
    compiled = tmp_path / "program.json"
    compiled.write_text(json.dumps(document_of(path_of(name))))
    assert facts_of(path_of(str(compiled))) == facts


def test_all_shipped_programs_have_a_name() -> None:
    assert {f"{name}.p4" for name in shipped()} == {path.name for path in shared_folder("p4").glob("*.p4")}


@pytest.mark.parametrize("name", ["l3_ecm", "/nowhere/l3_ecmp.p4"])
def test_a_program_that_is_not_there(name: str) -> None:
    with pytest.raises(UsageError, match="there is no switch program"):
        path_of(name)


@pytest.mark.parametrize(
    ("state", "apply", "sets"),
    [
        ("", "", False),
        ("s.priority = 3;", "", True),
        ("", "s.priority = 3;", True),
        ("", "random(s.priority, 0, 7);", True),
        ("", "if (s.priority == 3) { mark_to_drop(s); }", False),
    ],
)
def test_whatever_writes_the_priority_sets_it(tmp_path: Path, state: str, apply: str, sets: bool) -> None:
    path = tmp_path / "own.p4"
    path.write_text(f"""\
#include <core.p4>
#include <v1model.p4>
struct none {{ }}
parser P(packet_in p, out none h, inout none m, inout standard_metadata_t s) {{
    state start {{ {state} transition accept; }}
}}
control C(inout none h, inout none m) {{ apply {{ }} }}
control I(inout none h, inout none m, inout standard_metadata_t s) {{ apply {{ {apply} }} }}
control E(inout none h, inout none m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in none h) {{ apply {{ }} }}
V1Switch(P(), C(), I(), E(), C(), D()) main;
""")
    assert facts_of(path) == Facts(takes_routes=False, hashes=False, sets_priority=sets)
