"""What a simulated run captures are whole, valid frames, although payloads are never copied: ICRC and all."""

import struct
from pathlib import Path

from testbed import netcore
from tests.netcore.pcapng import INBOUND, OUTBOUND, read_pcapng
from tests.simulation.runs import simulate

ETHERNET, HEADERS, ICRC = 14, 28, 4


def test_frames_are_whole_and_valid(tmp_path: Path) -> None:
    run = simulate(
        tmp_path / "run",
        transport={"kind": "roce", "mtu": 1024},
        workload={"size": "20000B", "iterations": 2, "warmup": 0},
        capture={"select": "h1"},
    )
    assert run.error is None, run.error
    capture = read_pcapng(tmp_path / "run" / "pcap" / "h1-eth0.pcapng")
    assert capture.interface == "h1-eth0"
    assert capture.application
    links = {row["link"]: int(row["packets"]) for row in run.rows("links.csv")}
    directions = [record.direction for record in capture.records]
    assert directions.count(INBOUND) == links["s0>h1"]
    assert directions.count(OUTBOUND) == links["h1>s0"]
    for record in capture.records:
        assert record.length == len(record.frame)
        datagram = record.frame[ETHERNET:]
        assert struct.unpack("!H", datagram[2:4])[0] == len(datagram)
        assert sum(struct.unpack("!10H", datagram[:20])) % 0xFFFF == 0  # RFC 1071
        data = datagram[HEADERS:-ICRC]
        assert int.from_bytes(datagram[-ICRC:], "little") == netcore.icrc(datagram[:HEADERS], data)
    times = [record.at_ns for record in capture.records]
    assert times == sorted(times)
    assert times[-1] < 10_000_000, "instants of the simulation, not of this machine"
