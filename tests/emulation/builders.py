"""Small plans without the planner, and flows without the controller."""

from collections import deque
from typing import Any

from testbed.emulation.commands import in_parallel, output_of
from testbed.emulation.network import EmulatedNetwork
from testbed.plan.model import (
    Address,
    Datapath,
    Entry,
    JobPlan,
    LinkDriver,
    NativeSwitch,
    Plan,
    Prediction,
    Switching,
    SwitchPlan,
)
from testbed.spec.model import Spec, TopologySpec
from testbed.topology import build
from testbed.topology.graph import Graph, LinkParameters


def small_plan(
    kind: str = "star",
    *,
    driver: LinkDriver = "tc",
    datapath: Datapath = "user",
    rate_bps: int = 100_000_000,
    delay_ns: int = 0,
    queue_bytes: int = 262_144,
    dilation: int = 1,
    controller: str | None = "ecmp",
    native: NativeSwitch | None = None,
    **topology: Any,
) -> Plan:
    """A plan with one shortest path from everywhere to every host; `native`: what all switches are."""
    graph = build(
        TopologySpec(kind=kind, **topology),
        LinkParameters(rate_bps=rate_bps, delay_ns=delay_ns, queue_bytes=queue_bytes),
    )
    addresses = {
        host: Address(f"10.0.{n // 200}.{n % 200 + 1}", f"02:00:00:00:{n // 256:02x}:{n % 256:02x}")
        for n, host in enumerate(graph.hosts)
    }
    ports = {host: _ports_towards(graph, host) for host in graph.hosts}
    switches = {
        name: SwitchPlan(
            dpid=n,
            salt=n,
            entries=tuple(Entry(f"{addresses[host].ip}/32", "single", (ports[host][name],)) for host in graph.hosts),
        )
        for n, name in enumerate(graph.switches, start=1)
    }
    spec, nothing = Spec(name="small", topology=TopologySpec(kind=kind, **topology)), Prediction(0, 0, 0, 0, 0.0)
    return Plan(
        spec=spec,
        graph=graph,
        addresses=addresses,
        switches=switches,
        alternates=(),
        jobs=(JobPlan("", spec.all_jobs[""], spec.seed, 0, (), nothing),),
        switching=Switching(
            "native" if native else "ovs", controller, dict.fromkeys(graph.switches, native) if native else {}
        ),
        datapath=None if native else datapath,
        drivers=(driver,) * (len(graph.links) // 2),
        dilation=dilation,
        prediction=nothing,
    )


def install_flows(network: EmulatedNetwork) -> None:
    """What the controller would do."""

    def one(name: str) -> None:
        flows = "".join(
            f"ip,nw_dst={entry.prefix},actions=output:{entry.ports[0]}\n"
            for entry in network.plan.switches[name].entries
        )
        socket = f"unix:{network.state.directory}/ovs/{name}.mgmt"
        output_of(["ovs-ofctl", "-O", "OpenFlow13", "add-flows", socket, "-"], stdin=flows)

    in_parallel(one, network.plan.graph.switches)


def _ports_towards(graph: Graph, host: str) -> dict[str, int]:
    """Switch -> port on a shortest path to `host`."""
    ports: dict[str, int] = {}
    queue = deque([host])
    while queue:
        for link in graph.links_from(queue.popleft()):
            if graph.nodes[link.target].kind == "switch" and link.target not in ports:
                ports[link.target] = link.target_port
                queue.append(link.target)
    return ports
