"""The alpha-beta bound and the packet counts against closed forms, and against a network that no schedule can beat."""

import heapq
import random
from collections import defaultdict
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.plan.model import Plan, Prediction
from testbed.plan.predict import schedule_of
from tests.plan.specs import planned, ranks_of, star

DATA = 58 + 24  # bytes on the wire beside the payload of each packet
RETH, IMMEDIATE = 16, 4  # of the first and the last
FIRST_AND_LAST = RETH + IMMEDIATE
DELAY_NS, BYTE_NS = 1000, 8


def predicted(ranks: int, size: int, algorithm: str, collective: str = "allreduce") -> Prediction:
    work = {"collective": collective, "algorithm": algorithm, "size": f"{size}B"}
    return planned(**star(ranks, transport={"kind": "roce", "mtu": 1024}, workload=work)).prediction


def message_ns(size: int) -> int:
    """One message over a star: its first, longest packet at one link, all of it at the other, two delays."""
    packets = ceil(size / 1024)
    total = size + packets * DATA + FIRST_AND_LAST
    longest = total if packets == 1 else 1024 + DATA + RETH
    return (total + longest) * BYTE_NS + 2 * DELAY_NS


def port_ns(messages: int, size: int) -> int:
    """Several messages of `size` through one port."""
    return messages * (size + ceil(size / 1024) * DATA + FIRST_AND_LAST) * BYTE_NS


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("chunk", [64, 1024, 32 * 1024])
def test_ring_allreduce(ranks: int, chunk: int) -> None:
    assert predicted(ranks, ranks * chunk, "ring").bound_ns == 2 * (ranks - 1) * message_ns(chunk)


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_halving_doubling_allreduce(ranks: int) -> None:
    size, steps = 64 * 1024, ranks.bit_length() - 1
    expected = 2 * sum(message_ns(size >> (step + 1)) for step in range(steps))
    assert predicted(ranks, size, "halving-doubling").bound_ns == expected


def test_recursive_doubling_allreduce() -> None:
    assert predicted(8, 4096, "recursive-doubling").bound_ns == 3 * message_ns(4096)


def test_binomial_broadcast_is_no_faster_than_its_root_can_send_or_its_depth() -> None:
    depth, sending = 3 * message_ns(64 * 1024), port_ns(3, 64 * 1024)
    assert max(sending, message_ns(64 * 1024)) <= predicted(8, 64 * 1024, "binomial", "broadcast").bound_ns <= depth


def test_parameter_server_waits_for_its_port_twice() -> None:
    # All but the root send it the whole buffer, then get it back: its port carries n-1 buffers each way, in turn.
    ranks, size = 5, 16 * 1024
    latency = message_ns(size) - port_ns(1, size)
    assert predicted(ranks, size, "parameter-server").bound_ns == pytest.approx(
        2 * (port_ns(ranks - 1, size) + latency), abs=2 * (1024 + DATA) * BYTE_NS
    )


