"""Counters as a control plane reads them: what counted nothing is left out, and what is too long to read is told."""

from pathlib import Path

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.counted import CounterCounts, ProgramCounts, counted
from testbed.dataplane.native.exchange import Exchange

SOURCE = """\
#include <core.p4>
#include <v1model.p4>
struct H { } struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    counter(10, CounterType.packets_and_bytes) few;
    counter(11, CounterType.packets_and_bytes) many;
    apply {
        few.count((bit<32>)s.ingress_port);
        many.count((bit<32>)s.ingress_port);
        s.egress_spec = 1;
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H h) { apply { } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def test_counters_that_are_too_long_to_read_are_told(tmp_path: Path) -> None:
    source = tmp_path / "counting.p4"
    source.write_text(SOURCE)
    program = program_of(compile_p4(source).json, "counting")
    few = (CounterCounts("I.few", 2, 1, 60), CounterCounts("I.few", 9, 2, 120))
    many = tuple(CounterCounts("I.many", each.index, each.packets, each.bytes) for each in few)
    with Exchange(program) as exchange:
        for port in (9, 2, 9):
            exchange.inject(port, bytes(60))
        assert counted(program, exchange.control, (), most=10) == ProgramCounts((), few, (("I.many", 11),))
        assert counted(program, exchange.control, ()) == ProgramCounts((), (*few, *many), ())
