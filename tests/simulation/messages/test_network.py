"""Times against closed forms: α-β of each schedule, shares of links, and what happens when one ends or changes."""

import numpy as np
import pytest

from testbed import collective
from testbed.plan.framing import Framing
from testbed.plan.messages import least_cost
from testbed.plan.timing import Route
from testbed.simulation.messages.flows import Flows
from testbed.simulation.messages.network import Network
from testbed.topology.graph import LinkParameters
from tests.simulation.messages.rig import PLAIN, alone, frames, on_star, run, star

LINK = LinkParameters(rate_bps=8 * 10**9, delay_ns=500)  # a byte a ns
ROCE = Framing(payload_bytes=1024, header_bytes=78, first_bytes=16, last_bytes=4, ack_bytes=0, ack_every=64)
EXACT = pytest.approx


def message_ns(size: int, framing: Framing = PLAIN, hops: int = 2) -> float:
    """α-β of one message over equal links: all of it once, its longest packet at every further link, the delays."""
    longest = max(framing.first_packet_bytes(size), framing.last_packet_bytes(size))
    return framing.wire_bytes(size) + (hops - 1) * longest + hops * LINK.delay_ns


@pytest.mark.parametrize("ranks", [2, 3, 8, 17])
@pytest.mark.parametrize("framing", [PLAIN, ROCE], ids=["plain", "roce"])
def test_ring(ranks: int, framing: Framing) -> None:
    """2 (n - 1) (α + β m / n), with m a multiple of n (Thakur, Rabenseifner and Gropp, IJHPCA 2005, section 4)."""
    chunk = 3000
    flows = on_star(collective.generate("allreduce", "ring", ranks), chunk * ranks, framing)
    assert run(star(ranks, LINK), flows) == EXACT(2 * (ranks - 1) * message_ns(chunk, framing))


@pytest.mark.parametrize("ranks", [2, 4, 16, 64])
def test_halving_doubling(ranks: int) -> None:
    """2 lg n α + 2 (n - 1) / n m β: messages of m/2, m/4, ... m/n, and back."""
    unit = 2000
    flows = on_star(collective.generate("allreduce", "halving-doubling", ranks), unit * ranks)
    sizes = [unit << bit for bit in range(ranks.bit_length() - 1)]
    network = star(ranks, LINK)
    assert run(network, flows) == EXACT(2 * sum(map(message_ns, sizes)))
    assert network.instants <= 4 * 2 * len(sizes) + 2  # of all ranks together: ends, is there, acknowledged, leaves


def test_recursive_doubling_and_binomial() -> None:
    size, ranks = 5000, 16
    doubling = on_star(collective.generate("allreduce", "recursive-doubling", ranks), size)
    assert run(star(ranks, LINK), doubling) == EXACT(4 * message_ns(size))
    tree = on_star(collective.generate("broadcast", "binomial", ranks), size)
    # The root sends to four in a row; the first, which has the largest subtree, is the deepest: 4 messages in a chain,
    # or the k-th of the root's sends and those below it. A rank's sends are under way together and share its port.
    assert run(star(ranks, LINK), tree) >= 4 * message_ns(size) - 1e-6


def test_incast_shares_the_port() -> None:
    """n to 1: the port carries n messages, and then the last packet crosses it and its delay."""
    ranks, size = 9, 10_000
    schedule = collective.generate("allreduce", "parameter-server", ranks)
    flows = on_star(schedule, size)
    end = run(star(ranks, LINK), flows)
    one_way = 8 * size + 1000 + 1000  # 8 messages through one port, a packet's serialisation, two delays
    assert end == EXACT(2 * one_way)


def test_pairs_send_in_order() -> None:
    """Two messages of one pair go one after the other and do not share, so the first is there after its own time."""
    network = star(2, LINK)
    first, second = 4000, 6000
    made = alone([first, second], 1)
    flows = Flows(made, frames([first, second], PLAIN), np.zeros(2, np.int64), np.array([[0, 3]]), np.zeros(1), {})
    assert run(network, flows) == EXACT(message_ns(first + second))


def test_one_ends_and_the_other_speeds_up() -> None:
    """Two from one port: both at half until the short one has left, then all for the long one."""
    short, long = 3000, 10_000
    made = alone([short, long], 2)
    paths = np.array([[0, 3], [0, 5]])
    flows = Flows(made, frames([short, long], PLAIN), np.arange(2), paths, np.zeros(2), {})
    end = run(star(3, LINK), flows)
    assert end == EXACT(short + long + 1000 + 2 * 500)  # the port is never idle
    assert flows.received_ns.tolist() == [EXACT(end), EXACT(2 * short + 1000 + 2 * 500)]


