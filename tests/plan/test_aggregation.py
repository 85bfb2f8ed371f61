"""Trees of sums: who adds up whom, where results go, and the least time that it takes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import execute
from testbed.dataplane.programs import Facts, SumFacts
from testbed.plan.aggregation import AggregationError, routes, tree_of, with_slots
from testbed.plan.model import Address, Aggregation
from testbed.plan.network import endpoint_path
from testbed.plan.notes import notes
from testbed.plan.serial import from_json, to_json
from testbed.plan.sums import Packets, SumPaths
from testbed.spec.model import LinkSpec, TopologySpec
from testbed.spec.reader import read_spec
from testbed.spec.resolved import resolved_text
from testbed.topology import build
from testbed.topology.graph import Graph
from testbed.topology.links import apply_links
from testbed.transport import written
from tests.plan.specs import planned, star

TREE = SumFacts(children=32, slots=1024, passes_on=True)
ROOT_ONLY = SumFacts(children=32, slots=1024, passes_on=False)
FACTS: Mapping[str, SumFacts | None] = {"aggregate_tree": TREE, "aggregate": ROOT_ONLY, "l3_ecmp": None}
LEAF_SPINE = {"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 2}
STAR = {"kind": "star", "hosts": 4}


def graph(topology: Mapping[str, Any], rate: str = "1Gbps", delay: str = "1us") -> Graph:
    links = [LinkSpec.model_validate({"rate": rate, "delay": delay})]
    return apply_links(build(TopologySpec.model_validate(topology)), links)


def tree(
    net: Graph, *hosts: str, root: str | None = None, program: str = "aggregate_tree", **programs: str
) -> Aggregation:
    workers = {host: Address(f"10.0.0.{i}", f"02:00:00:00:00:{i:02x}") for i, host in enumerate(hosts or net.hosts)}
    return tree_of(net, workers, root, dict.fromkeys(net.switches, program) | programs, FACTS.get)


def children(of: Aggregation) -> dict[str, list[tuple[str, int]]]:
    return {name: [(child.node, child.port) for child in summing.children] for name, summing in of.switches.items()}


def test_a_star_sums_in_its_switch() -> None:
    found = tree(graph(STAR))
    assert children(found) == {"s0": [("h0", 1), ("h1", 2), ("h2", 3), ("h3", 4)]}
    assert (found.root, found.ways, found.switches["s0"].parent) == ("s0", {}, None)
    assert found.place_of("h2") == ("s0", 2)


def test_leaves_pass_their_sums_to_a_spine() -> None:
    net = graph(LEAF_SPINE)
    found = tree(net)
    assert children(found) == {
        "leaf0": [("h0", 1), ("h1", 2)], "leaf1": [("h2", 1), ("h3", 2)], "spine0": [("leaf0", 1), ("leaf1", 2)],
    }  # fmt: skip
    assert [(found.switches[leaf].parent, found.switches[leaf].index) for leaf in ("leaf0", "leaf1")] == [
        ("spine0", 0), ("spine0", 1),
    ]  # fmt: skip
    addresses = [summing.address for summing in found.switches.values()]
    assert len({a.ip for a in addresses}) == len({a.mac for a in addresses}) == 3
    assert found.address == found.switches["spine0"].address


def test_a_switch_with_one_child_routes() -> None:
    """h0 and h1 meet at leaf0; h2 is alone at leaf1, so that the spine knows it itself."""
    found = tree(graph(LEAF_SPINE), "h0", "h1", "h2")
    assert children(found) == {"leaf0": [("h0", 1), ("h1", 2)], "spine0": [("leaf0", 1), ("h2", 2)]}
    assert found.place_of("h2") == ("spine0", 1)


def test_a_program_that_passes_nothing_on_sums_at_the_root_alone() -> None:
    found = tree(graph(LEAF_SPINE), program="aggregate")
    assert children(found) == {"spine0": [("h0", 1), ("h1", 1), ("h2", 2), ("h3", 2)]}


def test_the_root_is_where_the_program_is_or_where_the_spec_says() -> None:
    net = graph(LEAF_SPINE)
    assert tree(net, program="l3_ecmp", leaf1="aggregate").root == "leaf1"
    assert children(tree(net, root="leaf1"))["leaf1"] == [("h2", 1), ("h3", 2), ("leaf0", 3)]


def test_routes_lead_up_to_the_root_and_down_to_whoever_sums() -> None:
    net = graph({"kind": "fat-tree", "k": 4})
    found = tree(net, "h0", "h1", "h4", "h5")  # at e0_0 and e1_0, which c0 joins by a0_0 and a1_0
    leaf = found.switches["e0_0"].address.ip
    ports = {name: {e.prefix: e.ports for e in entries} for name, entries in routes(net, found).items()}
    up = f"{found.address.ip}/32"
    out = {(link.source, link.target): link.source_port for link in net.links}
    assert {name: entries[up] for name, entries in ports.items() if up in entries} == {
        "e0_0": (out["e0_0", "a0_0"],), "a0_0": (out["a0_0", "c0"],),
        "e1_0": (out["e1_0", "a1_0"],), "a1_0": (out["a1_0", "c0"],),
    }  # fmt: skip
    assert {name: e[f"{leaf}/32"] for name, e in ports.items() if f"{leaf}/32" in e} == {
        "c0": (out["c0", "a0_0"],), "a0_0": (out["a0_0", "e0_0"],),
    }  # fmt: skip


def test_results_for_a_worker_whose_switch_only_routes_keep_to_the_tree() -> None:
    net = graph({"kind": "fat-tree", "k": 4})
    found = tree(net, "h0", "h4")
    host = found.switches["c0"].children[0]
    assert host.node == "h0"
    down = {
        name: entry.ports
        for name, entries in routes(net, found).items()
        for entry in entries
        if entry.prefix == f"{host.address.ip}/32"
    }
    below = next(link.target_port for link in net.links if link.name == "e0_0>a0_0")
    assert down == {"a0_0": (below,), "c0": (host.port,)}


def test_jobs_that_meet_share_a_pool() -> None:
    net = graph(LEAF_SPINE)
    pools = dict.fromkeys(net.switches, 1024)
    first = with_slots(tree(net, "h0", "h1"), [], pools, 256, 512)
    second = with_slots(tree(net, "h0", "h2"), [first], pools, 256, 512)
    third = with_slots(tree(net), [first, second], pools, 256, 512)
    assert [job.first_slot for job in (first, second, third)] == [0, 0, 512]
    with pytest.raises(
        AggregationError, match="is 512, and the pool of leaf0 has 1024 slots, of which other jobs have 1024"
    ) as caught:
        with_slots(tree(net), [first, second, third], pools, 256, 512)
    assert caught.value.suggestion == "", "no number of slots is left"


@pytest.mark.parametrize(
    ("keys", "key", "what"),
    [
        ({"root": "h0"}, ("transport", "root"), "'h0' is a host"),
        ({"root": "spine9"}, ("transport", "root"), "'spine9' is not there"),
        ({"root": "spine0", "spine0": "l3_ecmp"}, ("transport", "root"), "spine0 runs l3_ecmp, which does not add up"),
        ({"program": "l3_ecmp"}, ("switches", "program"), "no switch adds up: leaf0 runs l3_ecmp"),
    ],
)
def test_what_cannot_be_summed_is_refused_by_name(keys: dict[str, str], key: tuple[str, ...], what: str) -> None:
    with pytest.raises(AggregationError, match=what) as caught:
        tree(graph(LEAF_SPINE), **keys)
    assert caught.value.key == key


def test_more_workers_than_a_program_takes() -> None:
    with pytest.raises(
        AggregationError, match="33 contributions meet at s0, and its program aggregate_tree adds up 32"
    ):
        tree(graph({"kind": "star", "hosts": 33}))
    assert len(tree(graph({"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts": 20})).switches) == 3


def test_jobs_have_addresses_of_their_own_and_take_turns_at_roots() -> None:
    net = graph(LEAF_SPINE)
    workers = {host: Address("10.0.0.2", "02:00:00:00:00:00") for host in net.hosts}
    programs = dict.fromkeys(net.switches, "aggregate_tree")
    trees = [tree_of(net, workers, None, programs, FACTS.get, number=number) for number in (0, 1)]
    assert [each.root for each in trees] == ["spine0", "spine1"]
    assert len({summing.address for each in trees for summing in each.switches.values()}) == 6


def test_the_bound_of_a_star_is_all_packets_over_one_link() -> None:
    """1106 bytes at 1 Gb/s take 8.848 us: 1000 of them up, one down, 1 us of delay each way."""
    net = graph(STAR)
    paths = SumPaths(net, tree(net), net.hosts)
    assert paths.round_trip_ns(1106) == 2 * 8848 + 2 * 1000
    assert paths.bound_ns(Packets(chunks=1000, chunk_bytes=1106)) == 1001 * 8848 + 2000
    # Exponents, of 82 bytes: the first chunk waits for the round trip of one, and all chunks for the sending of all.
    assert paths.bound_ns(Packets(1000, 1106, 2, 82)) == 1001 * 8848 + 2000 + 2 * 656 + 2000
    assert paths.bound_ns(Packets(1000, 1106, 512, 82)) == 512 * 656 + 1001 * 8848 + 2000


def test_the_bound_grows_where_contributions_share_a_link() -> None:
    net = graph(LEAF_SPINE, delay="0us")
    packets = Packets(chunks=100, chunk_bytes=1250)  # 10 us each
    assert SumPaths(net, tree(net), net.hosts).bound_ns(packets) == 10_000 * (100 + 3)
    alone = SumPaths(net, tree(net, program="aggregate"), net.hosts)
    assert alone.bound_ns(packets) == 10_000 * (200 + 3)


def test_a_plan_has_a_tree_a_job_and_routes_to_it() -> None:
    transport = {"kind": "aggregation", "slots": 1500}
    job = {"workers": {"count": 2}, "transport": transport, "workload": {"size": "1MiB", "dtype": "int32"}}
    keys: dict[str, Any] = {"topology": STAR, "switches": {"kind": "auto"}}
    one = {"workers": {"count": 2}, "workload": {"size": "1MiB"}}
    made = planned(**keys, jobs={"a": job, "ring": one})
    assert made.switching.native["s0"].program == "aggregate_tree"
    assert [each.aggregation is not None for each in made.jobs] == [True, False]
    assert from_json(json.loads(json.dumps(to_json(made)))) == made
    with pytest.raises(AggregationError, match=r"jobs\.b\.transport.slots: is 1500, .* of which other jobs have 1500"):
        planned(**keys, jobs={"a": job, "b": job})
    smaller = {**job, "transport": {**transport, "slots": 548}}
    both = planned(**keys, jobs={"a": job, "b": smaller}).jobs
    assert [each.aggregation and each.aggregation.first_slot for each in both] == [0, 1500]


def test_the_prediction_counts_headers() -> None:
    """1 MiB of int32 at 256 values a packet: 1024 packets of 1106 bytes there, and as many sums back."""
    job = {"transport": {"kind": "aggregation"}, "switches": {"kind": "native"}}
    made = planned(**star(4, **job, workload={"size": "1MiB", "dtype": "int32"})).prediction
    assert (made.packets_per_iteration, made.packet_hops_per_iteration) == (8 * 1024, 8 * 1024)
    assert made.bound_ns == 1025 * 8848 + 2000
    assert made.base_rtt_ns == 2 * 8848 + 2000
    floats = planned(**star(4, **job, workload={"size": "1MiB"}))
    slots = floats.jobs[0].aggregation.slots if floats.jobs[0].aggregation else 0
    assert floats.prediction.packets_per_iteration == 8 * (1024 + slots)


def test_only_native_switches_add_up() -> None:
    with pytest.raises(AggregationError, match=r"switches\.kind: is ovs, and only native switches add up"):
        planned(**star(4, transport={"kind": "aggregation"}, workload={"size": "1MiB"}))


def test_the_outline_tells_who_adds_up_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        "{name: t, topology: {kind: leaf-spine, spines: 1, leaves: 2, hosts: 2}, switches: {kind: native},"
        " workers: {count: 4}, transport: {kind: aggregation, slots: 100}, workload: {size: 1MiB}}"
    )
    assert execute(["plan", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "sums: root spine0 at 10.255.0.1, 100 slots from 0 on, 256 values a packet" in shown
    rows = [line.split() for line in shown.splitlines()]
    for row in (
        ["spine0", "leaf0,", "leaf1", "all"],
        ["leaf1", "h2,", "h3", "spine0"],
        ["leaf0", "h0,", "h1", "spine0"],
    ):
        assert row in rows


def test_what_harms_sums_is_noted() -> None:
    keys: dict[str, Any] = {
        "topology": LEAF_SPINE,
        "switches": {"kind": "native"},
        "workers": {"count": 4},
        "transport": {"kind": "aggregation"},
        "workload": {"size": "1MiB"},
    }
    fault = {"kind": "link-down", "select": "leaf1-spine0", "at": "1ms"}
    programs = {"aggregate_tree": Facts(takes_routes=True, hashes=True, sets_priority=False, sums=TREE)}
    assert notes(planned(**keys), programs) == []
    assert notes(planned(**keys, links=[{"corrupt": "1%"}], faults=[fault]), programs) == [
        "sums go by leaf1>spine0, which a fault cuts: their way does not change, and they wait",
    ]


BEST = SumFacts(children=32, slots=2048, passes_on=False, protocol="besteffort")
SERVED = {"transport": {"kind": "aggregation", "protocol": "besteffort"}, "switches": {"kind": "native"}}


def test_the_server_is_the_first_host_without_a_rank_or_the_one_that_is_named() -> None:
    keys = star(6, **SERVED, workload={"size": "1MiB", "dtype": "int32"}) | {"workers": {"count": 4}}
    job = planned(**keys).jobs[0]
    tree = job.aggregation
    assert tree
    assert tree.server
    assert (tree.server.host, tree.server.pool, job.hosts[4:]) == ("h4", 2048, ("h4",))
    named = {**SERVED["transport"], "server": "h5", "pool": 100}
    other = planned(**keys | {"transport": named}).jobs[0].aggregation
    assert other
    assert other.server
    assert (other.server.host, other.server.pool) == ("h5", 100)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"workers": {"count": 6}}, r"transport\.server: besteffort needs a host without a rank, and all 6"),
        ({"server": "h9"}, r"transport\.server: 'h9' is not a host"),
        ({"server": "h0"}, r"transport\.server: h0 has a rank"),
        ({"protocol": "slots", "server": "h5"}, r"transport\.server: goes with protocol: besteffort"),
        ({"protocol": "slots", "pool": 10}, r"transport\.pool: goes with protocol: besteffort"),
        ({"program": "aggregate"}, r"switches\.program: no switch adds up by protocol besteffort: s0 runs aggregate,"),
        ({"program": "aggregate", "root": "s0"}, r"transport\.root: s0 runs aggregate, which does not add up by"),
        ({"protocol": "slots", "program": "aggregate_besteffort"}, r"no switch adds up: s0 runs aggregate_besteffort"),
    ],
)
def test_what_a_server_cannot_serve_is_refused_by_name(keys: dict[str, Any], what: str) -> None:
    transport = {**SERVED["transport"], **{k: keys[k] for k in ("protocol", "server", "pool", "root") if k in keys}}
    changed = {
        "workers": keys.get("workers", {"count": 4}),
        "transport": transport,
        "switches": {"kind": "native", **({"program": keys["program"]} if "program" in keys else {})},
    }
    with pytest.raises(AggregationError, match=what):
        planned(**star(6, workload={"size": "1MiB", "dtype": "int32"}) | changed)


def test_two_jobs_have_servers_of_their_own_and_one_pool() -> None:
    job = {"workers": {"count": 2}, "transport": SERVED["transport"], "workload": {"size": "1MiB", "dtype": "int32"}}
    keys = {key: value for key, value in star(6, switches={"kind": "native"}).items() if key not in job}
    found = [each.aggregation for each in planned(**keys, jobs={"a": job, "b": job}).jobs]
    assert [tree and tree.server and tree.server.host for tree in found] == ["h4", "h5"]
    assert [tree and tree.first_slot for tree in found] == [0, 0]


def test_with_a_server_the_round_trip_goes_by_it() -> None:
    """1106 bytes at 1 Gb/s take 8.848 us, and each of the four cables in turn has 1 us of delay."""
    net = graph(STAR)
    address = Address("10.0.0.9", "02:00:00:00:00:09")
    workers = {host: Address(f"10.0.0.{i}", "02:00:00:00:00:00") for i, host in enumerate(net.hosts[:3])}
    found = tree_of(
        net, workers, None, {"s0": "best"}, lambda _: BEST, server=("h3", address), protocol="besteffort"
    )  # fmt: skip
    paths = SumPaths(net, found, [*workers])
    assert paths.round_trip_ns(1106) == 4 * 8848 + 4 * 1000
    assert paths.bound_ns(Packets(chunks=1000, chunk_bytes=1106)) == 1003 * 8848 + 4000
    assert paths.hops == 4


def test_a_resolved_spec_can_be_read_again(tmp_path: Path) -> None:
    made = planned(**star(4, switches={"kind": "native"}, transport={"kind": "aggregation"}, workload={"size": "1MiB"}))
    path = tmp_path / "spec.yaml"
    constants = written(made.jobs[0].spec.transport, endpoint_path(made, made.jobs[0]))
    path.write_text(resolved_text(made.spec, {"": constants}))
    assert read_spec(path).transport.parameters["slots"] == 86
