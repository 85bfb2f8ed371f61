"""What a congestion control hears where no packet is acknowledged: how far packets came, and whether they were marked.

Every packet of data to a peer has a number. One that asks, the last of a run, has the receiver say which packet came
last and whether those since it last said so were marked; it also says so when that changes, as DCTCP's receivers do
(RFC 8257, section 3.2). A packet that was passed over counts as one that came: what is lost is meant to be lost, or is
repaired, and how much may be sent follows marks and round trips alone. Where nothing is heard for as long as RFC 6298
says (above the smoothed round trip at least one base round trip), nothing is under way any more. Source: our reading of
DLCP's "DCTCP-like" rate control on ECN; neither it nor MLT says how a sender hears.
"""

from collections import deque

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import ECN_CE
from testbed.transport.roce.flights import Flights
from testbed.transport.tcp_model.timer import RetransmissionTimeout
from testbed.wire.bounded import SEQUENCES, Feedback


class Listener:
    """The sender's side. silence: after so long without a word nothing is under way any more."""

    def __init__(self, control: CongestionControl, flights: Flights, silence: RetransmissionTimeout) -> None:
        self.control = control
        self.next = 0  # number of the packet that is sent next; never wraps, on the wire it does
        self.expires_ns: int | None = None
        self._flights = flights
        self._silence = silence
        self._heard = 0  # one past the latest packet that came, as far as is known

    @property
    def asks(self) -> bool:
        """Whether the control wants to hear at all."""
        return self.control.run_packets is not None

    @property
    def room(self) -> int | None:
        """So many packets may leave; None: as many as there are."""
        window = self.control.window_packets
        return None if window is None or not self.asks else window - (self.next - self._heard)

    def left(self, packets: int, now: int, at_ns: int, wire_bytes: int) -> None:
        """A run has left, whose last packet asks."""
        if self.asks:
            self._flights.left(self.next, self.next + packets, at_ns, 8 * wire_bytes, again=False)
            if self.expires_ns is None:
                self.expires_ns = now + self._silence.now_ns
        self.next += packets
        self.control.on_sent(now, wire_bytes)

    def hear(self, feedback: Feedback, now: int) -> bool:
        """Whether that may be."""
        ahead = (feedback.sequence + 1 - self._heard) % SEQUENCES
        if ahead > SEQUENCES // 2:
            return True  # older than what is known
        if not self.asks or self._heard + ahead > self.next:
            return False
        if ahead:
            rtt_ns = self._flights.rtt_ns(self._heard + ahead - 1, now)
            if rtt_ns is not None:
                self._silence.sample(rtt_ns)
            self._silence.progress()
            self._heard += ahead
            self.control.on_ack(now, ahead, rtt_ns, feedback.marked)
            self.expires_ns = now + self._silence.now_ns if self._heard < self.next else None
        return True

    def on_deadline(self, now: int, *, waited_for: bool) -> bool:
        """Whether nothing was heard for too long, and somebody waits for it to be."""
        if self.expires_ns is None or self.expires_ns > now:
            return False
        self.expires_ns = None
        self._heard = self.next
        self._flights.forget()
        if waited_for:
            self._silence.back_off()
            self.control.on_timeout(now)
        return waited_for


class Teller:
    """The receiver's side."""

    def __init__(self) -> None:
        self.due: deque[Feedback] = deque()
        self._latest: int | None = None
        self._untold = False
        self._marked = False

    def take(self, sequence: int, ecn: int, *, asks: bool) -> None:
        """A packet of data has come."""
        marked = ecn == ECN_CE
        if self._untold and marked != self._marked and self._latest is not None:
            self.due.append(Feedback(self._latest, self._marked))
        self._marked, self._untold = marked, True
        if self._latest is None or (sequence - self._latest) % SEQUENCES < SEQUENCES // 2:
            self._latest = sequence
        if asks:
            self.due.append(Feedback(self._latest, marked))
            self._untold = False
