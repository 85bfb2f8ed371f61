"""A plan for people: what `testbed plan` shows, and what it adds to the plan's JSON.

Long things are shown by example: links by their parameters, routes by one switch a tier, many ranks by the first few.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.collective.cost import transfer_bytes
from testbed.collective.schedule import COPY, POOL, REDUCE, Schedule
from testbed.plan import messages
from testbed.plan.environment import load_of
from testbed.plan.model import Aggregation, Bmv2Switch, Buffer, Capabilities, JobPlan, NativeSwitch, Pfc, Plan
from testbed.plan.planner import explain_dilation
from testbed.plan.predict import buffers, schedule_of
from testbed.plan.serial import to_json
from testbed.stress.arrivals import flow_sources
from testbed.topology.graph import LinkParameters
from testbed.units import format_bytes, format_duration, format_rate

_MOST_RANKS = 16
_MOST_ROWS = 12
_STRESSED = {"congestion": "link", "slow-host": "link", "stalls": "time"}
_NS = 1e9
_OPS = {REDUCE: "reduce", COPY: "copy", POOL: "pool"}


def outline(
    plan: Plan, machine: Capabilities, noted: Sequence[str], *, measured: bool, runs: int, seconds: float
) -> list[RenderableType]:
    """The parts, in the order to print them.

    runs: how many the spec asks for; this plan is the first's. seconds: `run_s` of all of them.
    """
    parts: list[RenderableType] = [_head(plan, runs), _links(plan)]
    if plan.switches:
        parts.append(_routes(plan))
    if plan.switching.native:
        parts.append(_switches(plan))
    if plan.placement:
        parts.append(_placement(plan))
    schedules = [(job, schedule_of(job.spec)) for job in plan.jobs]
    parts += [_schedule(job, schedule) for job, schedule in schedules if schedule]
    parts += [_sums(job, job.aggregation) for job in plan.jobs if job.aggregation]
    parts += [_stress(plan)] if plan.spec.environment or plan.spec.traffic else []
    return [
        *parts,
        _load(plan, machine, measured=measured, runs=runs, seconds=seconds),
        *(Text(f"note: {note}") for note in noted),
    ]


def as_data(
    plan: Plan, machine: Capabilities, noted: Sequence[str], *, measured: bool, runs: int, seconds: float
) -> dict[str, Any]:
    """`plan.json`, and beside it what the outline says about the machine, the schedules and the time.

    `schedule` is that of the only job, where jobs have no names.
    """
    schedules = {job.name: schedule_of(job.spec) for job in plan.jobs}
    steps = {
        job.name: _steps(schedule, _buffers(job)) if (schedule := schedules[job.name]) else None for job in plan.jobs
    }
    data = to_json(plan)
    return {
        **data,
        "jobs": [{**job, "schedule": steps[job["name"]]} for job in data["jobs"]],
        "machine": {**asdict(machine), "measured": measured},
        "dilation_reasons": list(explain_dilation(plan, machine).reasons),
        "schedule": steps.get(""),
        "runs": runs,
        "wall_s": seconds if plan.spec.engine == "emulation" else None,
        "notes": list(noted),
    }


def run_s(plan: Plan) -> float:
    """How long one run's iterations take at the bound, warm-up too: real time, or in simulation virtual time."""
    times = [0]
    for job in plan.jobs:
        if work := job.spec.workload:
            iterations = work.warmup + work.iterations
            times.append(job.spec.start_ns + iterations * (job.prediction.bound_ns + work.compute_ns))
    return max(times) * plan.dilation / _NS


def link_kinds(plan: Plan) -> dict[str, list[int]]:
    """Cables that are alike, by what they are: `1Gbps 20us, netcore`."""
    kinds: dict[str, list[int]] = {}
    for cable, driver in enumerate(plan.drivers):
        there, back = (plan.graph.links[2 * cable + way].parameters for way in (0, 1))
        words = _words(there) if there == back else f"{_words(there)} | back: {_words(back)}"
        kinds.setdefault(f"{words}, {driver}", []).append(cable)
    return kinds


