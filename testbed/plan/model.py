"""What would happen, as data: everything an engine needs and nothing that touches the machine.

`Plan` is frozen and turns into JSON (`plan.json`) and back without loss (`testbed.plan.serial`), so that the
controller, the fabric and the workers, which are processes of their own, read the very same plan. All times and rates
are model time; an engine multiplies by `dilation`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from testbed.errors import MachineLacks
from testbed.routing.model import Alternate, Entry, SwitchPlan
from testbed.spec.model import JobSpec, Spec
from testbed.topology.graph import Graph

__all__ = [
    "Address",
    "Aggregation",
    "Alternate",
    "Bmv2Switch",
    "Buffer",
    "Capabilities",
    "Carried",
    "Child",
    "Datapath",
    "Entry",
    "JobPlan",
    "LinkDriver",
    "NativeSwitch",
    "Pfc",
    "Plan",
    "Prediction",
    "Summing",
    "SwitchPlan",
    "Switching",
    "SwitchingKind",
]

LinkDriver = Literal["tc", "netcore"]
Datapath = Literal["kernel", "user"]
SwitchingKind = Literal["ovs", "native", "bmv2"]


@dataclass(frozen=True, slots=True)
class Carried:
    """What the machine carries through switches of one kind, in real time.

    packet_hops_per_s: wire packets a second times the directed links each crosses, through shaped links; with native
    switches times the two that touch hosts, for what is between is memory.
    path_excess_ns: how much later than modelled a packet arrives over an idle path (median).
    switch_ns: what a packet spends in a switch, which links' delays have to hide (p99 at half load); a native switch
    takes no time.
    """

    packet_hops_per_s: float
    path_excess_ns: int
    switch_ns: int = 0

    def slowed(self, factor: float) -> "Carried":
        """By a machine that takes so many times as long for everything."""
        return Carried(
            self.packet_hops_per_s / factor, round(self.path_excess_ns * factor), round(self.switch_ns * factor)
        )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this machine has, as `testbed doctor` measured it. `plan` takes it as data.

    packet_hops_per_s: wire packets a second times the directed links each crosses, through shaped links.
    path_excess_ns: how much later than modelled a packet arrives over an idle path whose links' delays are long
    enough to hide what switches take (median, real time).
    switch_ns: what a packet spends in a switch, which links' delays have to hide (p99 at half load, real time).
    These three are Open vSwitch's; `native` is the same of native switches, None where they cannot run (no C compiler),
    and `bmv2` of bmv2's simple_switch, None where it is not installed; bmv2_grpc: so is simple_switch_grpc.
    """

    datapath: Datapath
    netem: bool
    tun_segmentation: bool  # TUN_F_USO: super-packets cross the kernel at hosts
    cores: int
    packet_hops_per_s: float
    path_excess_ns: int
    switch_ns: int
    native: Carried | None = None
    bmv2: Carried | None = None
    bmv2_grpc: bool = False

    def through(self, kind: SwitchingKind) -> Carried:
        """What the machine carries through switches of a kind; raises MachineLacks where it cannot run them."""
        if kind == "ovs":
            return Carried(self.packet_hops_per_s, self.path_excess_ns, self.switch_ns)
        if kind == "bmv2":
            if self.bmv2 is None:
                raise MachineLacks(
                    "switches of kind bmv2 need bmv2's simple_switch, and this machine has none",
                    hint="build it from its public source, then `testbed doctor --again`; or use `kind: native`",
                )
            return self.bmv2
        if self.native is None:
            raise MachineLacks(
                "native switches need a C compiler, and this machine has none",
                hint="apt-get install gcc, then `testbed doctor --again`",
            )
        return self.native

    def slowed(self, factor: float) -> "Capabilities":
        """Of a machine that takes so many times as long for everything."""
        own, native, bmv2 = (each and each.slowed(factor) for each in (self.through("ovs"), self.native, self.bmv2))
        assert own is not None
        return replace(self, **asdict(own), native=native, bmv2=bmv2)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A switch's shared packet buffer with dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998).

    A queue may hold `alpha` times what is left of `shared_bytes`; `headroom_bytes`, by ingress port, takes what still
    arrives after a pause.
    """

    shared_bytes: int
    alpha: float
    headroom_bytes: int


@dataclass(frozen=True, slots=True)
class Pfc:
    """Priority flow control (IEEE 802.1Qbb) of `priorities`, by what a switch holds of an ingress port and priority."""

    priorities: tuple[int, ...]  # ascending
    xoff_bytes: int  # at this much upstream is paused
    xon_bytes: int  # at this little it may send again


@dataclass(frozen=True, slots=True)
class NativeSwitch:
    """A switch whose packets a P4 program forwards in the fabric, and its traffic manager.

    program: a name in `p4/`, or the absolute path of a .p4 or .json (BMv2) file. scheduler: `strict` serves larger
    priorities first, eight weights (by priority) share the port by bytes. buffer: None leaves each port the link's
    `queue`. trim_bytes: what is kept of a packet that the queue would drop, from Ethernet on; 0: it is dropped.
    entries: a name in `p4/`, or the absolute path of an STF file, of what the program's tables hold beside the routes.
    """

    program: str
    scheduler: Literal["strict"] | tuple[int, ...]
    buffer: Buffer | None
    pfc: Pfc | None
    trim_bytes: int
    entries: str | None = None


@dataclass(frozen=True, slots=True)
class Bmv2Switch:
    """A `simple_switch` of bmv2's; `program` and `entries` as in `NativeSwitch`."""

    program: str
    entries: str | None = None


