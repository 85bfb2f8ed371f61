"""What ranks tell each other comes although packets are lost; a peer that is gone is not waited for."""

from random import Random

import pytest

from testbed.transport.endpoint import Arrival
from testbed.wire.optinic import Timings, control, encode_timings
from testbed.wire.roce import SEND_ONLY
from tests.transport.pump import PATH, Network, impaired

from .ends import MTU, endpoints, operation, receive, send

STEPS = 3


def ring(ends: list, network: Network, number: int) -> None:  # type: ignore[type-arg]
    """A collective in which each rank sends to the next in every step, all of it at once."""
    count, now = len(ends), network.now
    for rank, end in enumerate(ends):
        before, after = (rank - 1) % count, (rank + 1) % count
        tags = [number * STEPS + step for step in range(STEPS)]
        messages = [send(after, tag, step, 4 * MTU) for step, tag in enumerate(tags)]
        messages += [receive(before, tag, step, 4 * MTU) for step, tag in enumerate(tags)]
        end.begin(operation(number, messages), now)
        for tag in tags:
            end.post_receive(tag, before, tag, memoryview(bytearray(4 * MTU)), now)
    for rank, end in enumerate(ends):
        end.start(now)
        for step in range(STEPS):
            tag = number * STEPS + step
            end.post_send(1000 + tag, (rank + 1) % count, tag, bytes(4 * MTU), now)
    network.run()


def told(end: object) -> set[tuple[int, int]]:
    return {(rank, number) for rank, number, _ in end._told}  # type: ignore[attr-defined]


@pytest.mark.parametrize("loss", [0.0, 0.2, 0.5])
def test_all_ranks_come_to_know_all_timings(loss: float) -> None:
    ends = endpoints(4, control_retries=100)
    network = Network(ends, impaired(Random(3), loss=loss, duplicate=0.1))
    for number in range(3):
        ring(ends, network, number)
        for end in ends:
            assert told(end) == {(rank, number) for rank in range(4) if rank != end._rank}
            assert end.idle()
    assert (network.totals()["retransmitted_packets"] > 0) == (loss > 0)
    assert not any(event.__class__.__name__ == "Failed" for events in network.events for event in events)


def test_a_peer_that_is_gone_is_given_up_once_until_it_is_heard_again() -> None:
    ends = endpoints(3, control_retries=2)
    gone = {2}
    network = Network(ends, lambda sender, burst, _index: [] if gone & {sender, burst.peer} else [10_000])
    ring(ends, network, 0)
    assert [end.counters.extra.get("gone_peers") for end in ends] == [1, 1, 2]
    assert all(end.idle() for end in ends)
    repeated = network.totals()["retransmitted_packets"]
    assert repeated == 2 * 4  # to and from each of the others, twice
    ring(ends, network, 1)
    assert network.totals()["retransmitted_packets"] == repeated
    gone.clear()
    ring(ends, network, 2)
    assert (0, 2) in told(ends[2]), "rank 0 gets data from it"
    ring(ends, network, 3)
    assert all(told(end) == {(rank, 3) for rank in range(3) if rank != end._rank} for end in ends)


def test_timings_of_other_collectives_are_not_kept() -> None:
    [end, _] = endpoints()
    end.begin(operation(5, [receive(1, 0, 0, MTU)]), 0)
    queue_pair = end._connection(1).address.local_qp
    for number, (collective, steps) in enumerate(((4, 1), (5, 1), (6, 1), (7, 1), (10**6, 1), (5, 0))):
        payload = encode_timings(Timings(collective, 10, [(0, 1, 1)] * steps))
        header = control(queue_pair, number, len(payload))
        assert header[0] == SEND_ONLY
        end.receive(Arrival(1, 0, len(payload), (header,), payload), 1)
    assert told(end) == {(1, 5), (1, 6)}
    assert sum(burst.packets for burst in end.transmit(2, 100)) == 6  # all are acknowledged


def test_a_network_of_few_packets_a_turn() -> None:
    ends = endpoints(4, PATH)
    network = Network(ends, impaired(Random(4)))
    ring(ends, network, 0)
    for end in ends:
        assert end.counters.sent_packets == end.counters.received_packets == STEPS * 4 + 3 + 3
