"""What native switches tell of their ports, in a fabric under a virtual clock."""

import json
from pathlib import Path

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.fabric.native import NativeSwitches
from testbed.fabric.planned import fabric_config
from testbed.fabric.programs import compile_programs
from testbed.netcore import Fabric
from testbed.openflow import PortCounters
from testbed.plan.model import NativeSwitch
from testbed.plan.serial import to_json
from tests.emulation.builders import small_plan


def test_each_port_counts_its_own_links(tmp_path: Path) -> None:
    """h0 sends three packets to h1, of which the slow cable there has room for one besides that in service."""
    plan = small_plan(
        "star", hosts=3, driver="netcore", controller=None, native=NativeSwitch("l3_ecmp", "strict", None, None, 0)
    )
    (tmp_path / "plan.json").write_text(json.dumps(to_json(plan)))
    programs = compile_programs(["l3_ecmp"], tmp_path, native=True)
    config = fabric_config(plan, tmp_path / "plan.json", programs)
    fabric = Fabric(1, virtual=True)
    native = NativeSwitches(fabric, config, lambda _event, **_fields: None)
    ports = {
        (end.node, end.port): fabric.add_memory_port() if end.host else native.add_port(end.node, end.port)
        for link in config.links
        for end in (link.source,)
    }
    packet = bytes(Ether() / IP(dst=plan.addresses["h1"].ip) / UDP() / bytes(200))
    for link in config.links:
        source, target = (ports[end.node, end.port] for end in (link.source, link.target))
        rate_bps = 10**6 if link.target.node == "h1" else 10**9
        number = fabric.add_link(source, target, link.index)
        fabric.set_link(number, rate_bps=rate_bps, delay_ns=0, queue_bytes=len(packet))
    native.set_up()
    for _ in range(3):
        fabric.send(ports["h0", 0], packet)
    fabric.advance(10**9)
    with native.held():
        counted = native.port_counters("s0")
    towards = {link.target.node: link.source.port for link in config.links if link.source.node == "s0"}
    size = len(packet)
    assert counted == {
        towards["h0"]: PortCounters(received_packets=3, received_bytes=3 * size),
        towards["h1"]: PortCounters(sent_packets=2, sent_bytes=2 * size, sent_dropped=1),
        towards["h2"]: PortCounters(),
    }
