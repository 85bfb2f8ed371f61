"""Flows as drawn: as many as the load asks for, to whom it says, and the same whatever else there is."""

from itertools import islice, pairwise, takewhile
from typing import Any

import pytest

from testbed.spec.model import LinkSpec, TopologySpec, TrafficSpec
from testbed.stress.arrivals import FlowSource, flow_sources
from testbed.topology import build
from testbed.topology.graph import Graph
from testbed.topology.links import apply_links


def graph(hosts: int = 4) -> Graph:
    links = [LinkSpec.model_validate({"rate": "1Gbps"})]
    return apply_links(build(TopologySpec.model_validate({"kind": "star", "hosts": hosts})), links)


def sources(**keys: Any) -> tuple[FlowSource, ...]:
    entry = TrafficSpec.model_validate({"kind": "flows", "sizes": "100kB", "load": "20%", **keys})
    return flow_sources((entry,), graph())


def test_the_load_is_that_of_the_hosts_links() -> None:
    """20 % of 1 Gb/s in flows of 100 kB: 250 a second from each host."""
    made = sources()
    assert [source.host for source in made] == ["h0", "h1", "h2", "h3"]
    for source in made:
        flows = list(takewhile(lambda flow: flow.at_ns < 20e9, source.arrivals(1)))
        assert len(flows) == pytest.approx(250 * 20, abs=5 * (250 * 20) ** 0.5)


def test_gaps_are_exponential() -> None:
    flows = list(islice(sources()[0].arrivals(1), 5000))
    gaps = [after.at_ns - before.at_ns for before, after in pairwise(flows)]
    assert sum(gap > 4e6 for gap in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.035)  # 1/e beyond the mean
    assert min(gaps) < 40_000


def test_sizes_and_rates_are_scaled_together() -> None:
    """Flows a hundredth as large come a hundred times as often at the same load; or as often on links a hundredth as
    fast, which is what scaling is for."""
    plain, scaled = sources(sizes="web-search")[0], sources(sizes="web-search", scale=0.01)[0]
    assert plain.gap_ns == pytest.approx(8 * 1_711_250 / (0.2 * 1e9) * 1e9)
    assert scaled.gap_ns == pytest.approx(plain.gap_ns / 100)
    before, after = next(plain.arrivals(1)), next(scaled.arrivals(1))
    assert after.size_bytes == pytest.approx(before.size_bytes / 100, abs=1)


def test_a_load_of_named_links_is_shared_by_the_sources() -> None:
    """Two sources for 20 % of one link of 1 Gb/s: 10 % each."""
    made = sources(**{"from": ["h0", "h1"], "to": "h3", "of": "s0>h3"})
    assert [source.gap_ns for source in made] == pytest.approx([8e6, 8e6])


def test_targets_are_even_and_never_oneself() -> None:
    counts = {"h0": 0, "h2": 0, "h3": 0}
    for flow in islice(sources()[1].arrivals(3), 3000):
        counts[flow.target] += 1
    assert all(count == pytest.approx(1000, abs=130) for count in counts.values())


def test_draws_do_not_depend_on_other_hosts_or_the_transport() -> None:
    alone, together = sources(**{"from": "h2"})[0], sources()[2]
    assert list(islice(alone.arrivals(1), 50)) == list(islice(together.arrivals(1), 50))
    assert list(islice(alone.arrivals(1), 50)) != list(islice(alone.arrivals(2), 50))


def test_flows_begin_and_stop_when_the_spec_says() -> None:
    flows = list(sources(start="5ms", stop="50ms")[0].arrivals(1))
    assert flows
    assert all(5_000_000 <= flow.at_ns < 50_000_000 for flow in flows)
