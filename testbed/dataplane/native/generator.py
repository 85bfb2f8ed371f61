"""A whole program: BMv2 JSON to one C file that includes the runtime and exports `p4_program`."""

from collections.abc import Iterable, Mapping, Sequence

from testbed.dataplane.bmv2json import as_known
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.native.calculations import calculation
from testbed.dataplane.native.controls import ControlFunction
from testbed.dataplane.native.entry_points import digest_bytes, entry_names, entry_points, verifies_checksums
from testbed.dataplane.native.expressions import Expressions
from testbed.dataplane.native.layout import Layout
from testbed.dataplane.native.looks import looks_bytes
from testbed.dataplane.native.names import Scope, bare, comment, string
from testbed.dataplane.native.numbers import convert, modular, stored, stored_bytes
from testbed.dataplane.native.parsing import ParserFunction, deparser_function
from testbed.dataplane.native.room import check_room
from testbed.dataplane.native.statements import Numbers, Statements, action_function, action_names
from testbed.dataplane.native.tables import TableLayout, table_layout, table_types
from testbed.dataplane.native.wire import emitter, extractor


def generate(program: Program) -> str:
    """The C source of a program. Raises `JsonError` where it uses what the native target does not have."""
    with as_known(program.name):
        return _Generator(program).source()


