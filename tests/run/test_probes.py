"""Probes of the idle network: whom they go between, what they are compared with, and how long trains may be."""

from typing import Any

import pytest

from testbed.plan import plan
from testbed.plan.model import Plan
from testbed.plan.paths import Paths
from testbed.results.samples import RateProbe, RttProbe
from testbed.run.channel import Message
from testbed.run.probes import Probes, one_way_ns, pairs, probe
from testbed.spec.model import Spec
from testbed.topology.graph import Link, LinkParameters

PAYLOAD_BYTES = 1472  # of a packet that fills an MTU of 1500


def planned(links: list[dict[str, Any]], topology: dict[str, Any], workers: int, **more: Any) -> Plan:
    return plan(
        Spec.model_validate(
            {
                "name": "probed",
                "topology": topology,
                "links": links,
                "workers": {"count": workers, "placement": "spread"},
                "workload": {"size": "64KiB"},
                "time_dilation": 1,
                **more,
            }
        )
    )


def crossed(made: Plan) -> tuple[list[tuple[int, int]], set[LinkParameters]]:
    """The pairs that are probed, and the kinds of link between them."""
    paths = Paths(made.graph, made.addresses, made.switches)
    chosen = list(pairs(made, made.jobs[0], paths))
    hosts = made.placement
    between = [paths.stages(hosts[a], hosts[b]) for a, b in chosen]
    return chosen, {made.graph.links[i].parameters for stages in between for stage in stages for i in stage}


def a_way(*rates_and_delays: tuple[int, int]) -> list[Link]:
    return [Link(n, "a", 0, "b", 0, LinkParameters(rate, delay)) for n, (rate, delay) in enumerate(rates_and_delays)]


def test_one_way_is_each_link_s_time_to_send_and_its_delay() -> None:
    # 1472 + 42 of headers + 24 of FCS, preamble and gap = 1538 B = 12,304 bits: 12.304 us at 1 Gb/s.
    assert one_way_ns(a_way((10**9, 20_000)), PAYLOAD_BYTES) == 12_304 + 20_000
    assert one_way_ns(a_way((10**9, 20_000), (10**8, 5000)), PAYLOAD_BYTES) == 12_304 + 20_000 + 123_040 + 5000
    # An acknowledgement: 20 + 42 + 24 = 86 B = 688 bits; 688/3 ns are begun ones.
    assert one_way_ns(a_way((3 * 10**9, 0)), 20) == 230


def test_one_kind_of_link_needs_one_pair_on_the_longest_way() -> None:
    made = planned([{"rate": "1Gbps", "delay": "10us"}], {"kind": "fat-tree", "k": 4}, 8)
    ((source, target),), kinds = crossed(made)
    paths = Paths(made.graph, made.addresses, made.switches)
    assert len(paths.stages(made.placement[source], made.placement[target])) == 6
    assert kinds == {link.parameters for link in made.graph.links}


def test_every_kind_of_link_is_crossed() -> None:
    links = [
        {"rate": "1Gbps", "delay": "10us"},
        {"select": "core", "rate": "500Mbps"},
        {"select": "h1", "rate": "200Mbps"},
        {"select": "h2>*", "delay": "90us"},
        {"select": "*>h3", "queue": "64KiB"},
    ]
    made = planned(links, {"kind": "leaf-spine", "spines": 1, "leaves": 4, "hosts": 1}, 4)
    chosen, kinds = crossed(made)
    assert kinds == {link.parameters for link in made.graph.links}
    assert len(chosen) <= 4


def test_probes_are_few_however_many_kinds_there_are() -> None:
    links = [{"rate": "1Gbps"}, *({"select": f"h{n}", "delay": f"{n + 1}us"} for n in range(12))]
    chosen, _ = crossed(planned(links, {"kind": "star", "hosts": 12}, 12))
    assert len(chosen) == len(set(chosen)) == 4


def test_a_single_rank_has_nobody_to_probe() -> None:
    assert crossed(planned([], {"kind": "star", "hosts": 2}, 1)) == ([], set())