@dataclass(frozen=True, slots=True)
class Switching:
    """What forwards, and who tells it the routes."""

    kind: SwitchingKind
    controller: str | None  # the app (a name or FILE.py); None: entries come straight from the plan
    native: Mapping[str, NativeSwitch]  # by switch; none with others
    bmv2: Mapping[str, Bmv2Switch] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Address:
    """Where packets for a host go, or for a switch that adds up."""

    ip: str
    mac: str


@dataclass(frozen=True, slots=True)
class Child:
    """Who contributes to a switch's sums: a host, or a switch that sums below. `port` is the switch's, towards it."""

    node: str
    port: int
    address: Address


@dataclass(frozen=True, slots=True)
class Summing:
    """A switch that adds up for a job. Results come to it at `address`, which is no host's.

    It is child number `index` of `parent`; the root has none. shift: of a unit that averages, the binary places by
    which it divides sums (p4/aggregate_optical.p4).
    """

    children: tuple[Child, ...]
    parent: str | None
    index: int
    address: Address
    shift: int | None = None


@dataclass(frozen=True, slots=True)
class SumServer:
    """The host that adds up what a job's switch has no room for, and of how many aggregators that switch has the use,
    together with all other such jobs."""

    host: str
    address: Address
    pool: int


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How the network sums up a job: a tree of switches, up which the workers send to the root's address.

    number: of the job, on the wire. ways: each switch of the tree but the root -> its port towards it. switches: those
    that add up, the root last; the others only route. values: in a packet. slots: of the job, which in the switches'
    pools begin at `first_slot`. server: of a best-effort job, whose slots are chunks under way and have no room of
    their own.
    """

    job: str
    number: int
    root: str
    ways: Mapping[str, int]
    switches: Mapping[str, Summing]
    values: int
    slots: int
    first_slot: int
    server: SumServer | None = None

    @property
    def address(self) -> Address:
        """Where workers send to."""
        return self.switches[self.root].address

    def place_of(self, host: str) -> tuple[str, int]:
        """The switch that takes a worker's packets in, and the worker's index there."""
        places = {c.node: (name, i) for name, summing in self.switches.items() for i, c in enumerate(summing.children)}
        return places[host]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the plan expects of the run. Times in model nanoseconds, rates per second of model time.

    Packet-hops are counted as in `Carried`.
    """

    base_rtt_ns: int  # longest among ranks, one full frame out and an acknowledgement back, empty queues
    bound_ns: int  # the alpha-beta bound of one iteration on these links (0: no schedule, e.g. a command)
    packets_per_iteration: int  # wire packets, data and control
    packet_hops_per_iteration: int
    packet_hops_per_s: float  # while a collective runs, of an incast while all send, at dilation 1


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job, worked out: ranks on hosts that no other job has.

    name: empty where the spec has no `jobs`. seed: of all that is drawn for the job. first: the number of its rank 0
    among the ranks of all jobs, which are numbered through in the jobs' order.
    """

    name: str
    spec: JobSpec
    seed: int
    first: int
    placement: tuple[str, ...]  # rank -> host
    prediction: Prediction  # of this job alone, without background traffic
    aggregation: Aggregation | None = None  # None: the ranks do it all

    @property
    def hosts(self) -> tuple[str, ...]:
        """The ranks' hosts, and that of its server if it has one: the packets of these are the job's."""
        server = self.aggregation.server if self.aggregation else None
        return (*self.placement, server.host) if server else self.placement

    @property
    def numbers(self) -> range:
        """The numbers of its ranks among those of all jobs."""
        return range(self.first, self.first + len(self.placement))

    def called(self, rank: int) -> str:
        """`rank 3`, or where jobs have names `rank NAME/3`."""
        return f"rank {self.name}/{rank}" if self.name else f"rank {rank}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A spec, worked out.

    prediction: of all jobs together, each at one iteration (the longest round trip and bound, the sums of the loads),
    and in its packet-hops a second of background traffic too.
    """

    spec: Spec
    graph: Graph  # with every directed link's final parameters
    addresses: Mapping[str, Address]
    switches: Mapping[str, SwitchPlan]
    alternates: tuple[Alternate, ...]
    jobs: tuple[JobPlan, ...]  # at least one
    switching: Switching
    datapath: Datapath | None  # Open vSwitch's: what the drivers were chosen for; None: switches of another kind
    drivers: tuple[LinkDriver, ...]  # by cable
    dilation: int
    prediction: Prediction

    @property
    def placement(self) -> tuple[str, ...]:
        """The host of each rank, the jobs' ranks numbered through."""
        return tuple(host for job in self.jobs for host in job.placement)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts where processes of jobs run: the ranks' by their numbers, then the servers'."""
        return self.placement + tuple(host for job in self.jobs for host in job.hosts[len(job.placement) :])

    def called(self, number: int) -> str:
        """A rank by its number among those of all jobs: `rank 3`, or where jobs have names `rank NAME/3`."""
        return next(job.called(number - job.first) for job in self.jobs if number in job.numbers)