def test_who_starts_later_gets_half_from_then_on() -> None:
    made = alone([8000, 8000], 2)
    flows = Flows(
        made, frames([8000] * 2, PLAIN), np.arange(2), np.array([[0, 3], [0, 5]]), np.array([0.0, 4000.0]), {}
    )
    run(star(3, LINK), flows)
    # First: 4000 ns alone, then 4000 bytes at half. Second: half of those 8000 ns, then 4000 alone.
    assert sorted(flows.received_ns.tolist()) == [EXACT(12_000 + 2000), EXACT(16_000 + 2000)]


def test_parking_lot() -> None:
    """One message over three links and one on each of them: all at half, then nothing is left at once."""
    size = 6000
    made = alone([size] * 4, 4)
    nothing = 4
    paths = np.array([[0, 1, 2], [0, nothing, nothing], [1, nothing, nothing], [2, nothing, nothing]])
    flows = Flows(made, frames([size] * 4, PLAIN), np.arange(4), paths, np.zeros(4), {})
    network = Network([LINK] * 4)
    network.add(flows)
    flows.turn(0.0, network._links)
    network._share()
    assert flows._rate.tolist() == [0.5] * 4


@pytest.mark.parametrize("rates", [(8, 8, 8), (1, 8, 8), (8, 1, 8), (8, 8, 1), (2, 8, 4)])
def test_a_message_alone_takes_what_the_plan_says(rates: tuple[int, int, int]) -> None:
    """On links of different rates too: the flow-shop bound of `testbed.plan.messages`."""
    links = [LinkParameters(rate_bps=rate * 10**9, delay_ns=100) for rate in rates for _ in range(2)]
    for size in (10, 1024, 5000, 100_000):
        made = alone([size], 1)
        flows = Flows(made, frames([size], ROCE), np.zeros(1, np.int64), np.array([[0, 2, 4]]), np.zeros(1), {})
        route = Route(tuple(rate * 10**9 for rate in rates), tuple(rate * 10**9 for rate in rates), 300)
        assert run(Network(links), flows) == EXACT(least_cost(route, ROCE, size).whole_ns)


def test_acknowledgements_take_their_part() -> None:
    """Two exchange: each link has a message and the other's acknowledgements to carry (of every fourth packet)."""
    framing = Framing(payload_bytes=1000, header_bytes=0, first_bytes=0, last_bytes=0, ack_bytes=100, ack_every=4)
    flows = on_star(collective.generate("allreduce", "recursive-doubling", 2), 8000, framing)
    assert run(star(2, LINK), flows) == EXACT(8000 + 2 * 100 + 1000 + 2 * LINK.delay_ns)


def test_a_link_changes_meanwhile() -> None:
    """Half of it at one rate, half at a quarter; then down for a while."""
    size = 8000
    flows = Flows(alone([size], 1), frames([size], PLAIN), np.zeros(1, np.int64), np.array([[0, 3]]), np.zeros(1), {})
    network = star(2, LINK)
    network.add(flows)
    network.turn(np.inf)  # it leaves
    assert network.next_ns == EXACT(8000)
    network.change(4000.0, {0: LinkParameters(rate_bps=2 * 10**9, delay_ns=500)})
    assert network.next_ns == EXACT(4000 + 16_000)
    network.set_down(8000.0, [0], down=True)
    assert network.next_ns == np.inf
    network.set_down(10_000.0, [0], down=False)
    assert network.next_ns == EXACT(4000 + 16_000 + 2000)


def test_a_rank_that_starts_late_holds_the_ring() -> None:
    """All ranks wait for it one after another: what it holds back is added once."""
    ranks, chunk, late = 4, 3000, 50_000
    start = [0.0] * ranks
    start[2] = late
    flows = on_star(collective.generate("allreduce", "ring", ranks), chunk * ranks, start_ns=start)
    assert run(star(ranks, LINK), flows) == EXACT(late + 2 * (ranks - 1) * message_ns(chunk))


def test_a_step_that_is_held_back() -> None:
    """Rank 1 stalls before it sends in step 3, which it could at the end of step 2, at 15 us.

    At 20 us it may send in step 4: if the stall is not over, that goes first and the other waits until it has left.
    """
    ranks, chunk = 4, 3000
    schedule = collective.generate("allreduce", "ring", ranks)
    plain = run(star(ranks, LINK), on_star(schedule, chunk * ranks))
    for stall, later in ((4000, 4000), (7000, 8000)):
        held = run(star(ranks, LINK), on_star(schedule, chunk * ranks, held_ns={(1, 3): stall}))
        assert held == EXACT(plain + later)


def test_taken_together_is_close() -> None:
    """Random starts: with one in 32 of those under way taken together, the end moves by less than 1 %."""
    ranks, chunk = 64, 20_000
    start = np.random.default_rng(2).uniform(0, 20_000, ranks).tolist()
    schedule = collective.generate("allreduce", "halving-doubling", ranks)
    networks = [star(ranks, LINK, one_in) for one_in in (10**6, 32)]
    exact, rough = (run(network, on_star(schedule, chunk * ranks, start_ns=start)) for network in networks)
    assert rough == pytest.approx(exact, rel=0.01)
    assert networks[1].instants < networks[0].instants / 2
