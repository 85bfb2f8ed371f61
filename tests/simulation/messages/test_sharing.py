"""Max-min fairness against worked examples and its own definition."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.simulation.messages.sharing import max_min


def rates(paths: list[list[int]], capacity: list[float]) -> list[float]:
    width = max(map(len, paths))
    padded = [[*path, *[len(capacity)] * (width - len(path))] for path in paths]
    none = np.zeros(len(paths))
    return max_min(np.array(padded), none, np.array(capacity, float)).tolist()


def test_incast_divides_the_receivers_port() -> None:
    assert rates([[0, 4], [1, 4], [2, 4], [3, 4]], [10, 10, 10, 10, 10]) == [2.5] * 4


def test_parking_lot() -> None:
    """One flow over all links of a row and one more on each: every link is halved."""
    assert rates([[0, 1, 2], [0], [1], [2]], [1, 1, 1]) == [0.5] * 4


def test_who_is_held_back_elsewhere_leaves_the_rest() -> None:
    """Three on the first link, of which one crosses the second too: the fourth has there what that one leaves."""
    assert rates([[0], [0], [0, 1], [1]], [3, 3]) == [1, 1, 1, 2]


def test_a_slow_link_leaves_more_to_others() -> None:
    assert rates([[0, 1], [0, 2]], [10, 2, 10]) == [2, 8]


def test_a_link_that_is_down_gives_nothing() -> None:
    assert rates([[0, 1], [0]], [10, 0]) == [0, 10]


def test_what_comes_back_takes_its_part() -> None:
    """Two against each other over a cable of 1.1: each has 1, with a tenth of the other's beside it."""
    back = np.array([0.1, 0.1])
    assert max_min(np.array([[0], [1]]), back, np.array([1.1, 1.1])).tolist() == [1.0, 1.0]
    assert max_min(np.array([[0]]), back[:1], np.array([1.1, 1.1])).tolist() == [1.1]


def test_no_flows() -> None:
    assert len(max_min(np.zeros((0, 2), np.int64), np.zeros(0), np.array([1.0]))) == 0


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_every_flow_has_a_bottleneck(data: st.DataObject) -> None:
    """The definition: each flow crosses a full link on which nobody has more than it (B&G, section 6.5.2)."""
    links = data.draw(st.integers(1, 6))
    capacity = data.draw(st.lists(st.integers(1, 20), min_size=links, max_size=links))
    path = st.lists(st.integers(0, links - 1), min_size=1, max_size=links, unique=True)
    paths = data.draw(st.lists(path, min_size=1, max_size=12))
    found = rates(paths, [float(c) for c in capacity])
    load = [sum(r for r, p in zip(found, paths, strict=True) if k in p) for k in range(links)]
    assert all(total <= c * (1 + 1e-9) for total, c in zip(load, capacity, strict=True))
    for rate, path_ in zip(found, paths, strict=True):
        assert any(
            load[k] >= capacity[k] * (1 - 1e-9)
            and all(other <= rate * (1 + 1e-9) for other, q in zip(found, paths, strict=True) if k in q)
            for k in path_
        )