@pytest.mark.parametrize("incast", [1, 2, 3, 7])
@pytest.mark.parametrize("fidelity", ["packet", "message"])
def test_a_round_of_transpose_allreduce_waits_for_its_port(incast: int, fidelity: str) -> None:
    """2 ceil((n - 1) / I) rounds: in each a port carries I shards, one after another, and then the next begins."""
    ranks, chunk, rounds = 8, 16 * 1024, [incast] * (7 // incast) + ([7 % incast] if 7 % incast else [])
    latency = message_ns(chunk) - port_ns(1, chunk)
    work = {"algorithm": {"kind": "tar", "incast": incast}, "size": f"{ranks * chunk}B", "gradients": "none"}
    spec = star(ranks, transport={"kind": "roce", "mtu": 1024}, workload=work)
    made = planned(**{**spec, "engine": "simulation", "fidelity": fidelity})
    assert made.prediction.bound_ns == 2 * sum(port_ns(shards, chunk) + latency for shards in rounds)


def test_all_to_all_is_bound_by_the_ports() -> None:
    ranks, chunk = 8, 8 * 1024
    bound = predicted(ranks, ranks * chunk, "pairwise", "all-to-all").bound_ns
    assert port_ns(ranks - 1, chunk) + 2 * DELAY_NS <= bound <= (ranks - 1) * message_ns(chunk)


def test_a_shared_cable_binds_what_crosses_it() -> None:
    # h0 and h1 on the left, h2 and h3 on the right: with this order of ranks each step of the ring crosses four times.
    network = {"kind": "dumbbell", "left": 2, "right": 2}
    hosts = ["h0", "h2", "h1", "h3"]
    made = planned(
        topology=network,
        links=[{"rate": "1Gbps", "delay": "1us"}, {"select": "core", "rate": "10Mbps"}],
        workers={"count": 4, "placement": hosts},
        transport={"kind": "roce", "mtu": 1024},
        workload={"size": "256KiB", "algorithm": "ring"},
    )
    crossing = 6 * 2 * (64 * 1024 + 64 * DATA + FIRST_AND_LAST) * 800  # 6 steps, two messages each way, at 10 Mb/s
    assert crossing < made.prediction.bound_ns < 1.01 * crossing


def test_packets_and_hops_of_a_ring() -> None:
    # 14 steps of 8 messages of 32 KiB: 32 packets each, and with an acknowledgement every 8 packets 4 of those.
    transport = {"kind": "roce", "mtu": 1024, "ack_every": 8}
    made = planned(**star(8, transport=transport, workload={"size": "256KiB", "algorithm": "ring"})).prediction
    assert made.packets_per_iteration == 14 * 8 * (32 + 4)
    assert made.packet_hops_per_iteration == 2 * made.packets_per_iteration
    assert made.packet_hops_per_s == pytest.approx(made.packet_hops_per_iteration * 1e9 / made.bound_ns)


def test_packets_of_tcp() -> None:
    # Segments of 1448 bytes (RFC 7323 timestamps), an acknowledgement every second one.
    made = planned(**star(2, transport={"kind": "tcp"}, workload={"size": "28960B", "algorithm": "ring"})).prediction
    assert made.packets_per_iteration == 4 * (10 + 5)


def test_hops_in_a_fat_tree_are_those_of_the_paths() -> None:
    # Ranks 0-3 on h0-h3: the ring crosses 2 links between h0 and h1, 4 to h2, 2 to h3, and 4 back to h0.
    transport = {"kind": "roce", "mtu": 1024, "ack_every": 1}
    made = planned(workers={"count": 4}, transport=transport, workload={"size": "4KiB", "algorithm": "ring"})
    assert made.prediction.packet_hops_per_iteration == 6 * 2 * (2 + 4 + 2 + 4)


def test_gradients_of_a_model_cross_layer_by_layer() -> None:
    made = planned(**star(2, workload={"gradients": "digits-mlp", "algorithm": "ring"})).prediction
    layers = [(64 + 1) * 256, (256 + 1) * 10]
    assert made.packets_per_iteration > sum(layers) * 4 * 2 / 1024
    assert made.bound_ns >= port_ns(1, 4 * sum(layers))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 9),
    st.sampled_from(
        [
            "ring",
            "halving-doubling",
            "recursive-doubling",
            "binomial",
            "parameter-server",
            "double-tree",
            "tar",
            "tar-2d",
        ]
    ),
    st.integers(1, 40_000),
)
def test_no_bound_is_under_what_any_rank_must_receive_or_over_doing_all_in_turn(
    ranks: int, algorithm: str, elements: int
) -> None:
    prediction = predicted(ranks, 4 * elements, algorithm)
    # Each rank must receive at least what the others have of each of its chunks (Patarasuk and Yuan 2009).
    assert prediction.bound_ns >= 4 * elements * BYTE_NS * (ranks - 1) / ranks
    assert prediction.bound_ns <= prediction.packets_per_iteration * ((1024 + 102) * 2 * BYTE_NS + 2 * DELAY_NS)


