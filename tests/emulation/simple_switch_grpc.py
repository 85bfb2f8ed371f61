"""Stands in for bmv2's simple_switch_grpc, as its sources have it (targets/simple_switch_grpc, PI's frontend).

Its options; one device, by its id, that forwards nothing and tells no program before a client sets one; batches only
with CONTINUE_ON_ERROR; no registers. What forwards is a native switch on the interfaces, which LiveSwitch serves.
"""

import json
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import p4r

from testbed.dataplane import live
from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.p4runtime import device
from testbed.dataplane.p4runtime.refusal import Refusal

NOTHING = """\
#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct metadata_t { }
parser Reader(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { transition accept; }
}
control Check(inout headers_t headers, inout metadata_t meta) { apply { } }
control Dropping(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { mark_to_drop(standard); }
}
control Leaving(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control Writer(packet_out packet, in headers_t headers) { apply { } }
V1Switch(Reader(), Check(), Dropping(), Leaving(), Check(), Writer()) main;
"""


class OneByOne(device.Device):
    """What bmv2 does not do, beside what it does."""

    def write(self, request: p4r.WriteRequest, *rest: Any) -> list[Refusal | None]:
        if request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
            raise Refusal(grpc.StatusCode.UNIMPLEMENTED, "Only CONTINUE_ON_ERROR is supported for atomicity attribute")
        if any(update.entity.HasField("register_entry") for update in request.updates):
            raise Refusal(grpc.StatusCode.UNIMPLEMENTED, "Register reads and writes are not supported yet")
        return super().write(request, *rest)


def main() -> None:
    words = sys.argv[1:]

    def option(name: str) -> str:
        return words[words.index(name) + 1]

    ports = dict(word.split("@") for at, word in enumerate(words) if at and words[at - 1] == "-i")
    assert "--no-p4" in words[: words.index("--")]
    assert int(option("--cpu-port")) > 0
    live.P4RUNTIME_DEVICE = int(option("--device-id"))
    device.Device = OneByOne  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        (source := Path(folder) / "nothing.p4").write_text(NOTHING)
        compiled = compile_p4(source)
    interfaces = {int(number): interface for number, interface in ports.items()}
    switch = live.LiveSwitch(program_of(json.loads(json.dumps(compiled.json)), "nothing"), interfaces)
    switch.start()
    switch.serve(option("--grpc-server-addr"), compiled.json, None)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    switch.stop()


if __name__ == "__main__":
    main()
