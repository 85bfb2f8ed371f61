"""Open vSwitch's own command at a native switch: a third party's reading of what the switch says."""

import contextlib
import re
import select
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from testbed.openflow import Agents
from tests.openflow.parts import Memory, frame

LIMIT_S = 20.0
Ofctl = Callable[..., str]


def _join(switch: socket.socket, client: socket.socket) -> None:
    """Carry bytes both ways until one end has enough."""
    with switch, client:
        while ready := select.select([switch, client], [], [], LIMIT_S)[0]:
            for end in ready:
                data = end.recv(1 << 16)
                if not data:
                    return
                (client if end is switch else switch).sendall(data)


@pytest.fixture
def ofctl(memory: Memory) -> Iterator[Ofctl]:
    """Agent and command both connect, the latter several times: a relay between them listens for both."""
    switch = memory.add("s0", 0x2A, (1, 2, 3, 4))
    with socket.create_server(("127.0.0.1", 0)) as back, socket.create_server(("127.0.0.1", 0)) as front:
        for listener in (back, front):
            listener.settimeout(LIMIT_S)
        agents = Agents([switch], memory, back.getsockname())
        agents.start()
        target = f"tcp:127.0.0.1:{front.getsockname()[1]}"

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = front.accept()
                    with contextlib.suppress(ConnectionError):
                        _join(back.accept()[0], client)

        def run(command: str, *arguments: str) -> str:
            argv = ["ovs-ofctl", "-O", "OpenFlow13", command, target, *arguments]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            return (done.stdout + done.stderr).strip()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield run
        finally:
            agents.stop()
            for listener in (front, back):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(LIMIT_S)


@pytest.mark.slow
def test_a_switch_as_ovs_ofctl_sees_it(ofctl: Ofctl, memory: Memory) -> None:
    assert (
        ofctl("add-group", "group_id=1,type=select,bucket=weight:1,actions=output:2,bucket=weight:1,actions=output:3")
        == ""
    )
    assert ofctl("add-flow", "priority=116,cookie=0x7,ip,nw_dst=10.1.0.0/16,actions=group:1") == ""
    assert ofctl("add-flow", "priority=132,ip,nw_dst=10.0.0.9,actions=dec_ttl,output:4") == ""
    assert ofctl("add-flow", "priority=0,actions=drop") == ""
    assert memory.ledgers["s0"].routes == {"10.1.0.0/16": (2, 3), "10.0.0.9/32": (4,)}
    for _ in range(6):
        memory.forward("s0", 1, frame("10.0.0.9"))
    memory.forward("s0", 1, frame("192.0.2.1"))
    flows = [re.sub(r"duration=[^,]*, ", "", line.strip()) for line in ofctl("dump-flows").splitlines()[1:]]
    size = 6 * len(frame("10.0.0.9"))
    assert sorted(flows) == [
        "cookie=0x0, table=0, n_packets=1, n_bytes=0, priority=0 actions=drop",
        f"cookie=0x0, table=0, n_packets=6, n_bytes={size}, priority=132,ip,nw_dst=10.0.0.9 actions=dec_ttl,output:4",
        "cookie=0x7, table=0, n_packets=0, n_bytes=0, priority=116,ip,nw_dst=10.1.0.0/16 actions=group:1",
    ]
    assert "group_id=1,type=select,bucket=" in ofctl("dump-groups")
    assert re.search(r"group_id=1,duration=[^,]*,ref_count=1,packet_count=0,byte_count=0", ofctl("dump-group-stats"))
    assert "packet_count=7" in ofctl("dump-aggregate")
    assert re.search(r'port +"?s0-eth1"?: rx pkts=7|port +1: rx pkts=7', ofctl("dump-ports"))
    assert "3(s0-eth3): addr:02:00:00:00:2a:03" in ofctl("dump-ports-desc")
    assert 'table 0 ("routes")' in ofctl("dump-table-features")
    assert "Testbed" in ofctl("dump-desc")
    assert ofctl("del-flows", "ip,nw_dst=10.1.0.0/16") == ""
    assert memory.ledgers["s0"].routes == {"10.0.0.9/32": (4,)}


@pytest.mark.slow
def test_what_ovs_ofctl_asks_in_vain(ofctl: Ofctl) -> None:
    assert "OFPBMC_BAD_FIELD" in ofctl("add-flow", "in_port=1,actions=output:2")
    assert "OFPBAC_BAD_OUT_GROUP" in ofctl("add-flow", "ip,actions=group:9")
    assert "OFPGMFC_BAD_TYPE" in ofctl("add-group", "group_id=1,type=ff,bucket=watch_port:1,actions=output:2")
    assert "OFPFMFC_BAD_TIMEOUT" in ofctl("add-flow", "idle_timeout=5,ip,actions=output:2")