class FakeRank:
    """Answers as a rank does whose network is a little slower than modelled."""

    def __init__(self, *, lost: int = 0) -> None:
        self.asked: list[Message] = []
        self._lost = lost

    def answer(self, message: Message, timeout_s: float) -> Message:
        assert timeout_s > message["patience_ns"] / 1e9 > 1, "a lost answer must not cost the run"
        self.asked.append(message)
        if message["op"] == "rtt":
            times = [] if self._lost == message["count"] else [30_000, 10_000, 20_001]
            return {"round_trips_ns": times, "lost": self._lost}
        return {"measured_bps": 970_000_000 if message["packets"] == 16 else None}


class FakeConductor:
    """Asks them."""

    def __init__(self, ranks: list[FakeRank]) -> None:
        self.ranks = dict(enumerate(ranks))

    def ask(self, rank: FakeRank, message: Message, timeout_s: float) -> Message:
        return rank.answer(message, timeout_s)


def asked(
    links: list[dict[str, Any]], *, switches: dict[str, Any] | None = None, **rank: int
) -> tuple[Probes, list[Message]]:
    made = planned(links, {"kind": "star", "hosts": 2}, 2, switches=switches or {"kind": "ovs"})
    ranks, probes = [FakeRank(**rank), FakeRank(**rank)], Probes()
    probe(made, made.jobs[0], FakeConductor(ranks), probes)  # type: ignore[arg-type]
    return probes, [message for each in ranks for message in each.asked]


def test_medians_and_rates_stand_beside_their_model() -> None:
    probes, messages = asked([{"rate": "1Gbps", "delay": "20us", "queue": "4MiB"}], lost=2)
    # There: two links of 12.304 us and 20 us; back with 20 B: two of 0.688 us and 20 us.
    assert probes.rtt == [RttProbe("h0", "h1", 20_001, 2 * 12_304 + 2 * 688 + 4 * 20_000)]
    assert probes.rates == [RateProbe("h0", "h1", 16, 970_000_000, 10**9)]
    assert probes.lost == 2
    assert [(m["op"], m.get("packets"), m["bytes"]) for m in messages] == [
        ("rtt", None, PAYLOAD_BYTES),
        ("train", 16, PAYLOAD_BYTES),
        ("train", 1000, PAYLOAD_BYTES),
    ]


@pytest.mark.parametrize(("queue", "packets"), [("4MiB", [16, 1000]), ("256KiB", [16, 173]), ("4000B", [2])])
def test_a_train_is_no_longer_than_the_queue_before_a_slower_link(queue: str, packets: list[int]) -> None:
    # 262,144 B of queue hold 173 frames of 1514 B; 4000 B hold two.
    links = [{"rate": "1Gbps", "queue": "4MiB"}, {"select": "s0>*", "rate": "100Mbps", "queue": queue}]
    _, messages = asked(links)
    assert [m["packets"] for m in messages if m["op"] == "train"] == packets


@pytest.mark.parametrize(
    ("buffer", "packets"),
    [
        ({"shared": "256KiB"}, [16, 86]),  # half of it by one queue alone: 86 frames of 1514 B
        ({"shared": "256KiB", "alpha": 0.25}, [16, 34]),  # a fifth
        ({"shared": "256KiB", "alpha": 4}, [16, 138]),  # four fifths
    ],
)
def test_a_train_is_no_longer_than_a_queue_in_a_shared_buffer(buffer: dict[str, Any], packets: list[int]) -> None:
    links = [{"rate": "1Gbps", "queue": "4MiB"}, {"select": "s0>*", "rate": "100Mbps"}]
    _, messages = asked(links, switches={"kind": "native", "buffer": buffer})
    assert [m["packets"] for m in messages if m["op"] == "train"] == packets


def test_a_network_that_brings_nothing_back_is_told() -> None:
    probes, _ = asked([{"rate": "1Gbps", "loss": "100%"}], lost=21)
    assert probes.rtt == []
    assert probes.notes == ["no round trip of h0-h1 could be timed: all 21 were lost"]


def test_trains_are_not_timed_where_jitter_would_spread_them() -> None:
    _, messages = asked([{"rate": "1Gbps", "delay": "20us", "jitter": "5us"}])
    assert [m["op"] for m in messages] == ["rtt"]


def test_the_smallest_mtu_decides_how_large_a_probe_is() -> None:
    _, messages = asked([{"rate": "1Gbps"}, {"select": "*>h1", "mtu": 1300}])
    assert {m["bytes"] for m in messages} == {1300 - 28}
