"""Primitives of actions, of the parser and of the deparser as C statements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from testbed.dataplane.bmv2model import Action, Array, JsonError, Primitive, Program, Term
from testbed.dataplane.native.expressions import Expressions, fitted
from testbed.dataplane.native.layout import Layout, kept_bits
from testbed.dataplane.native.names import Scope, comment, string
from testbed.dataplane.native.numbers import U64, U128, Number, convert, modular, stored


@dataclass(slots=True)
class Numbers:
    """The numbers by which generated code and control functions call the program's objects."""

    registers: Mapping[str, tuple[int, Array]]
    counters: Mapping[str, int]
    meters: Mapping[str, int]
    calculations: Mapping[str, str]  # C functions


@dataclass(slots=True)
class Statements:
    """What one primitive after another becomes; `exits` tells whether any was an exit. `leave` ends the C function."""

    layout: Layout
    numbers: Numbers
    expressions: Expressions
    leave: str = "return;"
    exits: bool = False
    _table: Mapping[str, Callable[[Primitive], list[str]]] = field(init=False)

    def __post_init__(self) -> None:
        self._table = {
            "assign": self._assign,
            "set": self._assign,
            "modify_field": self._assign,
            "assign_VL": self._assign_varbit,
            "assign_header": self._assign_header,
            "copy_header": self._assign_header,
            "assign_union": self._assign_union,
            "assign_header_stack": self._assign_stack,
            "assign_union_stack": self._assign_stack,
            "add_header": self._add_header,
            "remove_header": self._remove_header,
            "push": self._push_pop,
            "pop": self._push_pop,
            "mark_to_drop": self._drop,
            "drop": self._drop,
            "exit": self._exit,
            "no_op": lambda _: [],
            "register_read": self._register_read,
            "register_write": self._register_write,
            "count": self._count,
            "execute_meter": self._meter,
            "modify_field_with_hash_based_offset": self._hash,
            "modify_field_rng_uniform": self._random,
            "clone_ingress_pkt_to_egress": self._clone,
            "clone_egress_pkt_to_egress": self._clone,
            "resubmit": lambda p: self._list(p, "resubmit"),
            "recirculate": lambda p: self._list(p, "recirculate"),
            "generate_digest": self._digest,
            "truncate": self._truncate,
            "log_msg": self._log,
            "assert": self._assert,
            "assume": self._assert,
        }

    def of(self, primitive: Primitive) -> list[str]:
        """The statements of a primitive, a comment with its source first."""
        if primitive.op not in self._table:
            where = f"{primitive.source}: " if primitive.source else ""
            raise JsonError(f"{where}the native target does not know the primitive {primitive.op!r}")
        source = [comment(str(primitive.source))] if primitive.source else []
        return source + self._table[primitive.op](primitive)

    # Assignments

    def _store(self, target: Term, code: str, number: Number, bits: int) -> list[str]:
        """Store a number of at most `bits` bits that is not negative."""
        path, own = self.expressions.field(target)
        wanted = modular(kept_bits(own))
        if own.signed:
            code = fitted(code, number, (0, (1 << bits) - 1), own)
        else:
            code = convert(code, number, wanted)
            if bits > own.bits and own.bits not in (8, 16, 32, 64, 128):
                ones = wanted.literal((1 << own.bits) - 1)
                code = f"wide_truncate({code}, {own.bits})" if wanted.wide else f"({code} & {ones})"
        return [f"{path} = {code};" if wanted.wide else f"{path} = ({stored(kept_bits(own))}){code};"]

    def _assign(self, p: Primitive) -> list[str]:
        target, value = p.arguments
        if target.kind == "field" and target.value[1] == "$valid$":
            raise JsonError("the validity of a header is assigned like a field")
        path, own = self.expressions.field(target)
        bits = kept_bits(own)
        plain = self.expressions.plain(value, own)
        if plain is not None:
            return [f"{path} = {plain};"]
        return [f"{path} = {'' if bits > 128 else f'({stored(bits)})'}{self.expressions.stored(value, own)};"]

    def _assign_varbit(self, p: Primitive) -> list[str]:
        (to, _), (of, _) = (self.layout.field(*a.value) for a in p.arguments)
        return [f"{to}_bytes = {of}_bytes;", f"memcpy({to}, {of}, sizeof {to});"]

    def _assign_header(self, p: Primitive) -> list[str]:
        (to, _), (of, _) = (self.expressions.header(a) for a in p.arguments)
        siblings = self._siblings(p.arguments[0])
        return [f"{to} = {of};", *([f"if ({to}.valid)", "    " + self._invalidate(siblings)] if siblings else [])]

    def _siblings(self, term: Term) -> Sequence[str]:
        """The other members of the union that a header belongs to."""
        if term.kind == "header":
            return self.layout.place(term.value).siblings
        if term.op == "access_union_header":
            path, _ = self.expressions.header(term)
            base = path[: max(path.rfind("."), path.rfind("->"))]
            joint = "->" if path.rfind("->") > path.rfind(".") else "."
            union = self._union_of(term)
            members = [self.layout.member(name) for name in union]
            return [f"{base}{joint}{m}" for m in members if f"{base}{joint}{m}" != path]
        return ()

    def _union_of(self, term: Term) -> list[str]:
        assert term.left is not None
        program = self.layout.program
        if term.left.kind == "header_union":
            return [name for name, _ in program.unions[term.left.value].members]
        assert term.left.left is not None
        return [name for name, _ in program.union_stacks[term.left.left.value].unions[0].members]

    @staticmethod
    def _invalidate(paths: Sequence[str]) -> str:
        return " = ".join(f"{path}.valid" for path in paths) + " = 0;"

    def _assign_union(self, p: Primitive) -> list[str]:
        to, of = (self.layout.unions[a.value] for a in p.arguments)
        return [f"memcpy(&{to}, &{of}, sizeof {to});"]

    def _assign_stack(self, p: Primitive) -> list[str]:
        to, of = (a.value for a in p.arguments)
        stacks = self.layout.stacks
        return [
            f"memcpy({stacks[to]}, {stacks[of]}, sizeof {stacks[to]});",
            f"{stacks[f'{to}$next']} = {stacks[f'{of}$next']};",
        ]

    # Headers

    def _add_header(self, p: Primitive) -> list[str]:
        path, header_type = self.expressions.header(p.arguments[0])
        siblings = self._siblings(p.arguments[0])
        return [
            f"if (!{path}.valid) {{",
            f"    {path} = ({self.layout.struct(header_type)}){{.valid = 1}};",
            f"    c->progress.length += {self.layout.fixed_bytes(header_type)};",
            *([f"    {self._invalidate(siblings)}"] if siblings else []),
            "}",
        ]

    def _remove_header(self, p: Primitive) -> list[str]:
        path, header_type = self.expressions.header(p.arguments[0])
        size = self.layout.wire_bytes(header_type, f"{path}.")
        return [f"if ({path}.valid) {{", f"    {path}.valid = 0;", f"    c->progress.length -= {size};", "}"]

    def _push_pop(self, p: Primitive) -> list[str]:
        stack, count = p.arguments
        path = self.layout.stacks[stack.value]
        following = self.layout.stacks[f"{stack.value}$next"]
        size = f"sizeof {path} / sizeof *{path}"
        return [f"stack_{p.op}({path}, sizeof *{path}, {size}, &{following}, {self._u64(count)});"]

    def _u64(self, term: Term) -> str:
        """C for a number in 64 bits."""
        return self.expressions.assigned(term, 64)

    # The packet's fate

    def _drop(self, _: Primitive) -> list[str]:
        program = self.layout.program
        lines = []
        for name, value in (("egress_spec", "DROP_PORT"), ("mcast_grp", "0")):
            place = program.standard(name)
            if place:
                lines.append(f"{self.layout.field(*place)[0]} = {value};")
        return lines

    def _exit(self, _: Primitive) -> list[str]:
        self.exits = True
        return ["c->progress.exited = true;", self.leave]

    def _clone(self, p: Primitive) -> list[str]:
        session, fields = p.arguments
        return [
            "c->progress.clone = true;",
            f"c->progress.clone_session = (uint32_t){self._u64(session)};",
            f"c->progress.clone_list = (uint32_t){self._u64(fields)};",
        ]

    def _list(self, p: Primitive, what: str) -> list[str]:
        code = self._u64(p.arguments[0]) if p.arguments else "0"
        return [f"c->progress.{what} = true;", f"c->progress.{what}_list = (uint32_t){code};"]

    def _digest(self, p: Primitive) -> list[str]:
        return [f"c->progress.digest_list = (uint32_t){self._u64(p.arguments[1])};"]

    def _truncate(self, p: Primitive) -> list[str]:
        code = self._u64(p.arguments[0])
        return [f"if ({code} < c->progress.limit)", f"    c->progress.limit = (uint32_t){code};"]

    # Externs

    def _register_read(self, p: Primitive) -> list[str]:
        target, array, index = p.arguments
        number, register = self.numbers.registers[array.value]
        bits, kind = register.bits, stored(register.bits)
        zero = "(struct wide){{0}}" if bits > 128 else "0"
        read = f"i < {register.size} ? (({kind} *)(void *)s->registers[{number}])[i] : {zero}"
        cell = modular(bits)
        return [
            "{",
            f"    uint64_t i = {self._u64(index)};",
            f"    {cell.c} cell = {read};",
            *(f"    {line}" for line in self._store(target, "cell", cell, bits)),
            "}",
        ]

    def _register_write(self, p: Primitive) -> list[str]:
        array, index, value = p.arguments
        number, register = self.numbers.registers[array.value]
        bits, kind = register.bits, stored(register.bits)
        code = self.expressions.assigned(value, bits)
        cast = "" if bits > 128 else f"({kind})"
        return [
            "{",
            f"    uint64_t i = {self._u64(index)};",
            f"    if (i < {register.size})",
            f"        (({kind} *)(void *)s->registers[{number}])[i] = {cast}{code};",
            "}",
        ]

    def _count(self, p: Primitive) -> list[str]:
        array, index = p.arguments
        return [f"counter_count(s, {self.numbers.counters[array.value]}, {self._u64(index)}, c->progress.received);"]

    def _meter(self, p: Primitive) -> list[str]:
        array, index, target = p.arguments
        call = f"meter_execute(s, {self.numbers.meters[array.value]}, {self._u64(index)}, &c->progress)"
        return self._store(target, f"(uint64_t){call}", U64, 2)

    def _hash(self, p: Primitive) -> list[str]:
        target, base, calculation, size = p.arguments
        narrow = all(self.expressions.range(t)[1] < 1 << 64 for t in (base, size))
        number = U64 if narrow else U128
        value = f"{self.numbers.calculations[calculation.value]}(s, c, NULL)"
        low, count = (self.expressions.number(t, number, number.bits) for t in (base, size))
        code = f"{'hash_within' if narrow else 'hash_within128'}({low}, {value}, {count})"
        return self._store(target, code, number, number.bits)

    def _random(self, p: Primitive) -> list[str]:
        target, low, high = p.arguments
        code = f"random_between(s, {self._u64(low)}, {self._u64(high)})"
        return self._store(target, code, U64, 64)

    # Messages

    def _log(self, p: Primitive) -> list[str]:
        text = str(p.arguments[0].value).replace("%", "%%").replace("{}", "%llu")
        values = p.arguments[1].value if len(p.arguments) > 1 else ()
        if text.count("%llu") != len(values):
            raise JsonError(f"log_msg {text!r}: {len(values)} values")
        listed = "".join(f", (unsigned long long){self._u64(v)}" for v in values)
        return [f"instance_log(s, {string(text)}{listed});"]

    def _assert(self, p: Primitive) -> list[str]:
        where = str(p.source) if p.source else p.op
        text = string(f"{p.op} failed: {where}".replace("%", "%%"))
        self.exits = True
        return [
            f"if (!{self.expressions.boolean(p.arguments[0])}) {{",
            f"    instance_log(s, {text});",
            "    c->progress.failed = c->progress.exited = true;",
            f"    {self.leave}",
            "}",
        ]


