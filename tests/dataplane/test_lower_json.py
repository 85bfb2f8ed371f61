"""The JSON that we make beside that which p4c makes: what the control plane can name is the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.dataplane.compile import compile_p4
from tests.dataplane.programs import program

Json = dict[str, Any]
ORACLE = sorted(Path(__file__).with_name("oracle").glob("[0-9]*.p4"))
HIDDEN = ("tbl_", "switch_")  # tables of p4c's and ours that are not in the program
LARGER = {"44_entries_priority"}  # p4c makes tables as small as their first entries, although the program gives a size
ARRAYS = (
    "errors",
    "register_arrays",
    "counter_arrays",
    "meter_arrays",
    "header_stacks",
    "header_unions",
    "parse_vsets",
)


def tables(document: Json, with_size: bool) -> Json:
    return {
        table["name"]: {
            "key": [(key["match_type"], key.get("name")) for key in table["key"]],
            "size": table["max_size"] if with_size else None,
            "next": sorted(table["next_tables"]),
            "default": {k: v for k, v in (table.get("default_entry") or {}).items() if k != "action_id"},
            "entries": [
                (entry["match_key"], entry["priority"], entry["action_entry"]["action_data"])
                for entry in table.get("entries", [])
            ],
            **{name: table[name] for name in ("match_type", "type", "with_counters", "support_timeout", "actions")},
        }
        for pipeline in document["pipelines"]
        for table in pipeline["tables"]
        if not table["name"].startswith(HIDDEN)
    }


def named(document: Json, kind: str) -> list[Any]:
    """Entries without what may differ: numbers and places."""
    own = ("id", "source_info", "header_ids")
    plain = [{k: v for k, v in one.items() if k not in own} if isinstance(one, dict) else one for one in document[kind]]
    return sorted(plain, key=str)


@pytest.mark.parametrize("path", ORACLE, ids=lambda path: path.stem)
def test_same_as_p4c(path: Path) -> None:
    ours, theirs = compile_p4(path).json, json.loads(path.with_suffix(".json").read_text())
    assert list(ours) == list(theirs)
    with_size = path.stem not in LARGER
    assert tables(ours, with_size) == tables(theirs, with_size)
    for kind in ARRAYS:
        assert named(ours, kind) == named(theirs, kind)


def test_deep_expressions_are_kept_in_pieces(tmp_path: Path) -> None:
    """BMv2's JSON reader stops at a thousand levels."""
    path = tmp_path / "program.p4"
    path.write_text(program(apply=f"h.k.a = h.k.a{' + h.k.c' * 900};"))

    def levels(value: Any) -> int:
        if isinstance(value, dict):
            return 1 + max(map(levels, value.values()), default=0)
        return 1 + max(map(levels, value), default=0) if isinstance(value, list) else 0

    assert levels(json.loads(json.dumps(compile_p4(path).json))) < 500
