"""With empty queues a collective takes what arithmetic says, to the nanosecond: store and forward over equal links.

A message of m packets, each of which takes T on a link, is complete after m T + d at the switch, and another T + d
later, for its last packet, at its receiver: (m + 1) T + 2 d over a star.
"""

from pathlib import Path

import pytest

from testbed.wire.ethernet import UDP_WIRE_BYTES
from tests.simulation.plain import MTU_BYTES, WIRE_BYTES
from tests.simulation.runs import simulate

TRANSPORT = {"kind": f"{Path(__file__).with_name('plain.py')}:PLAIN"}
RATE_BPS = 8 * WIRE_BYTES * 10**6  # so that a packet takes exactly a microsecond
PACKET_NS, DELAY_NS = 1000, 700
CHUNK = 16  # packets


def star(hosts: int) -> dict[str, object]:
    return {
        "topology": {"kind": "star", "hosts": hosts},
        "links": [{"rate": f"{RATE_BPS}bps", "delay": f"{DELAY_NS}ns", "queue": "4MiB"}],
        "workers": {"count": hosts},
        "transport": TRANSPORT,
    }


def message_ns(packets: int) -> int:
    return (packets + 1) * PACKET_NS + 2 * DELAY_NS


def took(directory: Path, hosts: int, **workload: object) -> set[int]:
    run = simulate(directory, **star(hosts), workload={"iterations": 3, "warmup": 1, **workload})
    assert run.error is None
    assert run.result.verdict.value == "valid", run.result.verdict
    assert run.result.wrong == 0
    return set(run.cct_ns)


@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_ring(tmp_path: Path, hosts: int) -> None:
    """2 (n - 1) steps of a chunk each (Patarasuk and Yuan, JPDC 69(2), 2009)."""
    size = f"{hosts * CHUNK * MTU_BYTES}B"
    assert took(tmp_path / "run", hosts, algorithm="ring", size=size) == {2 * (hosts - 1) * message_ns(CHUNK)}


@pytest.mark.parametrize(("hosts", "steps"), [(2, 1), (4, 2), (8, 3)])
def test_halving_doubling(tmp_path: Path, hosts: int, steps: int) -> None:
    """Halves, quarters, ... exchanged, and back (Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005)."""
    packets = hosts * CHUNK
    expected = 2 * sum(message_ns(packets >> step) for step in range(1, steps + 1))
    assert took(tmp_path / "run", hosts, algorithm="halving-doubling", size=f"{packets * MTU_BYTES}B") == {expected}


@pytest.mark.parametrize(("hosts", "steps"), [(2, 1), (4, 2), (8, 3)])
def test_broadcast(tmp_path: Path, hosts: int, steps: int) -> None:
    """A binomial tree doubles those that have it: the whole buffer in each of log2 n steps."""
    workload = {"collective": "broadcast", "algorithm": "binomial", "size": f"{CHUNK * MTU_BYTES}B"}
    assert took(tmp_path / "run", hosts, **workload) == {steps * message_ns(CHUNK)}


