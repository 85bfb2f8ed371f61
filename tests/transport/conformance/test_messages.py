"""Over a network that loses nothing: all arrives, whole, once, and nothing is sent again."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transport.conformance.carriage import MTU, Carriage, Parcel, parcels
from tests.transport.conformance.subjects import Subject, every, reliable
from tests.transport.pump import Fate, impaired

some = settings(deadline=None, max_examples=25)


def perfect() -> Fate:
    return impaired(Random(1))


def carry(subject: Subject, *parcels: Parcel, **keys: int) -> Carriage:
    carriage = Carriage(subject, parcels, perfect(), **keys).run()
    carriage.check()
    return carriage


def check_nothing_repeated(carriage: Carriage) -> None:
    total = carriage.network.totals()
    if carriage.subject.reliable:
        assert total["retransmitted_packets"] == total["timeouts"] == total["duplicates"] == 0


@every
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, MTU - 1, MTU, MTU + 1, 5 * MTU, 5 * MTU + 7, 200 * MTU + 1])
def test_a_message_of_any_size(subject, size):
    carriage = carry(subject, Parcel(0, 1, 7, size))
    assert not carriage.missing_bytes()
    check_nothing_repeated(carriage)


@every
@given(parcels(), st.sampled_from([1, 3, 1000]), st.sampled_from([1, 7, 64]))
@some
def test_any_messages(subject, parcels, budget, burst):
    carriage = carry(subject, *parcels, budget_packets=budget, burst_packets=burst)
    assert not carriage.missing_bytes()
    check_nothing_repeated(carriage)


@reliable
@given(parcels(late=True))
@some
def test_receives_that_are_posted_late(subject, parcels):
    carry(subject, *parcels)


@every
def test_many_messages_in_both_directions_with_many_tags(subject):
    tags = Random(3).sample(range(1 << 16), 120)
    carriage = carry(subject, *(Parcel(i % 2, 1 - i % 2, tag, 37 * i % 700) for i, tag in enumerate(tags)))
    assert not carriage.missing_bytes()


@every
def test_all_ranks_to_all(subject):
    pairs = [(source, target) for source in range(6) for target in range(6) if source != target]
    carriage = carry(subject, *(Parcel(*pair, tag, 900 + tag) for tag, pair in enumerate(pairs)))
    assert not carriage.missing_bytes()
