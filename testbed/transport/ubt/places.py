"""Where each message of a collective lies in packets: both ends work it out for themselves, and come to the same."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from testbed.transport.endpoint import Message
from testbed.wire.ubt import BUCKETS


class Place(NamedTuple):
    """A message, the bucket that its packets name, and the offset of its first byte there."""

    message: Message
    bucket: int
    first: int


def bucket_of(collective: int, *, copies: bool) -> int:
    """What packets of the collective of this number name as their bucket."""
    return (2 * collective + copies) % BUCKETS


def places(collective: int, messages: Iterable[Message]) -> list[Place]:
    """Of messages that a rank sends, or of those that it receives. An empty one takes one byte's room, to be told."""
    ends: dict[tuple[int, int], int] = defaultdict(int)
    found = []
    for message in sorted(messages, key=lambda each: each.tag):
        bucket = bucket_of(collective, copies=not message.reduce)
        first = ends[message.peer, bucket]
        ends[message.peer, bucket] = first + max(1, message.bytes)
        found.append(Place(message, bucket, first))
    return found
