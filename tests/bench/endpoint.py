"""How many packets a second one pair of RoCE endpoints carries, pumped by hand: `python tests/bench/endpoint.py`.

Both ends run in this process, so a driver with one end has at least twice this. No sockets and no ICRC; the payload is
copied once, into the receiver's buffer.
"""

import time

from testbed.spec.model import TransportSpec
from testbed.transport import Path, queue_pairs, settle
from testbed.transport.endpoint import Arrival
from testbed.transport.roce import RoceEndpoint

MESSAGES, PACKETS, MTU = 200, 512, 1024


def packets_per_s(run_packets: int, congestion: str) -> float:
    """Packets (data and acknowledgements) a second of CPU time, in runs of at most `run_packets`."""
    path = Path(rate_bps=10**10, base_rtt_ns=100_000, mtu_bytes=1500, max_burst_packets=run_packets)
    settings = settle(TransportSpec(mtu=MTU, window=1024, congestion=congestion), path)
    ends = [RoceEndpoint(path, rank, queue_pairs(2), settings, seed=1) for rank in (0, 1)]
    data, buffer = bytes(PACKETS * MTU), bytearray(PACKETS * MTU)
    start = time.process_time()
    for message in range(MESSAGES):
        ends[1].post_receive(message, 0, message, memoryview(buffer), message)
        ends[0].post_send(message, 1, message, data, message)
        while not ends[0].idle():
            for sender, receiver in ((0, 1), (1, 0)):
                for burst in ends[sender].transmit(message, 1024):
                    run = Arrival(sender, burst.ecn, burst.segment_bytes, burst.headers, burst.payload)
                    ends[receiver].receive(run, message)
                ends[sender].deadline()
        for end in ends:
            end.events()
    elapsed_s = time.process_time() - start
    assert ends[1].counters.received_bytes == MESSAGES * PACKETS * MTU
    return sum(end.counters.sent_packets for end in ends) / elapsed_s


if __name__ == "__main__":
    for congestion in ("none", "dcqcn"):
        for run_packets in (1, 8, 32, 64):
            best = max(packets_per_s(run_packets, congestion) for _ in range(3))
            print(f"{congestion:6} runs of {run_packets:2}: {best / 1e3:7.0f} k packets/s")
