"""Small BMv2 JSON programs for tests of the native target: one header `h`, and actions and tables over its fields."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program

Json = dict[str, Any]

STANDARD = [
    *(("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9), ("instance_type", 32), ("packet_length", 32)),
    *(("enq_timestamp", 32), ("enq_qdepth", 19), ("deq_timedelta", 32), ("deq_qdepth", 19)),
    *(("ingress_global_timestamp", 48), ("egress_global_timestamp", 48), ("mcast_grp", 16), ("egress_rid", 16)),
    *(("checksum_error", 1), ("parser_error", 32), ("priority", 3), ("_padding", 3)),
]
ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout")


def field(name: str) -> Json:
    return {"type": "field", "value": ["h", name]}


def constant(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def parameter(index: int) -> Json:
    return {"type": "runtime_data", "value": index}


def operation(op: str, left: Json | None, right: Json, condition: Json | None = None) -> Json:
    value: Json = {"op": op, "left": left, "right": right}
    if condition is not None:
        value["cond"] = condition
    return {"type": "expression", "value": value}


def assign(name: str, value: Json) -> Json:
    if value["type"] == "expression":
        value = {"type": "expression", "value": value}
    return {"op": "assign", "parameters": [field(name), value]}


def action(name: str, parameters: Mapping[str, int], *primitives: Json) -> Json:
    data = [{"name": n, "bitwidth": bits} for n, bits in parameters.items()]
    return {"name": name, "runtime_data": data, "primitives": list(primitives)}


def table(name: str, keys: Mapping[str, str], actions: Sequence[str], match: str, **more: Any) -> Json:
    return {"name": name, "keys": keys, "actions": actions, "match": match, **more}


def document(
    fields: Sequence[tuple[str, int] | tuple[str, int, bool]],
    actions: Sequence[Json],
    tables: Sequence[Json],
    **more: Any,
) -> Json:
    """A program that extracts `h`, applies the tables one after the other, and emits `h`; port 1 unless changed."""
    listed: list[Json] = [{"name": "start", "runtime_data": [], "primitives": [_to_port_1()]}, *actions]
    listed = [{"id": i, **a} for i, a in enumerate(listed)]
    numbers = {a["name"]: a["id"] for a in listed}
    chain = [table("start_table", {}, ["start"], "exact", default=("start", [])), *tables]
    return {
        "header_types": [
            {"name": "standard_metadata", "id": 0, "fields": [[n, bits, False] for n, bits in STANDARD]},
            {"name": "h_t", "id": 1, "fields": [[*f, False][:3] for f in fields]},
        ],
        "headers": [
            {"name": "standard_metadata", "id": 0, "header_type": "standard_metadata", "metadata": True},
            {"name": "h", "id": 1, "header_type": "h_t", "metadata": False},
        ],
        "errors": [[name, i] for i, name in enumerate(ERRORS)],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [_start_state()]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h"], "primitives": []}],
        "actions": listed,
        "pipelines": [
            {
                "name": "ingress",
                "id": 0,
                "init_table": "start_table",
                "conditionals": [],
                "action_profiles": more.pop("action_profiles", []),
                "tables": [_table(i, t, chain, numbers) for i, t in enumerate(chain)],
            },
            {"name": "egress", "id": 1, "init_table": None, "tables": [], "conditionals": [], "action_profiles": []},
        ],
        **more,
    }


def program(*arguments: Any, **more: Any) -> Program:
    return program_of(json.loads(json.dumps(document(*arguments, **more))), "small")


def written(path: Path, content: Json) -> Path:
    path.write_text(json.dumps(content))
    return path


def _to_port_1() -> Json:
    port = {"type": "field", "value": ["standard_metadata", "egress_spec"]}
    return {"op": "assign", "parameters": [port, constant(1)]}


def _start_state() -> Json:
    return {
        "name": "start",
        "id": 0,
        "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "h"}]}],
        "transitions": [{"type": "default", "value": None, "mask": None, "next_state": None}],
        "transition_key": [],
    }


def _table(index: int, own: Json, chain: Sequence[Json], numbers: Mapping[str, int]) -> Json:
    following = chain[index + 1]["name"] if index + 1 < len(chain) else None
    built: Json = {
        "name": own["name"],
        "id": index,
        "match_type": own["match"],
        "type": own.get("type", "simple"),
        "max_size": own.get("size", 4096),
        "with_counters": own.get("counted", False),
        "support_timeout": False,
        "direct_meters": own.get("meter"),
        "key": [
            {"match_type": kind, "name": name, "target": ["h", name], "mask": None}
            for name, kind in own["keys"].items()
        ],
        "action_ids": [numbers[a] for a in own["actions"]],
        "actions": own["actions"],
        "base_default_next": following,
        "next_tables": dict.fromkeys(own["actions"], following),
    }
    if "profile" in own:
        built["action_profile"] = own["profile"]
    if "default" in own:
        name, data = own["default"]
        built["default_entry"] = {"action_id": numbers[name], "action_data": [hex(v) for v in data]}
    return built
