"""Sockets under the virtual clock: when packets are told, what waits, alarms, and what becomes of memory.

Times are from the closed form: a packet of n links is there after n times its serialisation and delay, and those behind
it each a serialisation later.
"""

import ctypes
import gc
import math
import signal
import sys
import weakref
from collections.abc import Sequence
from functools import partial

import pytest

from testbed.netcore import Fabric, Run
from testbed.wire import roce
from tests.netcore.row import (
    CE,
    DELAY_NS,
    ECT,
    FIRST,
    MIDDLE,
    ONLY,
    RATE_BPS,
    Loaded,
    Row,
    bth,
    ip,
    message,
    ways,
    wire_ns,
)
from tests.sanitizers import assert_clean

SEGMENT = 4096


class Memory(bytearray):
    """Memory that can be referred to weakly."""


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return ways()


@pytest.fixture
def row(loaded: Loaded) -> Row:
    return Row(loaded)


def data(packets: int, segment: int = SEGMENT) -> bytes:
    return bytes(i % 251 for i in range(packets * segment))


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("switches", [1, 2, 5])
@pytest.mark.parametrize("segment", [1, 1000, 4096])
def test_a_packet_is_stored_and_forwarded_by_each_link(loaded: Loaded, switches: int, segment: int) -> None:
    row = Row(loaded, (0, switches - 1), coalesce=False)
    pad = -segment % 4
    row.send(0, 1, [bth(FIRST, 0, pad=pad), bth(MIDDLE, 1, pad=pad)], data(2, segment), segment)
    row.settle()
    links, one = switches + 1, wire_ns(segment)
    first = links * (math.floor(one) + DELAY_NS)
    assert row.turns[1] == [first, first + math.floor(2 * one) - math.floor(one)]
    assert b"".join(told.payload for told in row.told[1]) == data(2, segment)


def test_the_nic_tells_when_it_will_be_free(row: Row) -> None:
    assert row.send(0, 1, message(4), data(4), SEGMENT) == math.floor(4 * wire_ns(SEGMENT))
    assert row.send(0, 1, message(3), data(3), SEGMENT) == math.floor(7 * wire_ns(SEGMENT))
    row.settle()
    row.fabric.call_at(2 * 10**9, lambda now: row.turns[0].append(row.send(0, 1, message(1), b"", 0) - now))
    row.fabric.play(3 * 10**9)
    assert row.turns[0] == [math.floor(wire_ns(0))]


