"""What of a plan is the fabric's: its configuration."""

from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.fabric.model import FabricConfig, FabricLink, LinkEnd, SwitchConfig, interface
from testbed.fabric.programs import CompiledProgram
from testbed.plan.model import JobPlan, NativeSwitch, Plan
from testbed.streams import derive
from testbed.transport import find
from testbed.transport.framing import Framing, of_aggregation


def fabric_config(
    plan: Plan,
    plan_file: Path,
    programs: Mapping[str, CompiledProgram],
    *,
    netns: Callable[[str], str | None] = lambda _node: None,
    controller: tuple[str, int] | None = None,
    p4runtime: tuple[str, int] | None = None,
) -> FabricConfig:
    """What the fabric has to carry.

    netns: where a node's interfaces are. controller: where native switches' controller listens; p4runtime: where they
    listen for clients.
    """

    def end(node: str, port: int) -> LinkEnd:
        is_host = plan.graph.nodes[node].kind == "host"
        alone = is_host and len(plan.graph.links_from(node)) == 1  # else any of its ports takes what is for it
        address = plan.addresses[node] if alone else None
        return LinkEnd(node, port, interface(node, port), netns(node), is_host, address)

    native = plan.switching.native
    return FabricConfig(
        seed=plan.spec.seed,
        dilation=plan.dilation,
        links=tuple(
            FabricLink(
                link.index,
                end(link.source, link.source_port),
                end(link.target, link.target_port),
                link.parameters,
            )
            for link in plan.graph.links
            if plan.drivers[link.cable] == "netcore"
        ),
        switches=tuple(
            switch_config(name, switch, programs[switch.program], derive(plan.spec.seed, "switch", name))
            for name, switch in native.items()
        ),
        plan=str(plan_file) if native else None,
        controller=controller if native else None,
        p4runtime=p4runtime if native else None,
        nic_priorities=any(program.sets_priority for program in programs.values()),
        job_udp_ports=_job_ports(plan),
        job_hosts=tuple(
            (plan.addresses[host].ip, number)
            for number, job in enumerate(plan.jobs if len(plan.jobs) > 1 else ())
            for host in job.hosts
        ),
        spray=plan.spec.routing.kind == "spray" and not native,
    )


def switch_config(name: str, switch: NativeSwitch, program: CompiledProgram, seed: int) -> SwitchConfig:
    """What the fabric is told of a native switch; `seed`: of its program's random draws."""
    buffer, pfc = switch.buffer, switch.pfc
    mask = sum(1 << priority for priority in pfc.priorities) if pfc else 0
    return SwitchConfig(
        name,
        str(program.object),
        str(program.json),
        seed,
        scheduler=switch.scheduler,
        buffer=(buffer.shared_bytes, buffer.alpha, buffer.headroom_bytes) if buffer else None,
        pfc=(mask, pfc.xoff_bytes, pfc.xon_bytes) if pfc else None,
        trim_bytes=switch.trim_bytes,
        entries=switch.entries,
    )


def _job_ports(plan: Plan) -> tuple[int, ...]:
    """Where the packets of jobs go over UDP that do not go through the kernel's TCP, or its model."""
    return tuple(sorted({framing.port for job in plan.jobs if (framing := _framing(job)) is not None}))


def _framing(job: JobPlan) -> Framing | None:
    if job.aggregation is not None:
        return of_aggregation(str(job.spec.transport.parameters.get("framing", "udp")))
    transport = find(job.spec.transport.kind)
    return transport.framing if transport.make is not None else None
