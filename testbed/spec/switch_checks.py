"""What must hold of a spec's `switches`: programs that compile, queues that hold something, pauses that begin and end.

A value that is wrong by itself is told where it is; what does not go together on some switch, at the last entry that
has a part in it.
"""

import math
import os.path
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from testbed.errors import TestbedError
from testbed.spec.document import Step
from testbed.spec.errors import listed
from testbed.spec.findings import Findings
from testbed.spec.model import PRIORITIES, BufferSpec, FaultSpec, PfcSpec, SchedulerSpec, Spec, SwitchesSpec, SwitchKeys
from testbed.spec.network_checks import MTU_BYTES, Network
from testbed.suggest import closest
from testbed.topology.graph import Graph
from testbed.topology.switches import MOST_PORTS, P4RUNTIME, WRITTEN, Setter, default_program, given, who_sets
from testbed.units import format_bytes
from testbed.wire.ethernet import ETHERNET_BYTES, FCS_BYTES, UDP_HEADERS_BYTES

CONTROLLERS = ("ecmp", P4RUNTIME)
_MOST_ALPHA = 1024
_MOST_WEIGHT = 1000
_MOST_LINES = 10  # of a file of entries that are told
_SECTION: tuple[Step, ...] = ("switches",)
Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _Switch:
    """One switch: what sets each key, and its links' MTU and queues."""

    name: str
    set_by: Mapping[str, Setter]
    mtu_bytes: int
    queues_bytes: tuple[int, ...]  # of its links

    @property
    def frame_bytes(self) -> int:
        return self.mtu_bytes + ETHERNET_BYTES + FCS_BYTES

    @property
    def buffer(self) -> BufferSpec | None:
        return self.set_by["buffer"][1].buffer if "buffer" in self.set_by else None

    @property
    def pfc(self) -> PfcSpec | None:
        return self.set_by["pfc"][1].pfc if "pfc" in self.set_by else None

    @property
    def most_held_bytes(self) -> int:
        """What may wait at once of one priority: in a shared buffer, where the queues fill one after another and each
        to alpha times what is left, all but 1 / (1 + alpha) ** queues of it.
        """
        if self.buffer is None:
            return sum(self.queues_bytes)
        return math.ceil(self.buffer.shared_bytes * (1 - (1 + self.buffer.alpha) ** -len(self.queues_bytes)))

    def path(self, key: str, *rest: Step) -> Path:
        return (*_SECTION, *self.set_by[key][0], WRITTEN[key], *rest)


def check_switches(net: Network) -> None:
    """Report what is wrong with `switches`."""
    switches, findings = net.spec.switches, net.findings
    _check_controller(switches, findings)
    entries: list[tuple[Path, SwitchKeys]] = [(_SECTION, switches)]
    selected = []
    for index, override in enumerate(switches.overrides):
        path = (*_SECTION, "overrides", index)
        entries.append((path, override))
        selected.append(net.select_switches((*path, "select"), override.select))
        if not given(override) and not findings.incomplete(findings.place(path)[0]):
            findings.add(path, f"sets nothing: give it one of {', '.join(WRITTEN.values())}")
    served = switches.kind == "bmv2" and switches.controller == P4RUNTIME
    for path, entry in entries:
        _check_entry(findings, path, entry)
        if served and entry.entries is not None:
            findings.add((*path, "entries"), f"with the controller {P4RUNTIME} entries of bmv2 are its clients' affair")
    undecided = switches.kind == "auto" and not any(given(e) for _, e in entries)
    runs_programs = switches.kind != "ovs" and not undecided
    if net.graph is not None and runs_programs and not findings.incomplete("switches"):
        _check_together(net, net.graph, _settle(net, net.graph, selected))
    for index, fault in enumerate(net.spec.faults):
        if fault.kind == "swap-program":
            _check_swap(net, ("faults", index), fault)


def _check_swap(net: Network, path: Path, fault: FaultSpec) -> None:
    """What is wrong with the exchange of a program, whatever else is with faults."""
    kind = net.spec.switches.kind
    if kind not in ("native", "auto") and not net.findings.incomplete("switches"):
        net.findings.add((*path, "kind"), f"programs are exchanged on native switches, and these are {kind}")
    if net.spec.switches.controller == P4RUNTIME:
        net.findings.add(
            (*path, "kind"), f"with the controller {P4RUNTIME} programs are exchanged by P4Runtime's clients"
        )
    switches = net.select_switches((*path, "select"), fault.select) if fault.select is not None else ()
    if fault.program is not None:
        _check_program(net.findings, (*path, "program"), fault.program)
    if fault.entries is not None:
        _check_entries_file(net.findings, (*path, "entries"), fault.entries)
    if fault.program is not None and fault.entries is not None and net.graph is not None and switches:
        fewest = min(len(net.graph.links_from(name)) for name in switches)
        _check_lines(net.findings, (*path, "entries"), fault.entries, fault.program, fewest)