@pytest.mark.parametrize("rate_bps", [RATE_BPS // 4, RATE_BPS * 2])
def test_the_nic_tells_anew_when_its_rate_has_changed(row: Row, rate_bps: int) -> None:
    """Of six packets one is being serialised when the rate changes; the other five and one more are at the new one."""
    row.send(0, 1, message(6), data(6), SEGMENT)
    told: list[int] = []
    row.fabric.call_at(100, lambda _: row.set_link(row.into[0], rate_bps=rate_bps))
    row.fabric.call_at(200, lambda _: told.append(row.send(0, 1, message(1, 6), data(1), SEGMENT)))
    row.fabric.alarm(row.sockets[0], 200, free=True)
    row.settle()
    assert told == row.turns[0] == [math.floor(wire_ns(SEGMENT)) + math.floor(6 * wire_ns(SEGMENT, rate_bps=rate_bps))]


def test_what_is_at_the_same_instant_keeps_its_order(loaded: Loaded) -> None:
    """Three hosts send at once to a fourth: the packets, of one size, queue in the order in which they were sent."""
    row = Row(loaded, (0, 0, 0, 0))
    for source in (2, 0, 1):
        row.send(source, 3, message(1), data(1), SEGMENT)
    order: list[str] = []
    for name in "abc":
        row.fabric.call_at(500, partial(lambda name, _: order.append(name), name))
    row.fabric.call_at(100, lambda _: row.fabric.call_at(500, lambda _: order.append("d")))
    row.settle()
    assert [told.source for told in row.told[3]] == [2, 0, 1]
    assert order == ["a", "b", "c", "d"]


def test_playing_stops_where_asked_and_goes_on(row: Row) -> None:
    seen: list[int] = []
    row.send(0, 1, message(1), data(1), SEGMENT)
    for at in (10, 20, 20, 30):
        row.fabric.call_at(at, seen.append)
    row.fabric.call_at(20, lambda _: row.fabric.stop_playing())
    row.fabric.call_at(20, seen.append)
    assert row.fabric.play(25) == 20
    assert seen == [10, 20, 20]
    assert row.fabric.play(25) == 25
    assert seen == [10, 20, 20, 20]
    assert row.fabric.play(10**6) == 10**6
    assert seen[-1] == 30
    assert len(row.told[1]) == 1


def test_what_a_callback_raises_ends_playing_and_it_may_go_on(row: Row) -> None:
    def fail(now: int) -> None:
        raise KeyError(now)

    row.send(0, 1, message(1), data(1), SEGMENT)
    row.fabric.call_at(1000, fail)
    with pytest.raises(KeyError, match="1000"):
        row.fabric.play(10**6)
    assert not row.turns[1]
    assert row.fabric.play(10**6) == 10**6
    assert len(row.turns[1]) == 1


def test_an_interrupt_ends_playing_where_only_native_code_is_called(row: Row) -> None:
    """Compiled endpoints are such code; here it is libc's `raise`, of the signal whose number is the instant."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    at, seen = int(signal.SIGUSR1), list[int]()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        row.fabric.call_at(at, getattr(ctypes.CDLL(None), "raise"))
        row.fabric.call_at(at, seen.append)
        with pytest.raises(KeyboardInterrupt):
            row.fabric.play(10**6)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == []
    assert row.fabric.play(10**6) == 10**6
    assert seen == [at]


def test_a_turn_sends_sets_alarms_and_changes_links(loaded: Loaded) -> None:
    """An echo from within a turn takes as long as the way there; a link slowed down by a function is slow from then."""
    row = Row(loaded)
    fabric, times = row.fabric, list[int]()

    def echo(now: int, runs: list[Run]) -> None:
        times.append(now)
        if runs and len(times) < 3:
            row.send(1, 0, message(1, len(times)), data(1), SEGMENT)
            fabric.alarm(number, now + 50)

    number = fabric.open_socket(row.hosts[1], 5000, echo, framing="roce", opcodes=roce.OPCODES)
    there = fabric.open_socket(row.hosts[0], 5000, lambda *_: None, framing="roce", opcodes=roce.OPCODES)
    fabric.send_run(there, ip(1), 1, ECT, message(1), data(1), SEGMENT)
    fabric.call_at(3000, lambda _: row.set_link(row.into[1], rate_bps=RATE_BPS // 10))
    row.settle()
    way = 2 * (math.floor(wire_ns(SEGMENT)) + DELAY_NS)
    assert times == [way, way + 50]
    assert row.turns[0] == [2 * way]


# --- alarms -----------------------------------------------------------------------------------------------------------


def test_there_is_one_alarm_which_rings_once(row: Row) -> None:
    alarm, socket = row.fabric.alarm, row.sockets[0]
    alarm(socket, 5000)
    alarm(socket, 700)
    row.fabric.play(800)
    assert row.turns[0] == [700]
    alarm(socket, 900)
    alarm(socket, 6000)
    row.fabric.play(5500)
    assert row.turns[0] == [700]
    alarm(socket, None)
    row.fabric.play(10_000)
    assert row.turns[0] == [700]
    alarm(socket, 1)  # it is over
    row.fabric.play(20_000)
    assert row.turns[0] == [700, 10_000]


def test_an_alarm_that_moves_to_and_fro_needs_no_more_memory(row: Row) -> None:
    """A pacing time and a timeout in turn, as a transport has them: each turn one event."""
    left = [10_000]

    def turn(now: int, _: list[Run]) -> None:
        left[0] -= 1
        row.fabric.alarm(socket, now + 10**6)
        if left[0] > 0:
            row.fabric.alarm(socket, now + 10)

    socket = row.fabric.open_socket(row.hosts[0], 1, turn, framing="plain")
    row.fabric.alarm(socket, 10)
    row.fabric.play(10**7)
    assert left[0] == -9  # at 100,000 ns the last of the paced ones, and then each millisecond
    assert row.fabric.statistics()["events"] <= 2 * 10_010


def test_a_free_alarm_waits_for_the_nic(row: Row) -> None:
    free = row.send(0, 1, message(4), data(4), SEGMENT)
    row.fabric.alarm(row.sockets[0], 100, free=True)
    row.settle()
    assert row.turns[0] == [free]


def test_a_free_alarm_of_an_idle_nic_rings_in_time(row: Row) -> None:
    row.fabric.alarm(row.sockets[0], 123, free=True)
    row.settle()
    assert row.turns[0] == [123]


def test_a_free_alarm_waits_while_pfc_holds_the_nic(loaded: Loaded) -> None:
    """Two hosts send 2 MB to a port of a tenth of the rate, which has them pause: a NIC is free at its last byte."""
    row = Row(loaded, (0, 0, 0))
    row.set_link(row.out_of[2], rate_bps=RATE_BPS // 10)
    row.fabric.configure_switch(row.switches[0], buffer=(10**6, 8.0, 10**6), pfc=(1, 30_000, 20_000))
    for source in (0, 1):
        promised = row.send(source, 2, message(250), data(250), SEGMENT)
        row.fabric.alarm(row.sockets[source], promised, free=True)
    row.settle()
    total_ns = 500 * wire_ns(SEGMENT, rate_bps=RATE_BPS // 10)
    last = max(row.turns[0][0], row.turns[1][0])
    assert promised < total_ns / 8
    assert 0.95 * total_ns < last < total_ns  # what the buffer holds is about 1 % of it
    assert sum(len(told.payload) for told in row.told[2]) == 500 * SEGMENT
    counts = [all_ for all_, _, _ in row.fabric.counters()]
    assert sum(count["dropped_queue"] for count in counts) == 0


# --- what is told when ------------------------------------------------------------------------------------------------


def turns_of(row: Row, *runs: tuple[Sequence[bytes], int]) -> list[list[list[int]]]:
    """PSNs of the runs told by turn, of runs that are sent with a ToS each."""
    for headers, tos in runs:
        row.send(0, 1, headers, data(len(headers)), SEGMENT, tos=tos)
    row.settle()
    times = sorted(set(row.turns[1]))
    return [[told.psns for told in row.told[1] if told.at_ns == at] for at in times]


def test_a_message_is_told_at_its_end(row: Row) -> None:
    """But for the first packet of a flow, of which nothing is known yet."""
    told = turns_of(row, (message(6), ECT), (message(4, 6), ECT), (message(1, 10), ECT))
    assert told == [[[0]], [[1, 2, 3, 4, 5]], [[6, 7, 8, 9]], [[10]]]
    assert row.turns[1][1] - row.turns[1][0] in (math.floor(5 * wire_ns(SEGMENT)), math.ceil(5 * wire_ns(SEGMENT)))


@pytest.mark.parametrize("first", [0, 1, 2**23 - 2, 2**23, 2**24 - 3])
def test_a_flow_may_begin_at_any_psn(row: Row, first: int) -> None:
    psns = [(first + i) % 2**24 for i in range(6)]
    headers = [bth(FIRST if i == 0 else MIDDLE, psn, ask=i == 5) for i, psn in enumerate(psns)]
    assert turns_of(row, (headers, ECT)) == [[psns[:1]], [psns[1:]]]


def test_who_asks_for_an_acknowledgement_is_told_at_once(row: Row) -> None:
    headers = [bth(FIRST, 0), *(bth(MIDDLE, i, ask=i == 3) for i in range(1, 8))]
    assert turns_of(row, (headers, ECT)) == [[[0]], [[1, 2, 3]]]  # and nothing calls for the others
    row.fabric.alarm(row.sockets[1], 2 * 10**9)
    row.fabric.play(2 * 10**9)
    assert (row.told[1][-1].psns, row.turns[1][-1]) == ([4, 5, 6, 7], 2 * 10**9)


@pytest.mark.parametrize(
    ("last", "tos", "told"),
    [
        (bth(MIDDLE, 4), CE, [[[0]], [[1, 2], [4]]]),
        (bth(MIDDLE, 3), CE, [[[0]], [[1, 2], [3]]]),
        (bth(MIDDLE, 3), 8 << 2 | ECT, [[[0]], [[1, 2], [3]]]),
        (bth(MIDDLE, 4), ECT, [[[0]], [[1, 2], [4]]]),
        (bth(MIDDLE, 1), ECT, [[[0]], [[1, 2], [1]]]),
        (bth(FIRST, 9), ECT, [[[0]], [[1, 2], [9]]]),
        (bth(ONLY, 3), ECT, [[[0]], [[1, 2], [3]]]),
        (bth(roce.ACKNOWLEDGE, 9) + b"\0\0\0\1", ECT, [[[0]], [[1, 2], [9]]]),
    ],
)
def test_whatever_may_be_reacted_to_is_told_at_once(
    row: Row, last: bytes, tos: int, told: list[list[list[int]]]
) -> None:
    assert turns_of(row, ([bth(FIRST, 0), bth(MIDDLE, 1), bth(MIDDLE, 2)], ECT), ([last], tos)) == told


def test_behind_a_gap_the_first_is_told_at_once_and_those_sent_again_too(row: Row) -> None:
    start, gap = [bth(FIRST, 0)], [bth(MIDDLE, i) for i in (2, 3, 4)]
    again = [bth(MIDDLE, 1), bth(MIDDLE, 2), bth(MIDDLE, 3), bth(MIDDLE, 4), bth(MIDDLE, 5), bth(MIDDLE, 6, ask=True)]
    assert turns_of(row, (start, ECT), (gap, ECT), (again, ECT)) == [
        [[0]], [[2]], [[3, 4], [1]], [[2]], [[3]], [[4]], [[5, 6]],
    ]  # fmt: skip


def test_flows_do_not_disturb_each_other(loaded: Loaded) -> None:
    """Two hosts' packets come in turn: each message is two runs, and nobody has more turns than for one alone."""
    row = Row(loaded, (0, 0, 0))
    for source in (0, 1):
        row.send(source, 2, message(8), data(8), SEGMENT)
    row.settle()
    assert [(told.source, told.psns) for told in row.told[2]] == [
        (0, [0]), (1, [0]), (0, [1, 2, 3, 4, 5, 6, 7]), (1, [1, 2, 3, 4, 5, 6]), (1, [7]),
    ]  # fmt: skip
    assert len(row.turns[2]) == 4


def test_without_opcodes_each_packet_is_told_at_its_instant(loaded: Loaded) -> None:
    row = Row(loaded, coalesce=False)
    assert turns_of(row, (message(4), ECT)) == [[[0]], [[1]], [[2]], [[3]]]


def test_a_whole_run_is_the_very_thing_that_was_sent(row: Row) -> None:
    row.send(0, 1, [bth(FIRST, 0)], data(1), SEGMENT)
    memory = memoryview(data(3))
    headers = (bth(MIDDLE, 1), bth(MIDDLE, 2), bth(MIDDLE, 3, ask=True))
    row.send(0, 1, headers, memory, SEGMENT)
    row.settle()
    _, _, tos, segment, told, payload, corrupt = row.told[1][1].run
    assert told is headers
    assert payload is memory
    assert (tos, segment, corrupt) == (ECT, SEGMENT, 0)


def test_the_last_segment_may_be_short(row: Row) -> None:
    payload = data(3)[:-1001]
    headers = [bth(FIRST, 0), bth(MIDDLE, 1), bth(roce.SEND_LAST, 2, ask=True, pad=1)]
    row.send(0, 1, headers, payload, SEGMENT)
    row.settle()
    assert [(told.psns, told.run[3], len(told.payload)) for told in row.told[1]] == [
        ([0], SEGMENT, SEGMENT),
        ([1, 2], SEGMENT, 2 * SEGMENT - 1001),
    ]
    assert b"".join(told.payload for told in row.told[1]) == payload


def test_plain_payloads_are_told_one_by_one(row: Row) -> None:
    came: list[tuple[int, Run]] = []
    sender = row.fabric.open_socket(row.hosts[0], 48864, lambda *_: None, framing="plain")
    row.fabric.open_socket(row.hosts[1], 48864, lambda now, runs: came.extend((now, r) for r in runs), framing="plain")
    row.fabric.send_run(sender, ip(1), 9, 0, [b"head" * 4, b"HEAD" * 4], b"aaaabbbb", 4)
    row.settle()
    assert [(run[1], run[3], run[4], bytes(run[5])) for _, run in came] == [
        (9, 20, (), b"head" * 4 + b"aaaa"),
        (9, 20, (), b"HEAD" * 4 + b"bbbb"),
    ]
    one = (42 + 20 + 24) * 8e9 / RATE_BPS
    assert [at for at, _ in came] == [
        2 * (math.floor(one) + DELAY_NS),
        math.floor(one) + math.floor(2 * one) + 2 * DELAY_NS,
    ]


def test_a_plain_socket_is_told_all_bytes_of_what_flew_by_reference(row: Row) -> None:
    came: list[bytes] = []
    sender = row.fabric.open_socket(row.hosts[0], 5000, lambda *_: None, framing="roce")
    row.fabric.open_socket(row.hosts[1], 5000, lambda _, runs: came.extend(bytes(r[5]) for r in runs), framing="plain")
    row.fabric.send_run(sender, ip(1), 9, ECT, [bth(ONLY, 0, pad=3)], data(1)[:-3], SEGMENT)
    row.settle()
    assert [payload[:-4] for payload in came] == [bth(ONLY, 0, pad=3) + data(1)[:-3] + bytes(3)]


def test_a_sink_counts_and_a_stranger_is_dropped(loaded: Loaded) -> None:
    row = Row(loaded, (0, 0, 0))
    row.fabric.sink(row.hosts[1], 7000, 7009)
    traffic = row.fabric.open_socket(row.hosts[0], 7005, lambda *_: None, framing="roce")
    row.fabric.send_run(traffic, ip(1), 1, 0, message(5), data(5), SEGMENT)
    row.fabric.set_group(row.switches[0], 1, [(2, 0), (3, 0)])
    row.send(0, 1, message(1), data(1), SEGMENT, tos=1 << 2)  # to everybody: host 2 is not meant
    row.settle()
    assert row.fabric.sink_counts(row.hosts[1]) == (5, 5 * (42 + 12 + SEGMENT + 4))
    assert row.fabric.sink_counts(row.hosts[2]) == (0, 0)
    assert len(row.told[1]) == 1
    assert row.told[2] == []
    assert row.fabric.taken() == []
    assert row.fabric.counters()[row.out_of[2]][0]["strayed"] == 1


# --- the host's processor ---------------------------------------------------------------------------------------------


def test_a_processor_serves_one_packet_at_a_time(loaded: Loaded) -> None:
    """Both hosts need 500 ns and 0.25 ns a byte for a packet, longer than it is on the wire: the slower paces all."""
    row = Row(loaded, coalesce=False)
    for host in row.hosts:
        row.fabric.set_host_cost(host, 500, 0.25)
    free = row.send(0, 1, message(3), data(3), SEGMENT)
    row.settle()
    frame = 42 + 12 + SEGMENT + 4
    cost, wire = 500 + frame / 4, math.floor(wire_ns(SEGMENT))
    assert free == math.floor(3 * cost) + wire
    first = math.floor(cost) + 2 * (wire + DELAY_NS)
    assert row.turns[1] == pytest.approx([first + cost, first + 2 * cost, first + 3 * cost], abs=2)


def test_what_is_sent_waits_for_what_came(loaded: Loaded) -> None:
    """While the processor serves five packets that came, one is sent: it leaves after them."""
    row = Row(loaded, coalesce=False)
    row.fabric.set_host_cost(row.hosts[1], 10_000, 0)
    row.send(0, 1, message(5), data(5), SEGMENT)
    row.fabric.call_at(5000, lambda _: row.send(1, 0, message(1), data(1), SEGMENT))
    row.settle()
    arrived = 2 * (math.floor(wire_ns(SEGMENT)) + DELAY_NS)
    assert row.turns[1] == [arrived + 10_000 * i for i in range(1, 6)]
    assert row.turns[0] == [arrived + 60_000 + arrived]


# --- memory -----------------------------------------------------------------------------------------------------------


def test_references_go_with_the_last_packet(row: Row) -> None:
    memory = Memory(data(4))
    alive = weakref.ref(memory)
    headers = tuple(message(4))
    before = sys.getrefcount(headers)
    row.send(0, 1, headers, memory, SEGMENT)
    del memory
    assert alive() is not None
    row.settle()
    assert sys.getrefcount(headers) == before
    assert alive() is not None  # what was told is there still
    row.told[1].clear()
    assert alive() is None


def test_references_of_dropped_packets_go(row: Row) -> None:
    row.set_link(row.out_of[1], queue_bytes=0, rate_bps=RATE_BPS // 100)
    memory = Memory(data(64))
    alive = weakref.ref(memory)
    row.send(0, 1, message(64), memory, SEGMENT)
    del memory
    row.settle()
    assert row.fabric.counters()[row.out_of[1]][0]["dropped_queue"] == 63
    row.told[1].clear()
    assert alive() is None


def test_a_fabric_that_goes_lets_go_of_what_is_on_its_way(loaded: Loaded) -> None:
    row = Row(loaded)
    memory = Memory(data(8))
    alive, fabric = weakref.ref(memory), [row.fabric]
    row.send(0, 1, message(8), memory, SEGMENT)
    row.fabric.call_at(10**6, memory.find)
    row.fabric.play(1500)
    del memory
    whole = weakref.ref(row)
    fabric.clear()
    del row
    gc.collect()
    assert whole() is None
    assert alive() is None


def test_memory_grows_with_what_is_on_its_way_and_not_with_what_was_sent(loaded: Loaded) -> None:
    row = Row(loaded, (0, 2))
    left, memory = [2000], data(4)

    def turn(_: int, __: list[Run]) -> None:
        left[0] -= 1
        if left[0]:
            free = row.fabric.send_run(socket, ip(1), 1, ECT, message(4, 4 * left[0]), memory, SEGMENT)
            row.fabric.alarm(socket, free, free=True)

    socket = row.fabric.open_socket(row.hosts[0], 7000, turn, framing="roce")
    row.fabric.sink(row.hosts[1], 7000, 7000)
    row.fabric.alarm(socket, 0)
    row.settle()
    assert row.fabric.sink_counts(row.hosts[1])[0] == 4 * 1999
    statistics = row.fabric.statistics()
    assert statistics["hops"] == 4 * 4 * 1999
    assert statistics["packets"] == 0
    assert statistics["most_packets"] <= 4 + 4 * math.ceil(DELAY_NS / wire_ns(SEGMENT) + 2)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_a_run_that_is_none_is_refused(row: Row) -> None:
    with pytest.raises(ValueError, match="header of bytes"):
        row.send(0, 1, message(3), data(2), SEGMENT)
    with pytest.raises(ValueError, match="header of bytes"):
        row.send(0, 1, [b"short"], b"", 0)
    with pytest.raises(ValueError, match="header of bytes"):
        row.send(0, 1, message(1), bytes(66_000), 66_000)
    with pytest.raises(ValueError, match="nobody has the address 10\\.0\\.0\\.9"):
        row.send(0, 8, message(1), b"", 0)
    with pytest.raises(IndexError, match="no socket 77"):
        row.fabric.alarm(77, 0)
    assert row.fabric.statistics()["packets"] == 0


def test_a_port_is_opened_once(row: Row) -> None:
    with pytest.raises(ValueError, match="4791"):
        row.fabric.open_socket(row.hosts[0], 4791, lambda *_: None, framing="plain")
    with pytest.raises(ValueError, match="4700 to 4800"):
        row.fabric.sink(row.hosts[0], 4700, 4800)
    with pytest.raises(ValueError, match="framing"):
        row.fabric.open_socket(row.hosts[0], 1, lambda *_: None, framing="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no memory port"):
        row.fabric.open_socket(row.fabric.add_memory_port(), 1, lambda *_: None, framing="plain")


def test_only_a_virtual_clock_is_played(loaded: Loaded) -> None:
    fabric = Fabric(1)
    fabric.add_switch(ctypes.addressof(loaded.table), 1)
    for call in (lambda: fabric.play(1), lambda: fabric.call_at(1, print), fabric.statistics):
        with pytest.raises(RuntimeError, match="virtual"):
            call()


def test_playing_is_not_entered_twice_and_time_not_turned_back(row: Row) -> None:
    refused: list[str] = []

    def again(now: int) -> None:
        for call in (row.fabric.play, row.fabric.advance):
            with pytest.raises(RuntimeError) as error:
                call(now)
            refused.append(str(error.value))

    row.fabric.call_at(5, again)
    row.fabric.play(10)
    assert len(refused) == 2
    with pytest.raises(ValueError, match="10 ns already"):
        row.fabric.play(9)
    with pytest.raises(ValueError, match="10 ns already"):
        row.fabric.call_at(9, again)
    with pytest.raises(RuntimeError, match="not advanced"):
        row.fabric.advance(20)


def test_what_is_to_be_called_is_not_passed_over() -> None:
    fabric, seen = Fabric(1, virtual=True), list[int]()
    fabric.advance(5)
    fabric.call_at(10, seen.append)
    with pytest.raises(RuntimeError, match="not advanced"):
        fabric.advance(20)
    fabric.play(15)
    fabric.advance(20)
    assert seen == [10]


@pytest.mark.slow
def test_all_of_this_under_the_sanitizers() -> None:
    assert_clean(__file__, "-m", "not slow")
