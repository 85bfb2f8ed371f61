"""Reads BMv2 JSON (format 2.x, ours or p4c's)."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.dataplane.bmv2model import (
    Action,
    ActionCall,
    Array,
    Calculation,
    Checksum,
    Conditional,
    Entry,
    EntryKey,
    Field,
    Header,
    HeaderType,
    JsonError,
    Key,
    Parser,
    Pipeline,
    Primitive,
    Profile,
    Program,
    Source,
    Stack,
    State,
    Table,
    Term,
    Transition,
    Union,
    UnionStack,
    ValueSet,
)

Json = Mapping[str, Any]
MOST_BITS = 1 << 19  # of a field: more than any packet has


def read_json(path: Path) -> Program:
    """The program in a file. Raises `JsonError`."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise JsonError(f"{path}: {error.strerror}") from error
    return read_text(text, path.stem, str(path))


def read_text(text: bytes, name: str, place: str = "") -> Program:
    """The program called `name` in a file's text, which is from a place. Raises `JsonError`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JsonError(f"{place or name}: not JSON: {error}") from error
    return program_of(document, name)


def program_of(document: Json, name: str) -> Program:
    """The program in a BMv2 JSON document. Raises `JsonError`."""
    with as_known(name):
        return _Reader(document).program(name)


@contextmanager
def as_known(what: str) -> Iterator[None]:
    """Raise `JsonError` for what turns out not to be made as BMv2 JSON is: what a name stands for is not there, say."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        told = f"{type(error).__name__}: {error}"
        raise JsonError(f"{what}: not BMv2 JSON as this target knows it ({told[:200]})") from error


def _bits(value: object) -> int:
    """A width."""
    bits = int(str(value))
    if not 0 <= bits <= MOST_BITS:
        raise JsonError(f"a width of {bits} bits: it is from 0 to {MOST_BITS}")
    return bits


class _Reader:
    def __init__(self, document: Json) -> None:
        if not isinstance(document, Mapping) or "pipelines" not in document:
            raise JsonError("not BMv2 JSON: no pipelines")
        self._document = document
        types = {t["name"]: _header_type(t) for t in document["header_types"]}
        headers = [
            Header(h["name"], h["id"], types[h["header_type"]], bool(h["metadata"])) for h in document["headers"]
        ]
        self._headers = {h.name: h for h in headers}
        by_id = {h.id: h for h in headers}
        self._stacks = {
            s["name"]: Stack(s["name"], tuple(by_id[i] for i in s["header_ids"]))
            for s in document.get("header_stacks", ())
        }
        members = {u["name"]: [m[0] for m in u["headers"]] for u in document.get("header_union_types", ())}
        unions = {
            u["id"]: Union(
                u["name"], tuple(zip(members[u["union_type"]], (by_id[i] for i in u["header_ids"]), strict=True))
            )
            for u in document.get("header_unions", ())
        }
        self._unions = {u.name: u for u in unions.values()}
        self._union_stacks = {
            s["name"]: UnionStack(s["name"], tuple(unions[i] for i in s["header_union_ids"]))
            for s in document.get("header_union_stacks", ())
        }

    def program(self, name: str) -> Program:
        d = self._document
        if not d["parsers"] or not d["deparsers"]:
            raise JsonError("a program needs a parser and a deparser")
        deparser = d["deparsers"][0]
        pipelines = {p["name"]: _pipeline(p) for p in d["pipelines"]}
        if "ingress" not in pipelines or "egress" not in pipelines:
            raise JsonError("not a v1model program: it needs the pipelines ingress and egress")
        return Program(
            name=name,
            headers=self._headers,
            stacks=self._stacks,
            unions=self._unions,
            union_stacks=self._union_stacks,
            errors={e[0]: int(e[1]) for e in d.get("errors", ())},
            parser=_parser(d["parsers"][0]),
            deparser_order=tuple(deparser["order"]),
            deparser_primitives=tuple(_primitive(p) for p in deparser.get("primitives") or ()),
            actions={a["id"]: _action(a) for a in d["actions"]},
            pipelines={name: pipelines[name] for name in ("ingress", "egress")},
            calculations={c["name"]: _calculation(c) for c in d.get("calculations", ())},
            checksums=tuple(_checksum(c) for c in d.get("checksums", ())),
            registers=tuple(_register(r) for r in d.get("register_arrays", ())),
            counters=tuple(_counter(c) for c in d.get("counter_arrays", ())),
            meters=tuple(_meter(m) for m in d.get("meter_arrays", ())),
            value_sets=tuple(
                ValueSet(v["name"], _bits(v["compressed_bitwidth"]), int(v.get("max_size", 1024)))
                for v in d.get("parse_vsets", ())
            ),
            field_lists={f["id"]: tuple(term(e) for e in f["elements"]) for f in d.get("field_lists", ())},
            digests={f["id"]: (f["name"], tuple(term(e) for e in f["elements"])) for f in d.get("learn_lists", ())},
            aliases={a[0]: (a[1][0], a[1][1]) for a in d.get("field_aliases", ())},
        )


