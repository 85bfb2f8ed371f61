"""The shipped programs as what adds up in `aggregation.Network`: one native switch, or a tree of them."""

from collections.abc import Sequence
from random import Random

import numpy as np

from testbed.dataplane.native.exchange import Exchange
from testbed.spec.model import TransportSpec
from testbed.transport import settle
from testbed.transport.aggregation import AGGREGATOR, AggregationServer
from testbed.transport.endpoint import Arrival
from testbed.wire import aggregation
from testbed.wire.aggregation import Header
from tests.dataplane import aggregation as frames
from tests.dataplane.aggregation import WORKER, Job

from .aggregation import JOB, PATH, Packet, packets


class NativeSwitch:
    """`aggregate` at a switch that all members hang at, member i at port i."""

    def __init__(self, workers: int, *, values: int, slots: int, in_roce: bool = False) -> None:
        self._job = Job([(port, WORKER + port + 1) for port in range(workers)], JOB, 0, slots, values)
        self._in_roce = in_roce
        self._switch = Exchange(frames.program("aggregate"))
        frames.configure(self._switch, self._job)

    def receive(self, member: int, header: Header, data: bytes) -> list[tuple[int, Packet]]:
        address = self._job.children[member][1]
        return [
            (port, parted(frame))
            for port, frame in self._switch.inject(member, framed(header, data, address, self._in_roce))
        ]


class NativeTree:
    """`aggregate_tree` at a root and at leaves, which have so many members each; with loss on the cables between."""

    def __init__(self, leaves: Sequence[int], *, values: int, slots: int, loss: float, seed: int) -> None:
        self._random, self._loss = Random(seed), loss
        self._places = [(leaf, port) for leaf, count in enumerate(leaves) for port in range(count)]
        self._root = Exchange(frames.program("aggregate_tree"))
        frames.configure(self._root, Job([(leaf, _leaf(leaf)) for leaf in range(len(leaves))], JOB, 0, slots, values))
        self._leaves = []
        for leaf, count in enumerate(leaves):
            children = [(port, WORKER + 256 * leaf + port + 1) for port in range(count)]
            self._leaves.append(Exchange(frames.program("aggregate_tree")))
            frames.configure(self._leaves[leaf], Job(children, JOB, 0, slots, values, index=leaf, up_port=count))
        self.workers = [port for _, port in self._places]

    def receive(self, member: int, header: Header, data: bytes) -> list[tuple[int, Packet]]:
        leaf, port = self._places[member]
        return self._through(leaf, port, framed(header, data, WORKER + 256 * leaf + port + 1, False))

    def _through(self, leaf: int, port: int, frame: bytes) -> list[tuple[int, Packet]]:
        """What reaches members of a frame that comes to a leaf."""
        reached: list[tuple[int, Packet]] = []
        for to, sent in self._leaves[leaf].inject(port, frame):
            if (leaf, to) in self._places:
                reached.append((self._places.index((leaf, to)), parted(sent)))
            elif self._random.random() >= self._loss:
                for below, result in self._root.inject(leaf, sent):
                    if self._random.random() >= self._loss:
                        up_port = sum(place[0] == below for place in self._places)
                        reached += self._through(below, up_port, result)
        return reached


class NativeBestEffort:
    """`aggregate_besteffort` at a switch with a member at each port from 0 on, the server at the next one, and loss on
    its cable."""

    def __init__(
        self, workers: int, *, values: int, slots: int, pool: int = 2048, in_roce: bool = False, loss: float = 0.0,
        seed: int = 0, ecn: int = 0,
    ) -> None:  # fmt: skip
        self._random, self._loss, self._ecn = Random(seed), loss, ecn
        self._job = Job([(port, WORKER + port + 1) for port in range(workers)], JOB, 0, slots, values)
        self._in_roce, self._port, self._address = in_roce, workers, WORKER + workers + 1
        self.switch = Exchange(frames.program("aggregate_besteffort"))
        frames.configure_best_effort(self.switch, self._job, pool, self._port, self._address)
        keys: dict[str, object] = {"values": values, "slots": slots, "framing": "roce" if in_roce else "udp"}
        spec = TransportSpec(kind="aggregation", protocol="besteffort", **keys)
        self.server = AggregationServer(PATH, JOB, workers, settle(spec, PATH))

    def receive(self, member: int, header: Header, data: bytes) -> list[tuple[int, Packet]]:
        address = self._job.children[member][1]
        reached: list[tuple[int, Packet]] = []
        for port, sent in self.switch.inject(member, framed(header, data, address, self._in_roce)):
            assert port == self._port
            if self._random.random() >= self._loss:
                reached += self._served(parted(sent))
        return reached

    def count(self, name: str) -> int:
        return self.switch.control.read_counter(name, JOB)[0]

    def _served(self, packet: Packet) -> list[tuple[int, Packet]]:
        """What reaches members of what the server sends for a packet."""
        header, data = self._before(packet[0]), packet[1]
        self.server.receive(Arrival(AGGREGATOR, self._ecn, len(data), (header,), memoryview(data)), 0)
        return [
            (port, parted(result))
            for burst in self.server.transmit(0, 100)
            for headers, values in packets(burst)
            if self._random.random() >= self._loss
            for port, result in self.switch.inject(
                self._port, framed(aggregation.decode(headers[-16:]), values, self._address, self._in_roce)
            )
        ]

    def _before(self, header: bytes) -> bytes:
        return (aggregation.bth(0, 0) if self._in_roce else b"") + header


def _leaf(leaf: int) -> int:
    """A leaf's address, which nothing else uses."""
    return WORKER + 0x8000 + leaf


def framed(header: Header, data: bytes, source: int, in_roce: bool) -> bytes:
    values = np.frombuffer(data, ">i4").astype(np.int32)
    return frames.frame(header, values, source=source, target=frames.AGGREGATOR + JOB, in_roce=in_roce)


def parted(frame: bytes) -> Packet:
    header, values = frames.unframed(frame)
    return aggregation.encode(header), values.astype(">i4").tobytes()
