"""What a fabric is made of: directed links between ports, and native switches. Times and rates are model time."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from testbed.plan.model import Address
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
    """What a fabric is started with.

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
    job_udp_ports: tuple[int, ...] = (ROCE_PORT,)
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


def interface(node: str, port: int) -> str:
    """The name of a port's interface, as Mininet gives it."""
    return f"{node}-eth{port}"