def _header_type(document: Json) -> HeaderType:
    fields = []
    for name, bits, *rest in document["fields"]:
        if bits == "*":
            fixed = sum(f[1] for f in document["fields"] if f[1] != "*")
            fields.append(Field(name, _bits(8 * int(document["max_length"]) - fixed), varbit=True))
        else:
            fields.append(Field(name, _bits(bits), bool(rest and rest[0])))
    return HeaderType(document["name"], tuple(fields))


def number(text: str) -> int:
    """The value of a hexstr, which may be negative."""
    return int(text, 16)


def term(document: Json) -> Term:
    """The term of a type value object."""
    kind: str = document["type"]
    value: Any = document.get("value")
    if kind == "expression":
        if "op" not in value:  # expressions are wrapped once or twice
            return term(value)
        left, right, condition = (_side(value.get(key)) for key in ("left", "right", "cond"))
        return Term("expression", None, value["op"], left, right, condition)
    if kind == "hexstr":
        return Term(kind, number(value), bits=_bits(document.get("bitwidth") or 4 * len(value.partition("x")[2])))
    if kind in ("field", "lookahead", "stack_field", "union_stack_field"):
        return Term(kind, tuple(value))
    if kind == "parameters_vector":
        return Term(kind, tuple(term(v) for v in value))
    if kind == "register":
        return Term(kind, value[0], right=term(value[1]))
    return Term(kind, value)


def _side(document: Any) -> Term | None:
    if document is None:
        return None
    return Term("index", document) if isinstance(document, int) else term(document)


def _source(document: Json) -> Source | None:
    info = document.get("source_info")
    if not info:
        return None
    return Source(str(info["filename"]), int(info["line"]), " ".join(str(info.get("source_fragment", "")).split()))


def _primitive(document: Json) -> Primitive:
    return Primitive(document["op"], tuple(term(p) for p in document["parameters"]), _source(document))


def _operation(document: Json) -> Primitive:
    """A parser's operation; a wrapped primitive is unwrapped."""
    if document["op"] != "primitive":
        return _primitive(document)
    return _primitive(document["parameters"][0])


def _action(document: Json) -> Action:
    return Action(
        document["id"],
        document["name"],
        tuple((p["name"], _bits(p["bitwidth"])) for p in document["runtime_data"]),
        tuple(_primitive(p) for p in document["primitives"]),
    )


def _parser(document: Json) -> Parser:
    states = []
    for state in document["parse_states"]:
        transitions = tuple(
            Transition(
                t["type"],
                number(t["value"]) if t["type"] == "hexstr" else t["value"],
                None if t.get("mask") is None else number(t["mask"]),
                t["next_state"],
            )
            for t in state["transitions"]
        )
        operations = tuple(_operation(o) for o in state["parser_ops"])
        states.append(State(state["name"], operations, tuple(term(k) for k in state["transition_key"]), transitions))
    return Parser(document["name"], document["init_state"], tuple(states))


