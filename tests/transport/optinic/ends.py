"""Endpoints of OptiNIC, and the collectives that they are told of."""

from collections.abc import Sequence

from testbed.spec.model import TransportSpec
from testbed.transport import Path, queue_pairs, settle
from testbed.transport.endpoint import Message, Operation
from testbed.transport.optinic import OptinicEndpoint
from tests.transport.pump import PATH

MTU = 256


def endpoints(ranks: int = 2, path: Path = PATH, **keys: object) -> list[OptinicEndpoint]:
    """Of all ranks; `keys` are those of the spec's `transport`."""
    settings = settle(TransportSpec(kind="optinic", **({"mtu": MTU} | keys)), path)
    peers = queue_pairs(ranks)
    return [OptinicEndpoint(path, rank, peers, settings, 1) for rank in range(ranks)]


def operation(number: int, messages: Sequence[Message]) -> Operation:
    return Operation(number, warmup=not number, messages=messages, itemsize=4, dtype="float32", layers=(0,))


def receive(peer: int, tag: int, step: int, size: int, first: int = 0) -> Message:
    return Message(tag, False, True, peer, tag, step, first, size)


def send(peer: int, tag: int, step: int, size: int, first: int = 0) -> Message:
    return Message(100 + tag, True, True, peer, tag, step, first, size)
