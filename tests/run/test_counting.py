"""Counters made by hand into rows and totals: every packet is accounted for, and one that is not shows."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.dataplane.forwarding import Traffic
from testbed.fabric.counters import Counted, SwitchCounters
from testbed.fabric.links import LinkCounters
from testbed.plan.model import Plan
from testbed.results.samples import LinkRow, PacketTotals, SwitchRow
from testbed.run.counting import (
    frames_from_hosts,
    link_rows,
    native_rows,
    packet_totals,
    peak,
    program_counts,
    risen,
)
from tests.plan import specs
from tests.results.synthetic import a_link, a_plan, a_spec


def planned(transport: str = "roce", dilation: int = 10) -> Plan:
    """Two hosts at a switch: links 0 h0>s0, 1 s0>h0, 2 h1>s0, 3 s0>h1."""
    return a_plan(a_spec(transport={"kind": transport}), dilation=dilation)


def totals(
    plan: Plan,
    links: list[LinkRow],
    *,
    at_hosts: bool = False,
    in_flight: int = 0,
    unreachable: int = 0,
    programs: dict[str, int] | None = None,
    **ranks: int,
) -> PacketTotals:
    return packet_totals(
        plan,
        plan.placement,
        links,
        ranks,
        at_hosts=at_hosts,
        in_flight=in_flight,
        unreachable=unreachable,
        programs=programs or {},
    )


def test_a_row_is_what_a_link_did_between_two_readings_in_model_time() -> None:
    before = LinkCounters(packets=10, bytes=1000, job_packets=4, busy_ns=5000, dropped_queue=1, max_queue_bytes=900)
    after = LinkCounters(
        packets=25,
        bytes=2500,
        job_packets=14,
        job_bytes=1400,
        dropped_queue=3,
        job_ecn_marked=2,
        busy_ns=25_000,
        max_queue_bytes=700,
        measured_rate_bps=99_000_000,
        late_p50_ns=500,
        late_p99_ns=70_000,
    )
    first, second = link_rows(planned(), {0: before}, {1: LinkCounters(), 0: after}, {})
    assert (first.link, first.driver, first.rate_bps, first.queue_bytes) == ("h0>s0", "netcore", 10**9, 262_144)
    assert (first.packets, first.bytes, first.job_packets, first.job_bytes) == (15, 1500, 10, 1400)
    assert (first.dropped_queue, first.job_ecn_marked) == (2, 2)
    assert first.busy_ns == 2000, "a tenth of what it was busy in real time"
    assert first.measured_rate_bps == 990_000_000
    assert (first.late_p50_ns, first.late_p99_ns) == (50, 7000)
    assert first.max_queue_bytes == 700
    assert (second.link, second.packets, second.measured_rate_bps, second.late_p99_ns) == ("s0>h0", 0, None, None)


def test_gauges_are_the_highest_of_all_readings_though_the_driver_forgets_them_in_between() -> None:
    readings = [
        LinkCounters(packets=5, max_queue_bytes=900, late_p50_ns=100, late_p99_ns=4000),
        LinkCounters(packets=9, max_queue_bytes=300, late_p50_ns=200, late_p99_ns=3000, measured_rate_bps=10**8),
        LinkCounters(packets=12),
    ]
    highest = reduce(peak, readings, None)
    assert highest == LinkCounters(12, max_queue_bytes=900, late_p50_ns=200, late_p99_ns=4000, measured_rate_bps=10**8)
    (row,) = link_rows(planned(), {0: readings[0]}, {0: LinkCounters(packets=20, max_queue_bytes=500)}, {0: highest})
    assert (row.packets, row.max_queue_bytes, row.measured_rate_bps) == (15, 900, 10**9)
    assert (row.late_p50_ns, row.late_p99_ns) == (20, 400)


def test_packets_of_ranks_balance_with_what_happened_to_them_on_the_way() -> None:
    links = [
        a_link("h0>s0", job_dropped_queue=5, job_duplicated=3, dropped_queue=50),
        a_link("s0>h1", job_dropped_loss=7, job_dropped_down=2, job_ecn_marked=9),
    ]
    counted = totals(
        planned(), links, in_flight=4, sent_packets=1000, received_packets=978, corrupt_packets=6, malformed_packets=1,
        retransmitted_packets=14,
    )  # fmt: skip
    assert counted == PacketTotals(
        sent=1000,
        received=978,
        duplicated=3,
        dropped_queue=5,
        dropped_loss=9,
        dropped_corrupt=7,  # six by their ICRC, one cut short
        in_flight=4,
        retransmitted=14,
        ecn_marked=9,
    )
    assert counted.balance == 0
    unexplained = totals(planned(), links, in_flight=3, sent_packets=1000, received_packets=978, corrupt_packets=7)
    assert unexplained.balance == 1


@given(st.lists(st.tuples(*[st.integers(0, 50)] * 6), min_size=2, max_size=2))
def test_tcp_is_counted_at_the_hosts_own_links_and_balances(ways: list[tuple[int, ...]]) -> None:
    """Packets enter a host's link, some are dropped, doubled or lost; what the switch gets enters the other's link."""
    links, entered, arrived, in_flight = [], 0, 0, 0
    for up, down, (sent, full, lost, doubled, full_below, waiting) in zip(
        ("h0>s0", "h1>s0"), ("s0>h1", "s0>h0"), ways, strict=True
    ):
        offered = sent + full + lost + full_below + waiting  # so many that there is something to drop
        through = offered - full - lost + doubled
        delivered = through - full_below - waiting
        links.append(
            a_link(up, job_packets=through, job_dropped_queue=full, job_dropped_loss=lost, job_duplicated=doubled)
        )
        links.append(a_link(down, job_packets=delivered, job_dropped_queue=full_below))
        entered, arrived, in_flight = entered + offered, arrived + delivered, in_flight + waiting
    counted = totals(planned("tcp"), links, at_hosts=True, in_flight=in_flight)
    assert (counted.sent, counted.received, counted.balance) == (entered, arrived, 0)


def test_what_is_cut_with_a_host_s_cable_was_sent_too() -> None:
    counted = totals(
        planned("tcp"),
        [a_link("h0>s0", job_packets=3, job_dropped_down=2), a_link("s0>h1", job_packets=3)],
        at_hosts=True,
    )
    assert (counted.sent, counted.received, counted.dropped_loss, counted.balance) == (5, 3, 2, 0)


def test_what_switches_drop_because_no_way_is_left_is_lost_and_accounted_for() -> None:
    counted = totals(planned(), [], sent_packets=10, received_packets=6, unreachable=4)
    assert (counted.dropped_loss, counted.balance) == (4, 0)


def test_frames_that_left_hosts() -> None:
    links = [a_link("h0>s0", job_packets=10, job_bytes=1000), a_link("s0>h1", job_packets=10, job_bytes=1000)]
    assert frames_from_hosts(planned(), links, {"frame_bytes": 777}, at_hosts=False) == 777
    assert frames_from_hosts(planned("tcp"), links, {}, at_hosts=True) == 1000 + 10 * 4, (
        "the frame check sequence is four bytes"
    )


def test_counters_that_rose() -> None:
    before = {0: {"counters": {"sent": 5, "gone": 9}}, 1: {"counters": {"sent": 100}}}
    after = {0: {"counters": {"sent": 7, "new": 2}}, 2: {"counters": {"sent": 30}}}
    assert risen(before, after) == {"sent": 2 + 30, "new": 2}


def test_switches_that_nothing_dilates_measure_the_same() -> None:
    after = LinkCounters(busy_ns=1000, measured_rate_bps=10**9, late_p99_ns=3)
    (row,) = link_rows(planned(dilation=1), {}, {3: after}, {})
    assert (row.link, row.busy_ns, row.measured_rate_bps, row.late_p99_ns) == ("s0>h1", 1000, 10**9, 3)


def test_what_switch_programs_did_to_the_jobs_packets_balances() -> None:
    before = [SwitchCounters("s0", {"received": 9, "dropped_program": 5, "job_dropped_program": 4}, {})]
    job = {"dropped_program": 7, "dropped_port": 2, "punted": 1, "duplicated": 6, "injected": 1, "trimmed": 8}
    after = [
        SwitchCounters(
            "s0", {"received": 99, "dropped_program": 50} | {f"job_{name}": n for name, n in job.items()}, {}
        ),
        SwitchCounters("s1", {"received": 10, "job_dropped_program": 1}, {}),
    ]
    counts = program_counts(before, after)
    assert counts == {**job, "dropped_program": 3 + 1}
    counted = totals(planned(), [], programs=counts, sent_packets=100, received_packets=100)
    assert (counted.dropped_program, counted.duplicated, counted.trimmed) == (3 + 1 + 2 + 1, 6 + 1, 8)
    assert counted.balance == 0


def test_what_was_trimmed_and_is_of_no_use_is_not_corrupt_too() -> None:
    links = [a_link("s0>h1", job_packets=10, job_shortened=4)]
    program = {"trimmed": 6}  # two of which were dropped later
    counted = totals(
        planned(), [*links, a_link("s0>h0", job_dropped_queue=2)], programs=program,
        sent_packets=12, received_packets=5, corrupt_packets=3, malformed_packets=2,
    )  # fmt: skip
    assert (counted.dropped_trimmed, counted.dropped_corrupt, counted.dropped_queue) == (4, 1, 2)
    assert (counted.trimmed, counted.balance) == (6, 0)


@pytest.mark.parametrize("at_hosts", [True, False])
def test_copies_for_a_monitor_are_in_the_balance(at_hosts: bool) -> None:
    """Of 100 packets each way a switch copies all to one rank's host and 30 to a host without a rank."""
    plan = specs.planned(topology={"kind": "star", "hosts": 3}, workers={"count": 2})
    links = [
        a_link("h0>s0", job_packets=100),
        a_link("h1>s0", job_packets=100),
        a_link("s0>h0", job_packets=200, job_strayed=100),
        a_link("s0>h1", job_packets=100),
        a_link("s0>h2", job_packets=30, job_strayed=20),  # ten with the host's own address
    ]
    counted = totals(
        plan, links, at_hosts=at_hosts, programs={"duplicated": 130}, sent_packets=200, received_packets=200
    )
    assert (counted.sent, counted.received, counted.duplicated, counted.dropped_strayed) == (200, 200, 130, 130)
    assert counted.balance == 0


