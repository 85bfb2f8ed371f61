"""The server of `ibv_rc_pingpong`, on our RoCE endpoint: `python -m tests.kernel.rc_pingpong OWN PEER SIZE ROUNDS`.

It is told the peer's queue pair and PSN over TCP, as rdma-core's example does it ("lid:qpn:psn:gid", hexadecimal), and
answers with its own. Then every SEND of the client is answered by a SEND of as many random bytes. The client has one
buffer for both directions, so what it sends next must be what it was sent before. Prints one line of JSON.

Our NIC sends. What comes is taken from a raw socket, as the ICRC covers the IP header's identification, which the
kernel's device counts up and no UDP socket tells (our own packets have none: they may not be fragmented).
"""

import json
import select
import socket
import sys
import time
from ipaddress import IPv4Address
from random import Random
from unittest import mock

from testbed.netcore import ppoll
from testbed.spec.model import TransportSpec
from testbed.transport import Path, queue_pairs, settle
from testbed.transport.endpoint import Arrival, Failed, Received
from testbed.transport.framing import ROCE
from testbed.transport.roce import RoceEndpoint, endpoint
from testbed.transport.roce.address import Address
from testbed.wire.roce import UDP_PORT, icrc, split
from testbed.worker.clock import ModelClock
from testbed.worker.frames import frames_of
from testbed.worker.nic import Nic

TCP_PORT = 18515  # of ibv_rc_pingpong
MESSAGE_BYTES = len("0000:000000:000000:00000000000000000000000000000000") + 1
LOCAL_QP, FIRST_PSN, SOURCE_PORT = 0x4321, 0xFFFFF0, 0xC0DE  # PSNs wrap on the way
MTU, LIMIT_S, LINGER_S, TICK_NS = 1024, 240, 2, 100_000_000
SERVER, CLIENT = 0, 1
PATH = Path(rate_bps=10**9, base_rtt_ns=20_000_000, mtu_bytes=1500, max_burst_packets=16)


class Ears:
    """Takes in what the peer sends, of which each ICRC is right."""

    def __init__(self, own: str, peer: str, taker: RoceEndpoint) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind((own, 0))
        self.bad_icrc = 0
        self._peer, self._taker = peer, taker

    def listen(self, now: int) -> None:
        while True:
            try:
                packet, (source, _) = self.socket.recvfrom(1 << 16)
            except BlockingIOError:
                return
            if source != self._peer or int.from_bytes(packet[22:24], "big") != UDP_PORT:
                continue
            if icrc(packet[:28], packet[28:-4]).to_bytes(4, "little") != packet[-4:]:
                self.bad_icrc += 1
                continue
            header, payload = split(packet[28:-4])
            self._taker.receive(Arrival(CLIENT, packet[1] & 3, len(payload), (header,), payload), now)


def serve(own: str, peer: str, size: int, rounds: int) -> dict[str, int | str]:
    """Play all rounds; counters of the endpoint and the NIC, `rounds` that went well and `wrong` messages."""
    listener = socket.create_server((own, TCP_PORT))
    print("listening", flush=True)
    listener.settimeout(LIMIT_S)
    connection, _ = listener.accept()
    connection.settimeout(LIMIT_S)
    _, number, psn, _ = connection.recv(MESSAGE_BYTES, socket.MSG_WAITALL).rstrip(b"\0").decode().split(":")
    half = Address(CLIENT, LOCAL_QP, int(number, 16), SOURCE_PORT, FIRST_PSN, int(psn, 16))
    settings = settle(TransportSpec(kind="roce", verb="send", mtu=MTU), PATH)
    clock = ModelClock(time.monotonic_ns(), 1)
    with mock.patch.object(endpoint, "address", return_value=half):
        ours = RoceEndpoint(PATH, SERVER, queue_pairs(2), settings, seed=1)
        nic = Nic(own, {CLIENT: peer}, ours, frames_of(ROCE, int(IPv4Address(own))), PATH, clock)
        ears = Ears(own, peer, ours)
        landing = [bytearray(size) for _ in range(rounds)]
        for index, buffer in enumerate(landing):
            nic.post_receive(index, CLIENT, 0, memoryview(buffer), clock.now())
        gid = f"{0xFFFF << 32 | int(IPv4Address(own)):032x}"  # an IPv4 address as RoCEv2 maps it
        connection.sendall(f"0000:{LOCAL_QP:06x}:{FIRST_PSN:06x}:{gid}".encode() + b"\0")
        assert connection.recv(len("done") + 1, socket.MSG_WAITALL).startswith(b"done")
        return _play(nic, ears, clock, landing, size)


def _play(nic: Nic, ears: Ears, clock: ModelClock, landing: list[bytearray], size: int) -> dict[str, int | str]:
    random, answers, wrong, received, failure = Random(1), [b""], 0, 0, ""
    until = time.monotonic() + LIMIT_S
    while (received < len(landing) or not nic.idle()) and not failure and time.monotonic() < until:
        _turn(nic, ears, clock)
        for event in nic.events():
            if isinstance(event, Failed):
                failure = event.reason
            elif isinstance(event, Received):
                wrong += bool(event.missing) or (received > 0 and bytes(landing[event.id]) != answers[-1])
                received += 1
                answers.append(random.randbytes(size))
                nic.post_send(len(landing) + event.id, CLIENT, event.id, answers[-1], clock.now())
    until = time.monotonic() + LINGER_S  # acknowledge again what the peer sends again, if our last one was lost
    while time.monotonic() < until:
        _turn(nic, ears, clock)
    return {"rounds": received, "wrong": wrong, "failure": failure, "bad_icrc": ears.bad_icrc, **nic.counters()}


def _turn(nic: Nic, ears: Ears, clock: ModelClock) -> None:
    nic.transmit()
    wake_ns = nic.wake_ns()
    wait_ns = TICK_NS if wake_ns is None else min(TICK_NS, max(0, wake_ns - time.monotonic_ns()))
    writable = [(descriptor, mask) for descriptor, mask in nic.watched() if mask == select.POLLOUT]
    ppoll([(ears.socket.fileno(), select.POLLIN), *writable], wait_ns)
    ears.listen(clock.now())


if __name__ == "__main__":
    print(json.dumps(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))), flush=True)
