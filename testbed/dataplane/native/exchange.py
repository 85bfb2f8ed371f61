"""A switch in memory for tests: an instance of a program, multicast groups and clone sessions, fed packet by packet."""

import ctypes
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from testbed.dataplane.bmv2json import Program
from testbed.dataplane.native.build import build_exchange, build_program
from testbed.dataplane.native.control import Control
from testbed.dataplane.native.loader import LOG, CloneSession, Frame, Replica, load_exchange, load_program


class Exchange:
    """A context manager; `control` fills its tables. Compiles the program unless the cache has it."""

    def __init__(self, program: Program, *, seed: int = 1, sanitize: bool = False) -> None:
        self._library = load_exchange(build_exchange(sanitize=sanitize))
        self._object, table = load_program(build_program(program, sanitize=sanitize))
        self.messages: list[str] = []
        self._heard = LOG(lambda _, line: self.messages.append(line.decode(errors="replace")))
        self._exchange = self._library.exchange_new(ctypes.byref(table), seed, self._heard)
        if not self._exchange:
            raise MemoryError("no memory for a switch, or a program of another ABI")
        self.control = Control(program, table, self._library.exchange_instance(self._exchange))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._library.exchange_destroy(self._exchange)

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set a multicast group's copies: port and replication id of each."""
        array = (Replica * len(replicas))(*(Replica(*replica) for replica in replicas))
        self._checked(self._library.exchange_set_group(self._exchange, group, array, len(replicas)))

    def set_session(self, session: int, *, port: int | None = None, group: int | None = None) -> None:
        """Set where clones of a session go."""
        config = CloneSession(port is not None, group is not None, port or 0, group or 0)
        self._checked(self._library.exchange_set_session(self._exchange, session, ctypes.byref(config)))

    def set_queue_depth(self, depth: int) -> None:
        """Set what packets from now on find in their queue and leave behind in it."""
        self._library.exchange_set_depth(self._exchange, depth)

    def inject(self, port: int, frame: bytes, now_ns: int = 0) -> list[tuple[int, bytes]]:
        """Carry a frame to its end; port and bytes of each packet that left, in order."""
        self._checked(self._library.exchange_inject(self._exchange, port, frame, len(frame), now_ns))
        outputs = [
            self._library.exchange_output(self._exchange, i)
            for i in range(self._library.exchange_output_count(self._exchange))
        ]
        packets = [(o.port, ctypes.string_at(o.data, o.length)) for o in outputs]
        self._library.exchange_forget(self._exchange)
        return packets

    @property
    def digests(self) -> int:
        """How many digests were sent."""
        return int(self._library.exchange_digest_count(self._exchange))

    @property
    def stopped(self) -> int:
        """How many packets came round so often that they were stopped."""
        return int(self._library.exchange_stopped_count(self._exchange))

    def fuzz(self, frames: Sequence[tuple[int, bytes]], count: int, seed: int) -> None:
        """Inject that many mutants of the frames."""
        array = _frames(frames)
        self._checked(self._library.exchange_fuzz(self._exchange, array, len(frames), count, seed))

    def bench(self, frames: Sequence[tuple[int, bytes]], count: int) -> int:
        """Forward copies of the frames that many times in memory; ns of CPU time."""
        taken = int(self._library.exchange_bench(self._exchange, _frames(frames), len(frames), count))
        self._checked(taken > 0)
        return taken

    @staticmethod
    def _checked(done: bool) -> None:
        if not done:
            raise MemoryError("no memory for a packet")


def _frames(frames: Sequence[tuple[int, bytes]]) -> "ctypes.Array[Frame]":
    return (Frame * len(frames))(*(Frame(port, len(frame), frame) for port, frame in frames))
