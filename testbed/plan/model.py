"""What would happen, as data: everything an engine needs and nothing that touches the machine.

`Plan` is frozen and turns into JSON (`plan.json`) and back without loss (`testbed.plan.serial`), so that the
controller, the fabric and the workers, which are processes of their own, read the very same plan. All times and rates
are model time; an engine multiplies by `dilation`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from testbed.routing.model import Alternate, Entry, SwitchPlan
from testbed.spec.model import Spec
from testbed.topology.graph import Graph

__all__ = [
    "Address",
    "Alternate",
    "Capabilities",
    "Datapath",
    "Entry",
    "LinkDriver",
    "Plan",
    "Prediction",
    "SwitchPlan",
]

LinkDriver = Literal["tc", "netcore"]
Datapath = Literal["kernel", "user"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this machine has, as `testbed doctor` measured it. `plan` takes it as data.

    packet_hops_per_s: wire packets a second times the directed links each crosses, through shaped links.
    path_excess_ns: how much later than modelled a packet arrives over an idle path whose links' delays are long
    enough to hide what switches take (median, real time).
    switch_ns: what a packet spends in a switch, which links' delays have to hide (p99 at half load, real time).
    """

    datapath: Datapath
    netem: bool
    tun_segmentation: bool  # TUN_F_USO: super-packets cross the kernel at hosts
    cores: int
    packet_hops_per_s: float
    path_excess_ns: int
    switch_ns: int


@dataclass(frozen=True, slots=True)
class Address:
    """A host's addresses."""

    ip: str
    mac: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the plan expects of the run. Times in model nanoseconds, rates per second of model time."""

    base_rtt_ns: int  # longest among ranks, one full frame out and an acknowledgement back, empty queues
    bound_ns: int  # the alpha-beta bound of one iteration on these links (0: no schedule, e.g. a command)
    packets_per_iteration: int  # wire packets, data and control
    packet_hops_per_iteration: int
    packet_hops_per_s: float  # while a collective runs, at dilation 1


@dataclass(frozen=True, slots=True)
class Plan:
    """A spec, worked out."""

    spec: Spec
    graph: Graph  # with every directed link's final parameters
    addresses: Mapping[str, Address]
    switches: Mapping[str, SwitchPlan]
    alternates: tuple[Alternate, ...]
    placement: tuple[str, ...]  # rank -> host
    datapath: Datapath  # Open vSwitch's: what the drivers were chosen for
    drivers: tuple[LinkDriver, ...]  # by cable
    dilation: int
    prediction: Prediction
