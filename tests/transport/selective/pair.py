"""Two endpoints of a transport with selective repeat, and what their packets say, relative to the first."""

from collections.abc import Sequence

from testbed.spec.model import TransportSpec
from testbed.transport import TRANSPORTS, Endpoint, Path, queue_pairs, settle
from testbed.transport.endpoint import Burst
from testbed.wire.roce import Header, decode, psn_difference
from tests.transport.pump import PATH, arrival, packets

MTU = 256


def pair(kind: str, path: Path = PATH, **keys: object) -> list[Endpoint]:
    transport = TRANSPORTS[kind]
    settings = settle(TransportSpec.model_validate({"kind": kind, "mtu": MTU, **keys}), path)
    assert transport.make
    return [transport.make(path, rank, queue_pairs(2), settings, 1) for rank in range(2)]


def sends(ends: list[Endpoint], count: int, now: int = 0) -> bytearray:
    """Rank 0 sends so many packets to rank 1; where they land."""
    buffer = bytearray(count * MTU)
    ends[1].post_receive(1, 0, 9, memoryview(buffer), now)
    ends[0].post_send(1, 1, 9, bytes(range(256)) * count, now)
    return buffer


def flight(end: Endpoint, now: int) -> list[Burst]:
    """All that leaves now, packet by packet."""
    found: list[Burst] = []
    while bursts := end.transmit(now, 1000):
        for burst in bursts:
            for header, payload in zip(burst.headers, packets(burst), strict=True):
                found.append(burst._replace(headers=(header,), payload=payload[1]))
    return found


def arrive(end: Endpoint, sender: int, bursts: Sequence[Burst], now: int) -> None:
    """They arrive, one after the other."""
    for burst in bursts:
        end.receive(arrival(sender, burst), now)


def headers(bursts: Sequence[Burst]) -> list[Header]:
    return [decode(header) for burst in bursts for header in burst.headers]


def numbers(bursts: Sequence[Burst], first_psn: int) -> list[int]:
    """The data packets of bursts, counted from the first."""
    return [psn_difference(header.psn, first_psn) for header in headers(bursts)]
