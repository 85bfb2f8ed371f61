"""How deep programs say that they look: the sizes of the headers on the longest way through the parser."""

import json
from pathlib import Path

import pytest

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.layout import Layout
from testbed.dataplane.native.looks import looks_bytes
from testbed.resources import shared_folder

ETHERNET, IPV4, UDP, BTH = 14, 20, 8, 12

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header byte_t {{ bit<8> value; }}
header word_t {{ bit<32> value; }}
header rest_t {{ bit<8> length; varbit<320> rest; }}
struct headers_t {{ byte_t first; word_t second; rest_t rest; byte_t[4] bytes; }}
struct metadata_t {{ bit<8> seen; bit<16> sum; }}
parser Parse(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t sm) {{
    {states}
}}
control Verify(inout headers_t h, inout metadata_t m) {{ apply {{ {verify} }} }}
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {{ apply {{ sm.egress_spec = 1; }} }}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {{ apply {{ }} }}
control Update(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control Deparse(packet_out packet, in headers_t h) {{ apply {{ packet.emit(h); }} }}
V1Switch(Parse(), Verify(), In(), Out(), Update(), Deparse()) main;
"""
EITHER = """
    state start {
        packet.extract(h.first);
        transition select(h.first.value) { 1: second; default: rest; }
    }
    state second { packet.extract(h.second); transition accept; }
"""
ALL_OF_IT = "verify_checksum_with_payload(true, {h.first.value}, m.sum, HashAlgorithm.csum16);"


def looks(path: Path) -> int | None:
    compiled = compile_p4(path)
    return looks_bytes(Layout(program_of(json.loads(json.dumps(compiled.json)), path.stem)))


@pytest.mark.parametrize("name", ["l3_ecmp", "spray", "trim", "ecn_priority"])
def test_forwarding_looks_at_the_headers_of_roce(name: str) -> None:
    assert looks(shared_folder("p4") / f"{name}.p4") == ETHERNET + IPV4 + UDP + BTH


def test_who_adds_up_looks_at_all() -> None:
    assert looks(shared_folder("p4") / "aggregate.p4") is None


@pytest.mark.parametrize(
    ("states", "verify", "expected"),
    [
        ("state start { packet.extract(h.first); transition accept; }", "", 1),
        (EITHER + "state rest { transition accept; }", "", 1 + 4),
        (EITHER + "state rest { packet.extract(h.rest, 80); transition accept; }", "", 1 + 1 + 40),
        (EITHER + "state rest { packet.advance(72); transition second; }", "", 1 + 9 + 4),
        (EITHER + "state rest { m.seen = packet.lookahead<byte_t>().value; transition second; }", "", 1 + 4),
        (
            EITHER + "state rest { transition select(packet.lookahead<bit<64>>()) { 1: second; default: accept; } }",
            "",
            9,
        ),
        (EITHER + "state rest { packet.advance((bit<32>)h.first.value * 8); transition accept; }", "", None),
        (EITHER + "state rest { packet.extract(h.bytes.next); transition start; }", "", None),
        ("state start { packet.extract(h.first); transition accept; }", ALL_OF_IT, None),
    ],
)
def test_the_longest_way_through_the_parser(tmp_path: Path, states: str, verify: str, expected: int | None) -> None:
    path = tmp_path / "way.p4"
    path.write_text(PROGRAM.format(states=states, verify=verify))
    assert looks(path) == expected
