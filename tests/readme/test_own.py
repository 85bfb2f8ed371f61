"""The examples of one's own do what the README says: planned, proved, pumped in memory, and once on a real network."""

import csv
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest

from testbed.collective import generate
from testbed.collective.cost import bytes_sent
from testbed.plan import plan
from testbed.plan.paths import Paths
from testbed.spec.model import TopologySpec, TransportSpec
from testbed.spec.reader import read_spec
from testbed.topology import build
from testbed.topology.graph import Graph
from testbed.topology.parameters import TopologyError
from testbed.transport import Endpoint, find, queue_pairs, settle
from testbed.transport.endpoint import Arrival, Received, Sent
from tests.transport.pump import PATH, Network, impaired

ROOT = Path(__file__).parents[2]
OWN = ROOT / "experiments" / "own"
HYPERCUBE = f"{OWN / 'topology.py'}:HYPERCUBE"
DIRECT = f"{OWN / 'algorithm.py'}:direct"
SCATTER = f"{OWN / 'transport.py'}:SCATTER"


def hypercube(**parameters: int) -> Graph:
    return build(TopologySpec.model_validate({"kind": HYPERCUBE, **parameters}))


@pytest.mark.parametrize("dims", range(1, 7))
def test_hypercube(dims: int) -> None:
    graph = hypercube(dims=dims)
    assert len(graph.hosts) == len(graph.switches) == 2**dims
    assert len(graph.links) // 2 == 2**dims + dims * 2 ** (dims - 1)


def test_hypercube_s_parameters_are_checked() -> None:
    with pytest.raises(TopologyError, match="needs 'dims'"):
        hypercube()
    with pytest.raises(TopologyError, match="dims is 7"):
        hypercube(dims=7)


def test_routes_are_as_short_as_numbers_differ_in_bits() -> None:
    made = plan(read_spec(OWN / "own.yaml", ["topology.dims=3", "workers.count=8"]))
    paths = Paths(made.graph, made.addresses, made.switches)
    for a, b in product(range(8), repeat=2):
        if a != b:
            assert len(paths.stages(f"h{a}", f"h{b}")) == 2 + (a ^ b).bit_count()


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 16])
def test_direct_is_proved_and_sends_as_little_as_a_ring(ranks: int) -> None:
    schedule = generate("allreduce", DIRECT, ranks)
    assert schedule.steps == 2 * (ranks - 1)
    sent = bytes_sent(schedule, schedule.chunks)
    assert np.array_equal(sent, np.full(ranks, 2 * (ranks - 1)))  # of `ranks` chunks


def endpoints(**keys: object) -> list[Endpoint]:
    spec = TransportSpec.model_validate({"kind": SCATTER, **keys})
    make = find(SCATTER).make
    assert make is not None
    return [make(PATH, rank, queue_pairs(2), settle(spec, PATH), 1) for rank in range(2)]


@pytest.mark.parametrize("seed", range(5))
def test_scatter_delivers_whatever_the_network_does(seed: int) -> None:
    ends, random = endpoints(window=8), Random(seed)
    sizes = [0, 1, 1023, 1024, 1025, 30_000]
    sent = [random.randbytes(size) for size in sizes]
    into = [bytearray(size) for size in sizes]
    network = Network(ends, impaired(random, loss=0.1, duplicate=0.1, reorder=0.3))
    for index, data in enumerate(sent):
        ends[1].post_receive(index, 0, 10 + index, memoryview(into[index]), 0)
        ends[0].post_send(index, 1, 10 + index, data, 0)
    network.run()
    assert into == sent
    assert sorted(event.id for event in network.events[0] if isinstance(event, Sent)) == list(range(len(sizes)))
    assert sorted(event.id for event in network.events[1] if isinstance(event, Received)) == list(range(len(sizes)))
    assert all(end.idle() for end in ends)
    assert ends[1].counters.received_bytes == sum(sizes)
    assert ends[0].counters.retransmitted_packets > 0


def test_scatter_repeats_nothing_without_cause() -> None:
    ends = endpoints()
    network = Network(ends, impaired(Random(0)))
    ends[1].post_receive(0, 0, 0, memoryview(bytearray(10_240)), 0)
    ends[0].post_send(0, 1, 0, bytes(10_240), 0)
    network.run()
    assert network.totals()["sent_packets"] == 10 + 10, "ten packets, an acknowledgement each"


def test_scatter_waits_for_a_receive_that_comes_late() -> None:
    ends, into = endpoints(), bytearray(2000)
    network = Network(ends, impaired(Random(0)))
    ends[0].post_send(0, 1, 5, bytes(range(250)) * 8, 0)
    network.at(500_000, lambda now: ends[1].post_receive(0, 0, 5, memoryview(into), now))
    network.run()
    assert into == bytes(range(250)) * 8


@pytest.mark.parametrize("header", [b"", b"\xff" * 12, bytes(28), bytes(400)])
def test_scatter_survives_bad_packets(header: bytes) -> None:
    end = endpoints()[0]
    end.receive(Arrival(1, 0, 3, (header,), b"abc"), 0)
    assert end.counters.malformed == 1
    assert end.idle()


@pytest.mark.root
@pytest.mark.beside
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root (network namespaces)")
def test_all_of_them_on_a_real_network(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "testbed", "run", str(OWN / "own.yaml"), "--json", "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode in (0, 4), run.stderr  # 4: this machine was too busy for the times to count
    (result,) = json.loads(run.stdout)
    assert (result["status"], result["wrong"], result["missing_bytes"]) == ("ok", 0, 0)
    packets = result["packets"]
    assert packets["sent"] == packets["received"] + packets["dropped_queue"] + packets["in_flight"]
    with (tmp_path / "run" / "links.csv").open() as links:
        crossed = {row["link"]: int(row["job_packets"]) for row in csv.DictReader(links)}
    pairs = {"s0>s1": 3, "s0>s2": 2, "s2>s3": 1}  # of hosts whose packets the pinned routes send that way, of 12 in all
    for link, count in pairs.items():
        assert abs(crossed[link] - packets["sent"] * count / 12) <= 2 * packets["retransmitted"], link


def test_the_program_does_what_its_packet_test_says() -> None:
    argv = [sys.executable, "-m", "testbed", "p4", "test", str(OWN / "cnp_first.p4"), str(OWN / "cnp_first.stf")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
