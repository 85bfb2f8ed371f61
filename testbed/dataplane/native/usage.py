"""What a program needs of its headers and metadata, so that the generated code carries no more than that.

Most headers are parsed, looked at, changed in a field or two, and sent on. Of such a header the fields in use are kept
as native words, and all others stay where they are in the packet. Headers that a program adds or copies, members of
unions, headers with a varbit field, and elements of stacks that are told by more than their number are kept whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from testbed.dataplane.bmv2model import Field, HeaderType, Key, Primitive, Program, Term

_RUNTIME = ("egress_spec", "mcast_grp", "priority")  # standard metadata that decides on a packet's fate
_WAYS = (  # that a packet takes besides the one to a port
    "clone_ingress_pkt_to_egress",
    "clone_egress_pkt_to_egress",
    "resubmit",
    "recirculate",
    "generate_digest",
)
_STACKS = ("header_stack", "stack_field")  # as a whole, and the last element
_WRITTEN = {  # the argument that a primitive writes to
    "assign": 0,
    "set": 0,
    "modify_field": 0,
    "modify_field_with_hash_based_offset": 0,
    "modify_field_rng_uniform": 0,
    "register_read": 0,
    "execute_meter": 2,
}


@dataclass(frozen=True, slots=True)
class Usage:
    """By name: header types, and fields as (header type, field)."""

    whole: frozenset[str]
    used: frozenset[tuple[str, str]]
    written: frozenset[tuple[str, str]]
    checksums: frozenset[str]  # calculations that nothing but checksums makes: the packet is at hand
    asserts: bool  # before the deparser
    one_way: bool  # nothing is left to do after ingress but to write the headers, and a packet goes one way, once

    def keeps(self, header_type: HeaderType, field: Field) -> bool:
        """Whether the field is kept as a native word."""
        return header_type.name in self.whole or (header_type.name, field.name) in self.used

    def writes(self, header_type: HeaderType, field: Field) -> bool:
        """Whether the field may differ from what was parsed."""
        return header_type.name in self.whole or (header_type.name, field.name) in self.written


def usage_of(program: Program) -> Usage:
    """Follow every term of the program."""
    calls = {t.value for p in _primitives(program.actions) for t in p.arguments if t.kind == "calculation"}
    checksums = frozenset(c.calculation for c in program.checksums) - calls
    hashes = {name: c for name, c in program.calculations.items() if name not in checksums}
    terms = list(
        _terms(
            (
                *(program.parser, program.deparser_primitives, program.actions, program.pipelines, hashes),
                *(program.checksums, program.field_lists, program.digests),
            )
        )
    )
    whole = {h.type.name for h in program.headers.values() if any(f.varbit for f in h.type.fields)}
    stacks = {t.value if t.kind == "header_stack" else t.value[0] for t in terms if t.kind in _STACKS}
    whole |= {h.type.name for name in stacks & program.stacks.keys() for h in program.stacks[name].headers}
    unions = (*program.unions.values(), *(u for s in program.union_stacks.values() for u in s.unions))
    whole |= {h.type.name for union in unions for _, h in union.members}
    whole |= {program.headers[t.value].type.name for t in terms if t.kind == "header" and t.value in program.headers}
    for calculation in program.calculations.values():
        whole |= {program.headers[t.value].type.name for t in calculation.inputs if t.kind == "header"}
    written = {c.target for c in program.checksums if c.update}
    written |= {m.target for m in program.meters if m.target is not None}
    for part in (program.actions, program.parser, program.deparser_primitives):
        targets = (p.arguments[_WRITTEN[p.op]] for p in _primitives(part) if p.op in _WRITTEN)
        written |= {t.value for t in targets if t.kind == "field"}
    used = written | {t.value for t in terms if t.kind == "field"} | {c.target for c in program.checksums}
    used |= {place for name in _RUNTIME if (place := program.standard(name))}
    asserts = any(p.op in ("assert", "assume") for p in _primitives((program.parser, program.actions)))
    one_way = _one_way(program, written)
    return Usage(frozenset(whole), _typed(program, used), _typed(program, written), checksums, asserts, one_way)


def _one_way(program: Program, written: set[tuple[str, str]]) -> bool:
    """Whether egress is empty, nothing after it asks for what only it knows, and no packet is copied or comes again."""
    asked = {t.value[0] for t in _terms((program.deparser_primitives, program.checksums)) if t.kind == "field"}
    summed = (t for c in program.checksums for t in program.calculations[c.calculation].inputs)
    asked |= {t.value[0] for t in summed if t.kind == "field"}
    standard = program.standard("egress_spec")
    primitives = _primitives((program.parser, program.actions, program.deparser_primitives))
    return (
        program.pipelines["egress"].start is None
        and (standard is None or standard[0] not in asked)
        and program.standard("mcast_grp") not in written
        and not any(p.op in _WAYS for p in primitives)
    )


def _typed(program: Program, places: set[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """The same of header types in place of headers."""
    return frozenset((program.headers[h].type.name, field) for h, field in places if h in program.headers)


def _parts(thing: object) -> Iterator[object]:
    if isinstance(thing, Mapping):
        yield from thing.values()
    elif isinstance(thing, tuple):
        yield from thing
    elif is_dataclass(thing):
        yield from (getattr(thing, f.name) for f in fields(thing))


def _terms(thing: object) -> Iterator[Term]:
    """All terms in a part of a program, but for headers of which no field is asked for."""
    match thing:
        case Term("expression", op="valid", right=Term("header")) | Key(target=Term("header")):
            return
        case Primitive("remove_header" | "mark_to_drop", (Term("header"), *_)):
            return
        case Term():
            yield thing
    for part in _parts(thing):
        yield from _terms(part)


def _primitives(thing: object) -> Iterator[Primitive]:
    if isinstance(thing, Primitive):
        yield thing
        return
    for part in _parts(thing):
        yield from _primitives(part)
