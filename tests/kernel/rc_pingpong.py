"""The server of `ibv_rc_pingpong`, on our RoCE endpoint: `python -m tests.kernel.rc_pingpong OWN PEER SIZE ROUNDS`.

It is told the peer's queue pair and PSN over TCP, as rdma-core's example does it ("lid:qpn:psn:gid", hexadecimal), and
answers with its own. Then every SEND of the client is answered by a SEND of as many random bytes. The client has one
buffer for both directions, so what it sends next must be what it was sent before. Prints one line of JSON.
"""

import json
import socket
import sys
import time
from ipaddress import IPv4Address
from random import Random
from unittest import mock

from testbed.netcore import ppoll
from testbed.spec.model import TransportSpec
from testbed.transport import Path, queue_pairs, settle
from testbed.transport.endpoint import Failed, Received
from testbed.transport.framing import ROCE
from testbed.transport.roce import RoceEndpoint, endpoint
from testbed.transport.roce.address import Address
from testbed.worker.clock import ModelClock
from testbed.worker.frames import frames_of
from testbed.worker.nic import Nic

TCP_PORT = 18515  # of ibv_rc_pingpong
MESSAGE_BYTES = len("0000:000000:000000:00000000000000000000000000000000") + 1
LOCAL_QP, FIRST_PSN, SOURCE_PORT = 0x4321, 0xFFFFF0, 0xC0DE  # PSNs wrap on the way
MTU, LIMIT_S = 1024, 240
SERVER, CLIENT = 0, 1
PATH = Path(rate_bps=10**9, base_rtt_ns=20_000_000, mtu_bytes=1500, max_burst_packets=16)


def serve(own: str, peer: str, size: int, rounds: int) -> dict[str, int | str]:
    """Play all rounds; counters of the endpoint and the NIC, `rounds` that went well and `wrong` messages."""
    listener = socket.create_server((own, TCP_PORT))
    print("listening", flush=True)
    listener.settimeout(LIMIT_S)
    connection, _ = listener.accept()
    connection.settimeout(LIMIT_S)
    _, number, psn, gid = connection.recv(MESSAGE_BYTES, socket.MSG_WAITALL).rstrip(b"\0").decode().split(":")
    half = Address(CLIENT, LOCAL_QP, int(number, 16), SOURCE_PORT, FIRST_PSN, int(psn, 16))
    settings = settle(TransportSpec(kind="roce", verb="send", mtu=MTU), PATH)
    with mock.patch.object(endpoint, "address", return_value=half):
        nic = _nic(own, peer, RoceEndpoint(PATH, SERVER, queue_pairs(2), settings, seed=1))
        landing = [bytearray(size) for _ in range(rounds)]
        for index, buffer in enumerate(landing):
            nic.post_receive(index, CLIENT, 0, memoryview(buffer), 0)
        connection.sendall(f"0000:{LOCAL_QP:06x}:{FIRST_PSN:06x}:{gid}".encode() + b"\0")
        assert connection.recv(len("done") + 1, socket.MSG_WAITALL).startswith(b"done")
        return _play(nic, landing, size)


def _nic(own: str, peer: str, made: RoceEndpoint) -> Nic:
    clock = ModelClock(time.monotonic_ns(), 1)
    return Nic(own, {CLIENT: peer}, made, frames_of(ROCE, int(IPv4Address(own))), PATH, clock)


def _play(nic: Nic, landing: list[bytearray], size: int) -> dict[str, int | str]:
    random, answers, wrong, received, failure = Random(1), [b""], 0, 0, ""
    until = time.monotonic() + LIMIT_S
    now = time.monotonic_ns
    while (received < len(landing) or not nic.idle()) and not failure and time.monotonic() < until:
        nic.transmit()
        wake_ns = nic.wake_ns()
        wait_ns = 100_000_000 if wake_ns is None else min(100_000_000, max(0, wake_ns - now()))
        nic.receive(dict(ppoll(nic.watched(), wait_ns)))
        for event in nic.events():
            if isinstance(event, Failed):
                failure = event.reason
            elif isinstance(event, Received):
                wrong += bool(event.missing) or (received > 0 and bytes(landing[event.id]) != answers[-1])
                received += 1
                answers.append(random.randbytes(size))
                nic.post_send(len(landing) + event.id, CLIENT, event.id, answers[-1], 0)
    _linger(nic)
    return {"rounds": received, "wrong": wrong, "failure": failure, **nic.counters()}


def _linger(nic: Nic) -> None:
    """Acknowledge again what the peer sends again: our last acknowledgement may have been lost."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        nic.transmit()
        nic.receive(dict(ppoll(nic.watched(), 100_000_000)))


if __name__ == "__main__":
    print(json.dumps(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))), flush=True)
