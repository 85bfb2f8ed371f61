"""A native switch in a fabric under a virtual clock: every fate of a packet through real queues; books that balance.

The program notes in the packet what its egress was told. Cables carry 1 Gb/s and take 1 us, so that a frame of 101 B,
125 B on the wire, serialises in exactly 1 us.
"""

import ctypes
import ipaddress
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.control import Control
from testbed.dataplane.native.loader import ProgramTable, Rates, load_program
from testbed.netcore import CPU_PORT, HOLD_LIMIT_S, JOBS, Fabric
from tests.sanitizers import assert_clean

PORTS = 4
RATE_BPS, DELAY_NS, QUEUE_BYTES = 10**9, 1000, 100_000
FRAME_BYTES, FRAME_NS = 101, 1000
NOTE_BYTES = 22
NORMAL, INGRESS_CLONE, EGRESS_CLONE, RECIRCULATED, REPLICATED, RESUBMITTED = 0, 1, 2, 4, 5, 6
SWITCH_DROPS = (
    *("dropped_program", "dropped_assert", "dropped_port", "dropped_passes", "dropped_memory", "dropped_punt"),
)
LINK_DROPS = ("dropped_queue", "dropped_loss", "dropped_down")


class What(IntEnum):
    """As in fates.p4."""

    UNICAST = 0
    DROP = 1
    MULTICAST = 2
    CLONE_INGRESS = 3
    CLONE_EGRESS = 4
    RESUBMIT = 5
    RECIRCULATE = 6
    DIGEST = 7
    TRUNCATE = 8
    DROP_AT_EGRESS = 9
    GROW = 10
    SHRINK = 11
    LOG = 12
    METER = 13
    TIMES = 14


@dataclass(frozen=True)
class Came:
    """A frame that came out: where, when, and what egress noted in it."""

    port: int
    at_ns: int
    frame: bytes

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self.frame[at : at + size], "big")

    @property
    def instance(self) -> int:
        return self._number(4, 1)

    @property
    def rid(self) -> int:
        return self._number(5, 1)

    @property
    def depths(self) -> tuple[int, int]:
        return self._number(6, 4), self._number(10, 4)

    @property
    def waited_us(self) -> int:
        return self._number(14, 4)

    @property
    def length(self) -> int:
        return self._number(18, 4)

    @property
    def rest(self) -> bytes:
        return self.frame[NOTE_BYTES:]


def frame(what: What, argument: int = 0, port: int = 1, priority: int = 0, size: int = FRAME_BYTES) -> bytes:
    return bytes([what, argument, port, priority]).ljust(NOTE_BYTES, b"\0") + bytes(
        i % 251 for i in range(size - NOTE_BYTES)
    )


class Star:
    """One switch with a host at each of its ports."""

    def __init__(self, table: ProgramTable, *, virtual: bool = True, dilation: int = 1) -> None:
        self.fabric = Fabric(1, virtual=virtual)
        self.switch = self.fabric.add_switch(ctypes.addressof(table), 1, dilation=dilation)
        self.hosts, self.ports = [], []
        self.now_ns = 0
        for number in range(PORTS):
            host, port = self.fabric.add_memory_port(), self.fabric.add_switch_port(self.switch, number)
            self.hosts.append(host)
            self.ports.append(port)
            for index, (source, target) in enumerate(((host, port), (port, host))):
                link = self.fabric.add_link(source, target, 2 * number + index)
                self.fabric.set_link(link, rate_bps=RATE_BPS, delay_ns=DELAY_NS, queue_bytes=QUEUE_BYTES)

    def set_rate(self, port: int, rate_bps: int, queue_bytes: int = QUEUE_BYTES) -> None:
        """Of the cable from a port of the switch to its host."""
        self.fabric.set_link(2 * port + 1, rate_bps=rate_bps, delay_ns=DELAY_NS, queue_bytes=queue_bytes)

    def send(self, *frames: bytes, source: int = 0) -> list[Came]:
        """What comes of frames that a host sends back to back."""
        for each in frames:
            self.fabric.send(self.hosts[source], each)
        return self.settle()

    def settle(self) -> list[Came]:
        self.now_ns += 10**9
        self.fabric.advance(self.now_ns)
        return [Came(self.hosts.index(host), at, sent) for host, at, sent in self.fabric.taken()]

    def counters(self) -> dict[str, int]:
        return self.fabric.switch_counters(self.switch)

    def check_books(self) -> None:
        """Sent + duplicated + injected = received + drops + punted, as nothing is under way."""
        links, of = [all_ for all_, _, _ in self.fabric.counters()], self.counters()
        came_in = sum(link["entered"] for link in links[::2]) + of["injected"] + of["duplicated"]
        lost = sum(of[drop] for drop in SWITCH_DROPS) + sum(link[drop] for link in links for drop in LINK_DROPS)
        assert came_in == sum(link["packets"] for link in links[1::2]) + lost + of["punted"]
        assert all(link["in_flight"] == 0 for link in links)


