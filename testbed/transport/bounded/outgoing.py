"""One message at its sender: which chunks are not known to be there, and where it stands."""

from dataclasses import dataclass

from testbed.transport.bounded.bitmap import Bitmap
from testbed.transport.bounded.dialect import Treatment
from testbed.transport.bounded.machine import SENDER, Act, Sending, Told
from testbed.transport.endpoint import Buffer
from testbed.transport.tcp_model.timer import RetransmissionTimeout

NUMBERS = 1 << 16  # of PROBEs, before they repeat


@dataclass(frozen=True, slots=True)
class Patience:
    """timeout_ns: how long an answer to a PROBE is waited for at the most. probes: how many more in a row may stay
    without. fruitless: how many answers in a row that tell nothing new are followed by another PROBE only."""

    timeout_ns: int
    probes: int
    fruitless: int


class Outgoing:
    """The message `id`, which its receiver knows as `tag`."""

    def __init__(self, id: int, tag: int, view: memoryview, chunk_bytes: int, treatment: Treatment, patience: Patience):
        self.id = id
        self.tag = tag
        self.view = view
        self.treatment = treatment
        self.there = Bitmap(view.nbytes, chunk_bytes)
        self.state = Sending.SENDING
        self.number = 0  # of the PROBE that is due or under way; one that is repeated keeps it
        self.probe_due = False
        self.expires_ns: int | None = None  # the PROBE that is under way
        self._patience = patience
        self._cursor = 0
        self._highest = 0  # one past the last chunk that was ever sent
        self._known = 0  # chunks there as of the last whole answer
        self._pieces: set[int] = set()  # of the answer that is coming in, by first chunk
        self._probed_ns = 0
        self._unanswered = self._fruitless = 0

    @property
    def sends(self) -> bool:
        """There is a chunk to send."""
        return self.state is Sending.SENDING

    def next_run(self, most: int) -> tuple[int, int, int]:
        """(first chunk, one past the last, class) of what is sent next: neighbours of one class, at most `most`."""
        first = self.there.next_hole(self._cursor)
        end = self.there.hole_end(first, most)
        classes = self.treatment.classes
        if classes is None:
            return first, end, 0
        kind = classes[first]
        return first, next((at for at in range(first + 1, end) if classes[at] != kind), end), kind

    def left(self, first: int, end: int) -> int:
        """The chunks [first, end) have left; how many of them not for the first time."""
        again = max(0, min(self._highest, end) - first)
        self._highest = max(self._highest, end)
        self._cursor = end
        self._look()
        return again

    def probed(self, now: int, rtts: RetransmissionTimeout) -> None:
        """The PROBE that was due has left; what is known of round trips tells how long its answer may take."""
        most_ns, wait_ns = self._patience.timeout_ns, rtts.now_ns
        self.probe_due, self._probed_ns = False, now
        self.expires_ns = now + max(wait_ns, min(most_ns, wait_ns << self._unanswered))

    def rtt_ns(self, now: int) -> int | None:
        """How long the answer that has come just now took; None: not known, or nothing was asked."""
        return None if self.expires_ns is None or self._unanswered else now - self._probed_ns

    def on_deadline(self, now: int) -> None:
        """Do what the timer is for, if it has run out."""
        if self.expires_ns is None or self.expires_ns > now:
            return
        self._unanswered += 1
        self._hear(Told.GIVEN_UP if self._unanswered > self._patience.probes else Told.UNANSWERED)

    def stopped(self) -> None:
        """STOP has come."""
        self._hear(Told.STOP)

    def holes(self, first: int, number: int | None, packed: Buffer) -> bool:
        """A piece of the BITMAP that answers a PROBE has come; whether it fits."""
        most = 8 * self.there.chunk_bytes
        if first % most or not self.there.merge(first, packed, most):
            return False
        if self.state is not Sending.PROBING or number not in (None, self.number):
            self._look()
            return True
        self._pieces.add(first)
        if len(self._pieces) < -(-self.there.chunks // most):
            return True
        news, self._known = self.there.there > self._known, self.there.there
        self._unanswered = 0
        self._fruitless = 0 if news else self._fruitless + 1
        if news or self._fruitless > self._patience.fruitless:
            self._fruitless = 0
            self._hear(Told.NEWS)
        else:
            self._hear(Told.NO_NEWS)
        return True

    def _look(self) -> None:
        """Is there anything left to send?"""
        if self.state is Sending.SENDING and self.there.next_hole(self._cursor) == self.there.chunks:
            self._hear(Told.ALL_SENT)

    def _hear(self, told: Told) -> None:
        """Drive the table."""
        found = SENDER.get((self.state, told))
        if found is None:
            return
        self.state, act = found
        self.probe_due, self.expires_ns = act is Act.PROBE, None
        if act is Act.PROBE and told is not Told.UNANSWERED:
            self.number = (self.number + 1) % NUMBERS
        self._pieces.clear()
        if act is Act.RESEND:
            self._cursor = 0
            self._look()
