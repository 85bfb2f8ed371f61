"""Endpoints whose packets go through the native core's codec as a driver's would: super-packets, ICRCs, bit errors."""

from random import Random

import pytest

from testbed import netcore
from testbed.transport.endpoint import Arrival, Received, Sent
from testbed.wire.roce import OPCODES, UDP_PORT

from .pump import PATH, endpoints

IPS = (0x0A000001, 0x0A000002)


def carry(burst, sender, receiver, *, now, random, bit_errors):
    """Encode, perhaps flip a bit, decode, deliver; how many packets were found corrupt or malformed."""
    buffer = bytearray(len(burst.payload) + 100 * burst.packets)
    flow = (IPS[sender], IPS[burst.peer], burst.source_port, UDP_PORT)
    bad = 0
    pieces = netcore.roce_encode(buffer, burst.headers, burst.payload, burst.segment_bytes, *flow)
    for offset, size, segment in pieces:
        datagram = memoryview(buffer)[offset : offset + size]
        if random.random() < bit_errors:
            datagram[random.randrange(size)] ^= 1 << random.randrange(8)
        runs, corrupt, malformed = netcore.roce_decode(datagram, segment, *flow, OPCODES)
        bad += corrupt + malformed
        for headers, payload, segment_bytes in runs:
            receiver.receive(Arrival(sender, 0, segment_bytes, headers, payload), now)
    return bad


@pytest.mark.parametrize("verb", ["write", "send"])
@pytest.mark.parametrize("bit_errors", [0.0, 0.2])
def test_messages_survive(verb, bit_errors):
    random = Random(3)
    ends = endpoints(2, PATH, kind="roce", verb=verb, mtu=1024, timeout=6)
    sizes = [0, 1, 1021, 1024, 1025, 3000, 64 * 1024, 64 * 1024 + 1, 200_000]
    buffers = [(random.randbytes(size), bytearray(size)) for size in sizes]
    for number, (data, buffer) in enumerate(buffers):
        ends[1].post_receive(number, 0, number, memoryview(buffer), 0)
        ends[0].post_send(number, 1, number, data, 0)
    now = bad = 0
    for _ in range(2_000):
        for sender, receiver in ((0, 1), (1, 0)):
            for burst in ends[sender].transmit(now, 100):
                bad += carry(burst, sender, ends[receiver], now=now, random=random, bit_errors=bit_errors)
        deadlines = [at for end in ends if (at := end.deadline()) is not None]
        if not deadlines:
            break
        now = max(now, min(deadlines))
        for end in ends:
            end.on_deadline(now)
    assert all(data == buffer for data, buffer in buffers)
    assert ends[0].events() == tuple(Sent(number) for number in range(len(sizes)))
    assert ends[1].events() == tuple(Received(number) for number in range(len(sizes)))
    assert (bad > 0) == (bit_errors > 0)
    assert ends[1].counters.malformed == 0
