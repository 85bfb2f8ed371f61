"""Control out of band: JSON lines over Unix stream sockets between the run and its child processes.

Path-based Unix sockets cross network namespaces, so control never touches an emulated link. The run listens (`Hub`);
each child connects with `Channel.connect` and says who it is in its first line, `{"hello": role, "pid": …, …}`. A
request carries `id`, its answer the same `id`; lines without one are notices. The end of a child's stream is how the
run learns at once that it died.
"""

import contextlib
import json
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.errors import RunFailed

Message = dict[str, Any]
_CHUNK_BYTES = 1 << 20
_SHOWN_BYTES = 80  # of what cannot be read


class ChannelClosed(RunFailed):
    """The other end is gone."""


class ChannelTimeout(RunFailed):
    """The other end did not answer in time."""


class Channel:
    """One end of a control stream."""

    def __init__(self, connection: socket.socket, name: str = "peer") -> None:
        self.name = name
        self.hello: Message = {}
        self.closed = False
        self._socket = connection
        self._partial = b""
        self._inbox: deque[Message] = deque()
        self._next_id = 1

    @classmethod
    def connect(cls, path: Path, role: str, **hello: Any) -> "Channel":
        """Connect to the run's `Hub` at `path` and say hello."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(path))
        channel = cls(connection, "run")
        channel.send({"hello": role, "pid": os.getpid(), **hello})
        return channel

    @property
    def queued(self) -> bool:
        """Whether messages were read already that nobody has taken yet."""
        return bool(self._inbox)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            self.closed = True
            raise ChannelClosed(f"{self.name} is gone ({error})") from error

    def receive(self, timeout_s: float) -> Message:
        """The next message; raises ChannelTimeout or ChannelClosed."""
        deadline = time.monotonic() + timeout_s
        while not self._inbox:
            self._fill(max(0.0, deadline - time.monotonic()))
        return self._inbox.popleft()

    def poll(self) -> list[Message]:
        """All messages that are here now, without waiting; sets `closed` at the end of the stream."""
        try:
            while True:
                self._fill(0.0)
        except (ChannelTimeout, ChannelClosed):
            pass
        messages = list(self._inbox)
        self._inbox.clear()
        return messages

    def request(self, message: Message, timeout_s: float = 10.0) -> Message:
        """Send a request and wait for its answer; notices that come in between stay queued."""
        identity, self._next_id = self._next_id, self._next_id + 1
        self.send({**message, "id": identity})
        deadline, kept = time.monotonic() + timeout_s, []
        try:
            while True:
                answer = self.receive(max(0.0, deadline - time.monotonic()))
                if answer.get("id") == identity:
                    if "error" in answer:
                        raise RunFailed(f"{self.name}: {answer['error']}")
                    return answer
                kept.append(answer)
        except ChannelTimeout:
            raise ChannelTimeout(f"{self.name} did not answer {message.get('op')!r} within {timeout_s:g} s") from None
        finally:
            self._inbox.extendleft(reversed(kept))

    def answer(self, request: Message, **fields: Any) -> None:
        self.send({"id": request.get("id"), **fields})

    def leave(self, told: str) -> ChannelClosed:
        """Tell the peer, which sent nonsense, what is wrong with it, and end the stream; the error to raise."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps({"error": told}).encode() + b"\n", socket.MSG_DONTWAIT)
            self._socket.shutdown(socket.SHUT_RDWR)
        return ChannelClosed(f"{self.name} sent nonsense: {told}")

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def _fill(self, timeout_s: float) -> None:
        if self.closed:
            raise ChannelClosed(f"{self.name} is gone")
        self._socket.settimeout(max(timeout_s, 0.0))
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except (TimeoutError, BlockingIOError):
            raise ChannelTimeout(f"{self.name} said nothing in time") from None
        except OSError:
            data = b""
        finally:
            if self._socket.fileno() >= 0:
                self._socket.settimeout(None)
        if not data:
            self.closed = True
            raise ChannelClosed(f"{self.name} is gone")
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._inbox.append(self._read(line))

    def _read(self, line: bytes) -> Message:
        """The message in a line; whoever sends what is none is told so, and left."""
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict):
            return message
        shown = line[:_SHOWN_BYTES].decode(errors="replace")
        raise self.leave(f"{shown!r} is no JSON object, which each line must be")


class Hub:
    """The run's end of all control streams."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(1024)
        self._selector = selectors.DefaultSelector()
        self.channels: list[Channel] = []

    def accept(self, timeout_s: float) -> Channel | None:
        """The next child that connects and says hello, or None."""
        self._listener.settimeout(timeout_s)
        try:
            connection, _ = self._listener.accept()
        except (TimeoutError, BlockingIOError):
            return None
        channel = Channel(connection, "a new child")
        channel.hello = channel.receive(5.0)
        if not isinstance(channel.hello.get("hello"), str):
            raise channel.leave('the first line must be {"hello": ROLE, …}')
        channel.name = str(channel.hello.get("name", channel.hello.get("hello")))
        self.channels.append(channel)
        self._selector.register(channel, selectors.EVENT_READ, channel)
        return channel

    def wait(self, timeout_s: float) -> Iterator[tuple[Channel, list[Message]]]:
        """Messages of all channels, at the latest after `timeout_s`; a closed one comes once, with `closed` set."""
        queued = [channel for channel in self.channels if channel.queued]  # e.g. what came together with the hello
        ready: list[Channel] = [key.data for key, _ in self._selector.select(0 if queued else timeout_s)]
        for channel in dict.fromkeys([*queued, *ready]):
            messages = channel.poll()
            if channel.closed:
                self.drop(channel)
            yield channel, messages

    def drop(self, channel: Channel) -> None:
        if channel in self.channels:
            self.channels.remove(channel)
            self._selector.unregister(channel)

    def close(self) -> None:
        for channel in list(self.channels):
            self.drop(channel)
            channel.close()
        self._selector.close()
        self._listener.close()
        self.path.unlink(missing_ok=True)
