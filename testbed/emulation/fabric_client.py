"""The run's handle on the fabric process: its requests as methods, its answers as dataclasses.

`FabricConfig` is what the process is started with; times and rates in it and in every request are model time, those in
`LinkCounters` are real time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, Self

from testbed.dataplane.forwarding import Traffic
from testbed.errors import RunFailed
from testbed.plan.model import Address
from testbed.routing.model import Entry
from testbed.run.channel import Channel, Message
from testbed.topology.graph import Ecn, LinkParameters, Loss

ROCE_PORT = 4791  # IANA
TCP_JOB_PORTS = (5000, 5999)


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """A port: the TAP `interface` in the network namespace `netns` (a name of `ip netns`; None: the fabric's own).

    A native switch's port is in the fabric's memory; it has the name, and no TAP. address: the host's, None where it is
    not one host's alone: what comes to it is not looked at.
    """

    node: str
    port: int
    interface: str
    netns: str | None
    host: bool
    address: Address | None = None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        address = data.get("address")
        return cls(**(data | {"address": Address(**address) if address else None}))


@dataclass(frozen=True, slots=True)
class FabricLink:
    """A directed link; `index` is that of the graph, so that both directions of a cable are 2n and 2n + 1."""

    index: int
    source: LinkEnd
    target: LinkEnd
    parameters: LinkParameters


@dataclass(frozen=True, slots=True)
class SwitchConfig:
    """A native switch: its compiled program (shared object and BMv2 JSON), and how its queues work.

    The numbers are those of `testbed.netcore.Fabric.configure_switch`; seed: of the program's random draws; entries:
    what its tables hold beside the routes, as `testbed.dataplane.entries.path_of` takes it.
    """

    name: str
    object: str
    json: str
    seed: int
    scheduler: Literal["strict"] | tuple[int, ...] = "strict"
    buffer: tuple[int, float, int] | None = None
    pfc: tuple[int, int, int] | None = None
    trim_bytes: int = 0
    entries: str | None = None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
        return cls(**(data | lists))


@dataclass(frozen=True, slots=True)
class FabricConfig:
    """What the fabric process is started with.

    switches: the native ones. plan: the `plan.json` with their routes, None where there are none. controller: where the
    OpenFlow controller listens that tells them; p4runtime: where they listen for clients that fill their tables; both
    None: they follow the plan.
    nic_priorities: hosts' NICs have a queue for each eight DSCPs, as the programs give packets priorities.
    segmentation: `auto` lets super-packets cross the kernel at hosts where it can; `off` sends packet by packet.
    job_hosts: address -> number of its job, which packets then are of; without them there is one job.
    spray: frames for a switch get a random nibble in their source MAC. realtime: move packets under SCHED_FIFO where
    that is allowed, without which other work makes packets milliseconds late.
    """

    seed: int
    dilation: int
    links: tuple[FabricLink, ...]
    switches: tuple[SwitchConfig, ...] = ()
    plan: str | None = None
    controller: tuple[str, int] | None = None
    p4runtime: tuple[str, int] | None = None
    nic_priorities: bool = False
    segmentation: Literal["auto", "off"] = "auto"
    spray: bool = False
    realtime: bool = True
    job_udp_port: int = ROCE_PORT
    job_tcp_ports: tuple[int, int] = TCP_JOB_PORTS
    job_hosts: tuple[tuple[str, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        links = tuple(
            FabricLink(
                link["index"],
                LinkEnd.from_json(link["source"]),
                LinkEnd.from_json(link["target"]),
                parameters(link["parameters"]),
            )
            for link in data["links"]
        )
        switches = tuple(SwitchConfig.from_json(switch) for switch in data.get("switches", ()))
        lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
        return cls(**(data | lists | {"links": links, "switches": switches}))


def parameters(data: dict[str, Any]) -> LinkParameters:
    """Link parameters from their `asdict` form."""
    ecn, loss = data.get("ecn"), data.get("loss")
    return LinkParameters(**{**data, "ecn": Ecn(**ecn) if ecn else None, "loss": Loss(**loss) if loss else None})


@dataclass(frozen=True, slots=True)
class Counts:
    """Wire packets since the start. entered + duplicated = packets + dropped_* + in_flight.

    At a native switch's port also + what the program's egress took (dropped, or recirculated); a trimmed packet is one
    of `packets`. Both are told of by the switch's counters.
    strayed, shortened: of those delivered to a host, what is not addressed to it, and what is but was trimmed.
    """

    entered: int
    packets: int  # delivered
    bytes: int  # delivered, without FCS
    dropped_queue: int
    dropped_loss: int
    dropped_down: int
    corrupted: int
    duplicated: int
    ecn_marked: int  # by this link
    strayed: int
    shortened: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """One directed link. Highest queue, rate and lateness are since the last `mark`; all else since the start."""

    index: int
    all: Counts
    job: Counts
    max_queue_bytes: int
    busy_ns: int  # serialising
    measured_bps: int | None  # of packets really leaving back to back; None: too few
    late_p50_ns: int | None  # how much later than computed a packet was written; None: none was
    late_p99_ns: int | None
    malformed: int  # frames of the source's kernel that could not be read
    write_errors: int  # packets that the target's kernel did not take
    pool_exhausted: int  # copies that were not made for lack of memory
    ring_dropped: int  # frames dropped before the fabric read them: the source TAP's tx_dropped
    paused_ns: int = 0  # by PFC, all priorities together
    pfc_sent: int = 0  # pause and resume frames


class Pause(NamedTuple):
    """A priority of a link that PFC keeps from being served now."""

    link: int
    priority: int
    for_ns: int  # until now without a break, in real time
    waiting_bytes: int


class Counted(NamedTuple):
    """What one counter of a program holds."""

    kind: str  # "entry", "counter", "slot", "sums", "refused", or "unread": a counter with too many elements
    name: str
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SwitchCounters:
    """A switch that runs a program, since the start: counts as `Fabric.switch_counters` names them; routes by prefix.

    counted: of entries beside the routes (`TABLE:LINE` of their file), of the program's counters (`NAME[INDEX]`;
    `NAME[0..LAST]`: too long to be read), of sums by slot of a job (`JOB[SLOT] WHAT`) or of a whole job (`JOB: WHAT`),
    and what was refused of it.
    """

    name: str
    packets: Mapping[str, int]
    routes: Mapping[str, Traffic]
    counted: tuple[Counted, ...] = ()


@dataclass(frozen=True, slots=True)
class Swapped:
    """A program that took over at a switch, which in the meantime, the blackout, took no packet in (real time).

    kept, reset: the registers of the new program that hold what the old one's did, and those that begin anew.
    """

    switch: str
    blackout_ns: int
    kept: tuple[str, ...]
    reset: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FabricClient:
    """Requests to a fabric process over its channel. Every method raises RunFailed if it is gone or refuses."""

    channel: Channel
    timeout_s: float = field(default=10.0)

    def ready(self, timeout_s: float = 30.0) -> bool:
        """Wait until all TAPs exist; returns whether super-packets cross the kernel at hosts."""
        message = self.channel.receive(timeout_s)
        if message.get("event") != "ready":
            raise RunFailed(f"the fabric could not be set up: {message.get('reason', message)}")
        return bool(message["segmentation"])

    def counters(self, job: int | None = None, *, mark: bool = False) -> tuple[LinkCounters, ...]:
        """All links, in the order of the configuration; `job`: of that one's packets, else of all jobs'.

        With `mark` as if `mark` followed at the same instant.
        """
        return tuple(_link_counters(entry) for entry in self._ask("counters", job=job, mark=mark)["links"])

    def mark(self) -> None:
        """Forget highest queues, measured rates and lateness."""
        self._ask("mark")

    def transit_ns(self) -> tuple[int, int] | None:
        """How long packets were inside switches since the last `mark`, in real time: (p50, p99)."""
        percentiles = self._ask("transit")["transit"]
        return None if percentiles is None else (percentiles[0], percentiles[1])

    def in_flight(self, job: int | None = None) -> tuple[int, int]:
        """Packets inside the fabric now: (all, the job's, or all jobs')."""
        answer = self._ask("in-flight", job=job)
        return answer["all"], answer["job"]

    def set_link(self, index: int, parameters: LinkParameters) -> None:
        """Change a directed link; packets inside keep going."""
        self._ask("set-link", link=index, parameters=asdict(parameters))

    def link_down(self, cable: int) -> None:
        """Cut a cable: what is inside or comes is lost and counted, and switches see their port's link go down."""
        self._ask("link-down", cable=cable)

    def link_up(self, cable: int) -> None:
        self._ask("link-up", cable=cable)

    def switches(self, job: int | None = None) -> tuple[SwitchCounters, ...]:
        """The native switches' counters, in the order of the configuration; `job` as for `counters`."""
        return tuple(
            SwitchCounters(
                entry["name"],
                entry["packets"],
                {prefix: Traffic(**each) for prefix, each in entry["routes"].items()},
                tuple(Counted(*each) for each in entry["counted"]),
            )
            for entry in self._ask("switches", job=job)["switches"]
        )

    def swap(self, new: SwitchConfig, *, keep_registers: bool) -> Swapped:
        """Exchange the program of the switch that `new` names, while packets move."""
        answer = self._ask("swap", new=asdict(new), keep_registers=keep_registers)["swapped"]
        return Swapped(answer["switch"], answer["blackout_ns"], tuple(answer["kept"]), tuple(answer["reset"]))

    def pauses(self) -> tuple[Pause, ...]:
        """What PFC keeps from being served now."""
        return tuple(Pause(*each) for each in self._ask("pauses")["pauses"])

    def waiting(self) -> tuple[str, ...]:
        """In words, which slots of sums lack whose contributions."""
        return tuple(self._ask("waiting")["waiting"])

    def entries(self) -> dict[str, frozenset[Entry]]:
        """Native switch -> what it forwards by now."""
        return {
            name: frozenset(Entry(e["prefix"], e["kind"], tuple(e["ports"])) for e in entries)
            for name, entries in self._ask("entries")["entries"].items()
        }

    def capture_start(self, node: str, port: int, path: str, snap_bytes: int) -> None:
        """Write what crosses a port, both ways, into a new pcapng file."""
        self._ask("capture-start", node=node, port=port, path=path, snap_bytes=snap_bytes)

    def capture_stop(self) -> None:
        """End all captures; their files are complete then, or RunFailed says why one is not."""
        self._ask("capture-stop")

    def quit(self) -> None:
        """End the process once its captures are complete, or RunFailed says why one is not; its TAPs vanish."""
        self._ask("quit")

    def _ask(self, op: str, **fields: Any) -> Message:
        return self.channel.request({"op": op, **fields}, self.timeout_s)


def _link_counters(entry: dict[str, Any]) -> LinkCounters:
    return LinkCounters(**{**entry, "all": Counts(**entry["all"]), "job": Counts(**entry["job"])})


def total(counters: Sequence[LinkCounters]) -> Counts:
    """The sum of all links' counts."""
    return Counts(**{name: sum(getattr(link.all, name) for link in counters) for name in Counts.__dataclass_fields__})
