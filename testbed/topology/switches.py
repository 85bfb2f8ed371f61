"""The spec's `switches` onto a graph: what each switch is told, later overrides winning key by key.

Entries are of a program: one that names another program, and no entries, leaves those of the first behind.
"""

from collections.abc import Mapping, Sequence

from testbed.spec.model import Spec, SwitchesSpec, SwitchKeys
from testbed.topology.graph import Graph
from testbed.topology.select import select_switches
from testbed.transport import protocol_of
from testbed.wire.protocols import BEST_EFFORT, OPTICAL, SLOTS

KEYS = tuple(SwitchKeys.model_fields)
WRITTEN = {key: SwitchKeys.model_fields[key].alias or key for key in KEYS}  # as a spec has them
P4RUNTIME = "p4runtime"  # the controller that drives native or bmv2 switches as a P4Runtime client
MOST_PORTS = 509  # v1model's ports have 9 bits; 0 is nobody's, 510 the controller's and 511 drops
ADDING = {  # by an aggregation's protocol
    SLOTS: "aggregate_tree",
    BEST_EFFORT: "aggregate_besteffort",
    OPTICAL: "aggregate_optical",
}
Setter = tuple[tuple[str | int, ...], SwitchKeys]  # where in `switches`, and what is written there


def switch_keys(graph: Graph, switches: SwitchesSpec) -> Mapping[str, SwitchKeys]:
    """By switch, the keys that hold for it (None: nowhere set); raises SelectError."""
    selected = [select_switches(graph, override.select) for override in switches.overrides]
    return {
        name: SwitchKeys.model_construct(**{key: getattr(entry, key) for key, (_, entry) in set_by.items()})
        for name, set_by in who_sets(graph, switches, selected).items()
    }


def who_sets(
    graph: Graph, switches: SwitchesSpec, selected: Sequence[Sequence[str]]
) -> Mapping[str, Mapping[str, Setter]]:
    """By switch and key, what sets it (what nothing sets is not there); `selected`: each override's switches."""
    set_by: dict[str, dict[str, Setter]] = {name: {} for name in graph.switches}
    overrides = [(("overrides", index), override) for index, override in enumerate(switches.overrides)]
    for names, setter in zip([graph.switches, *selected], [((), switches), *overrides], strict=True):
        keys = given(setter[1])
        for name in names:
            before = set_by[name].get("program")
            if "program" in keys and (before is None or before[1].program != setter[1].program):
                set_by[name].pop("entries", None)  # which are of the other program
            set_by[name] |= dict.fromkeys(keys, setter)
    return set_by


def given(entry: SwitchKeys) -> list[str]:
    """The keys that the spec's `switches`, or an override, sets."""
    return [key for key in KEYS if getattr(entry, key) is not None]


def default_program(spec: Spec) -> str:
    """The program of switches where none is named: what adds up for the first job that aggregates, or does as `routing`
    says."""
    for job in spec.all_jobs.values():
        if (protocol := protocol_of(job.transport)) is not None:
            return ADDING[protocol]
    return "spray" if spec.routing.kind == "spray" else "l3_ecmp"
