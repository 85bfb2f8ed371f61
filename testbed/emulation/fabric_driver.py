"""The `netcore` link driver: starts the fabric process for the cables that the plan gives it, and asks it."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.emulation import processes
from testbed.emulation.fabric_client import FabricClient, FabricConfig, FabricLink, LinkEnd, SwitchConfig
from testbed.emulation.fabric_client import LinkCounters as FabricCounters
from testbed.emulation.links import LinkCounters, interface, namespace_of
from testbed.emulation.programs import CompiledProgram
from testbed.emulation.state import RunState
from testbed.plan.model import NativeSwitch, Plan
from testbed.run.channel import Channel
from testbed.streams import derive
from testbed.topology.graph import LinkParameters


def fabric_config(
    plan: Plan,
    outer: str,
    plan_file: Path,
    programs: Mapping[str, CompiledProgram],
    controller: tuple[str, int] | None,
    p4runtime: tuple[str, int] | None = None,
) -> FabricConfig:
    """What the fabric process has to carry.

    `controller`: where native switches' controller listens; `p4runtime`: where they listen for clients.
    """

    def end(node: str, port: int) -> LinkEnd:
        is_host = plan.graph.nodes[node].kind == "host"
        alone = is_host and len(plan.graph.links_from(node)) == 1  # else any of its ports takes what is for it
        address = plan.addresses[node] if alone else None
        return LinkEnd(node, port, interface(node, port), namespace_of(plan.graph, node, outer), is_host, address)

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


def start_fabric(config: FabricConfig, state: RunState, control: Path, log: Path, outer: str) -> processes.Child:
    """Start the fabric process; it says `ready` on the control socket when all its TAPs exist."""
    file = state.directory / "fabric.json"
    file.write_text(json.dumps(config.to_json()))
    module = "testbed.emulation.fabric"
    argv = [sys.executable, "-P", "-m", module, "--config", str(file), "--control", str(control)]
    return processes.start(state, "fabric", argv, log, namespace=outer)


class FabricDriver:
    """The links inside a running fabric."""

    def __init__(self, plan: Plan, channel: Channel) -> None:
        self.client = FabricClient(channel)
        self._graph = plan.graph

    def set_link(self, index: int, parameters: LinkParameters) -> None:
        self.client.set_link(index, parameters)

    def link_down(self, cable: int) -> None:
        self.client.link_down(cable)

    def link_up(self, cable: int) -> None:
        self.client.link_up(cable)

    def counters(self, job: int | None = None, *, mark: bool = False) -> Mapping[int, LinkCounters]:
        return {each.index: _flat(each) for each in self.client.counters(job, mark=mark)}

    def unmodelled_drops(self) -> Mapping[str, int]:
        """Packets lost at the fabric's edges, where no link of the plan loses any."""
        return {
            f"{self._graph.links[each.index].name}: {what}": count
            for each in self.client.counters()
            for what, count in (
                ("not read in time by the fabric", each.ring_dropped),
                ("unreadable for the fabric", each.malformed),
                ("not taken by the kernel", each.write_errors),
                ("no memory for a copy", each.pool_exhausted),
            )
            if count
        }


def _flat(counters: FabricCounters) -> LinkCounters:
    everything, job = counters.all, counters.job
    return LinkCounters(
        packets=everything.packets,
        bytes=everything.bytes,
        job_packets=job.packets,
        job_bytes=job.bytes,
        dropped_queue=everything.dropped_queue,
        dropped_loss=everything.dropped_loss,
        dropped_down=everything.dropped_down,
        corrupted=everything.corrupted,
        duplicated=everything.duplicated,
        ecn_marked=everything.ecn_marked,
        job_dropped_queue=job.dropped_queue,
        job_dropped_loss=job.dropped_loss,
        job_dropped_down=job.dropped_down,
        job_corrupted=job.corrupted,
        job_duplicated=job.duplicated,
        job_ecn_marked=job.ecn_marked,
        job_strayed=job.strayed,
        job_shortened=job.shortened,
        in_flight=everything.in_flight,
        job_in_flight=job.in_flight,
        max_queue_bytes=counters.max_queue_bytes,
        busy_ns=counters.busy_ns,
        measured_rate_bps=counters.measured_bps,
        late_p50_ns=counters.late_p50_ns,
        late_p99_ns=counters.late_p99_ns,
        paused_ns=counters.paused_ns,
        pfc_sent=counters.pfc_sent,
    )
