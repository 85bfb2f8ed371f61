"""A member's end of an aggregation: packets a second, by run length; a million packets at 1 % loss; what losses cost.

    python -m tests.bench.reduction [--lossy | --slow]

The first counts rounds (a packet made and its result taken in: quantised, encoded, decoded, restored) a second of CPU
time of one core. With --lossy 8 members sum up buffers over the compiled `aggregate` instead, which takes a million
packets: int32 bit-exact, float32 within the stated bound, or it fails. With --slow they sum up
2 MiB of int32 at a switch whose cables take their time (1 Gb/s, 10 us), in virtual time: how long, by loss.
"""

import argparse
import time
from collections import deque
from collections.abc import Iterator
from random import Random

import numpy as np

from testbed.transport import Path
from testbed.transport.aggregation import AGGREGATOR
from testbed.transport.endpoint import Arrival, Burst
from tests.transport.aggregation import impaired, members
from tests.transport.native_switches import NativeSwitch
from tests.transport.test_aggregation import reduce
from tests.transport.test_slow_star import bound_ns, share_again, summed

CHUNKS, VALUES, SLOTS = 16_384, 256, 128
MEMBERS, PACKETS = 8, 1_000_000
SLOW_CHUNKS = 2048


def rounds_per_s(run_packets: int, hold: str, dtype: type[np.generic]) -> float:
    """For a job of one, whose results are what was sent and arrive in runs of that many packets, 1 us a packet."""
    path = Path(rate_bps=10**10, base_rtt_ns=100_000, mtu_bytes=1500, max_burst_packets=64)
    [end] = members(1, path, values=VALUES, slots=SLOTS, hold=hold)
    end.post_reduce(0, np.random.default_rng(0).standard_normal(CHUNKS * VALUES).astype(dtype), 0)
    flying: deque[Arrival] = deque()
    elapsed_s, now = 0.0, 0
    while not end.idle():
        start = time.process_time()
        bursts = end.transmit(now, SLOTS)
        at = end.deadline()
        elapsed_s += time.process_time() - start
        flying += [run for burst in bursts for run in results(burst, run_packets)]
        arrival = flying.popleft() if flying else None
        now = now + 1000 * len(arrival.headers) if arrival else at or now
        start = time.process_time()
        if arrival:
            end.receive(arrival, now)
        else:
            end.on_deadline(now)
        elapsed_s += time.process_time() - start
    return end.counters.received_packets / elapsed_s


def results(burst: Burst, run_packets: int) -> Iterator[Arrival]:
    size, payload = burst.segment_bytes, memoryview(burst.payload)
    for first in range(0, burst.packets, run_packets):
        headers = burst.headers[first : first + run_packets]
        values = payload[first * size : (first + len(headers)) * size]
        yield Arrival(
            AGGREGATOR, 0, size, tuple(b"\x02" + header[1:2] + b"\0\0" + header[4:] for header in headers), values
        )


def lossy(dtype: type[np.generic]) -> None:
    fate = impaired(Random(1), loss=0.01, duplicate=0.002, reorder=0.01)
    switch = NativeSwitch(MEMBERS, values=32, slots=SLOTS)
    chunks = PACKETS // MEMBERS
    start = time.monotonic()
    network, _ = reduce(MEMBERS, dtype, fate, sizes=(32 * chunks,), switch=switch, slots=SLOTS, logged=False)
    counters = [end.counters for end in network.ends]
    sent, again, twice = (
        sum(getattr(one, name) for one in counters) for name in ("sent_packets", "retransmitted_packets", "duplicates")
    )
    print(
        f"{dtype.__name__}: {sent:,} packets sent by {MEMBERS} members, {network.lost:,} of {network.sent:,} (with "
        f"results) lost, {again:,} sent again, {twice:,} results twice; all right; {time.monotonic() - start:.0f} s"
    )


def slow() -> None:
    for loss in (0.0, 0.001, 0.01):
        for seed in range(3):
            star = summed(loss=loss, seed=seed, chunks=SLOW_CHUNKS)
            ratio = max(star.ended_ns) / bound_ns(SLOW_CHUNKS)
            timeouts = sum(end.counters.timeouts for end in star.ends)
            print(f"loss {loss:.1%}: {ratio:.3f} x the bound, {share_again(star):.1%} sent again, {timeouts} timeouts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lossy", action="store_true")
    parser.add_argument("--slow", action="store_true")
    dtypes: tuple[type[np.generic], ...] = (np.int32, np.float32, np.float16)
    options = parser.parse_args()
    if options.slow:
        slow()
        return
    if options.lossy:
        for dtype in dtypes[:2]:
            lossy(dtype)
        return
    for dtype in dtypes:
        for run_packets, hold in ((1, "0us"), (1, "25us"), (4, "0us"), (4, "25us"), (16, "0us"), (64, "0us")):
            best = max(rounds_per_s(run_packets, hold, dtype) for _ in range(3))
            print(f"{dtype.__name__:7} results in runs of {run_packets:2}, hold {hold:4}: {best / 1e3:4.0f} k rounds/s")


if __name__ == "__main__":
    main()