def _pipeline(document: Json) -> Pipeline:
    return Pipeline(
        document["name"],
        document["init_table"],
        tuple(_table(t) for t in document["tables"]),
        tuple(_profile(p) for p in document.get("action_profiles", ())),
        tuple(
            Conditional(c["name"], term(c["expression"]), c["true_next"], c["false_next"], _source(c))
            for c in document.get("conditionals", ())
        ),
        tuple(ActionCall(c["name"], c["action_id"], c["next_node"]) for c in document.get("action_calls", ())),
    )


def _profile(document: Json) -> Profile:
    selector = document.get("selector") or {}
    inputs = tuple(term(i) for i in selector.get("input", ()))
    return Profile(document["name"], int(document["max_size"]), selector.get("algo"), inputs)


def _key(document: Json) -> Key:
    target = document["target"]
    operand = Term("header", target) if isinstance(target, str) else Term("field", tuple(target))
    mask = None if document.get("mask") is None else number(document["mask"])
    name = document.get("name") or (target if isinstance(target, str) else ".".join(target))
    return Key(document["match_type"], name, operand, mask)


def _entry_key(document: Json) -> EntryKey:
    kind = document["match_type"]
    if kind == "range":
        return EntryKey(kind, number(document["start"]), high=number(document["end"]))
    if kind == "valid":
        return EntryKey(kind, int(bool(document["key"])))
    value = number(document["key"])
    if kind == "lpm":
        return EntryKey(kind, value, prefix=int(document["prefix_length"]))
    return EntryKey(kind, value, None if document.get("mask") is None else number(document["mask"]))


def _table(document: Json) -> Table:
    default = document.get("default_entry")
    entries = document.get("entries")
    return Table(
        name=document["name"],
        id=document["id"],
        match=document["match_type"],
        keys=tuple(_key(k) for k in document["key"]),
        profile=document.get("action_profile") if document["type"] != "simple" else None,
        max_size=int(document["max_size"]),
        counted=bool(document.get("with_counters")),
        meter=document.get("direct_meters"),
        timeout=bool(document.get("support_timeout")),
        actions=tuple(document["action_ids"]),
        next_tables=document["next_tables"],
        next=document.get("base_default_next"),
        default=default and (default["action_id"], tuple(number(v) for v in default.get("action_data") or ())),
        default_fixed=bool(default and default.get("action_const")),
        default_data_fixed=bool(default and default.get("action_entry_const")),
        entries=entries
        and tuple(
            Entry(
                tuple(_entry_key(k) for k in e["match_key"]),
                e["action_entry"]["action_id"],
                tuple(number(v) for v in e["action_entry"]["action_data"]),
                int(e.get("priority", 0)),
            )
            for e in entries
        ),
        source=_source(document),
    )


def _calculation(document: Json) -> Calculation:
    return Calculation(document["name"], document["algo"], tuple(term(i) for i in document["input"]))


def _checksum(document: Json) -> Checksum:
    condition = document.get("if_cond")
    return Checksum(
        document["name"],
        (document["target"][0], document["target"][1]),
        document["calculation"],
        bool(document.get("verify", True)),
        bool(document.get("update", True)),
        None if condition is None else term(condition),
    )


def _register(document: Json) -> Array:
    return Array(document["name"], int(document["size"]), _bits(document["bitwidth"]), source=_source(document))


def _counter(document: Json) -> Array:
    direct = bool(document.get("is_direct"))
    return Array(
        document["name"],
        0 if direct else int(document["size"]),
        direct=direct,
        binding=document.get("binding"),
        source=_source(document),
    )


def _meter(document: Json) -> Array:
    direct = bool(document.get("is_direct"))
    target = document.get("result_target")
    return Array(
        document["name"],
        0 if direct else int(document["size"]),
        direct=direct,
        binding=document.get("binding"),
        bytes=document.get("type") == "bytes",
        target=(target[0], target[1]) if direct and target else None,
        source=_source(document),
    )
