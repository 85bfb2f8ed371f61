"""The seam between a transport and whoever drives it: the emulation's worker or the simulator.

An endpoint is *sans-IO*: it opens no socket and reads no clock. It belongs to one rank and holds its queue pairs to all
peers. Time comes in as `now` (integer nanoseconds of *model* time: the driver divides by the dilation); packets come in
as `Arrival`, go out as `Burst`, and the next instant at which something is due is asked for with `deadline()`.

Both directions are in *runs*: a run is one or more packets of the same peer whose payloads, laid end to end, are one
contiguous piece of a message, each `segment_bytes` long but the last, which may be shorter. UDP segmentation offload
sends such a run with one system call, receive offload brings one back, and the simulator passes a run of one by
reference. What the driver owns: IP, UDP, ICRC, and departing at `not_before_ns` and at no more than the NIC's rate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Buffer = memoryview | bytes | bytearray
Fill = Literal["zero", "keep"]

ECN_NOT_ECT = 0
ECN_ECT0 = 2
ECN_CE = 3


def as_bytes(buffer: Buffer) -> memoryview:
    """`buffer`, of whatever type its elements are, as bytes."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    if view.nbytes and view.format == "B" and view.ndim == 1 and view.c_contiguous:
        return view
    return view.cast("B") if view.nbytes else memoryview(bytearray())


class Burst(NamedTuple):
    """A run to send. `headers[i]` (BTH and its extensions, without ICRC) goes before the i-th segment of `payload`."""

    peer: int
    source_port: int
    dscp: int
    ecn: int
    not_before_ns: int
    segment_bytes: int
    headers: tuple[bytes, ...]
    payload: Buffer

    @property
    def packets(self) -> int:
        return len(self.headers)


class Arrival(NamedTuple):
    """A run received. `ecn` is the two-bit field that every packet of the run carried. The ICRCs were right."""

    peer: int
    ecn: int
    segment_bytes: int
    headers: tuple[bytes, ...]
    payload: Buffer


@dataclass(frozen=True, slots=True)
class Completion:
    """When a receive counts as complete. The default is all of it; partial results set the rest.

    fraction: the least share of the bytes (1 - theta); deadline_ns: end at this instant with what is there.
    """

    fraction: float = 1.0
    deadline_ns: int | None = None


ALL = Completion()


@dataclass(frozen=True, slots=True)
class Sent:
    """The send `id` is done: its buffer may be written again.

    It may come before the peer has the bytes, as soon as the last burst of it was given out, only of a transport that
    says so (`testbed.transport.Transport.early`).
    """

    id: int


@dataclass(frozen=True, slots=True)
class Received:
    """The receive `id` is done. `missing` are the byte ranges [first, last) that never came (reliable: none)."""

    id: int
    missing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The operation `id` (or with id < 0 the whole queue pair to `peer`) cannot be completed.

    Of a lossy transport a failed operation is one of which nothing came; with id < 0 it halts the run, for `reason`.
    """

    id: int
    peer: int
    reason: str


Event = Sent | Received | Failed


@dataclass(slots=True)
class Counters:
    """What an endpoint counted since it was made; wire packets, both data and control."""

    sent_packets: int = 0
    received_packets: int = 0
    sent_bytes: int = 0  # payload bytes handed to the wire, retransmissions included
    received_bytes: int = 0  # payload bytes accepted into messages
    retransmitted_packets: int = 0
    timeouts: int = 0
    naks: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    malformed: int = 0
    ecn_marked: int = 0
    cnps: int = 0
    extra: dict[str, int] = field(default_factory=dict)

    def refuse(self, problem: str, packets: int) -> None:
        """Count packets that came and are bad, under the name of what is."""
        if packets:
            self.malformed += packets
            self.extra[problem] = self.extra.get(problem, 0) + packets


@runtime_checkable
class Endpoint(Protocol):
    """One rank's end of a transport. Every method returns at once; none blocks, sleeps or raises on bad packets."""

    counters: Counters

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        """Send `buffer` (any length, also 0) to `peer` as the message `tag`; ends in `Sent(id)` or `Failed(id)`."""

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        """Receive the message `tag` of `peer` into `buffer`; ends in `Received(id)` or `Failed(id)`."""

    def receive(self, arrival: Arrival, now: int) -> None:
        """Take a run in."""

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        """What may leave now (or at each burst's `not_before_ns`), at most `budget_packets` packets."""

    def deadline(self) -> int | None:
        """The earliest instant at which `on_deadline` or `transmit` has something to do; None: nothing pending."""

    def on_deadline(self, now: int) -> None:
        """The clock has reached `deadline()`."""

    def events(self) -> Sequence[Event]:
        """What was completed since the last call, in order."""

    def idle(self) -> bool:
        """No send is unacknowledged and nothing waits to be sent."""


class Message(NamedTuple):
    """A message of a collective that a rank sends or receives; id, peer and tag are those that it is posted with.

    reduce: what comes is added, else copied. first_byte: where it lies in the rank's gradient, which is all layers laid
    end to end in the order in which they are sent.
    """

    id: int
    send: bool
    reduce: bool
    peer: int
    tag: int
    step: int
    first_byte: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Operation:
    """A collective about to begin. number: iterations are counted through, `warmup` ones included.

    messages: all that the rank will post, by layer and step. itemsize: bytes of an element; dtype: numpy's name of it.
    layers: the first byte of each in the gradient.
    """

    number: int
    warmup: bool
    messages: Sequence[Message]
    itemsize: int
    dtype: str
    layers: tuple[int, ...]


@runtime_checkable
class Informed(Protocol):
    """What an `Endpoint` may have besides, if it wants to know of collectives as a whole."""

    def begin(self, operation: Operation, now: int) -> None:
        """A collective comes next: its receives are posted right after this. All that was posted before is complete."""

    def start(self, now: int) -> None:
        """The rank is released, and has computed: its first sends, if it has any, are posted right after this."""


@runtime_checkable
class Guarded(Protocol):
    """What an `Informed` endpoint may have besides, whose results may be too bad to be used."""

    def skips(self) -> bool:
        """Whether the rank is not to learn from the collective that is over; asked once, before the next `begin`."""


@runtime_checkable
class Learning(Protocol):
    """What an `Informed` endpoint may have besides, if it wants to know how the training does."""

    def learned(self, metrics: Mapping[str, float]) -> None:
        """How well the rank's model does by now, as `testbed.training.source` has it; told before each `begin`."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What an endpoint may know of another rank."""

    rank: int
    queue_pair: int


@dataclass(frozen=True, slots=True)
class Path:
    """What an endpoint may know of the network, in model units: for windows, pacing and scaled constants."""

    rate_bps: int  # of this rank's NIC
    base_rtt_ns: int  # the longest uncongested round trip among the ranks, a full frame's serialisation included
    mtu_bytes: int  # of the links (IP packet)
    max_burst_packets: int  # a run must not be longer than this
    queueing_ns: int = 0  # how long the fullest queue on the longest path takes to drain
