"""A rank whose workload is the user's own program: started at the release, its JSON lines reported, its end told.

A line `{"iteration": 0, "start_ns": 1, "end_ns": 2}` on its standard output (instants of CLOCK_MONOTONIC, as Python's
`time.monotonic_ns()` gives them) becomes a row; everything else it prints, rows that end before they start too, goes to
this process's standard error.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from testbed.emulation import scheduling
from testbed.run.channel import Channel, Message
from testbed.worker import process
from testbed.worker.clock import ModelClock
from testbed.worker.loop import Loop
from testbed.worker.probe import Prober

MASTER_PORT = 5000  # one of the job's ports, so that the meeting of the ranks counts as the job's traffic
_ROW_KEYS = ("iteration", "start_ns", "end_ns")
_CHUNK_BYTES = 1 << 16
_GRACE_S = 2.0
_MOST = 1 << 63  # of a number in a row


def command_line(command: str | Sequence[str]) -> list[str]:
    """The argument list of a spec's command: a string is the shell's."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)


def environment(rank: int, ranks: int, master: str, run: str) -> dict[str, str]:
    """What the program finds in its environment; `master` is the address of rank 0's host."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(MASTER_PORT),
        "TESTBED_RUN": run,
    }


class CommandRank:
    """Answers the run as `testbed.worker.rank` does; `done` comes when the program ends, with its `rows`.

    called: what the rank is called in the log.
    """

    def __init__(
        self,
        rank: int,
        called: str,
        channel: Channel,
        prober: Prober,
        argv: Sequence[str],
        variables: Mapping[str, str],
        clock: ModelClock,
        loop: Loop,
    ) -> None:
        self._rank = rank
        self._called = called
        self._channel = channel
        self._prober = prober
        self._argv = argv
        self._variables = variables
        self._clock = clock
        self._loop = loop
        self._number = -1
        self._at_ns: int | None = None  # the release, until it has come
        self._start_ns = 0
        self._program: subprocess.Popen[bytes] | None = None
        self._ended = -1  # readable once the program has ended
        self._outputs: dict[int, Callable[[bytes], None]] = {}
        self._partial: dict[int, bytes] = {}
        self._rows: list[dict[str, int]] = []

    def watched(self) -> list[tuple[int, int]]:
        watched = [(self._channel.fileno(), select.POLLIN)]
        watched += [(descriptor, select.POLLIN) for descriptor in self._outputs]
        if self._program:
            watched.append((self._ended, select.POLLIN))
        return watched

    def serve(self, ready: Mapping[int, int]) -> None:
        if self._channel.fileno() in ready:
            for message in self._channel.poll():
                self._handle(message)
            if self._channel.closed:
                self._end()
        for descriptor in [descriptor for descriptor in self._outputs if descriptor in ready]:
            self._read(descriptor)
        if self._at_ns is not None and self._clock.monotonic() >= self._at_ns:
            self._start()
        if self._program and self._ended in ready:
            self._report()

    def wake_ns(self) -> int | None:
        return self._at_ns

    def _handle(self, message: Message) -> None:
        op = message.get("op")
        if op == "prepare":
            self._number = message["iteration"]
            self._notice("ready")
        elif op == "release":
            self._at_ns = message["at_ns"]
        elif op == "counters":
            self._channel.answer(message, counters={})
        elif op == "progress":
            self._channel.answer(message, waiting=f"{self._argv[-1]!r} to end" if self._program else "")
        elif op == "exit":
            self._end()
        elif not self._prober.answer(self._channel, message):
            self._channel.answer(message, error=f"a rank knows no request {op!r}")

    def _start(self) -> None:
        self._at_ns = None
        parent = os.getpid()

        def settle() -> None:
            scheduling.stand_back()  # it may compute for long and must not starve the run
            process.die_with_parent(parent)

        self._start_ns = self._clock.monotonic()
        try:
            self._program = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self._variables},
                process_group=0,
                preexec_fn=settle,  # noqa: PLW1509 - this process has one thread
            )
        except OSError as error:
            self._notice("failed", reason=f"{self._argv[0]!r} cannot be started ({error.strerror})")
            return
        self._ended = os.pidfd_open(self._program.pid)
        self._listen(self._program.stdout, self._take_line)
        self._listen(self._program.stderr, self._log)

    def _listen(self, pipe: IO[bytes] | None, take: Callable[[bytes], None]) -> None:
        assert pipe
        os.set_blocking(pipe.fileno(), False)
        self._outputs[pipe.fileno()] = take
        self._partial[pipe.fileno()] = b""

    def _read(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(descriptor, _CHUNK_BYTES):
                *lines, self._partial[descriptor] = (self._partial[descriptor] + data).split(b"\n")
                for line in lines:
                    self._outputs[descriptor](line)
            if rest := self._partial.pop(descriptor):
                self._outputs[descriptor](rest)
            del self._outputs[descriptor]

    def _take_line(self, line: bytes) -> None:
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if (
                isinstance(row, dict)
                and all(type(row.get(key)) is int for key in _ROW_KEYS)
                and 0 <= row["iteration"] < _MOST
                and 0 <= row["start_ns"] <= row["end_ns"] < _MOST
            ):
                self._rows.append({key: row[key] for key in _ROW_KEYS})
                return
        self._log(line)

    def _log(self, line: bytes) -> None:
        print(f"[{self._called}] {line.decode(errors='replace')}", file=sys.stderr, flush=True)

    def _report(self) -> None:
        """The program has ended: what it had still to say, and how it ended."""
        assert self._program
        end_ns = self._clock.monotonic()
        for descriptor in list(self._outputs):
            self._read(descriptor)
        status = self._program.wait()
        self._signal(signal.SIGKILL)  # what it has left running in its process group
        self._program = None
        os.close(self._ended)
        if status == 0:
            self._notice("done", start_ns=self._start_ns, end_ns=end_ns, rows=self._rows)
        else:
            how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
            self._notice("failed", reason=f"{' '.join(self._argv)!r} {how}")

    def _end(self) -> None:
        """End the program, gently first, and then this process."""
        self._loop.stop()
        if self._program:
            self._signal(signal.SIGTERM)
            try:
                self._program.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._program.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self._program
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._program.pid, number)

    def _notice(self, event: str, **fields: Any) -> None:
        self._channel.send({"event": event, "rank": self._rank, "iteration": self._number, **fields})
