"""The links, ports and native switches of one configuration on a native core, and what they are asked while it runs."""

from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path

from testbed.fabric.counters import Counts, LinkCounters, Pause, Swapped, SwitchCounters
from testbed.fabric.model import FabricConfig, LinkEnd, SwitchConfig
from testbed.fabric.native import NativeSwitches
from testbed.netcore import LONGEST_NS, Fabric
from testbed.routing.model import Entry
from testbed.topology.graph import LinkParameters


class FabricNetwork:
    """One configuration on `fabric`. Links are named by their index in the graph; parameters are model time.

    open_port: makes the port of an end that is no native switch's, and returns its number. `report(event, **fields)` is
    told what changes by itself, as a controller's app tells it. Raises ValueError, OSError or TestbedError for what
    cannot be carried.
    """

    def __init__(
        self,
        fabric: Fabric,
        config: FabricConfig,
        open_port: Callable[[LinkEnd], int],
        report: Callable[..., None],
    ) -> None:
        self._config = config
        self._fabric = fabric
        self._open_port = open_port
        self.native = NativeSwitches(fabric, config, report)
        self.ports: dict[tuple[str, int], int] = {}  # (node, port) -> the core's number
        self._links: dict[int, int] = {}
        for link in config.links:
            for end in (link.source, link.target):
                self._open(end)
        for link in config.links:
            source, target = (self.ports[end.node, end.port] for end in (link.source, link.target))
            self._links[link.index] = fabric.add_link(source, target, link.index)
            self.set_link(link.index, link.parameters)
        fabric.set_job(config.job_udp_ports, *config.job_tcp_ports)
        fabric.set_job_hosts([(int(IPv4Address(ip)), job) for ip, job in config.job_hosts])
        self.native.set_up()

    def set_link(self, index: int, of: LinkParameters) -> None:
        """Change a directed link; packets inside keep going."""
        dilation = self._config.dilation
        for name, time_ns in (("delay", of.delay_ns), ("jitter", of.jitter_ns)):
            if time_ns * dilation > LONGEST_NS:
                raise ValueError(
                    f"link {index}: a {name} of {time_ns} ns slowed down {dilation} times is more than {LONGEST_NS} ns"
                )
        self._fabric.set_link(
            self._links[index],
            rate_bps=max(1, round(of.rate_bps / dilation)),
            delay_ns=of.delay_ns * dilation,
            queue_bytes=of.queue_bytes,
            jitter_ns=of.jitter_ns * dilation,
            reorder=of.reorder,
            ecn=(of.ecn.min_bytes, of.ecn.max_bytes, of.ecn.probability) if of.ecn else None,
            loss=(of.loss.mean, of.loss.burst_packets) if of.loss else None,
            duplicate=of.duplicate,
            corrupt=of.corrupt,
        )

    def set_cable(self, cable: int, *, up: bool) -> None:
        """Cut or mend a cable: first it, then what its switches see of it."""
        for link in self._config.links:
            if link.index // 2 == cable:
                self._fabric.set_link_up(self._links[link.index], up)
        self.native.cable_changed(cable, up=up)

    def counters(self, job: int | None = None, *, mark: bool = False) -> tuple[LinkCounters, ...]:
        """All links, in the order of the configuration; `job`: of that one's packets, else of all jobs'.

        With `mark` as if `mark` followed at the same instant.
        """
        links = []
        for link, (everything, of_job, gauges) in zip(
            self._config.links, self._fabric.counters(job, mark), strict=True
        ):
            known: dict[str, int | None] = dict(gauges)
            known["measured_bps"] = gauges["measured_bps"] or None
            for late in ("late_p50_ns", "late_p99_ns"):
                known[late] = None if gauges[late] < 0 else gauges[late]
            links.append(LinkCounters(link.index, Counts(**everything), Counts(**of_job), **known, ring_dropped=0))  # type: ignore[arg-type]
        return tuple(links)

    def mark(self) -> None:
        """Forget highest queues, measured rates and lateness."""
        self._fabric.mark()

    def transit(self) -> tuple[int, int] | None:
        """How long packets were inside switches since the last `mark`: (p50, p99)."""
        return self._fabric.transit()

    def in_flight(self, job: int | None = None) -> tuple[int, int]:
        """Packets inside the fabric now: (all, the job's, or all jobs')."""
        counters = self._fabric.counters(job)
        return sum(link[0]["in_flight"] for link in counters), sum(link[1]["in_flight"] for link in counters)

    def switches(self, job: int | None = None) -> tuple[SwitchCounters, ...]:
        """The native switches' counters, in the order of the configuration; `job` as for `counters`."""
        return self.native.counters(job)

    def swap(self, new: SwitchConfig, *, keep_registers: bool) -> Swapped:
        """Exchange the program of the switch that `new` names. Raises TestbedError, and the old one stays."""
        return self.native.swap(new, keep_registers=keep_registers)

    def pauses(self) -> tuple[Pause, ...]:
        """What PFC keeps from being served now."""
        indices = [link.index for link in self._config.links]
        return tuple(Pause(indices[link], *pause) for link, *pause in self._fabric.pauses())

    def waiting(self) -> tuple[str, ...]:
        """In words, which slots of sums lack whose contributions."""
        return tuple(self.native.waiting())

    def entries(self) -> dict[str, frozenset[Entry]]:
        """Native switch -> what it forwards by now."""
        return {name: frozenset(entries) for name, entries in self.native.entries().items()}

    def capture_start(self, node: str, port: int, path: Path, snap_bytes: int, *, interface: str, comment: str) -> None:
        """Write what crosses a port, both ways, into a new pcapng file."""
        self._fabric.capture_start(self.ports[node, port], str(path), snap_bytes, interface=interface, comment=comment)

    def capture_stop(self) -> None:
        """End all captures; their files are complete then. Raises the first OSError that kept one from being so."""
        self._fabric.capture_stop()

    def _open(self, end: LinkEnd) -> None:
        key = end.node, end.port
        if key in self.ports:
            return
        if end.node in self.native:
            self.ports[key] = self.native.add_port(end.node, end.port)
            return
        self.ports[key] = self._open_port(end)
        if end.address is not None:
            mac, ip = bytes.fromhex(end.address.mac.replace(":", "")), int(IPv4Address(end.address.ip))
            self._fabric.set_address(self.ports[key], mac, ip)
