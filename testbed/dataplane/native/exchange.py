"""One native switch for tests: in a fabric of its own, with a cable at every port, fed under a virtual clock."""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from testbed.dataplane.bmv2model import Program
from testbed.dataplane.native.build import build_program, build_trials
from testbed.dataplane.native.configurable import ConfigurableSwitch
from testbed.dataplane.native.loader import Frame, Mutant, load_program, load_trials
from testbed.netcore import CPU_PORT, Fabric

PORTS = range(CPU_PORT)
RATE_BPS = 10**17  # serialises in no time
QUEUE_BYTES = 1 << 24
SETTLE_NS = 999  # less than the microsecond that programs count in
MUTANTS_AT_ONCE = 256


class Exchange(ConfigurableSwitch):
    """A context manager; `control` fills its tables. Compiles the program unless the cache has it.

    Raises ValueError for a program of another ABI version.
    """

    def __init__(self, program: Program, *, seed: int = 1, sanitize: bool = False) -> None:
        self._object, self._table = load_program(build_program(program, sanitize=sanitize))
        fabric = Fabric(seed, virtual=True)
        super().__init__(fabric, program, self._table, seed=seed)
        self._numbers: dict[int, int] = {}  # of ports, by the index of the host's port that each leads to
        for number in PORTS:
            host, port = fabric.add_memory_port(), fabric.add_switch_port(self.number, number)
            link = fabric.add_link(port, host, number)
            fabric.set_link(link, rate_bps=RATE_BPS, delay_ns=0, queue_bytes=QUEUE_BYTES)
            self._numbers[host] = number
        self._now_ns = 0
        self.messages: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self.control, self._fabric

    def inject(self, port: int, frame: bytes, now_ns: int = 0) -> list[tuple[int, bytes]]:
        """Carry a frame to its end; port and bytes of each packet that left, in order, those to the CPU last.

        now_ns: when it comes, unless that is past.
        """
        self._carry(port, frame, now_ns)
        packets = [(self._numbers[host], sent) for host, _, sent in self._fabric.taken()]
        self.messages += self._fabric.messages(self.number)
        return packets + [(CPU_PORT, sent) for _, _, sent in self._fabric.punted()]

    def _carry(self, port: int, frame: bytes | memoryview, now_ns: int) -> None:
        self._fabric.advance(max(now_ns, self._now_ns))
        self._fabric.inject(self.number, port, frame)
        self._now_ns = max(now_ns, self._now_ns) + SETTLE_NS
        self._fabric.advance(self._now_ns)

    @property
    def counters(self) -> Mapping[str, int]:
        """As `Fabric.switch_counters` has them."""
        return self._fabric.switch_counters(self.number)

    def fuzz(self, frames: Sequence[tuple[int, bytes]], count: int, seed: int) -> None:
        """Inject that many mutants of the frames."""
        for port, frame in _mutants(frames, count, seed):
            self._carry(port, frame, 0)
            self._fabric.taken()
            self._fabric.punted()

    def bench(self, frames: Sequence[tuple[int, bytes]], count: int) -> int:
        """Have the program alone forward copies of the frames that many times; ns of CPU time."""
        trials, instance = load_trials(build_trials()), self._fabric.switch_instance(self.number)
        taken = int(trials.trials_bench(ctypes.byref(self._table), instance, _frames(frames), len(frames), count))
        if not taken:
            raise MemoryError("no memory for packets")
        return taken


def _mutants(frames: Sequence[tuple[int, bytes]], count: int, seed: int) -> Iterator[tuple[int, memoryview]]:
    trials, array, state = load_trials(build_trials()), _frames(frames), ctypes.c_uint64(seed)
    mutants = (Mutant * MUTANTS_AT_ONCE)()
    for start in range(0, count, MUTANTS_AT_ONCE):
        number = min(MUTANTS_AT_ONCE, count - start)
        trials.trials_mutate(array, len(frames), ctypes.byref(state), mutants, number)
        for mutant in mutants[:number]:
            yield mutant.port, memoryview(mutant.data)[: mutant.length]


def _frames(frames: Sequence[tuple[int, bytes]]) -> "ctypes.Array[Frame]":
    return (Frame * len(frames))(*(Frame(port, len(frame), frame) for port, frame in frames))
