"""The jobs that a fabric's switches add up for: what their plan has at each switch, and how far they have come."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Self

from testbed.dataplane.aggregation import Adder, Contributor, JobHere, Server, Switch
from testbed.dataplane.native.control import ControlError
from testbed.errors import RunFailed
from testbed.plan.model import Aggregation, Entry, Plan
from testbed.plan.serial import aggregation
from testbed.routing.lookup import Lookup
from testbed.routing.model import MISS

ALONE = "job"  # what the job of a spec without `jobs` is called


@dataclass(frozen=True, slots=True)
class SummedJob:
    """A job and its tree; `ranks`: how its workers are called, by host."""

    name: str
    tree: Aggregation
    ranks: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Here:
    job: SummedJob
    adder: Adder


def summed_jobs(plan: Path) -> list[SummedJob]:
    """Those of a `plan.json` that switches add up for."""
    jobs = json.loads(plan.read_text())["jobs"]
    return [
        SummedJob(
            job["name"] or ALONE,
            aggregation(job["aggregation"]),
            {host: _called(job, rank) for rank, host in enumerate(job["placement"])},
        )
        for job in jobs
        if job["aggregation"]
    ]


class SumsHere:
    """What one switch does for jobs. Raises ControlError if its program does not add up."""

    def __init__(self, here: Sequence[_Here]) -> None:
        self._here = here

    @classmethod
    def installed(cls, jobs: Sequence[SummedJob], name: str, switch: Switch) -> Self:
        """Fill the tables of switch `name` for the jobs that meet there."""
        meeting = [job for job in jobs if name in job.tree.switches]
        try:
            return cls([_Here(job, Adder(switch, _part(job.tree, name))) for job in meeting])
        except ControlError as error:
            told = (
                f"switch {name} is to add up for {' and '.join(job.name for job in meeting)}, and its program does not"
            )
            raise ControlError(f"{told}: {error.message}", hint=_adding(meeting)) from error

    def __bool__(self) -> bool:
        return bool(self._here)

    def counted(self) -> Iterator[tuple[str, str, int, int]]:
        """Rows as `testbed.fabric.counters.Counted`: of slots (`JOB[SLOT] WHAT`) or of all (`JOB: WHAT`), and
        of packets refused."""
        for here in self._here:
            for what, slot, packets in here.adder.counts():
                kind, name = ("sums", f"{here.job.name}:") if slot is None else ("slot", f"{here.job.name}[{slot}]")
                yield kind, f"{name} {what}", packets, 0
            for reason, packets in here.adder.refused().items():
                if packets:
                    yield "refused", f"{here.job.name}: {reason}", packets, 0

    def waiting(self, switch: str) -> Iterator[str]:
        """In words, whose contributions slots lack: alike ones together."""
        for here in self._here:
            children = here.job.tree.switches[switch].children
            lacking: dict[tuple[int, ...], list[str]] = {}
            for slot in here.adder.waiting():
                lacking.setdefault(slot.missing, []).append(f"slot {slot.slot} (chunk {slot.chunk})")
            for missing, slots in lacking.items():
                who = ", ".join(here.job.ranks.get(node := children[i].node, f"switch {node}") for i in missing)
                more = f" and {len(slots) - 1} more" if len(slots) > 1 else ""
                yield f"at {switch} {slots[0]}{more} of {here.job.name} lack the contribution of {who}"


def check_ways(plan: Plan, entries: Mapping[str, Collection[Entry]]) -> None:
    """Follow what switches forward by from every worker to the switch that takes its contributions in.

    Raises RunFailed, naming the worker and the switch, where they lead elsewhere: the worker is outside its job's tree.
    """
    for job in plan.jobs:
        tree = job.aggregation
        for rank, host in enumerate(job.placement if tree else ()):
            assert tree is not None
            end, _ = tree.place_of(host)
            here, links = plan.graph.edge_switch(host), plan.graph.links_from
            while here != end:
                port = _port_to(tree.address.ip, entries.get(here, ()))
                if port != tree.ways[here]:
                    way = "has no route" if port is None else f"sends by port {port}"
                    told = (
                        f"{job.called(rank)} on {host} is outside the tree of sums: {here} {way} to {tree.address.ip}"
                    )
                    raise RunFailed(told, hint=f"{end} sums up for it, by port {tree.ways[here]} of {here}")
                here = next(link.target for link in links(here) if link.source_port == port)


def _port_to(ip: str, entries: Iterable[Entry]) -> int | None:
    """The one port by which an address is reached; None: there is none, or a choice."""
    entry = Lookup(entry for entry in entries if entry.prefix != MISS).of(int(IPv4Address(ip)))
    return entry.ports[0] if entry is not None and len(entry.ports) == 1 else None


def _adding(jobs: Sequence[SummedJob]) -> str:
    if any(unit.shift is not None for job in jobs for unit in job.tree.switches.values()):
        return "aggregate_optical does"
    return "aggregate_besteffort does" if any(job.tree.server for job in jobs) else "aggregate or aggregate_tree does"


def _part(tree: Aggregation, name: str) -> JobHere:
    here = tree.switches[name]
    children = [Contributor(child.port, child.address.ip, child.address.mac) for child in here.children]
    return JobHere(
        number=tree.number,
        ip=tree.address.ip,
        mac=tree.address.mac,
        first_slot=tree.first_slot,
        slots=tree.slots,
        values=tree.values,
        children=children,
        index=None if here.parent is None else here.index,
        server=Server(served.address.ip, served.address.mac, served.pool) if (served := tree.server) else None,
        shift=here.shift,
    )


def _called(job: Mapping[str, Any], rank: int) -> str:
    return (
        f"rank {job['name']}/{rank} on {job['placement'][rank]}"
        if job["name"]
        else f"rank {rank} on {job['placement'][rank]}"
    )
