"""Queues under background traffic: what is dropped is what arithmetic says, and with PFC nothing is."""

from pathlib import Path

import pytest

from testbed.wire.ethernet import UDP_HEADERS_BYTES, UDP_WIRE_BYTES
from tests.simulation.runs import simulate

BYSTANDERS = {"count": 2, "placement": ["h0", "h1"]}  # a job elsewhere, without which there is no run
PACKET_BYTES = 1000
WORK = {"size": "64KiB", "iterations": 1, "warmup": 0}


@pytest.mark.parametrize("senders", [2, 5, 8])
@pytest.mark.parametrize("room", [1, 3, 10])
def test_an_incast_drops_what_has_no_room(tmp_path: Path, senders: int, room: int) -> None:
    """Each of n senders sends k packets at once into a port somewhat slower than theirs, whose queue holds c.

    A packet takes T from a sender and T' > T of the port. Of all n k those have room that come first, one in service
    and c behind it, and then one for each that the port has sent before the last ones come, (k - 1) T later.
    """
    packets, rate_bps, port_bps = 40, 1_000_000_000, 900_000_000
    hosts = [f"h{3 + sender}" for sender in range(senders)]
    run = simulate(
        tmp_path / "run",
        topology={"kind": "star", "hosts": 3 + senders},
        links=[
            {"rate": f"{rate_bps}bps", "delay": "5us"},
            {
                "select": "s0>h2",
                "rate": f"{port_bps}bps",
                "queue": f"{room * (PACKET_BYTES + UDP_HEADERS_BYTES)}B",
            },
        ],
        workers=BYSTANDERS,
        workload=WORK,
        traffic=[
            {
                "kind": "incast",
                "from": hosts,
                "to": "h2",
                "size": f"{packets * PACKET_BYTES}B",
                "packet": f"{PACKET_BYTES}B",
                "every": "1s",
            }
        ],
    )
    assert run.error is None, run.error
    assert run.result.verdict.value == "valid", run.result.verdict
    wire_bits = 8 * (PACKET_BYTES + UDP_WIRE_BYTES)
    sent_meanwhile = (packets - 1) * wire_bits * port_bps // (rate_bps * wire_bits)
    expected = senders * packets - (1 + room + sent_meanwhile)
    assert run.result.background is not None
    assert run.result.background.dropped_queue == expected
    assert run.result.background.received == senders * packets - expected


@pytest.mark.parametrize("congestion", ["none", "dcqcn"])
def test_pfc_never_drops(tmp_path: Path, congestion: str) -> None:
    run = simulate(
        tmp_path / "run",
        topology={"kind": "star", "hosts": 9},
        links=[{"rate": "1Gbps", "delay": "50us", "queue": "32KiB", "ecn": {"min": "8KiB", "max": "24KiB"}}],
        switches={
            "kind": "native",
            "program": "ecn_priority",
            "entries": "ecn_priority",
            "buffer": {"shared": "256KiB", "headroom": "32KiB"},
            "pfc": {"priorities": 3, "xoff": "12KiB", "xon": "8KiB"},
        },
        workers={"count": 9},
        transport={"kind": "roce", "mtu": 1024, "congestion": congestion},
        workload={"algorithm": "parameter-server", "size": "64KiB", "iterations": 3, "warmup": 1},
    )
    assert run.error is None, run.error
    packets = run.job.packets
    assert (packets.dropped_queue, packets.retransmitted, packets.balance, run.result.wrong) == (0, 0, 0, 0)
    if congestion == "none":  # DCQCN slows down before
        assert sum(int(row["pfc_sent"]) for row in run.rows("links.csv")) > 0


def test_a_constant_flow_takes_its_rate(tmp_path: Path) -> None:
    """Of the wire, overhead included: 100 Mb/s of packets of 1,000 B for 20 ms are 234 or 235 of them."""
    run = simulate(
        tmp_path / "run",
        workers=BYSTANDERS,
        workload={**WORK, "compute": "30ms"},
        traffic=[{"kind": "constant", "from": "h3", "to": "h2", "rate": "100Mbps", "packet": "1000B", "stop": "20ms"}],
    )
    assert run.error is None, run.error
    wire_bits = 8 * (PACKET_BYTES + UDP_WIRE_BYTES)
    assert run.result.background is not None
    assert run.result.background.received == pytest.approx(20e-3 * 100e6 / wire_bits, abs=1)
