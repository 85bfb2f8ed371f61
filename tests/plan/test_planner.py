"""Placement, drivers, MACs, failing cables, paths, dilation: each rule of the contract and the design."""

from dataclasses import replace
from typing import Any

import pytest

from testbed.errors import MachineLacks, UsageError
from testbed.plan import DEFAULT_CAPABILITIES
from testbed.plan.failures import failing_sets
from testbed.plan.model import Alternate, Entry, SwitchPlan
from testbed.plan.paths import Paths, RoutingError, UnreachableError
from testbed.plan.placement import PlacementError
from testbed.plan.planner import explain_dilation, network_graph
from testbed.topology.select import select_cables
from tests.plan.specs import STOCK, path_of, planned, ranks_of, spec, star


def placed(**workers: Any) -> tuple[str, ...]:
    return planned(workers=workers).placement


def test_packed_and_spread() -> None:
    assert placed(count=3, placement="packed") == ("h0", "h1", "h2")
    # Eight edge switches with two hosts each: rank 8 is on the second host of the first one.
    assert placed(count=10, placement="spread") == tuple(f"h{i}" for i in (0, 2, 4, 6, 8, 10, 12, 14, 1, 3))


def test_spread_goes_on_where_an_edge_switch_is_full() -> None:
    keys = {"topology": {"kind": "dumbbell", "left": 1, "right": 3}, "workers": {"count": 4, "placement": "spread"}}
    assert planned(**keys).placement == ("h0", "h1", "h2", "h3")