def carried_out_ns(plan: Plan, elements: int, order: random.Random) -> float:
    """An ideal transport on the plan's links, packet by packet: no windows, no acknowledgements, chance breaks ties."""
    schedule, paths = schedule_of(plan.jobs[0].spec), ranks_of(plan)
    assert schedule
    ranges = schedule.ranges(elements)
    waits: list[int] = []
    frees: dict[int, list[int]] = defaultdict(list)  # by the message that arrives
    writers: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)  # (rank, chunk) -> (step, message)
    rows = schedule.transfers.tolist()
    sizes = [4 * (ranges[row[3] + row[4] - 1][1] - ranges[row[3]][0]) for row in rows]
    for number, (step, source, target, chunk, count, at, _, _) in enumerate(rows):
        read = range(schedule.chunks) if schedule.barrier else range(chunk, chunk + count)
        needs = {m for c in read for s, m in writers[source, c] if s < step}
        waits.append(len(needs))
        for message in needs:
            frees[message].append(number)
        for c in range(at, at + count):
            writers[target, c].append((step, number))
    free_ns: dict[int, float] = defaultdict(float)  # by link
    left = [ceil(size / 1024) for size in sizes]
    events: list[tuple[float, float, int, int, int]] = []  # instant, chance, message, packet, hop

    def send(message: int, now: float) -> None:
        if sizes[message] == 0:
            arrived(message, now)
        for packet in range(left[message]):
            heapq.heappush(events, (now, order.random() if packet == 0 else 1.0 + packet, message, packet, 0))

    def arrived(message: int, now: float) -> None:
        for other in frees[message]:
            waits[other] -= 1
            if waits[other] == 0:
                send(other, now)

    for message in [number for number, count in enumerate(waits) if count == 0]:
        send(message, 0.0)
    end = 0.0
    while events:
        now, chance, message, packet, hop = heapq.heappop(events)
        stages = paths.stages(rows[message][1], rows[message][2])
        if hop == len(stages):
            end = max(end, now)
            left[message] -= 1
            if left[message] == 0:
                arrived(message, now)
            continue
        link = plan.graph.links[stages[hop][0]]
        packets = ceil(sizes[message] / 1024)
        wire = min(1024, sizes[message] - packet * 1024) + DATA
        wire += RETH * (packet == 0) + IMMEDIATE * (packet == packets - 1)
        start = max(now, free_ns[link.index])
        if start > now:  # queue behind what is there; who comes at one instant is drawn
            heapq.heappush(events, (start, chance, message, packet, hop))
            continue
        free_ns[link.index] = start + wire * 8e9 / link.parameters.rate_bps
        heapq.heappush(events, (free_ns[link.index] + link.parameters.delay_ns, chance, message, packet, hop + 1))
    return end


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6),
    st.sampled_from(
        [
            "ring",
            "halving-doubling",
            "binomial",
            "parameter-server",
            "pairwise",
            "double-tree",
            "tar-2d",
            "tar",
            "at once",
        ]
    ),
    st.integers(1, 6_000),
    st.sampled_from(["1Gbps", "300Mbps", "4Gbps"]),
    st.sampled_from(["1Gbps", "100Mbps", "10Gbps"]),
    st.randoms(use_true_random=False),
)
def test_no_ideal_transport_is_faster(
    ranks: int, algorithm: str, elements: int, first: str, core: str, order: random.Random
) -> None:
    made = planned(
        topology={"kind": "dumbbell", "left": 2, "right": 4},
        links=[{"rate": "1Gbps", "delay": "1us"}, {"select": "h0", "rate": first}, {"select": "core", "rate": core}],
        workers={"count": ranks, "placement": "spread"},
        transport={"kind": "roce", "mtu": 1024},
        workload={
            "collective": "all-to-all" if algorithm == "pairwise" else "allreduce",
            "algorithm": {"kind": "tar", "incast": ranks - 1} if algorithm == "at once" else algorithm,
            "size": f"{4 * elements}B",
        },
    )
    assert made.prediction.bound_ns <= carried_out_ns(made, elements, order) + 1
