"""Which of Open vSwitch's datapaths forwards, and who carries each cable: the kernel's qdiscs, or the fabric."""

from testbed.plan.model import Capabilities, Datapath, LinkDriver
from testbed.spec.model import Spec
from testbed.topology.graph import Graph, LinkParameters
from testbed.topology.select import select_cables
from testbed.wire.ethernet import ETHERNET_BYTES, WIRE_BYTES

# How far the delay of one link alone may be off: the larger of these.
_MOST_EARLY_NS = 50_000  # of real time
_MOST_EARLY_SHARE = 0.05


def datapath_of(spec: Spec, capabilities: Capabilities) -> Datapath:
    """The datapath that the spec asks for, or the faster of those that the machine has."""
    asked = spec.switches.datapath
    return capabilities.datapath if asked == "auto" else asked


def drivers(
    spec: Spec, graph: Graph, datapath: Datapath | None, capabilities: Capabilities, dilation: int
) -> tuple[LinkDriver, ...]:
    """By cable: `tc` where the kernel can carry all that is asked of it, else `netcore`; raises SelectError.

    tc carries rate, byte queue and delay alone. The fabric draws the choices of spraying, injects background traffic,
    tells several jobs' packets apart, changes and cuts links, and captures; a userspace datapath's ports take no qdisc;
    native switches (no datapath) are in the fabric. HTB lets a packet go when its service begins, not when it ends, so
    that over tc it comes early by its own serialisation: what that adds up to at this dilation must be small.
    """
    fabric: list[LinkDriver] = ["netcore"] * (len(graph.links) // 2)
    needed = spec.traffic or spec.routing.kind == "spray" or len(spec.all_jobs) > 1
    if datapath != "kernel" or not capabilities.netem or needed:
        return tuple(fabric)
    busy = {link.cable for link in graph.links if link.parameters.impaired or _early(link.parameters, dilation)}
    for selector in [fault.select for fault in spec.faults] + [spec.capture.select if spec.capture else None]:
        if selector is not None:
            busy.update(select_cables(graph, selector))
    return tuple(driver if cable in busy else "tc" for cable, driver in enumerate(fabric))


def _early(link: LinkParameters, dilation: int) -> bool:
    """Whether a full frame would come too early over HTB and netem."""
    frame_ns = 8 * (link.mtu_bytes + ETHERNET_BYTES + WIRE_BYTES) * 10**9 * dilation / link.rate_bps
    return frame_ns > max(_MOST_EARLY_NS, _MOST_EARLY_SHARE * (frame_ns + link.delay_ns * dilation))