@pytest.mark.parametrize("incast", [1, 2, 3, 7])
def test_transpose_allreduce(tmp_path: Path, incast: int) -> None:
    """2 ceil((n - 1) / I) rounds, in each of which a port carries I shards, or what is left (OptiReduce, NSDI 2025)."""
    hosts, rounds = 8, [incast] * (7 // incast) + ([7 % incast] if 7 % incast else [])
    workload = {"algorithm": {"kind": "tar", "incast": incast}, "size": f"{hosts * CHUNK * MTU_BYTES}B"}
    assert took(tmp_path / "run", hosts, **workload) == {2 * sum(message_ns(shards * CHUNK) for shards in rounds)}


@pytest.mark.parametrize(("groups", "rounds"), [(1, 14), (2, 7), (4, 5), (8, 7)])
def test_transpose_allreduce_in_two_dimensions(tmp_path: Path, groups: int, rounds: int) -> None:
    """2 (n / G - 1) + G - 1 rounds of a group's shard each."""
    hosts, shard = 8, CHUNK * groups
    workload = {"algorithm": {"kind": "tar-2d", "groups": groups}, "size": f"{hosts * CHUNK * MTU_BYTES}B"}
    assert took(tmp_path / "run", hosts, **workload) == {rounds * message_ns(shard)}


def test_a_double_tree_of_two_is_half_of_the_buffer_each_way_twice(tmp_path: Path) -> None:
    """Each rank is the root of one tree: chunk by chunk halves go up side by side, and sums down as they come."""
    workload = {"algorithm": {"kind": "double-tree", "chunks": 4}, "size": f"{2 * 4 * CHUNK * MTU_BYTES}B"}
    # What goes down waits for the one port in turn with what goes up: eight chunks, the last of which is down.
    assert took(tmp_path / "run", 2, **workload) == {message_ns(8 * CHUNK)}


@pytest.mark.parametrize(("hosts", "height"), [(2, 1), (4, 2), (8, 3)])
def test_a_small_double_tree_is_as_deep_as_its_trees(tmp_path: Path, hosts: int, height: int) -> None:
    """2 ⌈lg n⌉ messages one after another, some of which meet another at a port: of both children, or trees."""
    workload = {"algorithm": {"kind": "double-tree", "chunks": 1}, "size": f"{2 * MTU_BYTES}B"}
    (cct_ns,) = took(tmp_path / "run", hosts, **workload)
    assert 2 * height * message_ns(1) <= cct_ns <= 2 * height * (message_ns(1) + 2 * PACKET_NS)


def test_a_large_double_tree_is_two_buffers_through_a_port(tmp_path: Path) -> None:
    """2 S β, and a quarter more while a port has what it must send later; a binomial tree takes 2 lg n S β."""
    hosts, packets = 8, 2048
    workload = {"algorithm": {"kind": "double-tree", "chunks": 64}, "size": f"{packets * MTU_BYTES}B"}
    (cct_ns,) = took(tmp_path / "run", hosts, **workload)
    assert 2 * packets * PACKET_NS < cct_ns < 1.3 * 2 * packets * PACKET_NS


def test_a_slower_link_on_the_way(tmp_path: Path) -> None:
    """Over a dumbbell whose middle is four times slower, packets queue before it and leave it back to back."""
    links = [
        {"rate": f"{RATE_BPS}bps", "delay": f"{DELAY_NS}ns", "queue": "4MiB"},
        {"select": "core", "rate": f"{RATE_BPS // 4}bps"},
    ]
    run = simulate(
        tmp_path / "run",
        topology={"kind": "dumbbell", "left": 1, "right": 1},
        links=links,
        workers={"count": 2},
        transport=TRANSPORT,
        workload={"collective": "broadcast", "size": f"{CHUNK * MTU_BYTES}B", "iterations": 1, "warmup": 0},
    )
    assert run.cct_ns == [PACKET_NS + CHUNK * 4 * PACKET_NS + PACKET_NS + 3 * DELAY_NS]


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
def test_roce_comes_within_a_percent(tmp_path: Path, algorithm: str) -> None:
    """Headers of RoCE's packets without a RETH; its acknowledgements share links with data."""
    hosts, packets = 8, 8 * 256
    run = simulate(
        tmp_path / "run",
        **{**star(hosts), "transport": {"kind": "roce", "mtu": 1024}},
        workload={"algorithm": algorithm, "size": f"{packets * 1024}B", "iterations": 2, "warmup": 1},
    )
    packet_ns = 8 * (UDP_WIRE_BYTES + 12 + 1024 + 4) * 1e9 / RATE_BPS
    sizes = [packets / hosts] * (hosts - 1) if algorithm == "ring" else [packets / 2, packets / 4, packets / 8]
    expected_ns = 2 * sum((size + 1) * packet_ns + 2 * DELAY_NS for size in sizes)
    assert run.result.wrong == 0
    assert run.cct_ns == pytest.approx([expected_ns] * 2, rel=0.01)