def _check_controller(switches: SwitchesSpec, findings: Findings) -> None:
    name = switches.controller
    if name is not None and name not in CONTROLLERS and not name.endswith(".py"):
        known = f"there is {listed(CONTROLLERS)}, or a file of your own (FILE.py)"
        findings.add(
            (*_SECTION, "controller"), f"no controller is called {name!r}: {known}", closest(name, CONTROLLERS)
        )
    if findings.incomplete("switches"):
        return
    if name == P4RUNTIME and switches.kind not in ("native", "bmv2"):
        findings.add(
            (*_SECTION, "controller"),
            f"{P4RUNTIME} drives switches of kind native or bmv2, and these are {switches.kind}",
        )
    if name not in (None, P4RUNTIME) and switches.kind == "bmv2":
        findings.add((*_SECTION, "controller"), f"bmv2 is driven by {P4RUNTIME}, or without a controller", P4RUNTIME)


def _check_entry(findings: Findings, path: Path, entry: SwitchKeys) -> None:
    """What is wrong with an entry's keys whatever else holds."""
    if entry.program is not None:
        _check_program(findings, (*path, "program"), entry.program)
    if entry.entries is not None:
        _check_entries_file(findings, (*path, "entries"), entry.entries)
    if isinstance(entry.scheduler, SchedulerSpec):
        _check_weights(findings, (*path, "scheduler", "weighted"), entry.scheduler.weighted)
    if entry.buffer is not None and not 0 < entry.buffer.alpha <= _MOST_ALPHA:
        message = f"is {entry.buffer.alpha:g} and must be more than 0 and at most {_MOST_ALPHA}"
        findings.add((*path, "buffer", "alpha"), f"{message}: a queue may hold alpha times what is free of the buffer")
    if entry.pfc is not None:
        _check_pfc(findings, (*path, "pfc"), entry.pfc)
    if entry.trim_bytes is not None and 0 < entry.trim_bytes < UDP_HEADERS_BYTES:
        message = f"is {format_bytes(entry.trim_bytes)} and must be at least {UDP_HEADERS_BYTES}B"
        findings.add((*path, "trim"), f"{message}, which Ethernet, IPv4 and UDP headers take", f"{UDP_HEADERS_BYTES}B")


def _check_program(findings: Findings, path: Path, name: str) -> None:
    # Only here: the compiler is not small, and most specs name no program.
    from testbed.dataplane.diagnostics import P4Errors
    from testbed.dataplane.programs import FILES, facts_of, path_of, shipped

    known = shipped()
    if name.endswith(FILES) and not os.path.isfile(name):  # noqa: PTH113 - pathlib's raises for a name that is too long
        message = f"there is no file {name!r} beside the spec, in the current folder or in p4/"
        findings.add(path, message, closest(PurePath(name).stem, known))
        return
    if not name.endswith(FILES) and name not in known:
        message = f"no switch program is called {name!r}: there are {listed(list(known))}, or a file (.p4 or .json)"
        findings.add(path, message, closest(name, known))
        return
    try:
        facts = facts_of(path_of(name))
    except P4Errors as errors:
        first, more = errors.errors[0], len(errors.errors) - 1
        hint = f" ({first.hint})" if first.hint else ""
        rest = f"; and {more} more, which `testbed p4 build` tells" if more else ""
        findings.add(path, f"does not compile: {first.span}: {first.message}{hint}{rest}")
    except (TestbedError, OSError) as error:
        findings.add(path, f"cannot be run: {error}")
    else:
        if not facts.takes_routes:
            findings.add(path, "has no tables `routes` and `members` to take the routes: include include/routing.p4")