@pytest.fixture(scope="module")
def program() -> Program:
    compiled = compile_p4(Path(__file__).with_name("fates.p4"))
    return program_of(json.loads(json.dumps(compiled.json)), "fates")


@pytest.fixture(scope="module")
def table(program: Program) -> ProgramTable:
    return load_program(build_program(program))[1]


@pytest.fixture
def star(table: ProgramTable) -> Iterator[Star]:
    star = Star(table)
    yield star
    star.check_books()


def test_a_switch_takes_no_time_and_cables_take_theirs(star: Star) -> None:
    came = star.send(frame(What.UNICAST), frame(What.UNICAST, port=2), frame(What.UNICAST))
    first = 2 * FRAME_NS + 2 * DELAY_NS
    assert [(c.port, c.at_ns) for c in came] == [(1, first), (2, first + FRAME_NS), (1, first + 2 * FRAME_NS)]
    assert {(c.instance, c.rid, c.depths, c.waited_us, c.length) for c in came} == {(NORMAL, 0, (0, 0), 0, FRAME_BYTES)}
    assert {c.rest for c in came} == {frame(What.UNICAST)[NOTE_BYTES:]}


def test_queues_tell_bytes_and_times(star: Star) -> None:
    """At a tenth of the rate four packets come while the first is served: the last finds two, and leaves none."""
    star.set_rate(1, RATE_BPS // 10)
    came = star.send(*[frame(What.UNICAST)] * 4)
    assert [c.depths for c in came] == [(0, 0), (0, 202), (101, 101), (202, 0)]
    assert [c.waited_us for c in came] == [0, 9, 18, 27]
    assert [c.at_ns - came[0].at_ns for c in came] == [0, 10_000, 20_000, 30_000]


@pytest.mark.parametrize("dilation", [1, 10])
def test_a_program_s_times_are_model_time(table: ProgramTable, dilation: int) -> None:
    """Slowed down ten times, a packet that waits 90 us beside the program waits 9 us in its model."""
    star = Star(table, dilation=dilation)
    for port in range(PORTS):
        star.fabric.set_link(
            2 * port, rate_bps=RATE_BPS // dilation, delay_ns=DELAY_NS * dilation, queue_bytes=QUEUE_BYTES
        )
        star.set_rate(port, RATE_BPS // 10 // dilation)
    came = star.send(*[frame(What.TIMES)] * 4)
    assert [c.waited_us for c in came] == [0, 9, 18, 27]
    assert [c.depths for c in came] == [(2 + i, 2 + 10 * i) for i in range(4)]  # enq_, egress_global_timestamp
    assert [c.length for c in came] == [2, 3, 4, 5]  # ingress_global_timestamp


@pytest.mark.parametrize("dilation", [1, 10])
def test_meters_fill_in_model_time(program: Program, table: ProgramTable, dilation: int) -> None:
    """A packet each 10 us and bursts of one: of packets that come each 5 us every other one is green (RFC 2698)."""
    star = Star(table, dilation=dilation)
    control = Control(program, table, star.fabric.switch_instance(star.switch))
    control.set_meter("packets", 0, Rates(0.1, 0.1, 1, 1))
    for i in range(8):
        star.fabric.advance((i + 1) * 5000 * dilation)
        star.fabric.inject(star.switch, 0, frame(What.METER))
    assert [c.frame[1] for c in star.settle()] == [0, 2] * 4  # green, red


def test_a_larger_priority_overtakes(star: Star) -> None:
    star.set_rate(1, RATE_BPS // 10)
    came = star.send(*(frame(What.UNICAST, argument=i, priority=p) for i, p in enumerate((0, 0, 7, 3))))
    assert [c.frame[1] for c in came] == [0, 2, 3, 1]
    assert [c.depths for c in came] == [(0, 0)] * 4  # each waits in a queue of its own


def test_weights_share_the_link(star: Star) -> None:
    star.set_rate(1, RATE_BPS // 100, queue_bytes=10**6)
    star.fabric.configure_switch(star.switch, scheduler=(1, 3, 1, 1, 1, 1, 1, 1))
    came = star.send(*(frame(What.UNICAST, priority=i % 2, size=1501) for i in range(120)))
    assert sum(c.frame[3] for c in came[:60]) in range(43, 48)


def test_drops_of_the_program_in_either_pipeline(star: Star) -> None:
    assert star.send(frame(What.DROP), frame(What.DROP_AT_EGRESS), frame(What.UNICAST, port=77)) == []
    counters = star.counters()
    assert (counters["received"], counters["dropped_program"], counters["dropped_port"]) == (3, 2, 1)


def test_multicast(star: Star) -> None:
    star.fabric.set_group(star.switch, 5, [(1, 11), (2, 12), (2, 13), (3, 14)])
    came = star.send(frame(What.MULTICAST, argument=5), frame(What.MULTICAST, argument=6))
    assert sorted((c.port, c.rid) for c in came) == [(1, 11), (2, 12), (2, 13), (3, 14)]
    assert {c.instance for c in came} == {REPLICATED}
    assert [c.depths for c in came if c.port == 2] == [(0, 0), (0, 0)]
    counters = star.counters()
    assert (counters["duplicated"], counters["dropped_program"]) == (3, 1)  # group 6 is none


def test_clones_of_ingress_are_of_the_packet_as_it_came(star: Star) -> None:
    star.fabric.set_session(star.switch, 4, [(2, 0), (3, 9)])
    came = star.send(frame(What.CLONE_INGRESS, argument=4), frame(What.CLONE_INGRESS, argument=8))
    assert [(c.port, c.instance, c.rid) for c in came] == [
        (2, INGRESS_CLONE, 0),
        (3, INGRESS_CLONE, 9),
        (1, NORMAL, 0),
        (1, NORMAL, 0),
    ]
    assert star.counters()["duplicated"] == 2


def test_clones_of_egress_are_of_the_packet_as_it_leaves(star: Star) -> None:
    star.fabric.set_session(star.switch, 4, [(1, 0), (3, 7)])
    came = star.send(frame(What.CLONE_EGRESS, argument=4))
    assert sorted((c.port, c.instance, c.rid) for c in came) == [
        (1, NORMAL, 0),
        (1, EGRESS_CLONE, 0),
        (3, EGRESS_CLONE, 7),
    ]


def test_resubmitting_keeps_what_is_asked_for(star: Star) -> None:
    (came,) = star.send(frame(What.RESUBMIT, argument=3))
    assert (came.port, came.instance, came.at_ns) == (1, NORMAL, 2 * FRAME_NS + 2 * DELAY_NS)


def test_recirculating_passes_the_whole_switch_each_time(star: Star) -> None:
    """8 bytes more each time, which the next parser takes for payload, beyond any headroom that the packet had."""
    (came,) = star.send(frame(What.RECIRCULATE, argument=40))
    assert (came.port, came.instance, came.length) == (1, NORMAL, FRAME_BYTES + 40 * 8)
    assert came.rest == bytes(40 * 8) + frame(What.UNICAST)[NOTE_BYTES:]


def test_packets_that_would_come_round_for_ever_are_stopped(star: Star) -> None:
    assert star.send(frame(What.RECIRCULATE, argument=255)) == []
    assert star.counters()["dropped_passes"] == 1
    assert len(star.send(frame(What.UNICAST))) == 1


def test_a_trimmed_packet_stays_so_when_it_comes_round(star: Star) -> None:
    """Of three at once one is served, one waits, and there is room for 64 B of the third; two grow by 8 B."""
    packet = bytes(Ether(dst="06:01:01:00:00:00") / IP(dst="10.0.0.1") / UDP(dport=4791) / bytes(108))
    assert (packet[:3], len(packet)) == (bytes([What.RECIRCULATE, 1, 1]), 150)
    star.set_rate(1, RATE_BPS // 100, queue_bytes=235)
    star.fabric.configure_switch(star.switch, trim=64)
    came = star.send(*[packet] * 3)
    assert sorted(len(c.frame) for c in came) == [64, 158, 158]
    assert sorted(c.length for c in came) == [64, 158, 158]
    assert star.counters()["trimmed"] == 1
    assert [link["shortened"] for link, _, _ in star.fabric.counters()[1::2]] == [0, 1, 0, 0]


def test_what_is_paused_is_told_and_for_how_long(star: Star) -> None:
    """One frame is served for a millisecond, three wait when the fourth comes at 5 us. The pause, 84 B on the wire, is
    at the host 672 ns and the cable's delay later, when the seventh of its eight frames is under way."""
    star.set_rate(1, RATE_BPS // 1000)
    star.fabric.configure_switch(star.switch, buffer=(10**6, 8.0, 10**5), pfc=(1, 3 * FRAME_BYTES, FRAME_BYTES))
    for _ in range(8):
        star.fabric.send(star.hosts[0], frame(What.UNICAST))
    star.fabric.advance(4 * FRAME_NS + DELAY_NS)
    assert star.fabric.pauses() == []
    star.fabric.advance(100_000)
    assert star.fabric.pauses() == [(0, 0, 100_000 - (4 * FRAME_NS + DELAY_NS + 672 + DELAY_NS), FRAME_BYTES)]
    star.now_ns = 100_000
    assert len(star.settle()) == 8
    assert star.fabric.pauses() == []


def test_what_comes_round_by_the_cpu_port_needs_no_stack(star: Star) -> None:
    usual = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=star.send, args=(frame(What.RECIRCULATE, argument=255, port=255),))
        thread.start()
    finally:
        threading.stack_size(usual)
    thread.join(60)
    assert star.counters()["dropped_passes"] == 1
    assert star.fabric.punted() == []


def test_digests_are_kept_up_to_a_limit(star: Star) -> None:
    star.send(*(frame(What.DIGEST, argument=i % 256) for i in range(5000)))
    digests, counters = star.fabric.digests(star.switch), star.counters()
    assert digests[:2] == [(digests[0][0], bytes([0, 0, 0])), (digests[0][0], bytes([1, 0, 0]))]
    assert (counters["digests"], len(digests) + counters["lost_digests"]) == (5000, 5000)
    assert counters["lost_digests"] > 0
    assert star.fabric.digests(star.switch) == []


def test_messages(star: Star) -> None:
    star.send(frame(What.LOG, argument=42))
    assert star.fabric.messages(star.switch) == ["argument 42"]


def test_a_packet_takes_the_room_that_it_will_have(star: Star) -> None:
    """Cut to 40 B, grown by 8, shrunk by 8: what those behind find in the queue."""
    star.set_rate(1, RATE_BPS // 100)
    kinds = (What.UNICAST, What.TRUNCATE, What.GROW, What.SHRINK, What.UNICAST)
    came = star.send(*(frame(kind, argument=40) for kind in kinds))
    assert [c.depths[0] for c in came] == [0, 0, 40, 149, 242]
    assert [len(c.frame) for c in came] == [101, 40, 109, 93, 101]


def test_the_queue_is_bounded_to_the_byte(star: Star) -> None:
    star.set_rate(1, RATE_BPS // 1000, queue_bytes=3 * FRAME_BYTES)
    assert len(star.send(*[frame(What.UNICAST)] * 9)) == 4  # one is served
    assert star.fabric.counters()[3][0]["dropped_queue"] == 5


def test_the_cpu_port(star: Star) -> None:
    assert star.send(frame(What.UNICAST, port=255), source=2) == []
    ((switch, port, sent),) = star.fabric.punted()
    came = Came(CPU_PORT, 0, sent)
    assert (switch, port, came.instance, came.length, came.rest) == (
        star.switch,
        2,
        NORMAL,
        101,
        frame(What.UNICAST)[22:],
    )
    star.send(*[frame(What.UNICAST, port=255)] * 5000)
    counters = star.counters()
    assert counters["punted"] - 1 == len(star.fabric.punted())
    assert counters["punted"] + counters["dropped_punt"] == 5001
    assert counters["dropped_punt"] > 0


def test_packets_of_the_control_plane(star: Star) -> None:
    star.fabric.inject(star.switch, 300, frame(What.UNICAST, port=255))
    star.fabric.send_out(star.switch, 3, b"past the program")
    (came,) = star.settle()
    assert (came.port, came.frame) == (3, b"past the program")
    assert [port for _, port, _ in star.fabric.punted()] == [300]
    assert star.counters()["injected"] == 2
    with pytest.raises(KeyError, match="no port 9"):
        star.fabric.send_out(star.switch, 9, b"")


def test_job_packets_are_counted_apart(star: Star) -> None:
    star.fabric.set_job((4791,), 5000, 5999)
    star.send(frame(What.DROP))
    assert (star.counters()["dropped_program"], star.counters()["job_dropped_program"]) == (1, 0)
    for number, port in enumerate((4791, 48864), 1):  # RoCE's, and that of sums
        sent = bytes(Ether(dst="01:00:00:00:00:01") / IP(dst="10.0.0.1") / UDP(dport=port) / bytes(64))
        assert sent[0] == What.DROP
        star.send(sent)
        counters = star.counters()
        assert (counters["dropped_program"], counters["job_dropped_program"]) == (1 + number, number)


def test_the_jobs_packets_are_told_apart_by_who_sent_them(star: Star) -> None:
    star.fabric.set_job((4791,), 5000, 5999)
    star.fabric.set_job_hosts(
        [(int(ipaddress.IPv4Address(ip)), job) for ip, job in (("10.0.0.9", 1), ("10.0.0.7", 15))]
    )
    for source in ("10.0.0.7", "10.0.0.9", "10.0.0.7", "10.0.0.8"):  # the last is no job's
        star.send(bytes(Ether(dst="01:00:00:00:00:01") / IP(src=source, dst="10.0.0.1") / UDP(dport=4791) / bytes(64)))
    dropped = [star.fabric.switch_counters(star.switch, job)["job_dropped_program"] for job in (None, 0, 1, 15)]
    assert dropped == [3, 0, 1, 2]
    entered = [star.fabric.counters(job)[0][1]["entered"] for job in (None, 0, 1, 15)]
    assert entered == dropped
    assert star.fabric.counters()[0][0]["entered"] == star.counters()["dropped_program"] == 4
    for ask in (star.fabric.counters, lambda job: star.fabric.switch_counters(star.switch, job)):
        with pytest.raises(ValueError, match=f"there is no job {JOBS}"):
            ask(JOBS)
    with pytest.raises(ValueError, match="at most 16 jobs"):
        star.fabric.set_job_hosts([(1, JOBS)])
    with pytest.raises(TypeError):
        star.fabric.set_job_hosts([1])
    star.fabric.set_job_hosts([])
    star.send(bytes(Ether(dst="01:00:00:00:00:01") / IP(src="10.0.0.8", dst="10.0.0.1") / UDP(dport=4791) / bytes(64)))
    assert star.fabric.switch_counters(star.switch, 0)["job_dropped_program"] == 1


def test_any_bytes_do_no_harm_to_the_books(star: Star) -> None:
    star.fabric.set_group(star.switch, 1, [(0, 1), (1, 2), (3, 3)])
    star.fabric.set_session(star.switch, 1, [(2, 0)])
    star.fabric.send_out(star.switch, 0, b"")
    for size in range(60):
        star.send(*(bytes([what, 1, 1, 0])[:size].ljust(size, b"\1") for what in range(14)))
    star.fabric.punted()


def test_a_fabric_may_be_advanced_while_other_threads_hand_packets_in(star: Star) -> None:
    packets, came = 3000, []

    def hand_in(source: int) -> None:
        for _ in range(packets):
            star.fabric.send(star.hosts[source], frame(What.UNICAST, port=3))
            came.extend(star.fabric.taken())

    threads = [threading.Thread(target=hand_in, args=(source,)) for source in range(2)]
    star.set_rate(3, RATE_BPS, queue_bytes=10**9)
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        star.now_ns += 10 * FRAME_NS
        star.fabric.advance(star.now_ns)
    assert len(star.settle()) + len(came) == 2 * packets


class TestHolding:
    """The loop under the monotonic clock."""

    @pytest.fixture
    def running(self, table: ProgramTable) -> Iterator[Star]:
        star = Star(table, virtual=False)
        thread = threading.Thread(target=star.fabric.run)
        thread.start()
        yield star
        star.fabric.stop()
        thread.join(10)
        assert not thread.is_alive()

    @staticmethod
    def arrived(star: Star, count: int) -> Sequence[tuple[int, int, bytes]]:
        taken: list[tuple[int, int, bytes]] = []
        limit = threading.Event()
        for _ in range(500):
            taken += star.fabric.taken()
            if len(taken) >= count:
                break
            limit.wait(0.01)
        return taken

    @staticmethod
    def let_pass(time_ns: int) -> None:
        until_ns = time.monotonic_ns() + time_ns
        while time.monotonic_ns() < until_ns:
            pass

    def test_a_cut_takes_nothing_that_had_arrived(self, table: ProgramTable) -> None:
        """Nothing ran meanwhile, but by the clock the frame is through both cables."""
        star = Star(table, virtual=False)
        star.fabric.send(star.hosts[0], frame(What.UNICAST))
        self.let_pass(20 * FRAME_NS)
        star.fabric.set_link_up(0, False)
        star.fabric.set_link_up(3, False)
        assert len(star.fabric.taken()) == 1

    def test_a_change_of_a_link_comes_after_what_had_arrived(self, table: ProgramTable) -> None:
        star = Star(table, virtual=False)
        star.fabric.send(star.hosts[0], frame(What.UNICAST))
        self.let_pass(20 * FRAME_NS)
        star.fabric.set_link(3, rate_bps=1, delay_ns=DELAY_NS, queue_bytes=QUEUE_BYTES)
        assert len(star.fabric.taken()) == 1

    @pytest.mark.slow
    def test_who_holds_it_for_ever_ends_the_loop(self, table: ProgramTable) -> None:
        star, ends = Star(table, virtual=False), list[Exception]()

        def run() -> None:
            try:
                star.fabric.run()
            except OSError as error:
                ends.append(error)

        loop = threading.Thread(target=run)
        loop.start()
        dying = threading.Thread(target=star.fabric.hold)
        dying.start()
        dying.join(10)
        loop.join(2 * HOLD_LIMIT_S)
        (end,) = ends
        assert isinstance(end, TimeoutError)
        assert "did not release it within 5 s" in str(end)
        assert star.counters()["received"] == 0, "it may be asked at once"

    def test_nothing_moves_while_it_is_held(self, running: Star) -> None:
        fabric = running.fabric
        fabric.hold()
        for _ in range(2):  # the second would have the first move, had time gone on
            fabric.send(running.hosts[0], frame(What.UNICAST))
            self.let_pass(20 * FRAME_NS)
        fabric.inject(running.switch, 0, frame(What.UNICAST))
        fabric.set_link_up(0, True)
        assert fabric.taken() == []
        assert running.counters()["received"] == 0
        with pytest.raises(RuntimeError, match="holds the fabric already"):
            fabric.hold()
        fabric.release()
        assert len(self.arrived(running, 3)) == 3
        with pytest.raises(RuntimeError, match="does not hold"):
            fabric.release()

    def test_another_thread_waits(self, running: Star) -> None:
        fabric, order = running.fabric, []

        def other() -> None:
            fabric.switch_counters(running.switch)
            order.append("counted")
            fabric.hold()
            fabric.release()

        fabric.hold()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        order.append("released")
        fabric.release()
        thread.join(10)
        assert order == ["released", "counted"]

    def test_it_may_be_stopped_while_it_is_held(self, running: Star) -> None:
        running.fabric.hold()
        running.fabric.stop()
        running.fabric.release()

    def test_whatever_is_not_running_can_be_held(self, table: ProgramTable) -> None:
        star = Star(table)
        star.fabric.hold()
        with pytest.raises(RuntimeError, match="not held"):
            star.fabric.advance(1)
        star.fabric.release()
        assert star.send(frame(What.UNICAST))


def test_what_is_refused(table: ProgramTable) -> None:
    star = Star(table)
    fabric, switch = star.fabric, star.switch
    with pytest.raises(ValueError, match="numbered below"):
        fabric.add_switch_port(switch, CPU_PORT)
    with pytest.raises(ValueError, match="each once"):
        fabric.add_switch_port(switch, 0)
    with pytest.raises(IndexError, match="no switch 7"):
        fabric.switch_counters(7)
    with pytest.raises(ValueError, match="weights"):
        fabric.configure_switch(switch, scheduler=(1, 2))
    with pytest.raises(ValueError, match="memory port"):
        fabric.send(star.ports[0], b"")
    with pytest.raises(RuntimeError, match="advanced, not run"):
        fabric.run()
    fabric.advance(10)
    with pytest.raises(ValueError, match="10 ns already"):
        fabric.advance(9)
    other = (ctypes.c_uint32 * 64)(999)
    with pytest.raises(ValueError, match="ABI"):
        fabric.add_switch(ctypes.addressof(other), 1)
    with pytest.raises(ValueError, match="dilation is at least 1"):
        fabric.add_switch(ctypes.addressof(table), 1, dilation=0)


@pytest.mark.slow
def test_all_of_this_under_the_sanitizers() -> None:
    assert_clean(__file__, "-m", "not slow")
