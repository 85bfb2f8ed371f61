"""Whatever the network does, messages arrive bit-exact, once, and the counters say what happened."""

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport.endpoint import Path, Received, Sent
from testbed.transport.roce import endpoint as endpoint_module
from testbed.transport.roce.address import address

from .pump import Network, endpoints, impaired

pytestmark = pytest.mark.slow
unhurried = settings(deadline=None, max_examples=50)  # the machine may be busy with something else

MTU = 256
SIZES = st.one_of(
    st.sampled_from([0, 1, 2, 3, 4, MTU - 1, MTU, MTU + 1, 2 * MTU, 7 * MTU - 3, 64 * MTU, 64 * MTU + 1, 200 * MTU]),
    st.integers(0, 20 * MTU),
)


@dataclass(frozen=True)
class Traffic:
    """What one example does."""

    messages: tuple[tuple[int, int, int], ...]  # (source, target, bytes)
    seed: int
    verb: str
    window: int
    ack_every: int
    burst: int
    budget: int
    late: bool  # receives are posted after the sends

    @property
    def ranks(self) -> int:
        return 1 + max((max(source, target) for source, target, _ in self.messages), default=1)


@st.composite
def traffic(draw: st.DrawFn) -> Traffic:
    ranks = draw(st.integers(2, 4))
    pairs = [(source, target) for source in range(ranks) for target in range(ranks) if source != target]
    messages = draw(st.lists(st.tuples(st.sampled_from(pairs), SIZES), min_size=1, max_size=8))
    return Traffic(
        messages=tuple((*pair, size) for pair, size in messages),
        seed=draw(st.integers(0, 2**32)),
        verb=draw(st.sampled_from(["write", "send"])),
        window=draw(st.sampled_from([1, 2, 5, 16, 128])),
        ack_every=draw(st.sampled_from([1, 3, 16, 64])),
        burst=draw(st.sampled_from([1, 2, 7, 64])),
        budget=draw(st.sampled_from([1, 5, 1000])),
        late=draw(st.booleans()),
    )


def carry(case: Traffic, **impairment: float) -> Network:
    """Send all messages through; every one must arrive whole, in its own buffer, once."""
    random = Random(case.seed)
    path = Path(rate_bps=10**10, base_rtt_ns=20_000, mtu_bytes=1500, max_burst_packets=case.burst)
    ends = endpoints(
        max(2, case.ranks), path, kind="roce", verb=case.verb, mtu=MTU, window=case.window, ack_every=case.ack_every,
        timeout=6, rnr_timer=4,
    )  # fmt: skip
    network = Network(ends, impaired(random, **impairment))
    sent, received, buffers = [set() for _ in ends], [set() for _ in ends], []
    for number, (source, target, size) in enumerate(case.messages):
        data, buffer = random.randbytes(size), bytearray(size)
        buffers.append((data, buffer))

        def post(now: int, id: int = number, source: int = source, target: int = target) -> None:
            ends[target].post_receive(id, source, id % 3, memoryview(buffers[id][1]), now)

        ends[source].post_send(number, target, number % 3, data, 0)
        if case.late:
            network.at(30_000 * (number + 1), post)
        else:
            post(0)
        sent[source].add(Sent(number))
        received[target].add(Received(number))
    network.run(case.budget)
    assert all(data == buffer for data, buffer in buffers)
    for rank, events in enumerate(network.events):
        assert len(events) == len(set(events))
        assert set(events) == sent[rank] | received[rank]
    assert all(end.idle() for end in ends)
    total = network.totals()
    assert total["sent_packets"] - network.lost + network.doubled == total["received_packets"]
    assert total["received_bytes"] == sum(size for *_, size in case.messages)
    assert total["malformed"] == 0
    return network


def data_packets(case: Traffic) -> int:
    return sum(max(1, -(-size // MTU)) for *_, size in case.messages)


@unhurried
@given(traffic())
def test_a_perfect_network(case):
    total = carry(case).totals()
    if case.late:
        return
    assert total["retransmitted_packets"] == total["timeouts"] == total["naks"] == total["duplicates"] == 0
    assert total["sent_bytes"] == total["received_bytes"]
    acknowledgements = total["sent_packets"] - data_packets(case)
    assert 0 < acknowledgements <= data_packets(case)


@unhurried
@given(traffic(), st.sampled_from([0.001, 0.02, 0.1]))
def test_loss(case, loss):
    network = carry(case, loss=loss)
    total = network.totals()
    if not network.lost and not case.late:
        assert total["retransmitted_packets"] == 0


@unhurried
@given(traffic())
def test_duplication(case):
    total = carry(case, duplicate=0.2).totals()
    assert total["timeouts"] == 0


@unhurried
@given(traffic())
def test_reordering(case):
    carry(case, reorder=0.1)


@unhurried
@given(traffic())
def test_everything_at_once(case):
    carry(case, loss=0.03, duplicate=0.03, reorder=0.05)


@pytest.mark.parametrize("verb", ["write", "send"])
@pytest.mark.parametrize("before", [0, 1, 5, 40])
def test_the_psn_wraps(monkeypatch, verb, before):
    def near_the_end(*args):
        found = address(*args)
        return type(found)(
            found.peer, found.local_qp, found.remote_qp, found.source_port, 2**24 - before, 2**24 - before
        )

    monkeypatch.setattr(endpoint_module, "address", near_the_end)
    case = Traffic(((0, 1, 60 * MTU), (1, 0, 3 * MTU), (0, 1, 17)), 3, verb, 16, 4, 64, 1000, late=False)
    for impairment in ({}, {"loss": 0.05, "reorder": 0.05}):
        carry(case, **impairment)


def test_many_messages_between_many_ranks():
    random = Random(5)
    messages = tuple((*random.sample(range(8), 2), random.randrange(5_000)) for _ in range(300))
    carry(Traffic(messages, 5, "write", 64, 16, 64, 100, late=False), loss=0.01)