def _check_entries_file(findings: Findings, path: Path, name: str) -> None:
    from testbed.dataplane.entries import FILES, shipped

    known = shipped()
    if name.endswith(FILES) and not os.path.isfile(name):  # noqa: PTH113 - as above
        message = f"there is no file {name!r} beside the spec, in the current folder or in p4/"
        findings.add(path, message, closest(PurePath(name).stem.removesuffix(".entries"), known))
    elif not name.endswith(FILES) and name not in known:
        message = f"no entries are called {name!r}: there are {listed(list(known))}, or a file (.stf)"
        findings.add(path, message, closest(name, known))


def _check_weights(findings: Findings, path: Path, weights: tuple[int, ...] | Mapping[str, int]) -> None:
    by_step: list[tuple[Step, int]] = list(weights.items() if isinstance(weights, Mapping) else enumerate(weights))
    if findings.incomplete(findings.place(path)[0]):
        pass  # some were wrong: nothing is said of how many are left
    elif not isinstance(weights, Mapping) and len(weights) != PRIORITIES:
        findings.add(
            path, f"has {len(weights)} weights and must have {PRIORITIES}, of priorities 0 to {PRIORITIES - 1}"
        )
    elif not weights:
        findings.add(path, "names no priority")
    known = {str(priority) for priority in range(PRIORITIES)}
    for key, weight in by_step:
        if isinstance(weights, Mapping) and key not in known:
            findings.add((*path, key), f"is no priority: they are 0 to {PRIORITIES - 1}", at_key=True)
        if not 1 <= weight <= _MOST_WEIGHT:
            findings.add((*path, key), f"is {weight} and must be from 1 to {_MOST_WEIGHT}: a share of the port's bytes")


def _check_pfc(findings: Findings, path: Path, pfc: PfcSpec) -> None:
    one = isinstance(pfc.priorities, int)
    priorities = _priorities(pfc)
    if not priorities and not findings.incomplete(findings.place((*path, "priorities"))[0]):
        findings.add((*path, "priorities"), "names no priority")
    for index, priority in enumerate(priorities):
        where = (*path, "priorities") if one else (*path, "priorities", index)
        if not 0 <= priority < PRIORITIES:
            findings.add(where, f"is {priority} and must be from 0 to {PRIORITIES - 1}")
        elif priority in priorities[:index]:
            findings.add(where, f"{priority} is there twice")
    if pfc.xoff_bytes == 0:
        findings.add((*path, "xoff"), "is 0, so that all would be paused for ever")
    elif pfc.xon_bytes > pfc.xoff_bytes:
        message = f"is {format_bytes(pfc.xon_bytes)}, more than xoff: what is paused at xoff goes on at xon or below"
        findings.add((*path, "xon"), message, format_bytes(pfc.xoff_bytes))


def _settle(net: Network, graph: Graph, selected: Sequence[Sequence[str]]) -> list[_Switch]:
    links = {name: [link.parameters for link in graph.links_from(name)] for name in graph.switches}
    return [
        _Switch(
            name,
            set_by,
            max(MTU_BYTES[0], *(link.mtu_bytes for link in links[name])),
            tuple(link.queue_bytes for link in links[name]),
        )
        for name, set_by in who_sets(graph, net.spec.switches, selected).items()
    ]


def _check_together(net: Network, graph: Graph, switches: Sequence[_Switch]) -> None:
    findings = net.findings
    for switch in switches:
        if (ports := len(graph.links_from(switch.name))) > MOST_PORTS:
            findings.add(
                (*_SECTION, "kind"), f"{switch.name} has {ports} ports and a P4 program knows {MOST_PORTS}", "ovs"
            )
            break
    if not net.findings.incomplete("links"):
        for path, message, suggestion in dict.fromkeys(misfit for switch in switches for misfit in _misfits(switch)):
            findings.add(path, message, suggestion)
    _check_headroom(findings, switches)
    _check_priorities(net, switches)
    _check_entries(net, graph, switches)


