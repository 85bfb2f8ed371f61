"""An iteration over a carrier of two ranks in one process: layers together, and steps that are held back."""

import numpy as np
import numpy.typing as npt

from testbed.collective import generate
from testbed.collective.program import program
from testbed.transport.endpoint import ALL, Completion, Event, Failed, Received, Sent
from testbed.worker.iteration import Iteration


class Wire:
    """Delivers at once what both sides have posted; `deaf`: nothing comes from that rank."""

    def __init__(self) -> None:
        self.sends: dict[tuple[int, int, int], tuple[int, bytes]] = {}
        self.receives: dict[tuple[int, int, int], tuple[int, memoryview]] = {}

    def match(self) -> dict[int, list[Event]]:
        events: dict[int, list[Event]] = {0: [], 1: []}
        for key in sorted(self.sends.keys() & self.receives.keys()):
            source, target, _ = key
            (send, data), (receive, buffer) = self.sends.pop(key), self.receives.pop(key)
            buffer[:] = data
            events[source].append(Sent(send))
            events[target].append(Received(receive))
        return events


class End:
    """One rank's end of the wire; counts when sends were posted."""

    def __init__(self, wire: Wire, rank: int) -> None:
        self.wire, self.rank = wire, rank
        self.posted_ns: list[int] = []

    def post_send(self, id: int, peer: int, tag: int, buffer: object, now: int) -> None:
        assert isinstance(buffer, memoryview)
        self.posted_ns.append(now)
        self.wire.sends[self.rank, peer, tag] = id, bytes(buffer)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        assert (now, completion) == (0, ALL)
        self.wire.receives[peer, self.rank, tag] = id, buffer


def make(delays: dict[int, int]) -> tuple[Wire, list[End], list[Iteration], list[list[npt.NDArray[np.int32]]]]:
    """A ring allreduce of two layers; `delays` are rank 0's."""
    schedule = generate("allreduce", "ring", 2)
    wire = Wire()
    ends = [End(wire, rank) for rank in range(2)]
    layers = [[np.arange(size, dtype=np.int32) * (rank + 1) for size in (10, 7)] for rank in range(2)]
    iterations = [
        Iteration([program(schedule, rank, size) for size in (10, 7)], layers[rank], ends[rank], 100, given)
        for rank, given in ((0, delays), (1, {}))
    ]
    for iteration in iterations:
        iteration.prepare(0)
    return wire, ends, iterations, layers


def pump(wire: Wire, iterations: list[Iteration], now: int) -> None:
    while any((events := wire.match()).values()):
        for rank, iteration in enumerate(iterations):
            iteration.on_events(events[rank], now)


def test_all_layers_are_under_way_at_once_and_end_exact() -> None:
    wire, ends, iterations, layers = make({})
    assert not wire.sends
    for iteration in iterations:
        iteration.start(5)
    assert ends[0].posted_ns == [5, 5]
    pump(wire, iterations, 9)
    assert all(iteration.done for iteration in iterations)
    assert iterations[0].received_ns == 9
    for mine in layers:
        np.testing.assert_array_equal(mine[0], np.arange(10) * 3)
        np.testing.assert_array_equal(mine[1], np.arange(7) * 3)
    # each rank receives each half of the buffer once to add and once as the sum: 17 elements of 4 bytes in all
    assert [iteration.received_bytes for iteration in iterations] == [4 * 17, 4 * 17]


def test_a_stall_holds_back_this_ranks_sends_of_the_step_only() -> None:
    wire, ends, iterations, _ = make({1: 1000})
    for iteration in iterations:
        iteration.start(5)
    pump(wire, iterations, 20)
    assert ends[0].posted_ns == [5, 5]
    assert ends[1].posted_ns == [5, 5, 20, 20]
    assert iterations[0].wake_ns() == 1020
    assert "stall" in iterations[0].waiting_for(20)
    assert iterations[1].waiting_for(40) == "the message from rank 0 in step 1, nothing for 0.000 ms (model time)"
    iterations[0].go_on(1019)
    assert ends[0].posted_ns == [5, 5]
    iterations[0].go_on(1020)
    assert ends[0].posted_ns == [5, 5, 1020, 1020]
    pump(wire, iterations, 1030)
    assert all(iteration.done for iteration in iterations)
    assert iterations[0].wake_ns() is None
    assert iterations[0].waiting_for(1030) == ""


def test_a_failure_is_kept() -> None:
    _, _, iterations, _ = make({})
    iterations[0].on_events([Failed(-1, 1, "gone")], 0)
    assert iterations[0].failure == "the transfer with rank 1 failed: gone"
