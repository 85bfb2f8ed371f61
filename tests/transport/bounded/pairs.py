"""Pairs of endpoints with bounded loss, and a message from one to the other."""

from dataclasses import dataclass
from random import Random

from testbed.spec.model import TransportSpec
from testbed.transport import Path, find, queue_pairs, settle
from testbed.transport.bounded import BoundedEndpoint
from testbed.transport.endpoint import Message, Operation, Received
from tests.transport.pump import PATH, Fate, Network

MTU = 256
KINDS = {"dlcp": {"congestion": "none"}, "dblp": {"phases": "static"}}


def endpoints(kind: str, ranks: int = 2, path: Path = PATH, seed: int = 1, **keys: object) -> list[BoundedEndpoint]:
    """Endpoints of all ranks, with chunks of 256 bytes."""
    settings = settle(TransportSpec(kind=kind, **({"mtu": MTU} | KINDS[kind] | keys)), path)
    make = find(kind).make
    assert make
    return [make(path, rank, queue_pairs(ranks), settings, seed) for rank in range(ranks)]  # type: ignore[misc]


def is_data(header: bytes) -> bool:
    """Of either transport."""
    return header[0] == 0xD0 or header[0] < 0x40


def operation(*messages: Message, layers: tuple[int, ...] = (0,), dtype: str = "float32", number: int = 0) -> Operation:
    return Operation(number, False, messages, 4, dtype, layers)


@dataclass
class Carried:
    """What became of a message of `data`."""

    network: Network
    data: bytes
    buffer: bytearray
    received: Received

    @property
    def missing_bytes(self) -> int:
        return sum(last - first for first, last in self.received.missing)

    @property
    def rounds(self) -> int:
        """How often its sender went over it."""
        return 1 + self.network.totals()["repair_rounds"]

    def is_right(self) -> bool:
        """What is not missing is as it was sent; what is missing was not touched."""
        at = 0
        for first, last in (*self.received.missing, (len(self.data), len(self.data))):
            if self.buffer[at:first] != self.data[at:first] or any(self.buffer[first:last]):
                return False
            at = last
        return True


def carry(kind: str, size: int, fate: Fate, seed: int = 1, **keys: object) -> Carried:
    """Send a message of `size` bytes, none of them 0, from rank 0 to rank 1."""
    ends = endpoints(kind, seed=seed, **keys)
    data, buffer = Random(seed).randbytes(size).replace(b"\0", b"\1"), bytearray(size)
    ends[1].post_receive(1, 0, 7, memoryview(buffer), 0)
    ends[0].post_send(2, 1, 7, data, 0)
    network = Network(ends, fate)
    network.run()
    assert all(end.idle() and end.deadline() is None for end in ends)
    (received,) = network.events[1]
    assert isinstance(received, Received)
    assert [event.id for event in network.events[0]] == [2]
    return Carried(network, data, buffer, received)