class _Generator:
    def __init__(self, program: Program) -> None:
        check_room(program)
        self._program = program
        self._layout = Layout(program)
        indirect_counters = [c for c in program.counters if not c.direct]
        indirect_meters = [m for m in program.meters if not m.direct]
        scope = Scope()
        self._calculations = {c: f"calculate_{scope.name(c, c)}" for c in program.calculations}
        self._numbers = Numbers(
            registers={r.name: (i, r) for i, r in enumerate(program.registers)},
            counters={c.name: i for i, c in enumerate(indirect_counters)},
            meters={m.name: i for i, m in enumerate(indirect_meters)},
            calculations=self._calculations,
        )
        self._counters, self._meters = indirect_counters, indirect_meters
        expressions = Expressions(self._layout)
        self._tables = {t.name: table_layout(t, i, expressions) for i, t in enumerate(program.tables)}
        self._dereferenced: dict[str, None] = {}

    def source(self) -> str:
        functions = [*self._action_functions(), *self._parser_and_deparser(), *entry_points(self._layout)]
        lines = [
            comment(f"{self._program.name}: generated from BMv2 JSON; do not edit"),
            '#include "program.h"',
            '#include "wide.h"',
            "",
            *self._layout.declarations(),
            *self._context(),
            *self._wire_functions(),
            *self._element_functions(),
            *self._calculation_functions(),
            *functions,
            *self._descriptors(),
        ]
        return "\n".join(lines) + "\n"

    # Headers

    def _context(self) -> list[str]:
        lines = ["struct context {", "    struct progress progress;", "    struct metadata m;", "    struct headers h;"]
        lines += [f"    {line}" for line in self._nowhere()]
        return [*lines, "};", ""]

    def _nowhere(self) -> list[str]:
        """What an index outside a stack leads to."""
        return [
            f"__typeof__(((struct headers *)0)->{self._stack_name(stack)}[0]) nowhere_{self._stack_name(stack)};"
            for stack in self._dereferenced
        ]

    def _stack_name(self, stack: str) -> str:
        return self._layout.stacks[stack].removeprefix("c->h.")

    def _element_functions(self) -> list[str]:
        lines = []
        for stack in self._dereferenced:
            name = self._stack_name(stack)
            element = f"__typeof__(((struct context *)0)->nowhere_{name})"
            lines += [
                f"static inline {element} *at_{name}(struct context *c, uint64_t i)",
                "{",
                f"    if (i < sizeof c->h.{name} / sizeof *c->h.{name})",
                f"        return &c->h.{name}[i];",
                f"    memset(&c->nowhere_{name}, 0, sizeof c->nowhere_{name});",
                f"    return &c->nowhere_{name};",
                "}",
                "",
            ]
        return lines

    def _wire_functions(self) -> list[str]:
        extracted = {self._layout.type_name(t): t for t in self._layout.used_types() if self._on_wire(t.name)}
        lines = []
        for header_type in extracted.values():
            lines += [*extractor(self._layout, header_type), *emitter(self._layout, header_type)]
        return lines

    def _on_wire(self, type_name: str) -> bool:
        return any(not h.metadata and h.type.name == type_name for h in self._program.headers.values()) and bool(
            self._wired_types() & {type_name}
        )

    def _wired_types(self) -> set[str]:
        """Header types that are extracted or emitted."""
        program = self._program
        types = {program.headers[name].type.name for name in program.deparser_order}
        for state in program.parser.states:
            for p in state.operations:
                if p.op not in ("extract", "extract_VL"):
                    continue
                term = p.arguments[0]
                if term.kind == "regular":
                    types.add(program.headers[term.value].type.name)
                elif term.kind == "stack":
                    types.add(program.stacks[term.value].headers[0].type.name)
                else:
                    types |= {h.type.name for _, h in program.union_stacks[term.value[0]].unions[0].members}
        return types

    # Functions

    def _calculation_functions(self) -> list[str]:
        lines = []
        for c in self._program.calculations.values():
            at_hand = c.name in self._layout.usage.checksums
            lines += calculation(self._layout, self._calculations[c.name], c.algorithm, c.inputs, at_hand)
        for i, p in enumerate(self._program.profiles):
            if p.algorithm is not None:
                lines += calculation(self._layout, f"selector_{i}", p.algorithm, p.inputs, False)
        return lines

    def _statements(self, parameters: Sequence[int] = (), frame: str = "", leave: str = "return;") -> Statements:
        return Statements(self._layout, self._numbers, Expressions(self._layout, parameters, frame), leave)

    def _action_functions(self) -> list[str]:
        names = action_names(self._program)
        exiting, lines = set(), []
        for action in self._program.actions.values():
            statements = self._statements([bits for _, bits in action.parameters])
            with as_known(f"{self._program.name}: action {action.name}"):
                lines += action_function(action, names[action.id], statements)
            self._dereferenced |= statements.expressions.dereferenced
            if statements.exits:
                exiting.add(action.id)
        for pipeline in self._program.pipelines.values():
            if pipeline.name == "egress" and self._layout.usage.one_way:
                continue  # empty, and nothing calls it
            control = ControlFunction(self._layout, pipeline, self._tables, names, frozenset(exiting))
            with as_known(f"{self._program.name}: {pipeline.name}"):
                lines += control.lines()
            self._dereferenced |= control.dereferenced
        return lines

    def _parser_and_deparser(self) -> list[str]:
        parser = self._statements(frame="frame")
        with as_known(f"{self._program.name}: parser"):
            lines = ParserFunction(self._layout, parser).lines()
        verify, update = self._checksums(verify=True), self._checksums(verify=False)
        deparser = self._statements(leave="return false;")
        lines += [*verify, *update, *deparser_function(self._layout, deparser, bool(update))]
        self._dereferenced |= parser.expressions.dereferenced | deparser.expressions.dereferenced
        return lines

    def _checksums(self, verify: bool) -> list[str]:
        expressions = Expressions(self._layout)
        lines = []
        failed = self._layout.standard("checksum_error")
        if verify and not verifies_checksums(self._layout):
            return []
        for c in self._program.checksums:
            if not (c.verify if verify else c.update):
                continue
            path, own = self._layout.field(*c.target)
            value = f"{self._calculations[c.calculation]}(s, c, packet)"
            narrowed = convert(f"({value} & {(1 << min(own.bits, 64)) - 1:#x}ul)", modular(64), modular(own.bits))
            statement = f"{path} = ({stored(own.bits)}){narrowed};"
            if verify:
                statement = f"if ({path} != {narrowed})\n            {failed} = 1;"
            condition = expressions.boolean(c.condition) if c.condition else "true"
            lines += [f"    if ({bare(condition)}) {{", f"        {statement}", "    }"]
        if not lines:
            return []
        self._dereferenced |= expressions.dereferenced
        name = "verify_checksums" if verify else "update_checksums"
        parameters = "struct p4_instance *s, struct context *c, const struct p4_packet *packet"
        return [f"static void {name}({parameters})", "{", "    (void)packet;", *lines, "}", ""]

    # Descriptors

    def _descriptors(self) -> list[str]:
        program = self._program
        layouts: list[TableLayout] = [self._tables[t.name] for t in program.tables]
        lines = table_types(program, layouts)
        cells = [
            f"{{{r.size}, {r.bits}, {stored_bytes(r.bits) or 'sizeof(struct wide)'}}}, {comment(r.name)}"
            for r in program.registers
        ]
        lines += _rows("struct register_type", "register_types", cells)
        lines += _rows("uint32_t", "counter_sizes", [f"{c.size}, {comment(c.name)}" for c in self._counters])
        meters = [f"{{{m.size}, {'true' if m.bytes else 'false'}}}, {comment(m.name)}" for m in self._meters]
        lines += _rows("struct meter_type", "meter_types", meters)
        sets = [f"{{{self._value_bytes(v.name)}, {v.max_size}}}, {comment(v.name)}" for v in program.value_sets]
        lines += _rows("struct value_set_type", "value_set_types", sets)
        counts = {
            "table": (len(layouts), "tables", "table_types"),
            "profile": (len(program.profiles), "profiles", "profile_types"),
            "register": (len(program.registers), "registers", "register_types"),
            "counter": (len(self._counters), "counters", "counter_sizes"),
            "meter": (len(self._meters), "meters", "meter_types"),
            "value_set": (len(program.value_sets), "value_sets", "value_set_types"),
        }
        lines.append("static const struct program_type program_type = {")
        for name, (count, plural, array) in counts.items():
            lines += [f"    .{name}_count = {count},", f"    .{plural} = {array if count else 'NULL'},"]
        lines += ["};", ""]
        lines += [
            "static struct p4_instance *create(const struct p4_host *host)",
            "{",
            "    return instance_new(&program_type, host);",
            "}",
            "",
            *self._export(),
        ]
        return lines

    def _value_bytes(self, name: str) -> int:
        """The size of a value set's members: the fields of the key that is looked up, each in whole bytes."""
        for state in self._program.parser.states:
            if any(t.kind == "parse_vset" and t.value == name for t in state.transitions):
                expressions = Expressions(self._layout, frame="frame")
                return sum((expressions.pattern(k)[1] + 7) // 8 for k in state.key)
        return next((v.bits + 7) // 8 for v in self._program.value_sets if v.name == name)

    def _headroom(self) -> int:
        """The most that all headers together can take."""
        types = [self._program.headers[name].type for name in self._program.deparser_order]
        return sum((t.max_bits + 7) // 8 for t in types)

    def _export(self) -> list[str]:
        program = self._program
        names: Mapping[str, Iterable[str]] = {
            "tables": [t.name for t in program.tables],
            "profiles": [p.name for p in program.profiles],
            "registers": [r.name for r in program.registers],
            "counters": [c.name for c in self._counters],
            "meters": [m.name for m in self._meters],
            "value_sets": [v.name for v in program.value_sets],
            "digests": [n for n, _ in program.digests.values()],
        }
        looks = looks_bytes(self._layout)
        lines = []
        for what, listed in names.items():
            strings = [string(n) for n in listed]
            if strings:
                lines.append(f"static const char *const {what}_names[] = {{{', '.join(strings)}}};")
        lines += [
            "",
            'extern __attribute__((visibility("default"))) const struct p4_program p4_program;',
            "",
            "const struct p4_program p4_program = {",
            "    .abi = P4_ABI_VERSION,",
            f"    .name = {string(program.name)},",
            "    .context_bytes = sizeof(struct context),",
            f"    .headroom_bytes = {self._headroom()},",
            f"    .looks_bytes = {looks if looks is not None else 'P4_LOOKS_EVERYWHERE'},",
            *(
                f"    .{what} = {{{f'{what}_names' if listed else 'NULL'}, {len(list(listed))}}},"
                for what, listed in names.items()
            ),
            "    .create = create,",
            "    .destroy = instance_destroy,",
            *(f"    .{name} = {name}," for name in entry_names(self._layout)),
            f"    .digest_bytes = {digest_bytes(self._layout)},",
            "    CONTROL_FUNCTIONS,",
            "};",
        ]
        return lines


def _rows(kind: str, name: str, rows: Sequence[str]) -> list[str]:
    return [f"static const {kind} {name}[] = {{", *(f"    {row}" for row in rows), "};", ""] if rows else []