def _head(plan: Plan, runs: int) -> RenderableType:
    graph, spec = plan.graph, plan.spec
    tiers = Counter(graph.nodes[switch].tier for switch in graph.switches)
    switches = ", ".join(f"{count} {tier}" for tier, count in tiers.items()) if len(tiers) > 1 else ""
    text = Text.assemble((spec.name, "bold"), f": {spec.engine} of a {graph.kind}, seed {spec.seed}")
    text.append(
        f"\n{len(graph.hosts)} hosts, {len(graph.switches)} switches{f' ({switches})' if switches else ''}, "
        f"{len(plan.drivers)} cables; switches: {_forwarders(plan)}, routing: {spec.routing.kind}, "
        f"transport: {', '.join(dict.fromkeys(job.spec.transport.kind for job in plan.jobs))}"
    )
    if runs > 1:
        text.append(f"\nthe first of {runs} runs (sweep and repeats); the others differ in what is swept")
    return text


def _forwarders(plan: Plan) -> str:
    """`native (l3_ecmp, no controller)`."""
    switching = plan.switching
    switches = switching.native or switching.bmv2
    programs = dict.fromkeys(_program(switch) for switch in switches.values())
    what = [f"{plan.datapath} datapath"] if plan.datapath else list(programs)
    controller = f"controller {_base(switching.controller)}" if switching.controller else "no controller"
    return f"{switching.kind} ({', '.join([*what, controller])})"


def _switches(plan: Plan) -> RenderableType:
    table = _table("switches", "program", "scheduler", "buffer", "pfc", "trim", "e.g.")
    kinds: dict[NativeSwitch, list[str]] = {}
    for name, switch in plan.switching.native.items():
        kinds.setdefault(switch, []).append(name)
    for switch, names in list(kinds.items())[:_MOST_ROWS]:
        table.add_row(
            str(len(names)),
            _program(switch),
            "strict" if switch.scheduler == "strict" else ":".join(map(str, switch.scheduler)),
            _buffer(switch.buffer) if switch.buffer else "a link's queue",
            _pfc(switch.pfc) if switch.pfc else "-",
            format_bytes(switch.trim_bytes) if switch.trim_bytes else "-",
            names[0],
        )
    _say_rest(table, len(kinds))
    return _titled("switches", table)


def _links(plan: Plan) -> RenderableType:
    table = _table("cables", "driver", "rate", "delay", "queue", "mtu", "impairment", "e.g.")
    kinds: dict[tuple[LinkParameters, LinkParameters, str], list[int]] = {}
    for cable, driver in enumerate(plan.drivers):
        there, back = (plan.graph.links[2 * cable + way].parameters for way in (0, 1))
        kinds.setdefault((there, back, driver), []).append(cable)
    for (there, back, carrier), cables in list(kinds.items())[:_MOST_ROWS]:
        first = plan.graph.links[2 * cables[0]]
        ways = [(there, f"{first.source}-{first.target}")]
        if there != back:
            ways = [(there, first.name), (back, plan.graph.reverse(first).name)]
        for p, example in ways:
            table.add_row(
                str(len(cables)),
                carrier,
                format_rate(p.rate_bps),
                format_duration(p.delay_ns),
                format_bytes(p.queue_bytes),
                str(p.mtu_bytes),
                _impairment(p) or "-",
                example,
            )
    _say_rest(table, len(kinds))
    return _titled("links", table)


def _routes(plan: Plan) -> RenderableType:
    graph = plan.graph
    title = f"routes (one switch of each tier; alternates for {len(plan.alternates)} sets of failed cables)"
    table = _table("switch", "entries", "prefix > ports")
    for alike in _by_tier(plan).values():
        name = alike[0]
        entries = plan.switches[name].entries
        shown = [f"{e.prefix} > {_ports(e.ports)}{f' {e.kind}' if len(e.ports) > 1 else ''}" for e in entries]
        if len(shown) > 6:
            shown = [*shown[:3], "...", *shown[-2:]]
        table.add_row(f"{name} ({graph.nodes[name].tier}, {len(alike)})", str(len(entries)), "; ".join(shown))
    return _titled(title, table)


def _by_tier(plan: Plan) -> dict[str, list[str]]:
    tiers: dict[str, list[str]] = {}
    for switch in plan.graph.switches:
        tiers.setdefault(plan.graph.nodes[switch].tier, []).append(switch)
    return tiers


def _placement(plan: Plan) -> RenderableType:
    table = _table("rank", "host", "address", "switch")
    placed = [(job.called(rank), host) for job in plan.jobs for rank, host in enumerate(job.placement)]
    for called, host in placed[:_MOST_RANKS]:
        table.add_row(called.removeprefix("rank "), host, plan.addresses[host].ip, plan.graph.edge_switch(host))
    _say_rest(table, len(plan.placement), _MOST_RANKS)
    return _titled("ranks", table)


