"""The fast path of simulated ranks: in C while nothing odd happens to a rank, then in Python from where it was.

In a network without loss most of a RoCE endpoint's work is the same few steps over and over: a message in sequence, for
a receive that is posted, and a plain acknowledgement for what was sent. For these `testbed.netcore.FastPath` has the
whole turn of a rank, from the packet that came to the one that it sends, in a fraction of the time. It knows nothing
else: at the first packet, timer or call that it does not know, endpoint, NIC and iteration are put into the state that
it has come to, and go on by themselves; for good, so that no state is ever in two places. What is sent, and when, is
the same to the bit (tests/simulation/test_fast.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from testbed.collective.executor import Gap, PostReceive, PostSend, places
from testbed.collective.program import Program
from testbed.collective.schedule import COPY, REDUCE
from testbed.netcore import Fabric, FastPath
from testbed.simulation.nic import Nic
from testbed.simulation.rank import SimulatedRank
from testbed.transport import Settings, Transport
from testbed.transport.endpoint import Event, Received, Sent
from testbed.transport.roce import ROCE, RoceEndpoint
from testbed.transport.roce.address import Address
from testbed.transport.roce.parameters import FRAME_BYTES, Constants
from testbed.transport.roce.requester import Sending
from testbed.transport.roce.responder import Receiving
from testbed.worker.iteration import Iteration, id_stride

if TYPE_CHECKING:
    from testbed.netcore import Run

Numbers = npt.NDArray[Any]
MakeIteration = Callable[[int, Sequence[Numbers], Mapping[int, int]], Iteration]

_POSTED, _TAKEN = 1, 4  # of `FastPath.states`; the others are the executor's too
_TAGS = 1 << 32
_NUMBERS = ("f4", "i4")  # that it can add up


def fits(kind: Transport, settings: Settings, programs: Sequence[Program], dtype: np.dtype[Any] | None) -> bool:
    """Whether a rank with these programs can have the fast path. dtype: of its elements; None: they do not matter."""
    if kind is not ROCE or settings.values["verb"] != "write" or not settings.congestion.quiet:
        return False
    return dtype is None or (
        dtype.str[1:] in _NUMBERS
        and dtype.isnative
        and all(np.isin(each.op, (REDUCE, COPY)).all() and not each.copied.any() for each in programs)
    )


class FastRank:
    """A rank as `testbed.simulation.rank.SimulatedRank`, in whose place it is until `replaced` is called with that.

    rank, nic, endpoint: what goes on once something is odd, `begin` making its iterations. constants, ecn: as the
    endpoint has them. addresses: of its queue pairs, with the peer's IPv4 address. programs, sink: as in
    `testbed.worker.iteration.Iteration`. finished: as in that rank.
    """

    missing_bytes = 0
    gaps: Sequence[Gap] = ()
    skipped = False
    dead = False

    def __init__(
        self,
        core: Fabric,
        rank: SimulatedRank[Event],
        nic: Nic,
        endpoint: RoceEndpoint,
        constants: Constants,
        ecn: int,
        addresses: Sequence[tuple[Address, int]],
        programs: Sequence[Program],
        sink: Numbers | None,
        begin: MakeIteration,
        finished: Callable[[int], None],
        replaced: Callable[[SimulatedRank[Event]], None],
    ) -> None:
        self.called, self.buffer, self.layers = rank.called, rank.buffer, rank.layers
        self.start_ns = self.end_ns = self.begins_ns = 0
        self._rank = rank
        self._nic = nic
        self._endpoint = endpoint
        self._begin = begin
        self._finished = finished
        self._replaced = replaced
        self._programs = programs
        self._tags = sum(program.tags for program in programs)
        self._stride = id_stride(programs)
        self._number: int | None = None  # of the iteration that was prepared last
        self._started = self._running = self._fallen = False
        dtype = rank.buffer.dtype
        self._scratches = [np.empty(part.received_elements, dtype) if sink is None else sink for part in programs]
        layers = zip(programs, self.layers, self._scratches, strict=True)
        data_tos, control_tos = constants.dscp << 2 | ecn, constants.dscp << 2
        self._path = FastPath(
            core,
            nic.socket,
            pairs=[
                (own.peer, ip, own.local_qp, own.remote_qp, own.source_port, own.first_psn, own.peer_first_psn)
                for own, ip in sorted(addresses, key=lambda each: each[0].peer)
            ],
            layers=[_columns(program, buffer, scratch, sunk=sink is not None) for program, buffer, scratch in layers],
            buffer=rank.buffer,
            constants=(
                constants.mtu_bytes,
                constants.window_packets,
                constants.ack_every_packets,
                constants.burst_packets,
                constants.timeout_ns or 0,
                FRAME_BYTES,
                data_tos,
                control_tos,
            ),
            numbers=dtype.str[1:] if sink is None else "",
            element_bytes=dtype.itemsize,
            stride=self._stride,
            ended=self._ended,
            odd=self._odd,
        )

    @property
    def received_bytes(self) -> int:
        return self._path.progress()[2]

    def prepare(self, number: int, step_delays: Mapping[int, int], begins_ns: int, now: int) -> None:
        """Have iteration `number` ready, which begins at `begins_ns` if nobody stands in its way."""
        self.begins_ns, self.end_ns = begins_ns, -1
        if not self._fallen and (step_delays or (number + 1) * self._tags > _TAGS):
            self._fall(now)
        if self._fallen:
            self._rank.prepare(number, step_delays, begins_ns, now)
            return
        self._number, self._started = number, False
        self._path.prepare(number * self._tags)

    def start(self, now: int) -> None:
        """Begin the iteration that is prepared."""
        if self._fallen:
            self._rank.start(now)
            return
        self.start_ns, self._started, self._running = now, True, True
        self._path.start(now)

    def kill(self) -> None:
        """As if its process died."""
        self._fall(0)
        self._rank.kill()

    def idle(self) -> bool:
        """No send is unacknowledged, and nothing waits to be sent."""
        return self._path.idle()

    def wake(self, now: int) -> None:
        """Something was posted by none of its own turns."""
        if self._fallen:
            self._rank.wake(now)
        else:
            self._path.wake(now)

    def counters(self) -> dict[str, int]:
        """Cumulative, as `testbed.worker.nic` has them."""
        self._count()
        return self._nic.counters()

    def waiting_for(self, now: int) -> str:
        """In words; empty if for nothing."""
        self._fall(now)
        return self._rank.waiting_for(now)

    def _count(self) -> None:
        sent, received, sent_bytes, received_bytes, frame_bytes = self._path.counters()
        counters = self._endpoint.counters
        counters.sent_packets, counters.received_packets = sent, received
        counters.sent_bytes, counters.received_bytes = sent_bytes, received_bytes
        self._nic.counted(sent, received, frame_bytes)

    def _ended(self, now: int) -> None:
        received_ns = self._path.progress()[1]
        self._running = False
        self.end_ns = self.start_ns if received_ns is None else received_ns
        self._finished(now)

    def _odd(self, now: int, runs: "list[Run]") -> None:
        self._fall(now)
        self._nic.called(now, runs)

    def _fall(self, now: int) -> None:
        """Have the rank go on that knows all."""
        path, rank = self._path, self._rank
        path.retire()
        self._fallen = True
        self._count()
        self._nic.resume(*path.instants())
        iteration, posted = self._iteration()
        self._endpoint.resume(self._pairs(posted), path.active(), map(self._event, path.happened()))
        states = [path.states(layer) for layer in range(len(self.layers))]
        for post in posted.values():
            layer, index = divmod(post.id, self._stride)
            if isinstance(post, PostReceive) and states[layer][index] == _POSTED:
                self._endpoint.post_receive(post.id, post.peer, post.tag, post.buffer, now)
        rank.resume(iteration, running=self._running)
        rank.start_ns, rank.end_ns, rank.begins_ns = self.start_ns, self.end_ns, self.begins_ns
        self._replaced(rank)

    def _iteration(self) -> tuple[Iteration | None, dict[int, PostSend | PostReceive]]:
        """That which was prepared last, and what of it was posted and is not complete, by its id."""
        if self._number is None:
            return None, {}
        iteration = self._begin(self._number, self.layers, {})
        progress_ns, received_ns, _ = self._path.progress()
        layers = (
            (self._path.states(layer).replace(bytes((_TAKEN,)), bytes((_POSTED,))), self._path.waits(layer), scratch)
            for layer, scratch in enumerate(self._scratches)
        )
        return iteration, iteration.resume(layers, progress_ns, received_ns, started=self._started)

    def _pairs(self, posted: Mapping[int, PostSend | PostReceive]) -> Iterator[tuple[int, Sending, Receiving]]:
        """The queue pairs, with all that was posted to them and is under way."""
        for peer, sent, (expected, completed, since, taken, acknowledge) in self._path.pairs():
            first, unacknowledged, following, asked, timer_ns, under_way, open_ns, left_ns, left_bits, waiting = sent
            messages = [(post.id, post.tag, post.buffer) for post in map(posted.__getitem__, under_way)]
            incoming = None
            if taken is not None:
                post = posted[taken[0]]
                incoming = (post.id, post.tag, post.buffer, taken[1])
            yield (
                peer,
                Sending(
                    first, unacknowledged, following, asked, timer_ns, messages, open_ns, left_ns, left_bits, waiting
                ),
                Receiving(expected, completed, since, incoming, acknowledge),
            )

    def _event(self, id: int) -> Event:
        layer, index = divmod(id, self._stride)
        return Sent(id) if self._programs[layer].send[index] else Received(id)


def _columns(program: Program, buffer: Numbers, scratch: Numbers, *, sunk: bool) -> tuple[object, ...]:
    """A layer as `FastPath` takes it."""
    return (
        program.send,
        program.op == REDUCE,
        program.peer,
        program.tag,
        program.waits,
        program.first,
        program.last,
        program.freed,
        program.frees,
        places(program, sunk),
        buffer,
        scratch,
        program.tags,
    )
