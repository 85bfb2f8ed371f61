"""The reliable queue pair beside one of data: few small messages, each acknowledged, and sent again until it is.

Source: "control messages stay on a reliable queue pair" (a reading note of arXiv 2512.22743). That they are
acknowledged one by one and repeated by a timer is our reading. A peer that acknowledges none in all tries counts as
gone until it is heard again: nothing is sent to it, and nobody waits for it.
"""

from collections import deque
from dataclasses import dataclass, field

from testbed.transport.endpoint import Buffer, Counters
from testbed.transport.optinic.parameters import Constants
from testbed.wire.optinic import control, control_acknowledgement

_NOTHING = memoryview(b"")


@dataclass(slots=True)
class _Message:
    number: int
    payload: bytes
    due_ns: int
    tries: int = 0


@dataclass(slots=True)
class Control:
    """To the queue pair beside `remote_qp`. What comes twice is told twice."""

    constants: Constants
    remote_qp: int
    counters: Counters
    _number: int = 0
    _waiting: dict[int, _Message] = field(default_factory=dict)  # by number: not acknowledged
    _owed: deque[int] = field(default_factory=deque)  # numbers to acknowledge
    _gone: bool = False

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._owed)

    def post(self, payload: bytes, now: int) -> None:
        """Send a message, unless the peer is gone."""
        if not self._gone:
            self._waiting[self._number] = _Message(self._number, payload, now)
            self._number = self._number + 1 & 0xFFFFFF

    def heard(self) -> None:
        """Something of the peer came, here or to the other queue pair."""
        self._gone = False

    def acknowledged(self, number: int) -> None:
        self._waiting.pop(number, None)

    def came(self, number: int) -> None:
        """A message of the peer came."""
        self._owed.append(number)

    def due(self, now: int, budget_packets: int) -> list[tuple[bytes, Buffer]]:
        """(header, payload) of what is to leave now."""
        found: list[tuple[bytes, Buffer]] = []
        while self._owed and len(found) < budget_packets:
            found.append((control_acknowledgement(self.remote_qp, self._owed.popleft()), _NOTHING))
        most_tries = self.constants.control_retries + 1
        for message in self._waiting.values():
            if message.due_ns <= now and message.tries < most_tries and len(found) < budget_packets:
                found.append((control(self.remote_qp, message.number, len(message.payload)), message.payload))
                self.counters.retransmitted_packets += message.tries > 0
                message.tries += 1
                message.due_ns = now + self.constants.control_timeout_ns
        return found

    def deadline(self, now: int) -> int | None:
        if self._owed:
            return now
        return min((message.due_ns for message in self._waiting.values()), default=None)

    def on_deadline(self, now: int) -> None:
        """Give up if all tries of a message were in vain."""
        if any(each.due_ns <= now and each.tries > self.constants.control_retries for each in self._waiting.values()):
            self._waiting.clear()
            self._gone = True
            self.counters.extra["gone_peers"] = self.counters.extra.get("gone_peers", 0) + 1
