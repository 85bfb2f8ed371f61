"""A client that drives a switch between two hosts with finsy, from the network namespace that it is started in.

    python -m tests.p4runtime.drives ADDRESS NETNS NETNS

A process of its own, as the threads of gRPC stay in the namespace in which they began.
"""

import asyncio
import socket
import sys

from finsy import P4PacketOut, P4TableAction, P4TableEntry, P4TableMatch, Switch, SwitchOptions

from testbed.emulation import namespaces
from tests.p4runtime.rig import frame

LIMIT_S = 60
STEP = 10
PADDING = bytes(60)  # frames of a wire are not short


def wire(netns: str) -> socket.socket:
    made = namespaces.inside(netns, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    made.bind(("eth0", 3))  # ETH_P_ALL
    made.settimeout(LIMIT_S)
    return made


def next_of(wire: socket.socket) -> bytes:
    """The next frame of everything.p4's."""
    while (got := wire.recv(2000))[12:14] != b"\x88\xb5":
        pass
    return got


async def drive(address: str, first: socket.socket, second: socket.socket) -> None:
    sent, match = frame(STEP, rest=PADDING), P4TableMatch(step=STEP)
    async with Switch("s", address, SwitchOptions(device_id=1)) as switch:
        await switch.insert([P4TableEntry("steps", match=match, action=P4TableAction("forward", port=2))])
        first.send(sent)
        assert next_of(second) == sent
        packets = switch.read_packets()
        listening = asyncio.ensure_future(anext(packets))
        await asyncio.sleep(0)
        await switch.modify([P4TableEntry("steps", match=match, action=P4TableAction("punt"))])
        second.send(sent)
        packet = await asyncio.wait_for(listening, LIMIT_S)
        assert (packet.payload, packet["ingress_port"]) == (sent, 2)
        await switch.write([P4PacketOut(sent, egress_port=1, unused=0)])
        assert next_of(first) == sent


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(drive(sys.argv[1], wire(sys.argv[2]), wire(sys.argv[3])), LIMIT_S))
    print("driven")
