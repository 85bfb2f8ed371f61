"""What a selector means, and how later `links` entries win key by key."""

import pytest

from testbed.spec.model import LinkSpec, TopologySpec
from testbed.topology import build
from testbed.topology.graph import Ecn, Loss
from testbed.topology.links import apply_links
from testbed.topology.select import SelectError, select, select_cables

GRAPH = build(TopologySpec.model_validate({"kind": "fat-tree", "k": 4}))


def _entry(**keys: object) -> LinkSpec:
    return LinkSpec.model_validate(keys)


def selected(selector: str | tuple[str, ...]) -> set[str]:
    return {GRAPH.links[i].name for i in select(GRAPH, selector)}


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("all", 96),
        ("*", 96),
        ("host", 32),
        ("core", 64),
        ("e0_0", 8),
        ("a*-c*", 32),
        ("c?>a0_*", 4),
        ("e[0-1]_0-a*", 8),
        (("h0", "h1"), 4),
        (("host", "core"), 96),
    ],
)
def test_a_selector_means_so_many_directed_links(selector: str | tuple[str, ...], count: int) -> None:
    assert len(select(GRAPH, selector)) == count


def test_a_dash_means_both_directions_and_an_arrow_one() -> None:
    assert selected("e0_0-a0_1") == {"e0_0>a0_1", "a0_1>e0_0"}
    assert selected("a0_1 > e0_0") == {"a0_1>e0_0"}
    assert select_cables(GRAPH, "a0_1>e0_0") == select_cables(GRAPH, "e0_0-a0_1")


@pytest.mark.parametrize(
    ("selector", "says"), [("e9_0", "e3_0"), ("nobody", "edge"), ("e0_0-c0", "a0_0"), ("h0>h1", "e0_0"), ("", "edge")]
)
def test_what_selects_nothing_is_an_error_with_a_way_out(selector: str, says: str) -> None:
    with pytest.raises(SelectError) as caught:
        select(GRAPH, selector)
    assert says in caught.value.hint


def test_later_entries_win_key_by_key() -> None:
    entries = [
        _entry(rate="100Mbps", delay="5us", ecn={"min": "64KiB", "max": "192KiB", "probability": "10%"}),
        _entry(select="core", rate="400Mbps", loss={"kind": "gilbert-elliott", "mean": "0.5%", "burst": 8}),
        _entry(select="c0", loss={"mean": 0}),
        _entry(select="h0>e0_0", delay="7us"),
    ]
    links = {link.name: link.parameters for link in apply_links(GRAPH, entries).links}
    ecn = Ecn(65536, 196608, 0.1)
    assert (links["h1>e0_0"].rate_bps, links["h1>e0_0"].delay_ns, links["h1>e0_0"].ecn) == (10**8, 5000, ecn)
    assert (links["h0>e0_0"].delay_ns, links["e0_0>h0"].delay_ns) == (7000, 5000)
    assert (links["a0_0>c1"].rate_bps, links["a0_0>c1"].loss) == (4 * 10**8, Loss(0.005, 8))
    assert (links["a0_0>c0"].rate_bps, links["a0_0>c0"].loss, links["c0>a0_0"].loss) == (4 * 10**8, None, None)
