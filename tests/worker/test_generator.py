"""Background traffic between hosts on loopback: what is asked for leaves when it is due, and arrives."""

import contextlib
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from testbed.plan.serial import to_json
from testbed.run.channel import Channel, Hub
from testbed.spec.model import TrafficSpec
from testbed.stress.arrivals import flow_sources

from .harness import make_plan

pytestmark = pytest.mark.slow
SECONDS = 0.5
FIRST_PORT, ETHERTYPE_IPV4 = (9000).to_bytes(2, "big"), 0x0800


@contextmanager
def generator(directory: Path, *traffic: TrafficSpec) -> Iterator[Channel]:
    """A generator with its sockets open."""
    plan = make_plan(3, loopback=True, traffic=traffic)
    (directory / "plan.json").write_text(json.dumps(to_json(plan)))
    hub = Hub(directory / "control")
    argv = [sys.executable, "-m", "testbed.stress.generator", "--plan", str(directory / "plan.json")]
    process = subprocess.Popen([*argv, "--control", str(hub.path), "--namespaces", "{}"])
    try:
        channel = hub.accept(20)
        assert channel
        assert channel.name == "generator"
        yield channel
    finally:
        hub.close()
        assert process.wait(10) == 0


def run(channel: Channel, seconds: float = SECONDS) -> dict[str, Any]:
    """Start at once, let it run, stop."""
    channel.send({"op": "start", "at_ns": time.monotonic_ns()})
    with pytest.raises(Exception, match="said nothing"):
        channel.receive(seconds)
    return channel.request({"op": "stop"})


def constant(**given: Any) -> TrafficSpec:
    entry = {"kind": "constant", "from": "h0", "to": "h1", "rate": "10Mbps", "packet": "1000B"}
    return TrafficSpec.model_validate(entry | given)


def incast(**given: Any) -> TrafficSpec:
    entry = {"kind": "incast", "from": ("h0", "h2"), "to": "h1", "size": "10kB", "every": "20ms", "packet": "1500B"}
    return TrafficSpec.model_validate(entry | given)


def test_a_constant_flow_has_its_rate_on_the_wire(tmp_path: Path) -> None:
    with generator(tmp_path, constant()) as channel:
        (flow,) = run(channel)["flows"]
    packets = SECONDS * 10e6 / 8 / (1000 + 66)  # 66: Ethernet 14, IPv4 20, UDP 8, FCS, preamble and gap 24
    assert packets - 1 <= flow["asked_bytes"] / 1000 <= packets * 2  # the process may be stopped late
    assert flow["sent_bytes"] == flow["asked_bytes"]
    assert flow["received_bytes"] == flow["sent_bytes"]
    assert flow["received_packets"] * 1000 == flow["received_bytes"]
    assert (flow["source"], flow["target"], flow["socket_drops"]) == ("h0", "h1", 0)


def test_an_incast_sends_whole_bursts_from_all_sources(tmp_path: Path) -> None:
    with generator(tmp_path, incast()) as channel:
        flows = run(channel)["flows"]
    assert [flow["source"] for flow in flows] == ["h0", "h2"]
    for flow in flows:
        bursts = Fraction(flow["sent_bytes"], 10_000)
        assert bursts.denominator == 1
        assert bursts >= SECONDS / 0.02 - 1
        assert flow["received_packets"] == bursts * 7  # six of 1500 bytes and one of 1000


def test_flows_begin_and_end_when_the_spec_says(tmp_path: Path) -> None:
    entry = incast(**{"from": "h2", "start": "50ms", "stop": "90ms"})
    with generator(tmp_path, entry, constant(start="60s")) as channel:
        bounded, never = run(channel)["flows"]
    assert bounded["received_bytes"] == 20_000  # at 50 and 70 ms
    assert never["asked_bytes"] == 0


def test_nothing_leaves_before_the_start(tmp_path: Path) -> None:
    with generator(tmp_path, constant()) as channel:
        answer = channel.request({"op": "stop"})
        assert answer["flows"][0]["asked_bytes"] == 0
        assert answer["late_max_ns"] == 0


@pytest.mark.root
@pytest.mark.beside
def test_every_packet_has_its_number(tmp_path: Path) -> None:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
    numbers: list[int] = []
    with generator(tmp_path, incast(**{"from": "h0"})) as channel, wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        wire.setblocking(False)
        wire.bind(("lo", ETHERTYPE_IPV4))
        (flow,) = run(channel)["flows"]
        with contextlib.suppress(BlockingIOError):
            while packet := wire.recv(1 << 16):
                if packet[9] == socket.IPPROTO_UDP and packet[22:24] == FIRST_PORT:
                    numbers += [int.from_bytes(packet[at : at + 8], "little") for at in range(28, len(packet), 1500)]
    assert numbers == list(range(flow["received_packets"]))


def test_flows_over_tcp_come_as_drawn_and_are_timed(tmp_path: Path) -> None:
    entry = TrafficSpec.model_validate(
        {"kind": "flows", "sizes": "50kB", "every": "20ms", "from": ("h0", "h1"), "to": "h2"}
    )
    with generator(tmp_path, entry) as channel:
        answer = run(channel)
    rows, seed = answer["over_tcp"], 1
    graph = make_plan(3, loopback=True).graph
    drawn = {
        (source.host, arrival.number): arrival.at_ns
        for source in flow_sources((entry,), graph)
        for arrival in itertools.takewhile(lambda each: each.at_ns < SECONDS * 1e9, source.arrivals(seed))
    }
    assert {(row["source"], row["number"]): row["start_ns"] for row in rows}.items() >= drawn.items()
    done = [row for row in rows if row["fct_ns"] is not None]
    assert len(done) >= len(drawn) - 2
    assert all(row["fct_ns"] > 0 and row["size_bytes"] == 50_000 and row["target"] == "h2" for row in done)
    assert answer["flows"] == []
