"""Background flows of a simulated run: each host has TCP's model beside its rank, and yields to others as TCP does.

Flows between two hosts go over one connection, kept open, and wait for each other there. A flow is handed over as
messages of a MiB at most, whose bytes are nobody's: all are sent from, and received into, the same buffer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from testbed import transport
from testbed.plan.environment import struck_in_warmup
from testbed.results.samples import FlowRow
from testbed.simulation.network import SimulatedNetwork
from testbed.simulation.nic import Neighbours, Nic
from testbed.stress.arrivals import Arrival, FlowSource, flow_sources
from testbed.stress.completion import TRANSPORT, Completions
from testbed.transport.endpoint import Received
from testbed.transport.tcp_model import FRAMING, TcpEndpoint

FLOWS_PORT = 10_000  # no job's, nor that of background traffic that goes by a clock
_PIECE_BYTES = 1 << 20
_TAGS = 1 << 32


class FlowTraffic:
    """The flows of the spec's traffic."""

    def __init__(self, network: SimulatedNetwork) -> None:
        plan = network.plan
        self._network = network
        self._core = network.core
        self._seed = plan.spec.seed
        self._zero_ns = 0
        self._running = 0  # which start it was: what an earlier one planned is not begun
        self._sources = flow_sources(plan.spec.traffic, plan.graph)
        self._nics: dict[str, Nic] = {}
        self._numbers = {host: number for number, host in enumerate(plan.graph.hosts)}
        self._pieces: dict[int, int] = {}  # flow -> its messages that are not there yet
        self._receives: dict[tuple[str, int], int] = {}  # target and id -> flow
        self._posted = 0
        self._sent = memoryview(bytes(_PIECE_BYTES))
        self._taken = memoryview(bytearray(_PIECE_BYTES))
        if self._sources:
            self._open()

    def warm_up(self, now: int) -> None:
        """Begin what also runs in warm-up, until `pause`."""
        entries = struck_in_warmup(self._network.plan.spec)[1]
        self._start([source for source in self._sources if source.entry in entries], now)

    def pause(self) -> None:
        """Begin no more; what is under way goes on."""
        self._running += 1

    def start(self, zero_ns: int) -> None:
        """`zero_ns`: the instant of model time zero, which is now."""
        if self._sources:
            self._completions.measure()
        self._start(self._sources, zero_ns)

    def stop(self) -> tuple[FlowRow, ...]:
        """Send nothing more; all flows that began from `start` on."""
        self.pause()
        for nic in self._nics.values():
            nic.switch_off()
        return self._completions.rows() if self._sources else ()

    def _start(self, sources: Sequence[FlowSource], zero_ns: int) -> None:
        self._zero_ns = zero_ns
        for source in sources:
            self._plan_next(source, source.arrivals(self._seed))

    def _open(self) -> None:
        """A NIC at each host that flows come from or go to."""
        network = self._network
        self._completions = Completions(network.plan)
        path = self._completions.path
        settings = transport.settle(TRANSPORT, path)
        everyone = Neighbours.of({number: network.ip(host) for host, number in self._numbers.items()})
        peers = transport.queue_pairs(len(self._numbers))
        hosts = [*(source.host for source in self._sources), *(t for source in self._sources for t in source.targets)]
        for host in dict.fromkeys(hosts):
            endpoint = TcpEndpoint(path, self._numbers[host], peers, settings, self._seed, FLOWS_PORT)
            framing = replace(FRAMING, port=FLOWS_PORT)
            nic = Nic(self._core, network.port(host), everyone, endpoint, framing, path)
            nic.turn = partial(self._turn, host, nic)
            self._nics[host] = nic

    def _plan_next(self, source: FlowSource, arrivals: Iterator[Arrival]) -> None:
        arrival = next(arrivals, None)
        if arrival is not None:
            begin = partial(self._begin, source, arrivals, arrival, self._running)
            self._core.call_at(self._zero_ns + arrival.at_ns, begin)

    def _begin(self, source: FlowSource, arrivals: Iterator[Arrival], arrival: Arrival, running: int, now: int) -> None:
        if running != self._running:
            return
        flow, left = self._completions.begin(source, arrival), arrival.size_bytes
        self._pieces[flow] = -(-left // _PIECE_BYTES)
        here, there = self._nics[source.host], self._nics[arrival.target]
        while left:
            size, self._posted = min(left, _PIECE_BYTES), self._posted + 1
            self._receives[arrival.target, self._posted] = flow
            tag = self._posted % _TAGS
            there.post_receive(self._posted, self._numbers[source.host], tag, self._taken[:size], now)
            here.post_send(self._posted, self._numbers[arrival.target], tag, self._sent[:size], now)
            left -= size
        here.wake(now)
        self._plan_next(source, arrivals)

    def _turn(self, host: str, nic: Nic, now: int) -> None:
        for event in nic.events():
            flow = self._receives.pop((host, event.id), None) if isinstance(event, Received) else None
            if flow is not None:
                self._pieces[flow] -= 1
                if not self._pieces[flow]:
                    del self._pieces[flow]
                    self._completions.end(flow, now - self._zero_ns)
        nic.transmit(now)
        nic.sleep(now)
