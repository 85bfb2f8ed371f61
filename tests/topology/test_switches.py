"""What each switch is told, and by which of a spec's entries."""

from testbed.spec.model import SwitchesSpec, TopologySpec
from testbed.topology import build
from testbed.topology.select import select_switches
from testbed.topology.switches import switch_keys, who_sets

GRAPH = build(TopologySpec.model_validate({"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts": 1}))
SWITCHES = SwitchesSpec.model_validate(
    {
        "kind": "native",
        "program": "trim",
        "entries": "trim",
        "trim": "64B",
        "overrides": [
            {"select": "leaf", "program": "ecn_priority", "trim": 0},
            {"select": "leaf1", "entries": "ecn_priority"},
            {"select": "spine0", "program": "trim"},
        ],
    }
)


def test_later_overrides_win_key_by_key_and_another_program_drops_entries() -> None:
    keys = switch_keys(GRAPH, SWITCHES)
    assert {name: (of.program, of.entries, of.trim_bytes) for name, of in keys.items()} == {
        "leaf0": ("ecn_priority", None, 0),
        "leaf1": ("ecn_priority", "ecn_priority", 0),
        "spine0": ("trim", "trim", 64),
    }


def test_who_set_a_key_is_told_by_its_place() -> None:
    selected = [select_switches(GRAPH, override.select) for override in SWITCHES.overrides]
    places = {
        name: {key: where for key, (where, _) in set_by.items()}
        for name, set_by in who_sets(GRAPH, SWITCHES, selected).items()
    }
    assert places == {
        "leaf0": {"program": ("overrides", 0), "trim_bytes": ("overrides", 0)},
        "leaf1": {"program": ("overrides", 0), "trim_bytes": ("overrides", 0), "entries": ("overrides", 1)},
        "spine0": {"program": ("overrides", 2), "entries": (), "trim_bytes": ()},
    }