def test_copies_that_nobody_counts_are_no_drops_either() -> None:
    """Open vSwitch does not say how many packets it floods."""
    counted = totals(planned(), [a_link("s0>h1", job_packets=9, job_strayed=9)], sent_packets=5, received_packets=5)
    assert (counted.dropped_strayed, counted.balance) == (0, 0)


def test_rows_of_a_native_switch() -> None:
    links = {
        0: LinkCounters(packets=30, bytes=3000),
        1: LinkCounters(packets=18, bytes=1800, dropped_queue=2, dropped_loss=3, dropped_down=4),
        2: LinkCounters(packets=20, bytes=2000),
        3: LinkCounters(packets=25, bytes=2500),
    }
    routes = {"10.0.0.1/32": Traffic(20, 2000, 0), "miss": Traffic(1, 0, 1)}
    counted = (Counted("entry", "priorities:1", 7, 700), Counted("counter", "marked[3]", 2, 0))
    switch = SwitchCounters("s0", {"received": 50, "dropped_program": 1, "job_received": 40}, routes, counted)
    assert native_rows([switch], links, planned().graph) == [
        SwitchRow("s0", "port", "s0-eth1", 30, 3000, 9),
        SwitchRow("s0", "port", "s0-eth2", 20, 2000, 0),
        SwitchRow("s0", "flow", "10.0.0.1/32", 20, 2000, 0),
        SwitchRow("s0", "flow", "miss", 1, 0, 1),
        SwitchRow("s0", "program", "received", 50, 0, 0),
        SwitchRow("s0", "program", "dropped_program", 1, 0, 1),
        SwitchRow("s0", "entry", "priorities:1", 7, 700, 0),
        SwitchRow("s0", "counter", "marked[3]", 2, 0, 0),
    ]