def _schedule(job: JobPlan, schedule: Schedule) -> RenderableType:
    rows = _steps(schedule, _buffers(job))
    total = sum(row["bytes"] * (row["last"] - row["first"] + 1) for row in rows)
    title = (
        f"{_of(job)}{schedule.collective} by {schedule.algorithm}: {schedule.ranks} ranks, {schedule.steps} steps, "
        f"{schedule.chunks} chunks, {_amount(total)} in all"
    )
    table = _table("steps", "op", "messages a step", "bytes a step", "largest message")
    for row in rows[:_MOST_ROWS]:
        steps = str(row["first"]) if row["first"] == row["last"] else f"{row['first']}-{row['last']}"
        table.add_row(steps, row["op"], str(row["messages"]), _amount(row["bytes"]), _amount(row["largest_bytes"]))
    _say_rest(table, len(rows))
    return _titled(title, table)


def _sums(job: JobPlan, tree: Aggregation) -> RenderableType:
    room = (
        f"{tree.slots} chunks under way in {tree.server.pool} shared aggregators, server {tree.server.host}"
        if tree.server
        else f"{tree.slots} slots from {tree.first_slot} on"
    )
    title = f"{_of(job)}sums: root {tree.root} at {tree.address.ip}, {room}, {tree.values} values a packet"
    table = _table("switch", "adds up", "for")
    for name, summing in list(tree.switches.items())[::-1][:_MOST_ROWS]:
        children = ", ".join(child.node for child in summing.children[:_MOST_RANKS])
        more = f" and {len(summing.children) - _MOST_RANKS} more" if len(summing.children) > _MOST_RANKS else ""
        table.add_row(name, children + more, summing.parent or "all")
    _say_rest(table, len(tree.switches))
    return _titled(title, table)


def _load(plan: Plan, machine: Capabilities, *, measured: bool, runs: int, seconds: float) -> RenderableType:
    p, dilation = plan.prediction, explain_dilation(plan, machine)
    table = _table("what", "model time", "remark", header=False)
    table.add_row("base RTT", _time(p.base_rtt_ns), "longest among ranks: a full packet there, its ACK or sum back")
    for job in plan.jobs:
        alone = job.prediction
        if alone.bound_ns:
            hops = f"{alone.packet_hops_per_iteration:,} packet-hops"
            bound = f"{_of(job)}bound of an iteration"
            table.add_row(bound, _time(alone.bound_ns), "no network of these links can be faster, jitter aside")
            table.add_row(f"{_of(job)}packets of an iteration", f"{alone.packets_per_iteration:,}", hops)
    known = "measured" if measured else "assumed; `testbed doctor` measures it"
    if plan.spec.engine == "emulation":
        carries = machine.through(plan.switching.kind).packet_hops_per_s
        carried = f"this machine carries {carries:,.0f} with {plan.switching.kind} switches ({known})"
        table.add_row("packet-hops a second", f"{p.packet_hops_per_s:,.0f}", carried)
    for i, reason in enumerate(dilation.reasons):
        table.add_row("time dilation" if i == 0 else "", str(dilation.value) if i == 0 else "", reason)
    if p.bound_ns:
        emulated = plan.spec.engine == "emulation"
        of = f"{runs} runs of " if runs > 1 else ""
        iterations = max(work.warmup + work.iterations for job in plan.jobs if (work := job.spec.workload))
        rest = ", besides set-up" if emulated else ", whatever they take this machine"
        table.add_row(
            "wall time" if emulated else "virtual time",
            f"{seconds:.1f} s" if emulated else _time(round(seconds * _NS)),
            f"{of}{iterations} iterations at the bound{rest}",
        )
    return _titled("load and time", table)


def _steps(schedule: Schedule, work: Sequence[messages.Buffer]) -> list[dict[str, Any]]:
    """Runs of steps that are alike."""
    rows, steps = schedule.transfers, []
    size = np.zeros(len(rows), np.int64)
    for elements, element_bytes in work:
        size += transfer_bytes(schedule, elements * element_bytes, element_bytes)
    borders = np.searchsorted(rows["step"], np.arange(schedule.steps + 1)).tolist()
    for here in (slice(first, last) for first, last in pairwise(borders)):
        ops = np.unique(rows["op"][here]).tolist()
        op = "+".join(_OPS[each] for each in ops)
        steps.append((op, int(np.count_nonzero(size[here])), int(size[here].sum()), int(size[here].max())))
    found, first = [], 0
    for (op, number, bytes_, largest), alike in groupby(steps):
        last = first + len(list(alike)) - 1
        found.append(
            {"first": first, "last": last, "op": op, "messages": number, "bytes": bytes_, "largest_bytes": largest}
        )
        first = last + 1
    return found


