"""Probes between two ranks on loopback."""

import os
import select
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from testbed import netcore
from testbed.worker.clock import ModelClock
from testbed.worker.probe import Prober, most_waits

PATIENCE_NS = 2_000_000_000
ADDRESSES = tuple(f"127.{os.getpid() % 250 + 1}.3.{rank + 1}" for rank in range(2))


class Probers:
    """Two of them, pumped until a probe is done."""

    def __init__(self, dilation: int = 1, burst_packets: int = 16) -> None:
        clock = ModelClock(time.monotonic_ns(), dilation)
        self.both = [Prober(rank, ADDRESSES, burst_packets, clock) for rank in range(2)]
        self.answers: list[dict[str, Any]] = []

    def pump(self, count: int = 1) -> Mapping[str, Any]:
        deadline = time.monotonic() + 10
        ready: dict[int, int] = {}
        while len(self.answers) < count:
            assert time.monotonic() < deadline
            for prober in self.both:
                prober.serve(ready)
            wakes = [wake for prober in self.both if (wake := prober.wake_ns()) is not None]
            timeout_ns = max(0, min(wakes) - time.monotonic_ns()) if wakes else 10**8
            ready = dict(netcore.ppoll([entry for prober in self.both for entry in prober.watched()], timeout_ns))
        return self.answers[-1]


@pytest.fixture(name="probers")
def _probers() -> Iterator[Probers]:
    probers = Probers()
    yield probers
    for prober in probers.both:
        prober.close()


def test_round_trips_come_back(probers: Probers) -> None:
    probers.both[0].round_trips(1, 5, 1472, PATIENCE_NS, probers.answers.append)
    answer = probers.pump()
    assert len(answer["round_trips_ns"]) == 5
    assert answer["lost"] == 0
    assert all(0 < rtt_ns < 10**9 for rtt_ns in answer["round_trips_ns"])


def test_a_train_is_timed_by_its_receiver(probers: Probers) -> None:
    """Loopback has no rate; what must hold is that all came and that the rate is that of the times given."""
    probers.both[0].train(1, 1000, 1472, PATIENCE_NS, probers.answers.append)
    answer = probers.pump()
    assert answer["received"] == 1000
    took_ns = answer["train_ns"] - answer["way_ns"]
    bits = 999 * (1472 + 66) * 8  # 66: Ethernet 14, IPv4 20, UDP 8, FCS, preamble and gap 24
    assert answer["measured_bps"] == pytest.approx(bits * 1e9 / took_ns, rel=1e-6)


def test_probes_queue_up(probers: Probers) -> None:
    for _ in range(3):
        probers.both[1].round_trips(0, 1, 64, PATIENCE_NS, probers.answers.append)
    probers.pump(3)
    assert all(len(answer["round_trips_ns"]) == 1 for answer in probers.answers)


def test_times_are_model_times() -> None:
    probers = Probers(dilation=1000)
    try:
        begun_ns = time.monotonic_ns()
        probers.both[0].round_trips(1, 1, 64, PATIENCE_NS, probers.answers.append)
        (rtt_ns,) = probers.pump()["round_trips_ns"]
        assert rtt_ns <= (time.monotonic_ns() - begun_ns) // 1000
    finally:
        for prober in probers.both:
            prober.close()


def test_what_never_comes_back_is_lost(probers: Probers) -> None:
    probers.both[1].close()
    answering = probers.both.pop()
    assert answering
    probers.both[0].round_trips(1, 2, 64, 10**6, probers.answers.append)
    probers.both[0].train(1, 16, 64, 10**6, probers.answers.append)
    probers.pump(2)
    assert probers.answers[0] == {"round_trips_ns": [], "lost": 2}
    assert probers.answers[1]["measured_bps"] is None


@pytest.mark.parametrize("packets", [16, 1000])
def test_a_prober_gives_a_lost_train_up_after_the_waits_that_are_told(probers: Probers, packets: int) -> None:
    probers.both.pop().close()
    (prober,) = probers.both
    prober.train(1, packets, 64, 10**6, probers.answers.append)
    deadline = time.monotonic() + 10
    waited_until: set[int] = set()
    while not probers.answers:
        assert time.monotonic() < deadline
        if (wake_ns := prober.wake_ns()) is not None:
            waited_until.add(wake_ns)
        prober.serve(dict(netcore.ppoll(prober.watched(), 10**5)))
    assert len(waited_until) == most_waits(packets)


def test_bytes_that_are_no_probe_are_ignored(probers: Probers) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((ADDRESSES[0], 0))
        for data in (b"", b"\x09" * 40, b"\x02" * 17, b"short"):
            sock.sendto(data, (ADDRESSES[1], 4792))
    select.select([probers.both[1].watched()[0][0]], [], [], 1)
    probers.both[0].round_trips(1, 1, 64, PATIENCE_NS, probers.answers.append)
    assert probers.pump()["lost"] == 0
