"""Marks of a program count as the link's own do: by the link that the packet leaves by, once a packet."""

import ctypes
import json

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.control import ActionCall, Control, FieldMatch
from testbed.dataplane.native.loader import load_program
from testbed.dataplane.programs import document_of, path_of
from testbed.netcore import Fabric

NOT_ECT, ECT_0, CE = 0, 2, 3  # RFC 3168
PACKETS, ROOM = 5, 2  # as many packets may wait unmarked


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(json.loads(json.dumps(document_of(path_of("ecn_priority")))), "ecn_priority")


@pytest.mark.parametrize(("ecn", "marked"), [(NOT_ECT, 0), (ECT_0, PACKETS - 2 - ROOM), (CE, 0)])
def test_each_packet_that_a_program_marks(program: Program, ecn: int, marked: int) -> None:
    """Of five at once the first leaves at once, and the others leave 3, 2, 1 and 0 behind: marked are those above 2."""
    library, table = load_program(build_program(program))
    fabric = Fabric(1, virtual=True)
    switch = fabric.add_switch(ctypes.addressof(table), 1)
    source, inward = fabric.add_memory_port(), fabric.add_switch_port(switch, 1)
    outward, target = fabric.add_switch_port(switch, 2), fabric.add_memory_port()
    links = [fabric.add_link(source, inward, 0), fabric.add_link(outward, target, 1)]
    for link in links:
        fabric.set_link(link, rate_bps=10**9, delay_ns=0, queue_bytes=1 << 20)
    control = Control(program, table, fabric.switch_instance(switch))
    control.insert("routes", [FieldMatch(0x0A000001, prefix=32)], ActionCall("to_port", {"port": 2}))
    frame = bytes(Ether() / IP(dst="10.0.0.1", tos=26 << 2 | ecn) / UDP(dport=4791) / bytes(1000))
    control.write_register("mark_above", 0, ROOM * len(frame))
    for _ in range(PACKETS):
        fabric.inject(switch, 1, frame)
    fabric.advance(10**9)
    counts = fabric.counters()[1][0]
    assert (counts["packets"], counts["ecn_marked"]) == (PACKETS, marked)
    came = [sent for _, _, sent in fabric.taken()]
    assert sum(sent[15] & 3 == CE for sent in came) == (PACKETS if ecn == CE else marked)
    del fabric, library
