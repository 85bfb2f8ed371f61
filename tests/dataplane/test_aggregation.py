"""The aggregating programs under loss, duplication and reordering: every result is the exact sum, and all arrive."""

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.dataplane.native.exchange import Exchange
from testbed.wire.aggregation import Kind
from tests.dataplane.aggregation import AGGREGATOR, WORKER, Job, Values, add, configure, program, unframed

SLOTS = 4
UP = 100  # a leaf's port to its parent
LEAF = AGGREGATOR + 0x8000  # addresses of leaves
TURNS = 2_000_000
Packet = tuple[int, int, bytes]  # to a node (switches from 0 on, workers from -1 down), at a port

unhurried = settings(deadline=None, max_examples=5)


@dataclass(slots=True)
class Worker:
    """Keeps its slots busy with one chunk after the other."""

    job: Job
    index: int
    vectors: Values  # by chunk
    exponents: Values
    in_roce: bool = False
    results: dict[int, tuple[Values, int]] = field(default_factory=dict)
    current: dict[int, int] = field(default_factory=dict)  # chunk by slot

    def send(self, chunk: int) -> bytes:
        return add(
            self.job,
            self.index,
            chunk,
            self.vectors[chunk],
            exponent=int(self.exponents[chunk]),
            in_roce=self.in_roce,
        )

    def begin(self) -> Iterator[bytes]:
        for slot in range(min(self.job.slots, len(self.vectors))):
            self.current[slot] = slot
            yield self.send(slot)

    def receive(self, data: bytes) -> Iterator[bytes]:
        header, values = unframed(data)
        assert (header.kind, header.job, header.worker) == (Kind.RESULT, self.job.number, 0)
        known = self.results.setdefault(header.chunk, (values, header.exponent))
        assert (known[0] == values).all(), "a later result of a chunk is another one"
        assert known[1] == header.exponent
        if self.current.get(header.slot) == header.chunk:
            following = header.chunk + self.job.slots
            del self.current[header.slot]
            if following < len(self.vectors):
                self.current[header.slot] = following
                yield self.send(following)

    def repeat(self, draw: random.Random) -> Iterator[bytes]:
        """What it sends when one of its timers ends."""
        if self.current:
            yield self.send(draw.choice(list(self.current.values())))


@dataclass(slots=True)
class Network:
    """Packets under way, each of which may be lost, come after any other, or come again much later."""

    draw: random.Random
    loss: float
    duplication: float
    switches: Sequence[Exchange]
    workers: Sequence[Worker]
    ports: Sequence[tuple[int, int]]  # of workers: switch and port
    cables: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)  # between switches
    under_way: list[Packet] = field(default_factory=list)
    copies: list[Packet] = field(default_factory=list)

    def put(self, packet: Packet) -> None:
        if self.draw.random() >= self.loss:
            self.under_way.append(packet)
        if self.draw.random() < self.duplication:
            self.copies.append(packet)

    def take(self) -> Packet:
        lot = self.copies if self.copies and self.draw.random() < 0.5 * self.duplication else self.under_way
        at = self.draw.randrange(len(lot))
        lot[at], lot[-1] = lot[-1], lot[at]
        return lot.pop()

    def from_worker(self, number: int, frames: Iterator[bytes]) -> None:
        for data in frames:
            self.put((*self.ports[number], data))

    def run(self) -> None:
        ends = {place: (-1 - number, 0) for number, place in enumerate(self.ports)} | self.cables
        for number, worker in enumerate(self.workers):
            self.from_worker(number, worker.begin())
        for _ in range(TURNS):
            if not any(worker.current for worker in self.workers):
                return
            if not self.under_way or self.draw.random() < 0.01:  # the latter before their time
                number = self.draw.randrange(len(self.workers))
                self.from_worker(number, self.workers[number].repeat(self.draw))
                continue
            node, port, data = self.take()
            if node < 0:
                self.from_worker(-1 - node, self.workers[-1 - node].receive(data))
                continue
            for out, sent in self.switches[node].inject(port, data):
                self.put((*ends[node, out], sent))
        raise AssertionError("no end")


def vectors(draw: random.Random, chunks: int, values: int) -> Values:
    whole = np.frombuffer(draw.randbytes(4 * chunks * values), np.int32)
    return whole.reshape(chunks, values)


def workers_of(job: Job, draw: random.Random, chunks: int, *, in_roce: bool = False) -> list[Worker]:
    return [
        Worker(job, index, vectors(draw, chunks, job.values), vectors(draw, chunks, 1)[:, 0] >> 24, in_roce)
        for index in range(len(job.children))
    ]


def check(workers: Sequence[Worker]) -> None:
    sums = np.zeros_like(workers[0].vectors)
    for worker in workers:
        sums += worker.vectors  # modulo 2^32, as the switches add
    exponents = np.max([worker.exponents for worker in workers], axis=0)
    for worker in workers:
        assert sorted(worker.results) == list(range(len(worker.vectors)))
        for chunk, (values, exponent) in worker.results.items():
            assert (values == sums[chunk]).all(), f"worker {worker.index}, chunk {chunk}"
            assert exponent == exponents[chunk]


