"""The spec's `switches` onto a graph: what each switch is told, later overrides winning key by key.

Entries are of a program: one that names another program, and no entries, leaves those of the first behind.
"""

from collections.abc import Mapping

from testbed.spec.model import RoutingSpec, SwitchesSpec, SwitchKeys
from testbed.topology.graph import Graph
from testbed.topology.select import select_switches

KEYS = tuple(SwitchKeys.model_fields)
MOST_PORTS = 509  # v1model's ports have 9 bits; 0 is nobody's, 510 the controller's and 511 drops


def switch_keys(graph: Graph, switches: SwitchesSpec) -> Mapping[str, SwitchKeys]:
    """By switch, the keys that hold for it (None: nowhere set); raises SelectError."""
    keys = {name: {key: getattr(switches, key) for key in KEYS} for name in graph.switches}
    for override in switches.overrides:
        given = {key: value for key in KEYS if (value := getattr(override, key)) is not None}
        for name in select_switches(graph, override.select):
            if given.get("program", keys[name]["program"]) != keys[name]["program"]:
                keys[name]["entries"] = None
            keys[name] |= given
    return {name: SwitchKeys.model_construct(**given) for name, given in keys.items()}


def default_program(routing: RoutingSpec) -> str:
    """The program that does what `routing` says, where none is named."""
    return "spray" if routing.kind == "spray" else "l3_ecmp"
