"""The parser as one C function with a label a state, and the deparser as one that writes the valid headers."""

from collections.abc import Sequence

from testbed.dataplane.bmv2model import HeaderType, JsonError, Primitive, Program, State, Term, Transition
from testbed.dataplane.native.expressions import Expressions, lookaheads
from testbed.dataplane.native.layout import Layout
from testbed.dataplane.native.names import Scope, comment
from testbed.dataplane.native.numbers import WIDE, modular, stored
from testbed.dataplane.native.statements import Statements, steps

_HEAD = """static void parse(struct p4_instance *s, struct context *c, const struct p4_packet *packet)
{
    const uint8_t *frame = packet->data;
    uint32_t left = packet->length, error = 0;
"""


class ParserFunction:
    """`static void parse(s, c, packet)`: sets headers, metadata, `progress.payload` and parser_error."""

    def __init__(self, layout: Layout, statements: Statements) -> None:
        self._layout = layout
        self._program: Program = layout.program
        self._statements = statements
        self._expressions: Expressions = statements.expressions
        scope = Scope()
        self._labels = {s.name: f"state_{scope.name(s.name, s.name)}" for s in self._program.parser.states}
        self._states = {s.name: s for s in self._program.parser.states}
        self._value_sets = {v.name: i for i, v in enumerate(self._program.value_sets)}
        self._errors = 0

    def lines(self) -> list[str]:
        order, looping = self._reachable()
        start = self._program.parser.start
        body: list[str] = []
        for name in order:
            body += self._state(self._states[name], name in looping)
        path = self._layout.standard("parser_error")
        head = _HEAD.splitlines()
        if looping:
            head.append("    unsigned turns = 0;")
        head += ["    (void)s, (void)left;", f"    goto {self._labels[start]};", ""]
        if self._errors or looping:
            body.append("stop:")
        body.append("    c->progress.payload = (uint32_t)(frame - packet->data);")
        body.append(f"    {path} = error;" if path else "    (void)error;")
        return [*head, *body, "}", ""]

    def _reachable(self) -> tuple[list[str], set[str]]:
        """The states that can be reached, and those that lie on a cycle's way back."""
        order: list[str] = []
        looping: set[str] = set()
        state: dict[str, int] = {}
        stack: list[tuple[str, int]] = [(self._program.parser.start, 0)]
        while stack:
            name, at = stack.pop()
            if at == 0:
                state[name] = 1
                order.append(name)
            following = [t.next for t in self._states[name].transitions if t.next is not None]
            if at < len(following):
                stack.append((name, at + 1))
                if state.get(following[at], 0) == 0:
                    stack.append((following[at], 0))
                elif state[following[at]] == 1:
                    looping.add(following[at])
            else:
                state[name] = 2
        return order, looping

    def _fail(self, error: str, condition: str) -> list[str]:
        self._errors += 1
        number = self._program.errors.get(error, 0)
        return [f"if ({condition}) {{", f"    error = {number}; /* {error} */", "    goto stop;", "}"]

    def _state(self, state: State, looping: bool) -> list[str]:
        lines = []
        if looping:
            lines += self._fail("ParserTimeout", "++turns > PARSER_TURNS")
        for operation in state.operations:
            lines += self._operation(operation)
        lines += self._transitions(state)
        return [f"{self._labels[state.name]}: {{", *(f"    {line}" for line in lines), "}"]

    def _operation(self, p: Primitive) -> list[str]:
        peeked = (lookaheads(p.arguments) + 7) // 8
        lines = self._fail("PacketTooShort", f"left < {peeked}") if peeked else []
        match p.op:
            case "extract" | "extract_VL":
                return lines + self._extract(p)
            case "advance" | "shift":
                bits = self._expressions.assigned(p.arguments[0], 64)
                lines += ["{", f"    uint64_t bits = {bits}{' * 8' if p.op == 'shift' else ''};"]
                lines += ["    " + x for x in self._fail("ParserInvalidArgument", "bits % 8")]
                lines += ["    " + x for x in self._fail("PacketTooShort", "bits / 8 > left")]
                return [*lines, "    frame += bits / 8;", "    left -= (uint32_t)(bits / 8);", "}"]
            case "verify":
                condition, error = p.arguments
                code = self._expressions.assigned(error, 32)
                self._errors += 1
                holds = self._expressions.boolean(condition)
                return [*lines, f"if (!{holds}) {{", f"    error = (uint32_t){code};", "    goto stop;", "}"]
            case _:
                return lines + self._statements.of(p)

    def _extract(self, p: Primitive) -> list[str]:
        path, header_type, before = self._extracted(p.arguments[0])
        name = self._layout.type_name(header_type)
        size = self._layout.fixed_bytes(header_type)
        short = self._fail("PacketTooShort", f"left < {size}") if size else []
        if p.op == "extract":
            after = [f"extract_{name}(&{path}, frame{', 0' if self._layout.varbit(header_type) else ''});"]
            if self._layout.parsed(header_type):
                after.append(f"{path}.at = (uint32_t)(frame - packet->data);")
            moved = [f"frame += {size};", f"left -= {size};"]
            return [*before, *short, *after, *moved, *self._counted(p.arguments[0])]
        varbit = self._layout.varbit(header_type)
        if varbit is None:
            raise JsonError(f"a variable-length extract into {header_type.name}, which has no varbit field")
        bits = self._expressions.assigned(p.arguments[1], 64)
        lines = [*before, *short, "{", f"    uint64_t bits = {bits};"]
        checks = [("PacketTooShort", f"bits / 8 > left - {size}"), ("HeaderTooShort", f"bits > {varbit.bits}")]
        for error, condition in (*checks, ("ParserInvalidArgument", "bits % 8")):
            lines += ["    " + x for x in self._fail(error, condition)]
        lines += [f"    extract_{name}(&{path}, frame, (uint32_t)(bits / 8));", f"    frame += {size} + bits / 8;"]
        return [*lines, f"    left -= {size} + (uint32_t)(bits / 8);", "}", *self._counted(p.arguments[0])]

    def _extracted(self, term: Term) -> tuple[str, HeaderType, list[str]]:
        """The path of the header to extract into, its type, and what comes first."""
        if term.kind == "regular":
            place = self._layout.place(term.value)
            before = [" = ".join(f"{s}.valid" for s in place.siblings) + " = 0;"] if place.siblings else []
            return place.path, place.type, before
        union = term.kind == "union_stack"
        stack = term.value[0] if union else term.value
        path, following = self._layout.stacks[stack], self._layout.stacks[f"{stack}$next"]
        before = self._fail("StackOutOfBounds", f"{following} >= sizeof {path} / sizeof *{path}")
        if not union:
            return f"{path}[{following}]", self._program.stacks[stack].headers[0].type, before
        members = dict(self._program.union_stacks[stack].unions[0].members)
        member = self._layout.member(term.value[1])
        return f"{path}[{following}].{member}", members[term.value[1]].type, before

    def _counted(self, term: Term) -> list[str]:
        if term.kind == "regular":
            return []
        stack = term.value[0] if term.kind == "union_stack" else term.value
        return [f"{self._layout.stacks[f'{stack}$next']}++;"]

    # Transitions

    def _goto(self, name: str | None) -> str:
        self._errors += name is None
        return f"goto {self._labels[name]};" if name is not None else "goto stop;"

    def _transitions(self, state: State) -> list[str]:
        peeked = (lookaheads(state.key) + 7) // 8
        lines = self._fail("PacketTooShort", f"left < {peeked}") if peeked else []
        keys = [self._expressions.pattern(k) for k in state.key]
        widths = [bits for _, bits in keys]
        tests = [t for t in state.transitions if t.kind != "default"]
        if tests:
            lines += [f"{stored(bits)} key{i} = {code};" for i, (code, bits) in enumerate(keys)]
        if len(keys) == 1 and widths[0] <= 64 and tests and all(t.kind == "hexstr" and t.mask is None for t in tests):
            lines += self._switch(tests, widths[0])
        else:
            for t in tests:
                lines += self._test(t, widths)
            lines += [f"(void)key{i};" for i in range(len(keys))] if tests else []
        default = next((t.next for t in state.transitions if t.kind == "default"), None)
        return [*lines, self._goto(default)]

    def _switch(self, tests: Sequence[Transition], bits: int) -> list[str]:
        lines, seen = ["switch (key0) {"], set()
        for t in tests:
            value = int(t.value or 0)
            if value not in seen and value >> bits == 0:
                seen.add(value)
                lines += [f"case {value:#x}:", f"    {self._goto(t.next)}"]
        return [*lines, "default:", "    break;", "}"]

    def _test(self, t: Transition, widths: Sequence[int]) -> list[str]:
        if t.kind == "parse_vset":
            return self._value_set(str(t.value), widths, t.next)
        padded = [8 * ((bits + 7) // 8) for bits in widths]
        shift, parts = sum(padded), []
        for i, (bits, room) in enumerate(zip(widths, padded, strict=True)):
            shift -= room
            ones = (1 << bits) - 1
            value = int(t.value or 0) >> shift & ones
            mask = ones if t.mask is None else t.mask >> shift & ones
            number = modular(bits)
            if mask == 0:
                continue
            masked = value & mask
            if number.wide:
                key = f"key{i}" if mask == ones else f"wide_and(key{i}, {WIDE.literal(mask)})"
                parts.append(f"wide_compare({key}, {WIDE.literal(masked)}) == 0")
            else:
                key = f"key{i}" if mask == ones else f"(key{i} & {number.literal(mask)})"
                parts.append(f"{key} == {number.literal(masked)}")
        return [f"if ({' && '.join(parts) or 'true'})", f"    {self._goto(t.next)}"]

    def _value_set(self, name: str, widths: Sequence[int], following: str | None) -> list[str]:
        size = sum((bits + 7) // 8 for bits in widths)
        lines, at = ["{", f"    uint8_t value[{size}];"], 0
        for i, bits in enumerate(widths):
            count = (bits + 7) // 8
            store = "store_be" if bits <= 64 else "store_be128"
            lines.append(f"    {store}(value + {at}, {count}, key{i});" if bits <= 128 else
                         f"    wide_store(value + {at}, 0, {8 * count}, key{i});")  # fmt: skip
            at += count
        number = self._value_sets[name]
        lines.append(f"    if (value_set_has(&s->value_sets[{number}], {size}, value)) {comment(name)}")
        return [*lines, f"        {self._goto(following)}", "}"]


def deparser_function(layout: Layout, statements: Statements, has_updates: bool) -> list[str]:
    """`static bool write_headers(s, c, packet)`: checksums, valid headers in front of what was not parsed, the limit.

    Where the valid headers are those that were parsed, all in place, only fields that may have changed are written.
    """
    program = layout.program
    places = [layout.place(name) for name in program.deparser_order]
    parsed = [place for place in places if layout.parsed(place.type)]
    lines = ["    (void)s;"]
    lines += steps(program.deparser_primitives, statements)
    lines += ["    update_checksums(s, c, packet);"] if has_updates else []
    lines.append("    uint32_t size = 0;")
    lines += ["    bool moved = false;"] if parsed else []
    for place in places:
        lines.append(f"    if ({place.path}.valid) {{")
        if parsed:
            lines.append(f"        moved |= {place.path}.at != size;" if place in parsed else "        moved = true;")
        lines += [f"        size += {layout.wire_bytes(place.type, f'{place.path}.')};", "    }"]
    room = sum((place.type.max_bits + 7) // 8 for place in places)
    anew = [f"uint8_t headers[{max(room, 1)}];"]
    anew += ["uint8_t *at = headers;"] if places else []
    for place in places:
        frame = "packet->data, " if place in parsed else ""
        anew += [f"if ({place.path}.valid)"]
        anew += [f"    at = emit_{layout.type_name(place.type)}(&{place.path}, {frame}at);"]
    anew.append("packet_begin(packet, c->progress.payload, headers, size);")
    if parsed:
        lines += [
            "    if (moved || size != c->progress.payload) {",
            *(f"        {line}" for line in anew),
            "    } else {",
        ]
        for place in parsed:
            if layout.changes(place.type):
                write = f"write_{layout.type_name(place.type)}(&{place.path}, packet->data + {place.path}.at);"
                lines += [f"        if ({place.path}.valid)", f"            {write}"]
        lines.append("    }")
    else:
        lines += [f"    {line}" for line in anew]
    lines += [
        "    packet->kept = packet->length - size;",
        "    if (packet->length > c->progress.limit) {",
        "        packet->length = c->progress.limit;",
        "        packet->kept = 0;",
        "    }",
        "    return true;",
    ]
    head = "static bool write_headers(struct p4_instance *s, struct context *c, struct p4_packet *packet)"
    return [head, "{", *lines, "}", ""]
