"""Loss up to a fifth, duplication, reordering, outages: messages end in the time stated, and never with wrong bytes."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport.endpoint import Burst
from tests.transport.conformance.carriage import MTU, Carriage, Parcel, parcels
from tests.transport.conformance.subjects import every, reliable
from tests.transport.pump import PATH, impaired

pytestmark = pytest.mark.slow
some = settings(deadline=None, max_examples=25)
SEEDS = st.integers(0, 2**32)
BEARABLE = 0.03  # loss at which nobody gives up in practice: eight times in a row, both ways
EVER_NS = 30 * 60 * 10**9  # within which a peer that is gone is given up; TCP takes twenty minutes


def outage(carriage: Carriage, begins_ns: int, ends_ns: int, senders: Sequence[int]) -> Carriage:
    """Nothing that `senders` send comes through for a while."""
    network = carriage.network
    fate = network.fate

    def dark(sender: int, burst: Burst, index: int) -> Sequence[int]:
        return () if sender in senders and begins_ns <= network.now < ends_ns else fate(sender, burst, index)

    network.fate = dark
    return carriage


@every
@given(parcels(), SEEDS, st.sampled_from([0.001, 0.01, BEARABLE]))
@some
def test_loss(subject, parcels, seed, loss):
    Carriage(subject, parcels, impaired(Random(seed), loss=loss), seed=seed).run().check()


@reliable
@given(parcels(late=True), SEEDS)
@some
def test_receives_that_are_posted_late_under_loss(subject, parcels, seed):
    fate = impaired(Random(seed), loss=0.01, duplicate=0.05, reorder=0.3)
    Carriage(subject, parcels, fate, seed=seed).run().check()


@every
@given(parcels(), SEEDS, st.floats(BEARABLE, 0.2))
@some
def test_heavy_loss(subject, parcels, seed, loss):
    Carriage(subject, parcels, impaired(Random(seed), loss=loss), seed=seed).run().check(may_fail=True)


@every
@given(parcels(), SEEDS)
@some
def test_duplication(subject, parcels, seed):
    carriage = Carriage(subject, parcels, impaired(Random(seed), duplicate=0.3), seed=seed).run()
    carriage.check()
    assert not carriage.missing_bytes()


@every
@given(parcels(), SEEDS)
@some
def test_reordering(subject, parcels, seed):
    Carriage(subject, parcels, impaired(Random(seed), reorder=0.3), seed=seed).run().check()


@every
@given(parcels(), SEEDS, st.sampled_from([1, 5, 1000]), st.sampled_from([1, 7, 64]))
@some
def test_all_at_once(subject, parcels, seed, budget, burst):
    fate = impaired(Random(seed), loss=0.02, duplicate=0.05, reorder=0.1)
    carriage = Carriage(subject, parcels, fate, seed=seed, budget_packets=budget, burst_packets=burst)
    carriage.run().check()


@every
@pytest.mark.parametrize("senders", [(0, 1), (0,), (1,)], ids=["both", "data", "answers"])
@pytest.mark.parametrize("rtts", [1, 5])
def test_an_outage(subject, senders, rtts):
    """Of some round trips, from amid the first: nobody fails."""
    messages = [Parcel(0, 1, tag, 40 * MTU + tag) for tag in range(4)]
    carriage = Carriage(subject, messages, impaired(Random(1)))
    outage(carriage, 5_000, 5_000 + rtts * PATH.base_rtt_ns, senders).run().check()


@every
@pytest.mark.parametrize("begins_ns", [0, 15_000])
@pytest.mark.parametrize("senders", [(0, 1), (0,), (1,)], ids=["both", "data", "answers"])
def test_a_peer_that_is_gone(subject, senders, begins_ns):
    """All ends, or goes on being tried where that is what it says of itself; the turns of `Watched` see to progress."""
    messages = [Parcel(0, 1, tag, 40 * MTU + tag) for tag in range(4)]
    within_ns = EVER_NS if subject.gives_up else 10**8
    carriage = Carriage(subject, messages, impaired(Random(1)), within_ns=within_ns)
    outage(carriage, begins_ns, 1 << 62, senders).run()
    if not subject.gives_up:
        assert carriage.ends[0].deadline() is not None
    else:
        carriage.check(may_fail=True)
