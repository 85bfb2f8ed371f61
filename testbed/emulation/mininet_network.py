"""A plan as Mininet's own objects: `Topo`, hosts, switches, links, so that its users and its CLI find what they know.

The objects describe what `testbed.emulation.network` makes in batches; building them touches nothing.
"""

from mininet.net import Mininet
from mininet.topo import Topo

from testbed.emulation.hosts import LazyShell, P4Switch, PlannedHost
from testbed.emulation.interfaces import PREFIX_LENGTH
from testbed.emulation.links import PlannedIntf, PlannedLink, namespace_of
from testbed.emulation.switches import PlannedSwitch
from testbed.plan.model import Plan


class PlanTopo(Topo):  # type: ignore[misc]  # mininet has no types
    """The plan's graph as a Mininet topology."""

    def build(self, *, plan: Plan, outer: str, environment: dict[str, str]) -> None:
        for host in plan.graph.hosts:
            address = plan.addresses[host]
            namespace = namespace_of(plan.graph, host, outer)
            self.addHost(host, namespace=namespace, ip=f"{address.ip}/{PREFIX_LENGTH}", mac=address.mac)
        for name in plan.graph.switches:
            dpid = f"{plan.switches[name].dpid:x}"
            if plan.switching.kind != "ovs":
                self.addSwitch(name, cls=P4Switch, namespace=outer, dpid=dpid)
            else:
                self.addSwitch(
                    name,
                    cls=PlannedSwitch,
                    namespace=outer,
                    environment=environment,
                    dpid=dpid,
                    protocols="OpenFlow13",
                )
        for link in plan.graph.links[::2]:
            self.addLink(
                link.source, link.target, port1=link.source_port, port2=link.target_port, cable=link.cable
            )  # fmt: skip


class PlannedMininet(Mininet):  # type: ignore[misc]
    """A Mininet network whose parts exist already. `get`, `hosts`, `switches`, `links`, `pingAll`, `iperf` work."""

    def __init__(self, plan: Plan, outer: str, environment: dict[str, str]) -> None:
        Mininet.inited = True  # its own set-up would change the whole machine's sysctls (fixLimits)
        topo = PlanTopo(plan=plan, outer=outer, environment=environment)
        super().__init__(topo=topo, host=PlannedHost, link=PlannedLink, intf=PlannedIntf, controller=None)
        for host in self.hosts:
            address = plan.addresses[host.name]
            host.intf().config(ip=address.ip, prefix_length=PREFIX_LENGTH)
            host.intf().mac = address.mac

    def configHosts(self) -> None:  # noqa: N802 - Mininet's name
        """Nothing: see `testbed.emulation.interfaces`."""

    def stop_shells(self) -> None:
        """End the shells of nodes that were asked for one."""
        for node in (*self.hosts, *self.switches):
            assert isinstance(node, LazyShell)
            node.terminate()
