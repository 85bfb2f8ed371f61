"""What ranks and queues did, as a file that Perfetto and Chrome's tracing open (`testbed run --trace-events`).

A process of the trace is a rank: its iterations, and its messages from the moment they are handed to the endpoint until
the sender knows that they are there; an arrow leads to the receiver, at the moment that the message is complete. One
more process has the bytes that wait before each link, where they change. Times are those of the simulation, from its
beginning; an instant marks zero of model time.

Source of the format: Trace Event Format (Google), the kinds X, b, e, s, f, C, i and M; its times are microseconds.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.plan.model import Plan
from testbed.results.rundir import writing

FILE = "trace.json"
_ITERATIONS = 1  # a rank's only lane; messages, which overlap, have tracks of their own
_WRITTEN_AT_ONCE = 4096


class Timeline:
    """Writes one trace, event by event, into `path`, which must not exist. Raises RunFailed where it cannot be."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self._path = path
        with writing(path):
            self._file = path.open("x", encoding="utf-8")
            self._file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        self._waiting: list[str] = []
        self._first = True
        self._queues = len(plan.placement)  # the process of the links
        self._links = [link.name for link in plan.graph.links]
        self._depths = [0] * len(self._links)
        self._add(ph="M", name="process_name", pid=self._queues, args={"name": "bytes waiting before links"})
        for number, host in enumerate(plan.placement):
            self._add(ph="M", name="process_name", pid=number, args={"name": f"{plan.called(number)} on {host}"})
            self._add(ph="M", name="thread_name", pid=number, tid=_ITERATIONS, args={"name": "iterations"})

    def zero(self, now: int) -> None:
        """Model time begins."""
        self._add(ph="i", name="zero of model time", pid=self._queues, tid=0, s="g", ts=now / 1e3)

    def iteration(self, number: int, name: str, start_ns: int, end_ns: int) -> None:
        """An iteration of the rank with this number is over."""
        duration = (end_ns - start_ns) / 1e3
        self._add(ph="X", name=name, cat="iteration", pid=number, tid=_ITERATIONS, ts=start_ns / 1e3, dur=duration)

    def sent(self, number: int, name: str, identity: str, start_ns: int, end_ns: int, **args: Any) -> None:
        """A message is at its receiver, as the rank that sent it knows."""
        common = {"name": name, "cat": "message", "pid": number, "id": identity}
        self._add(ph="b", **common, ts=start_ns / 1e3, args=args)
        self._add(ph="e", **common, ts=end_ns / 1e3)

    def arrow(self, identity: str, source: int, start_ns: int, target: int, end_ns: int) -> None:
        """From the rank that sent a message to the one that has it."""
        common = {"name": "message", "cat": "message", "id": identity, "tid": _ITERATIONS}
        self._add(ph="s", **common, pid=source, ts=start_ns / 1e3)
        self._add(ph="f", bp="e", **common, pid=target, ts=end_ns / 1e3)

    def queues(self, now: int, depths: Sequence[int]) -> None:
        """How many bytes wait before each link, by its index; what did not change is not written."""
        for index, (before, depth) in enumerate(zip(self._depths, depths, strict=True)):
            if before != depth:
                name = self._links[index]
                self._add(ph="C", name=name, pid=self._queues, ts=now / 1e3, args={"bytes": depth})
        self._depths[:] = depths

    def close(self) -> None:
        """Complete the file; it is closed in any case."""
        with writing(self._path), self._file:
            self._flush()
            self._file.write("\n]}\n")

    def _add(self, **event: Any) -> None:
        self._waiting.append(json.dumps(event))
        if len(self._waiting) >= _WRITTEN_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            with writing(self._path):
                self._file.write(("" if self._first else ",\n") + ",\n".join(self._waiting))
            self._waiting.clear()
            self._first = False
