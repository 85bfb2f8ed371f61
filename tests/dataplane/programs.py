"""Small v1model programs for the front end's tests, and what is said of them."""

from pathlib import Path

from testbed.dataplane.check import front_end
from testbed.dataplane.checked import Checked
from testbed.dataplane.diagnostics import Diagnostic, P4Errors

ORACLE = Path(__file__).with_name("oracle")

_TYPES = """\
#include <core.p4>
#include <v1model.p4>
header k_t { bit<8> a; bit<16> b; int<8> s; bit<8> c; }
header e_t { bit<8> v; }
header v_t { bit<8> n; varbit<64> o; }
header_union U { k_t k; e_t e; }
enum bit<8> Kind { One = 1, Two = 2 }
enum Act { Stay, Go }
struct pair_t { bit<8> x; bit<16> y; }
struct H { k_t k; e_t[4] st; v_t v; U u; }
struct M { bit<8> x; bool f; Act act; Kind kind; pair_t p; }
"""
_REST = """\
control Vfy(inout H h, inout M m) { apply { } }
control Eg(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control Cmp(inout H h, inout M m) { apply { } }
control Dep(packet_out pk, in H h) { apply { pk.emit(h); } }
V1Switch(Prs(), Vfy(), Ig(), Eg(), Cmp(), Dep()) main;
"""
_STATES = "state start { pk.extract(h.k); transition accept; }"


def program(top: str = "", states: str = _STATES, members: str = "", apply: str = "", values: str = "") -> str:
    """A whole program around declarations at the top, a parser's states, a control's declarations and apply block."""
    return (
        f"{_TYPES}{top}\n"
        f"parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {{\n{values}\n{states}\n}}\n"
        f"control Ig(inout H h, inout M m, inout standard_metadata_t sm) {{\n{members}\napply {{\n{apply}\n}}\n}}\n"
        f"{_REST}"
    )


def checked(directory: Path, text: str) -> Checked:
    path = directory / "program.p4"
    path.write_text(text)
    return front_end(path)


def errors_of(directory: Path, text: str) -> tuple[Diagnostic, ...]:
    try:
        checked(directory, text)
    except P4Errors as found:
        return found.errors
    return ()


def warnings_of(directory: Path, text: str) -> list[Diagnostic]:
    return checked(directory, text).diagnostics.warnings
