"""What a program does to payloads, between hosts whose kernels leave cutting, joining and checksums to the fabric."""

import ctypes
import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from testbed import netcore
from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.loader import load_program
from testbed.emulation import namespaces
from tests.netcore.rig import Host, run

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

SEGMENT_BYTES, SEGMENTS = 1000, 20
SOURCE = """
#include <core.p4>
#include <v1model.p4>

header front_t { bit<336> headers; }
header payload_t { bit<%(before)d> before; bit<8> last; }
struct headers_t { front_t front; payload_t payload; }
struct metadata_t { }

parser Read(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.front);
        packet.extract(headers.payload);
        transition accept;
    }
}
control None(inout headers_t headers, inout metadata_t meta) { apply { } }
control Forward(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1 - standard.ingress_port;
        headers.payload.last = headers.payload.last ^ %(flip)d;
        %(more)s
    }
}
control Leave(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control Write(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.front);
        packet.emit(headers.payload);
    }
}
V1Switch(Read(), None(), Forward(), Leave(), None(), Write()) main;
"""


@contextmanager
def two_hosts(source: Path) -> Iterator[tuple[list[Host], netcore.Fabric]]:
    """Joined by one switch, running."""
    program = program_of(json.loads(json.dumps(compile_p4(source).json)), "payloads")
    library, table = load_program(build_program(program))
    fabric = netcore.Fabric(1)
    switch = fabric.add_switch(ctypes.addressof(table), 1)
    hosts = [Host(f"pl{os.getpid():x}-{i}", i) for i in range(2)]
    with ExitStack() as stack:
        for number, host in enumerate(hosts):
            run("ip", "netns", "add", host.netns)
            stack.callback(run, "ip", "netns", "del", host.netns)
            fd, segments = namespaces.inside(host.netns, partial(netcore.open_tap, host.end.interface, True, True))
            if not segments:
                pytest.skip("this kernel has no UDP segmentation on TAP")
            outer = fabric.add_port(fd, virtio=True, host=True, switch=0, spray=False, join=True)
            inner = fabric.add_switch_port(switch, number)
            for index, ends in enumerate([(outer, inner), (inner, outer)]):
                link = fabric.add_link(*ends, 2 * number + index)
                fabric.set_link(link, rate_bps=10**11, delay_ns=1000, queue_bytes=1 << 20)
        for host in hosts:
            host.bring_up(1500)
            stack.callback(host.socket.close)
        hosts[0].knows(hosts[1])
        thread = threading.Thread(target=fabric.run)
        thread.start()
        stack.callback(thread.join)
        stack.callback(fabric.stop)
        yield hosts, fabric
    del library


@pytest.mark.parametrize("parsed", [32, 64, 65, 66, 256])
@pytest.mark.parametrize("how", ["leaves", "breaks", "unchecked", "cuts"])
def test_the_kernel_sees_what_the_program_did(tmp_path: Path, parsed: int, how: str) -> None:
    """A checksum that the program made wrong is wrong to the receiver; one of 0 is none (RFC 768)."""
    more = {"unchecked": "headers.front.headers[15:0] = 0;", "cuts": f"truncate({42 + SEGMENT_BYTES - 1});"}
    source = tmp_path / "payloads.p4"
    flip = 0 if how in ("leaves", "cuts") else 1
    source.write_text(SOURCE % {"before": 8 * (parsed - 1), "flip": flip, "more": more.get(how, "")})
    data = bytes(i * 167 >> 3 & 0xFF for i in range(SEGMENTS * SEGMENT_BYTES))
    with two_hosts(source) as (hosts, _fabric):
        hosts[0].send(hosts[1], data, SEGMENT_BYTES)
        came = hosts[1].receive(len(data), quiet_s=0.3)
    expected = bytearray(data)
    for start in range(0, len(data), SEGMENT_BYTES):
        expected[start + parsed - 1] ^= flip
    got = b"".join(arrival.data for arrival in came)
    assert got == (expected if how in ("leaves", "unchecked") else b"")
    if how == "leaves":
        assert SEGMENT_BYTES in [arrival.segment_bytes for arrival in came], "not joined"