def test_random_is_drawn_from_the_seed() -> None:
    drawn = [planned(seed=seed, workers={"count": 12, "placement": "random"}).placement for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 12


def test_named_hosts() -> None:
    assert placed(count=2, placement=["h9", "h4"]) == ("h9", "h4")


@pytest.mark.parametrize(
    ("workers", "key"),
    [
        ({"count": 17}, "count"),
        ({"count": 2, "placement": ["h0"]}, "placement"),
        ({"count": 2, "placement": ["h0", "h0"]}, "placement.1"),
        ({"count": 2, "placement": ["h0", "h16"]}, "placement.1"),
        ({"count": 1, "placement": ["e0_0"]}, "placement.0"),
    ],
)
def test_ranks_that_do_not_fit_are_an_error(workers: dict[str, Any], key: str) -> None:
    with pytest.raises(PlacementError) as caught:
        placed(**workers)
    assert caught.value.key == key


def test_macs_are_local_unicast_distinct_and_leave_their_low_bits_to_spraying() -> None:
    macs = [address.mac for address in planned(topology={"kind": "fat-tree", "k": 8}).addresses.values()]
    first = [int(mac.split(":")[0], 16) for mac in macs]
    assert len(set(macs)) == 128
    assert all(octet & 0b11 == 0b10 for octet in first)
    assert all(mac.endswith("0") and len(mac) == 17 for mac in macs)


@pytest.mark.parametrize(
    "keys",
    [
        {"traffic": [{"kind": "constant", "from": "h1", "to": "h2", "rate": "1Mbps"}]},
        {"routing": {"kind": "spray"}},
        {"switches": {"datapath": "user"}},
        {"links": [{"loss": "1%"}]},
    ],
)
def test_what_the_kernel_cannot_carry_is_the_fabrics(keys: dict[str, Any]) -> None:
    assert set(planned(STOCK, **keys).drivers) == {"netcore"}


def test_the_kernel_carries_plain_links_on_a_stock_machine() -> None:
    assert set(planned(STOCK, time_dilation=1).drivers) == {"tc"}
    assert set(planned(DEFAULT_CAPABILITIES, time_dilation=1).drivers) == {"netcore"}


@pytest.mark.parametrize(
    ("dilation", "delay", "driver"),
    [
        (4, "10us", "tc"),  # a frame of 1,538 B at 1 Gb/s takes 12.3 us: 49.2 us of real time
        (5, "10us", "netcore"),  # 61.5 us, more than 50 us, and than a twentieth of 111.5 us
        (1000, "240us", "tc"),  # 12.3 ms of 252 ms
        (1000, "230us", "netcore"),  # of 242 ms
    ],
)
def test_the_kernel_carries_links_whose_frames_it_lets_go_hardly_too_early(
    dilation: int, delay: str, driver: str
) -> None:
    links = [{"rate": "1Gbps", "delay": delay}]
    assert set(planned(STOCK, links=links, time_dilation=dilation).drivers) == {driver}


@pytest.mark.parametrize(
    ("keys", "selector"),
    [
        ({"links": [{"select": "h0>e0_0", "jitter": "1us"}]}, "h0-e0_0"),
        ({"links": [{"select": "core", "ecn": {"min": "9KiB", "max": "9KiB"}}]}, "core"),
        ({"faults": [{"kind": "link-down", "select": "c0", "at": "1ms"}]}, "c0"),
        ({"faults": [{"kind": "link-set", "select": "h3", "at": "1ms", "rate": "1Mbps"}]}, "h3"),
        ({"capture": {"select": ["h0", "c1"]}}, ["h0", "c1"]),
    ],
)
def test_only_the_cables_concerned_are_the_fabrics(keys: dict[str, Any], selector: str | list[str]) -> None:
    made = planned(STOCK, **keys, time_dilation=1)
    fabric = tuple(cable for cable, driver in enumerate(made.drivers) if driver == "netcore")
    assert fabric == select_cables(made.graph, selector)


def test_a_kernel_datapath_that_is_not_there_is_refused() -> None:
    with pytest.raises(MachineLacks):
        planned(DEFAULT_CAPABILITIES, switches={"datapath": "kernel"})


def test_cables_that_faults_take_down_together() -> None:
    faults = [
        {"kind": "link-down", "select": "e0_0-a0_0", "at": "1ms", "for": "2ms"},
        {"kind": "link-down", "select": "e0_0-a0_1", "at": "2ms", "for": "1ms"},  # ends with the first
        {"kind": "link-down", "select": "h0", "at": "9ms"},
        {"kind": "stall", "worker": 0, "probability": 0.5, "for": "1ms"},
    ]
    given = spec(faults=faults)
    graph = network_graph(given)
    (first,), (second,), (third,) = (select_cables(graph, s) for s in ("e0_0-a0_0", "e0_0-a0_1", "h0"))
    assert failing_sets(graph, given.faults) == [frozenset([first]), frozenset([first, second]), frozenset([third])]
    alternates = [alternate.cables for alternate in planned(faults=faults).alternates]
    assert len(alternates) == 32 + 1
    assert alternates[-1] == (first, second)  # h0's own cable leaves nothing to choose
    simulated = planned(engine="simulation", faults=faults)
    assert [alternate.cables for alternate in simulated.alternates] == [(first,), (first, second)]


def test_paths_by_stages() -> None:
    paths = ranks_of(planned(topology={"kind": "fat-tree", "k": 6})).paths
    assert [len(stage) for stage in paths.stages("h0", "h53")] == [1, 3, 9, 9, 3, 1]
    assert [len(stage) for stage in paths.stages("h0", "h3")] == [1, 3, 3, 1]
    assert [len(stage) for stage in paths.stages("h0", "h1")] == [1, 1]
    assert paths.stages("h0", "h0") == ()


def test_paths_refuse_loops_dead_ends_and_what_cannot_be_reached() -> None:
    made = planned(topology={"kind": "ring", "hosts": 3})
    graph, addresses, switches = made.graph, made.addresses, dict(made.switches)
    to_s1, to_s2 = 2, 3  # ports of s0: h0, s1, s2
    switches["s0"] = SwitchPlan(1, 1, (Entry("10.0.1.0/24", "single", (to_s2,)),))
    switches["s2"] = SwitchPlan(3, 3, (Entry("10.0.1.0/24", "single", (3,)),))  # to s0
    with pytest.raises(RoutingError, match="loop"):
        Paths(graph, addresses, switches).stages("h0", "h1")
    down = Alternate((3,), {"s0": (Entry("10.0.1.0/24", "single", ()),)})
    with pytest.raises(UnreachableError):
        Paths(graph, addresses, made.switches, down).stages("h0", "h1")
    switches["s0"] = SwitchPlan(1, 1, (Entry("10.0.2.0/24", "single", (to_s1,)),))
    with pytest.raises(RoutingError, match="no entry"):
        Paths(graph, addresses, switches).stages("h0", "h1")


def test_base_rtt_is_the_closed_form() -> None:
    # Six hops of 1 Gb/s and 10 us each way; data 1024 + 58 + 24 bytes, acknowledgement 62 + 24, 8 ns a byte.
    made = planned(links=[{"rate": "1Gbps", "delay": "10us"}], workers={"count": 8, "placement": "spread"})
    assert made.prediction.base_rtt_ns == 6 * (1106 * 8 + 10_000) + 6 * (86 * 8 + 10_000)


def test_what_the_transport_may_know() -> None:
    ecn = {"min": "64KiB", "max": "128KiB"}
    path = path_of(planned(links=[{"rate": "1Gbps"}, {"select": "host", "rate": "100Mbps"}, {"ecn": ecn}]))
    assert (path.rate_bps, path.mtu_bytes) == (10**8, 1500)
    assert path.max_burst_packets == 65536 // 4 // (1500 + 38)
    assert path.queueing_ns == 262_144 * 8 * 10  # the slowest queue of a switch, at 100 Mb/s
    assert path_of(planned()).max_burst_packets == 65507 // 1500


def test_dilation_is_the_least_that_both_limits_allow() -> None:
    made = planned(STOCK, workers={"count": 8, "placement": "spread"}, workload={"size": "256KiB"})
    explained = explain_dilation(made, STOCK)
    prediction = made.prediction
    assert made.dilation == explained.value == max(explained.by_load, explained.by_timing)
    load, timing = explained.by_load, explained.by_timing
    assert prediction.packet_hops_per_s / load <= STOCK.packet_hops_per_s / 2
    assert load == 1 or prediction.packet_hops_per_s / (load - 1) > STOCK.packet_hops_per_s / 2
    assert 2 * STOCK.path_excess_ns <= 0.1 * prediction.base_rtt_ns * timing
    assert 2 * STOCK.path_excess_ns > 0.1 * prediction.base_rtt_ns * (timing - 1)
    assert len(explained.reasons) == 3


def test_delays_hide_what_switches_take() -> None:
    """Ten switches there and back on the longest path, behind ten of its twelve links."""
    slow = replace(STOCK, switch_ns=3_000_000)
    made = planned(slow, workers={"count": 8, "placement": "spread"}, workload={"size": "256KiB"})
    factor = explain_dilation(made, slow).by_switches
    assert made.dilation == factor
    hidden_ns = made.prediction.base_rtt_ns * (10 / 12 + 0.1)
    assert hidden_ns * (factor - 1) < 10 * 3_000_000 <= hidden_ns * factor


def test_dilation_as_the_spec_says_and_none_in_simulation() -> None:
    assert planned(time_dilation=7).dilation == 7
    assert planned(engine="simulation", time_dilation=7).dilation == 1


def test_a_command_is_planned_for_full_links() -> None:
    made = planned(**star(4, workload={"kind": "command", "command": "true"}))
    assert made.prediction.bound_ns == 0
    assert made.prediction.packet_hops_per_s == pytest.approx(4 * 2 * 1e9 / 8 / 1538)


def test_a_network_alone_has_no_ranks() -> None:
    made = planned()
    assert made.placement == ()
    assert made.prediction.packets_per_iteration == 0


def test_background_traffic_counts() -> None:
    traffic = [
        {"kind": "constant", "from": "h0", "to": "h1", "rate": "1Mbps", "packet": "934B"},
        {"kind": "incast", "from": ["h0", "h2"], "to": "h1", "size": "4KiB", "every": "1ms"},
    ]
    made = planned(traffic=traffic)
    # 934 + 66 bytes: 125 packets/s over 2 links; 4 packets each ms over 2 and 4 links.
    assert made.prediction.packet_hops_per_s == pytest.approx(125 * 2 + 4000 * (2 + 4))


def test_the_plan_says_the_datapath() -> None:
    assert planned(STOCK).datapath == "kernel"
    assert planned(STOCK, switches={"datapath": "user"}).datapath == "user"
    assert planned(DEFAULT_CAPABILITIES).datapath == "user"


def test_auto_switches_are_open_vswitch() -> None:
    assert planned(STOCK, switches={"kind": "auto"}).drivers == planned(STOCK, switches={"kind": "ovs"}).drivers


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"links": [{"select": "h0", "delay": "1000000000s"}], "time_dilation": 100}, "delay of"),
        ({"workload": {"size": "1KiB", "compute": "1000000000s"}, "time_dilation": 10}, "compute"),
        ({"limits": {"stall": "1000000000s"}, "time_dilation": 10}, "limits: stall"),
        (
            {
                "workload": {"size": "1KiB", "compute": "1000000s"},
                "faults": [{"kind": "slow", "worker": 0, "factor": 1_000_000.0}],
            },
            "an iteration with its faults",
        ),
    ],
)
def test_times_that_no_clock_reaches_are_refused(keys: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"{named}.*time dilation"):
        planned(workers={"count": 2}, **keys)


def test_a_dilation_that_nobody_waits_for_is_refused() -> None:
    with pytest.raises(UsageError, match="ask for a time dilation of"):
        planned(**star(2, links=[{"rate": "100Tbps", "delay": "0ns"}], workload={"size": "1GiB"}))


def test_the_senders_of_an_incast_do_not_wait_for_the_port_that_they_share() -> None:
    """Eight send 64 packets each to one: 1,106 B on the wire with all headers, of the first ones 16 more (RETH)."""
    made = planned(
        STOCK,
        topology={"kind": "star", "hosts": 9},
        links=[{"rate": "1Gbps", "delay": "50us"}],
        switches={"kind": "native"},
        workers={"count": 9},
        transport={"kind": "roce", "mtu": 1024},
        workload={"algorithm": "parameter-server", "size": "64KiB"},
    )
    at_a_port = 1e9 / 8 / 1106
    data = 8 * 64  # of each of two steps; the rest of an iteration's packets are acknowledgements, over two links each
    acknowledgements = made.prediction.packets_per_iteration / 2 - data
    expected = (8 + 1 + 2 * acknowledgements / data) * at_a_port  # of the senders, the receiver's port, and back
    assert made.prediction.packet_hops_per_s == pytest.approx(expected, rel=0.001)