def _stress(plan: Plan) -> RenderableType:
    """The environment, what it comes to, and the background flows."""
    spec, lines = plan.spec, list[str]()
    if (environment := spec.environment) is not None:
        reached = f", which reached {environment.reached:.4g}" if environment.reached else ""
        load = load_of(environment, len(plan.placement))
        found = "severity not known yet" if load is None else f"severity {environment.severity:.4g}{reached}"
        share = f", {load:.3%} of a rank's {_STRESSED[environment.by]} on average" if load else ""
        lines.append(f"environment: tail ratio {environment.tail_ratio:g} by {environment.by}: {found}{share}")
    for number, entry in enumerate(spec.traffic):
        if entry.kind == "flows":
            sources = flow_sources((entry,), plan.graph)
            gap = _time(round(sources[0].gap_ns))
            scale = f", scaled by {entry.scale:g}" if entry.scale != 1 else ""
            lines.append(
                f"traffic {number}: flows from {len(sources)} hosts, one each {gap} a host on average, sizes "
                f"{_base(entry.sizes or '')}{scale}: {_amount(round(sources[0].mean_bytes))} on average"
            )
        else:
            lines.append(f"traffic {number}: {entry.kind} from {len(entry.sources)} hosts to {entry.targets[0]}")
    return Text("\n".join(lines))


def _buffers(job: JobPlan) -> list[messages.Buffer]:
    return buffers(job.spec.workload) if job.spec.workload else []


def _of(job: JobPlan) -> str:
    return f"job {job.name}: " if job.name else ""


def _time(ns: int) -> str:
    return f"{ns / 1000:,.1f} us" if ns < 10**7 else f"{ns / 10**6:,.2f} ms"


def _amount(bytes_: int) -> str:
    unit, name = next(((u, n) for u, n in ((1 << 20, "MiB"), (1 << 10, "KiB")) if bytes_ >= u), (1, "B"))
    return f"{bytes_ / unit:,.4g} {name}"


def _words(p: LinkParameters) -> str:
    impairment = _impairment(p)
    return f"{format_rate(p.rate_bps)} {format_duration(p.delay_ns)}{f' {impairment}' if impairment else ''}"


def _impairment(p: LinkParameters) -> str:
    words = []
    if p.loss:
        burst = f" in bursts of {p.loss.burst_packets:g}" if p.loss.burst_packets > 1 else ""
        words.append(f"loss {p.loss.mean:.3g}{burst}")
    if p.ecn:
        words.append(f"ecn {format_bytes(p.ecn.min_bytes)}-{format_bytes(p.ecn.max_bytes)}")
    if p.jitter_ns:
        words.append(f"jitter {format_duration(p.jitter_ns)}")
    words += [f"{word} {value:.3g}" for word, value in (("duplicate", p.duplicate), ("corrupt", p.corrupt)) if value]
    return ", ".join(words)


def _program(switch: NativeSwitch | Bmv2Switch) -> str:
    return _base(switch.program)


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _buffer(buffer: Buffer) -> str:
    room = f", headroom {format_bytes(buffer.headroom_bytes)}" if buffer.headroom_bytes else ""
    return f"{format_bytes(buffer.shared_bytes)} shared, alpha {buffer.alpha:g}{room}"


def _pfc(pfc: Pfc) -> str:
    return f"{_ports(pfc.priorities)}: {format_bytes(pfc.xoff_bytes)} / {format_bytes(pfc.xon_bytes)}"


def _ports(ports: Sequence[int]) -> str:
    if len(ports) > 4 and list(ports) == list(range(ports[0], ports[-1] + 1)):
        return f"{ports[0]}-{ports[-1]}"
    return ",".join(map(str, ports)) or "none"


def _table(*columns: str, header: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, show_header=header)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _titled(title: str, table: Table) -> RenderableType:
    """A title may be wider than its table."""
    return Group(Text(title, style="bold"), table)


def _say_rest(table: Table, rows: int, most: int = _MOST_ROWS) -> None:
    if rows > most:
        table.add_row("...", *[""] * (len(table.columns) - 2), f"{rows - most} more: --json has all")
