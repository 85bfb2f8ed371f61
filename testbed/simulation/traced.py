"""The NIC of a simulated rank whose messages are written into a timeline."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from testbed.collective.schedule import Schedule
from testbed.simulation.nic import Nic
from testbed.simulation.timeline import Timeline
from testbed.transport.endpoint import ALL, Buffer, Completion, Event, Received, Sent


class _Send(NamedTuple):
    peer: int
    tag: int
    size: int
    since_ns: int


class Messages:
    """Those of one job that are under way. `numbers` are its ranks' numbers in the plan."""

    def __init__(self, timeline: Timeline, job: str, numbers: Sequence[int], schedule: Schedule) -> None:
        self._timeline = timeline
        self._job = job
        self._numbers = numbers
        self._rows = schedule.transfers
        self._since: dict[tuple[int, int, int], int] = {}  # source, target, tag

    def posted(self, source: int, target: int, tag: int, now: int) -> None:
        """A rank hands a message to its endpoint."""
        self._since[source, target, tag] = now

    def arrived(self, source: int, target: int, tag: int, now: int) -> None:
        """All of it is at its receiver."""
        since_ns = self._since.pop((source, target, tag), None)
        if since_ns is not None:
            identity = self._identity(source, target, tag)
            self._timeline.arrow(identity, self._numbers[source], since_ns, self._numbers[target], now)

    def acknowledged(self, source: int, send: _Send, now: int) -> None:
        """Its sender knows."""
        row = self._rows[send.tag % len(self._rows)]
        step, first, count = int(row["step"]), int(row["chunk"]), int(row["count"])
        chunks = f"chunk {first}" if count == 1 else f"chunks {first}-{first + count - 1}"
        self._timeline.sent(
            self._numbers[source],
            f"step {step}, {chunks}",
            self._identity(source, send.peer, send.tag),
            send.since_ns,
            now,
            step=step,
            to=send.peer,
            bytes=send.size,
        )

    def _identity(self, source: int, target: int, tag: int) -> str:
        return f"{self._job}.{source}.{target}.{tag}"


class TracedNic:
    """A rank's NIC, which also tells `messages` of all that it carries for the rank; see `testbed.simulation.rank`."""

    def __init__(self, nic: Nic, rank: int, messages: Messages) -> None:
        self.transmit, self.sleep, self.wake = nic.transmit, nic.sleep, nic.wake
        self.idle, self.counters, self.switch_off = nic.idle, nic.counters, nic.switch_off
        self.early = nic.early
        self._nic = nic
        self._rank = rank
        self._messages = messages
        self._sends: dict[int, _Send] = {}
        self._receives: dict[int, tuple[int, int]] = {}  # peer, tag
        self._turn = nic.turn
        self._now = 0
        nic.turn = self._told

    @property
    def turn(self) -> Callable[[int], None]:
        return self._turn

    @turn.setter
    def turn(self, turn: Callable[[int], None]) -> None:
        self._turn = turn

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._sends[id] = _Send(peer, tag, memoryview(buffer).nbytes, now)
        self._messages.posted(self._rank, peer, tag, now)
        self._nic.post_send(id, peer, tag, buffer, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        self._receives[id] = peer, tag
        self._nic.post_receive(id, peer, tag, buffer, now, completion)

    def events(self) -> Sequence[Event]:
        events = self._nic.events()
        for event in events:
            if isinstance(event, Sent):
                self._messages.acknowledged(self._rank, self._sends.pop(event.id), self._now)
            elif isinstance(event, Received):
                peer, tag = self._receives.pop(event.id)
                self._messages.arrived(peer, self._rank, tag, self._now)
        return events

    def _told(self, now: int) -> None:
        self._now = now
        self._turn(now)