def steps(primitives: Sequence[Primitive], statements: Statements) -> list[str]:
    """Primitives one after the other, jumps among them too."""
    targets = {int(p.arguments[-1].value) for p in primitives if p.op in ("_jump", "_jump_if_zero")}
    lines = []
    for i, p in enumerate(primitives):
        if i in targets:
            lines.append(f"step_{i}:;")
        if p.op == "_jump":
            if int(p.arguments[0].value) <= i:
                statements.exits = True
                lines += ["    if (++c->progress.turns > CONTROL_TURNS) {", "        c->progress.exited = true;"]
                lines += [f"        {statements.leave}", "    }"]
            lines.append(f"    goto step_{int(p.arguments[0].value)};")
        elif p.op == "_jump_if_zero":
            if p.source:
                lines.append(f"    {comment(str(p.source))}")
            condition = statements.expressions.boolean(p.arguments[0])
            if int(p.arguments[1].value) <= i:
                raise JsonError("a conditional jump backwards")
            lines += [f"    if (!{condition})", f"        goto step_{int(p.arguments[1].value)};"]
        else:
            lines += [f"    {line}" for line in statements.of(p)]
    lines += [f"step_{t}:;" for t in sorted(targets) if t >= len(primitives)]
    return lines


def action_function(action: Action, name: str, statements: Statements) -> list[str]:
    """`static void NAME(c, s, data)`."""
    described = ", ".join(f"{n}: {bits}" for n, bits in action.parameters)
    return [
        comment(f"{action.name}({described})"),
        f"static inline void {name}(struct context *c, struct p4_instance *s, const uint64_t *data)",
        "{",
        "    (void)c, (void)s, (void)data;",
        *steps(action.primitives, statements),
        "}",
        "",
    ]


def action_names(program: Program) -> dict[int, str]:
    """The C function of each action."""
    scope = Scope()
    return {a.id: f"action_{scope.name(a.id, a.name)}" for a in program.actions.values()}