def _misfits(switch: _Switch) -> Iterator[tuple[Path, str, str]]:
    """What of one switch does not go together: where, a message and a suggestion."""
    buffer, pfc, frame = switch.buffer, switch.pfc, switch.frame_bytes
    no_frame = f"no frame of {frame} (an MTU of {switch.mtu_bytes})"
    if buffer is not None and buffer.shared_bytes < frame:
        yield switch.path("buffer", "shared"), f"{buffer.shared_bytes} bytes hold {no_frame}", f"{frame}B"
    elif buffer is not None and 0 < buffer.alpha * buffer.shared_bytes < frame:
        message = (
            f"{buffer.alpha:g} x {format_bytes(buffer.shared_bytes)}, the most that a queue may hold, is {no_frame}"
        )
        yield switch.path("buffer", "alpha"), message, f"{math.ceil(1000 * frame / buffer.shared_bytes) / 1000:g}"
    elif pfc is not None and (buffer is None or buffer.alpha > 0) and pfc.xoff_bytes > switch.most_held_bytes:
        message = f"is {format_bytes(pfc.xoff_bytes)}, and all queues of a switch together hold at most"
        yield switch.path("pfc", "xoff"), f"{message} {format_bytes(switch.most_held_bytes)}: it is never reached", ""
    trim = switch.set_by["trim_bytes"][1].trim_bytes if "trim_bytes" in switch.set_by else None
    if trim is not None and trim >= switch.mtu_bytes:
        message = f"is {format_bytes(trim)} and must be below the MTU of {switch.mtu_bytes}: nothing would be cut"
        yield switch.path("trim_bytes"), message, ""


def _check_headroom(findings: Findings, switches: Sequence[_Switch]) -> None:
    """A headroom is for switches that pause: one that none of its switches can use is a mistake."""
    used: dict[Path, bool] = defaultdict(bool)
    for switch in switches:
        if switch.buffer is not None and switch.buffer.headroom_bytes:
            used[switch.path("buffer", "headroom")] |= switch.pfc is not None
    for path, with_pfc in used.items():
        if not with_pfc:
            findings.add(
                path, "goes with pfc, which is not set: it takes what still arrives after a pause", at_key=True
            )


def _check_priorities(net: Network, switches: Sequence[_Switch]) -> None:
    """A pause of priorities that no packet ever has is a mistake."""
    from testbed.dataplane.programs import facts_of, path_of

    programs: dict[Path, set[str]] = defaultdict(set)
    paused: dict[Path, tuple[int, ...]] = {}
    for switch in switches:
        if switch.pfc is not None:
            path = switch.path("pfc", "priorities")
            paused[path] = _priorities(switch.pfc)
            programs[path].add(_program_of(switch.set_by) or _default(net.spec))
    for path, priorities in paused.items():
        try:
            facts = [facts_of(path_of(name)) for name in programs[path]]
        except (TestbedError, OSError):
            continue  # which is told of the program
        if 0 not in priorities and not any(fact.sets_priority for fact in facts):
            names = " and ".join(sorted(programs[path]))
            message = f"{names}: gives packets no priority, so that all are of priority 0 and none is ever paused"
            net.findings.add(path, message, "0")


def _check_entries(net: Network, graph: Graph, switches: Sequence[_Switch]) -> None:
    """Each file of entries against each program that takes it, and the fewest ports of its switches."""
    ports: dict[tuple[Path, str], int] = {}
    for switch in switches:
        if "entries" in switch.set_by:
            use = switch.path("entries"), _program_of(switch.set_by) or _default(net.spec)
            ports[use] = min(len(graph.links_from(switch.name)), ports.get(use, MOST_PORTS))
    named = {s.path("entries"): s.set_by["entries"][1].entries for s in switches if "entries" in s.set_by}
    for (path, name), fewest in ports.items():
        _check_lines(net.findings, path, str(named[path]), name, fewest)


def _check_lines(findings: Findings, path: Path, entries: str, name: str, ports: int) -> None:
    """A file of entries, line by line, against the program called `name` on a switch with so many ports."""
    from testbed.dataplane.entries import mistakes
    from testbed.dataplane.entries import path_of as entries_of
    from testbed.dataplane.programs import path_of, program_in

    try:
        program, file = program_in(path_of(name)), entries_of(entries)
    except (TestbedError, OSError):
        return  # which is told of the program, or of the file
    found = list(mistakes(program, file, ports))
    for mistake in found[:_MOST_LINES]:
        hint = f" ({mistake.hint})" if mistake.hint else ""
        findings.add(path, f"does not fit {PurePath(name).stem}: {mistake}{hint}")
    if len(found) > _MOST_LINES:
        findings.add(path, f"does not fit {PurePath(name).stem}: {len(found) - _MOST_LINES} lines more")


def _default(spec: Spec) -> str:
    return default_program(spec)


def _program_of(set_by: Mapping[str, Setter]) -> str | None:
    """The program that is named for a switch, if one is."""
    return set_by["program"][1].program if "program" in set_by else None


def _priorities(pfc: PfcSpec) -> tuple[int, ...]:
    return (pfc.priorities,) if isinstance(pfc.priorities, int) else pfc.priorities
