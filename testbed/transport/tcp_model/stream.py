"""The two byte streams of a connection: messages into segments' payloads, and segments' payloads into messages.

A message is a head (tag, length) and its bytes, as over the kernel's connections.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from testbed.transport.endpoint import Event, Failed, Received, Sent

_HEAD = struct.Struct("!IQ")  # tag, length in bytes
_LARGEST_MESSAGE_BYTES = 1 << 31  # as RoCE's


class _Piece(NamedTuple):
    first: int
    end: int
    view: memoryview
    ends: int | None  # id of the message that ends with it


class Outgoing:
    """What was posted and is not acknowledged yet. Nothing is copied but what a segment has of two pieces."""

    def __init__(self) -> None:
        self.end = 0  # of the stream
        self._pieces: deque[_Piece] = deque()

    def post(self, id: int, tag: int, view: memoryview) -> None:
        head = memoryview(_HEAD.pack(tag, len(view)))
        self._append(head, None if len(view) else id)
        if len(view):
            self._append(view, id)

    def read(self, sequence: int, segment_bytes: int, most_bytes: int) -> memoryview:
        """What lies together from `sequence` on in whole segments, at most `most_bytes`; else one segment's bytes."""
        size = min(segment_bytes, most_bytes)
        found: list[memoryview] = []
        for piece in self._pieces:
            if piece.end <= sequence:
                continue
            part = piece.view[sequence - piece.first :]
            if not found and len(part) >= size:
                return part[: max(size, min(len(part), most_bytes) // segment_bytes * segment_bytes)]
            found.append(part[:size])
            size -= len(found[-1])
            sequence += len(found[-1])
            if not size:
                break
        return found[0] if len(found) == 1 else memoryview(b"".join(found))

    def acknowledge(self, sequence: int, events: list[Event]) -> None:
        """The peer has all before `sequence`."""
        while self._pieces and self._pieces[0].end <= sequence:
            ends = self._pieces.popleft().ends
            if ends is not None:
                events.append(Sent(ends))

    def clear(self) -> list[int]:
        """Forget all; the messages that were not done."""
        left = [piece.ends for piece in self._pieces if piece.ends is not None]
        self._pieces.clear()
        return left

    def _append(self, view: memoryview, ends: int | None) -> None:
        self._pieces.append(_Piece(self.end, self.end + len(view), view, ends))
        self.end += len(view)


class _Message:
    """Being read, into `view`; `id`: of the receive it is for, if that is posted yet."""

    __slots__ = ("filled", "id", "view")

    def __init__(self, id: int | None, view: memoryview) -> None:
        self.id = id
        self.view = view
        self.filled = 0


class Incoming:
    """Bytes in order into posted receives; messages nobody has asked for yet are kept until somebody does."""

    def __init__(self, peer: int, events: list[Event], lose: Callable[[str], None]) -> None:
        self.received_bytes = 0
        self._peer = peer
        self._events = events
        self._lose = lose
        self._head = bytearray()
        self._message: _Message | None = None
        self._posted: dict[int, deque[tuple[int, memoryview]]] = {}
        self._early: dict[int, deque[_Message]] = {}
        self._ended = False

    def post(self, id: int, tag: int, view: memoryview) -> None:
        early = self._early.get(tag)
        if not early:
            self._posted.setdefault(tag, deque()).append((id, view))
            return
        message = early.popleft()
        if not early:
            del self._early[tag]
        if len(message.view) != len(view):
            self._events.append(Failed(id, self._peer, _misfit(len(message.view), len(view))))
            return
        view[: message.filled] = message.view[: message.filled]
        message.id, message.view = id, view
        if message.filled == len(view):
            self._events.append(Received(id))

    def fail(self, reason: str) -> None:
        """End all receives; whatever else comes is thrown away."""
        waiting = [number for queue in self._posted.values() for number, _ in queue]
        if self._message is not None and self._message.id is not None:
            waiting.append(self._message.id)
        self._posted.clear()
        self._message, self._ended = None, True
        self._events += [Failed(number, self._peer, reason) for number in waiting]

    def take(self, data: memoryview) -> None:
        """The next bytes of the stream."""
        while len(data) and not self._ended:
            message = self._message
            if message is None:
                missing = _HEAD.size - len(self._head)
                self._head += data[:missing]
                data = data[missing:]
                if len(self._head) == _HEAD.size:
                    self._begin(*_HEAD.unpack(self._head))
                    self._head.clear()
                continue
            part = data[: len(message.view) - message.filled]
            message.view[message.filled : message.filled + len(part)] = part
            message.filled += len(part)
            self.received_bytes += len(part)
            data = data[len(part) :]
            if message.filled == len(message.view):
                self._end(message)

    def _begin(self, tag: int, length: int) -> None:
        if posted := self._posted.get(tag):
            number, view = posted.popleft()
            if not posted:
                del self._posted[tag]
            if length != len(view):
                self._events.append(Failed(number, self._peer, _misfit(length, len(view))))
                self._lose(_misfit(length, len(view)))
                return
            message = _Message(number, view)
        elif length > _LARGEST_MESSAGE_BYTES:
            self._lose(f"it sent a message of {length} bytes")
            return
        else:
            message = _Message(None, memoryview(bytearray(length)))
            self._early.setdefault(tag, deque()).append(message)
        self._message = message
        if not length:
            self._end(message)

    def _end(self, message: _Message) -> None:
        self._message = None
        if message.id is not None:
            self._events.append(Received(message.id))


def _misfit(length: int, room: int) -> str:
    return f"it sent a message of {length} bytes where {room} were expected"