def star(
    name: str,
    jobs: Sequence[Job],
    draw: random.Random,
    chunks: int,
    loss: float,
    duplication: float,
    *,
    in_roce: bool = False,
) -> None:
    with Exchange(program(name)) as switch:
        workers, ports = [], []
        for job in jobs:
            configure(switch, job)
            workers.append(workers_of(job, draw, chunks, in_roce=in_roce))
            ports += [(0, port) for port, _ in job.children]
        network = Network(draw, loss, duplication, [switch], [each for lot in workers for each in lot], ports)
        network.run()
        for lot in workers:
            check(lot)


def tree(sizes: Sequence[int], draw: random.Random, chunks: int, loss: float, duplication: float, values: int) -> None:
    """A root with that many leaves, of that many workers each, and with a worker of its own."""
    with ExitStack() as stack:
        switches = [stack.enter_context(Exchange(program("aggregate_tree"))) for _ in range(len(sizes) + 1)]
        address, workers, ports, cables = WORKER, [], [], {}
        for leaf, size in enumerate(sizes):
            addresses = [(port, address + port + 1) for port in range(size)]
            address += size
            job = Job(addresses, slots=SLOTS, values=values, index=leaf, up_port=UP, first_slot=16 * leaf)
            configure(switches[leaf + 1], job)
            workers += workers_of(job, draw, chunks)
            ports += [(leaf + 1, port) for port in range(size)]
            cables[leaf + 1, UP] = (0, leaf)
            cables[0, leaf] = (leaf + 1, UP)
        own = (len(sizes), address + 1)
        root = Job([*((leaf, LEAF + leaf) for leaf in range(len(sizes))), own], slots=SLOTS, values=values)
        configure(switches[0], root)
        workers += [Worker(root, len(sizes), vectors(draw, chunks, values), np.full(chunks, -100, np.int32))]
        ports.append((0, len(sizes)))
        Network(draw, loss, duplication, switches, workers, ports, cables).run()
        check(workers)


def job_of(count: int, **more: int) -> Job:
    return Job([(port, WORKER + port + 1) for port in range(count)], slots=SLOTS, **more)


rough = given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from((0.0, 0.01, 0.1, 0.4)),
    duplication=st.sampled_from((0.0, 0.05, 0.5)),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aggregate", "aggregate_tree"])
@pytest.mark.parametrize("count", [1, 2, 3, 32])
@unhurried
@rough
def test_one_switch(name: str, count: int, seed: int, loss: float, duplication: float) -> None:
    star(name, [job_of(count)], random.Random(seed), 32, loss, duplication)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (8, 8)], ids=str)
@unhurried
@rough
def test_a_tree_of_three_switches(sizes: tuple[int, int], seed: int, loss: float, duplication: float) -> None:
    tree(sizes, random.Random(seed), 24, loss, duplication, 32)


@pytest.mark.slow
@pytest.mark.parametrize("values", [64, 256])
def test_larger_packets(values: int) -> None:
    star("aggregate", [job_of(5, values=values)], random.Random(values), 200, 0.1, 0.1)
    tree((2, 3), random.Random(values), 100, 0.1, 0.1, values)


@pytest.mark.slow
def test_four_jobs_at_once_do_not_meet() -> None:
    """The last one has the end of the pool."""
    jobs = [
        Job(
            [(16 * number + child, WORKER + 16 * number + child + 1) for child in range(2 + number)],
            number=number,
            first_slot=512 * number + 508,
            slots=SLOTS,
            values=32 * (1 + number),
        )
        for number in range(4)
    ]
    star("aggregate", jobs, random.Random(4), 100, 0.05, 0.05)


@pytest.mark.slow
def test_in_roce_framing() -> None:
    star("aggregate_tree", [job_of(3, values=256)], random.Random(5), 100, 0.1, 0.1, in_roce=True)


@pytest.mark.slow
def test_the_bitmap_tells_who_is_missing() -> None:
    """Of version 0 in the lower half; who goes on to version 1 leaves it."""
    job = job_of(3)
    zeros = np.zeros(32, np.int32)
    with Exchange(program("aggregate")) as switch:
        configure(switch, job)
        seen = []
        for worker, chunk in ((2, 3), (0, 3), (0, 3), (1, 3), (0, 3 + SLOTS), (0, 3), (2, 3 + SLOTS)):
            switch.inject(worker, add(job, worker, chunk, zeros))
            seen.append(switch.control.read_register("arrivals", 3))
        assert seen == [0b100, 0b101, 0b101, 0b111, 1 << 32 | 0b110, 1 << 32 | 0b110, 0b101 << 32 | 0b010]
        assert switch.control.read_register("chunks", 3) == (3 + SLOTS) << 32 | 3


@pytest.mark.slow
def test_chunk_numbers_wrap() -> None:
    job = job_of(2)
    end = 1 << 32
    with Exchange(program("aggregate")) as switch:
        configure(switch, job)
        switch.control.write_register("chunks", 0, (end - 3 * SLOTS) << 32 | end - 2 * SLOTS)
        for chunk in (end - SLOTS, end, end + SLOTS):
            left = [
                len(switch.inject(worker, add(job, worker, of % end, np.full(32, of % 1000, np.int32))))
                for worker, of in ((0, chunk), (0, chunk - SLOTS), (1, chunk), (1, chunk), (1, chunk - 2 * SLOTS))
            ]
            assert left == [0, 0, 2, 1, 0]
