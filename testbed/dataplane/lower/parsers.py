"""Parsers: their states and those of sub-parsers as code, and code as the states of BMv2."""

from typing import Any

from testbed.dataplane import ast, types
from testbed.dataplane.checked import DontCare, EnumValue, Invocation, MaskValue, RangeValue
from testbed.dataplane.checked import Value as Constant
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms, values
from testbed.dataplane.lower.calls import Scope
from testbed.dataplane.lower.code import Block, Branch, Case, Graph, Jump, Label, Primitive, Select, source_info
from testbed.dataplane.lower.context import Context, refused
from testbed.dataplane.lower.externs import Arguments, ExternLowering
from testbed.dataplane.lower.frames import BlockInstance, Frame
from testbed.dataplane.lower.terms import Atom, Term
from testbed.dataplane.lower.values import Header, Indexed, Last, Next, Scalar, Struct, Text, Value, scalars_of

_OWN = frozenset({"extract", "extract_VL", "set", "verify", "advance"})  # what a state does without "primitive"
_LARGEST_EXPANSION = 512  # masks that one label of ranges may become


class ParserLowering(ExternLowering):
    may_run_again = True

    def __init__(self, context: Context, frame: Frame) -> None:
        super().__init__(context, frame)
        self.no_match = Label("noMatch")
        self._paths: list[str] = []

    def run(self, instance: BlockInstance, bindings: dict[ast.Node, Value], span: Span) -> list[dict[str, Any]]:
        """The states of the parser of the pipeline."""
        frame = self._frame_of(instance)
        frame.bindings |= bindings
        accept = Label("accept")
        self._states(instance, frame, Scope(accept))
        self.mark(accept)
        self.jump(self.finish)
        self.mark(self.no_match)
        error = terms.number(self.context.error_number("NoMatch"))
        never = terms.operation("==", terms.number(0), terms.number(1))
        self.code.append(Primitive("verify", (never, error), span))
        self.jump(self.finish)
        return _StateWriter(self.context, Graph(self.code, (self.finish,))).states()

    @staticmethod
    def _frame_of(instance: BlockInstance) -> Frame:
        outer = instance.outer
        bindings = dict(instance.parts)
        return Frame(
            outer,
            instance.name,
            bindings,
            dict(outer.known) | dict(instance.known),
            dict(outer.type_arguments) | dict(instance.type_arguments),
        )

    def _states(self, instance: BlockInstance, frame: Frame, scope: Scope) -> None:
        """All states of a parser from `start` on; accept leads to the end of `scope`."""
        declaration = instance.declaration
        assert isinstance(declaration, ast.Parser)
        prefix = ".".join(self._paths)
        labels = {state.name: Label(f"{prefix}.{state.name}" if prefix else state.name) for state in declaration.states}
        labels["accept"], labels["reject"] = scope.end, self.finish
        with self.inside(frame, scope):
            for one in declaration.locals:
                if isinstance(one, ast.Variable | ast.Constant):
                    self.statement(one)
            self.jump(labels["start"])
            for state in declaration.states:
                self.mark(labels[state.name])
                outer = self.frame
                self.frame = outer.inner()
                self.statements(state.statements)
                self._transition(state, labels)
                self.frame = outer

    def _transition(self, state: ast.State, labels: dict[str, Label]) -> None:
        match state.transition:
            case None:
                self.jump(self.finish)
            case ast.Name(name=name):
                self.jump(labels[name])
            case ast.Select() as select:
                self._select(select, labels)

    # ---- calls ----

    def apply_parser(self, node: ast.Call, call: Invocation) -> None:
        instance, passed = self.applied(node, call)
        frame = self._frame_of(instance)
        outs = self.bind(frame, passed, node.span)
        scope = Scope(Label())
        self._paths.append(instance.name.rpartition(".")[2])
        self._states(instance, frame, scope)
        self._paths.pop()
        self.mark(scope.end)
        self.copy_out(outs)

    def packet(self, node: ast.Call, call: Invocation, arguments: Arguments) -> Value | None:
        match call.name:
            case "extract":
                self._extract(node, call, arguments)
                return None
            case "lookahead":
                return self._lookahead(types.substitute(call.result, self.frame.type_arguments), node.span)
            case "advance":
                self.emit("advance", [self.fixed(arguments["sizeInBits"])], node.span)
                return None
            case "length":
                return Scalar(self.context.standard_field("packet_length"), types.Bits(32))
        raise refused(node.span, f"{call.name} cannot be called here")

    def _extract(self, node: ast.Call, call: Invocation, arguments: Arguments) -> None:
        size = arguments.get("variableFieldSizeInBits")
        first = call.passed[0]
        bits = None if size is None else self.scalar(size)
        if first.value is None:
            place = self.temporary("skipped", types.substitute(first.type, self.frame.type_arguments), node.span)
        else:
            place = self.place(first.value)
        if isinstance(place, Indexed | Last):
            chosen = self.whole(place, node.span)
            assert isinstance(chosen, Indexed)
            if bits is not None and not terms.is_constant(bits):
                bits = self.fixed_term(bits, types.Bits(32), node.span)
            self.each(chosen, lambda option: self._extract_to(option, bits, node.span), node.span)
            return
        self._extract_to(place, bits, node.span)

    def _extract_to(self, place: Value, bits: Term | None, span: Span) -> None:
        match place:
            case Header(name=name):
                target = terms.named("regular", name)
            case Next(stack=stack, member=None):
                target = terms.named("stack", stack.name)
            case Next(stack=stack, member=member):
                target = {"type": "union_stack", "value": [stack.name, member]}
            case _:
                raise refused(span, "only headers can be extracted on this target")
        if bits is None:
            self.code.append(Primitive("extract", (target,), span))
        else:
            self.code.append(Primitive("extract_VL", (target, terms.expression(bits)), span))

    def _lookahead(self, type_: types.Type, span: Span) -> Value:
        kept = self.temporary("lookahead", type_, span)
        if types.is_header(types.plain(type_)):
            assert isinstance(kept, Header)
            self.emit("add_header", [terms.header(kept.name)], span)
        offset = 0
        for scalar in scalars_of(kept):
            bits = self.layout.bits(scalar.type)
            ahead = {"type": "lookahead", "value": [offset, bits]}
            plain = types.plain(scalar.type)
            if isinstance(plain, types.Varbits):
                raise refused(span, "a varbit cannot be looked ahead at")
            self.emit("assign", [scalar.term, ahead], span)
            offset += bits
        return kept

    def verify(self, node: ast.Call, arguments: Arguments) -> None:
        check = arguments["check"]
        condition = self.scalar(check)
        error = self._argument(arguments["toSignal"], [])
        if condition["type"] == "bool":
            condition = terms.operation("==", terms.number(int(condition["value"])), terms.number(1))
        self.code.append(Primitive("verify", (condition, error), node.span))

    def extern(self, node: ast.Call, call: Invocation) -> Value | None:
        if call.receiver is None and call.name == "verify":
            self.verify(node, {one.parameter.name: one.value for one in call.passed if one.value is not None})
            return None
        return super().extern(node, call)

    # ---- select ----

    def _select(self, node: ast.Select, labels: dict[str, Label]) -> None:
        keys: list[Term] = []
        widths: list[int] = []
        kinds: list[int] = []  # how many scalars each key has
        for at, key in enumerate(node.keys):
            value = self.value(key)
            if any(map(self.context.has_effects, node.keys[at + 1 :])):
                value = self.saved(value, self.type_of(key), key.span)
            before = len(keys)
            for term, bits in self._key_terms(value, self.type_of(key), key.span):
                keys.append(term)
                widths.append(bits)
            kinds.append(len(keys) - before)
        otherwise = self.no_match
        cases: list[Case] = []
        for case in node.cases:
            target = labels[case.state.name]
            parts = self._label(case.label, widths, kinds)
            if parts is None:
                otherwise = target
                break
            if isinstance(parts, str):
                cases.append(Case(target, set_name=parts))
            else:
                cases.extend(Case(target, value, mask) for value, mask in parts)
        if not keys:
            self.jump(otherwise if not cases else cases[0].target)
            return
        self.code.append(Select(tuple(keys), sum((bits + 7) // 8 * 8 for bits in widths), tuple(cases), otherwise))

    def _key_terms(self, value: Value, type_: types.Type, span: Span) -> list[tuple[Term, int]]:
        if isinstance(value, Struct):
            return [
                pair
                for one in value.members.values()
                for pair in self._key_terms(one, getattr(one, "type", type_), span)
            ]
        bits = self.layout.bits(type_)
        if isinstance(value, Scalar) and value.is_place and value.term["type"] in ("field", "stack_field"):
            return [(value.term, bits)]
        term = self.read(value, span)
        if isinstance(types.plain(type_), types.Bool):
            term = terms.from_truth(term)
        kept = self.saved(Scalar(term, types.Bits(bits), False), types.Bits(bits), span, "key")
        if isinstance(kept, Scalar) and not kept.is_place:
            place = self.temporary("key", types.Bits(bits), span)
            self.assign(place, kept, span)
            kept = place
        assert isinstance(kept, Scalar)
        return [(kept.term, bits)]

    def _label(
        self, label: ast.Expression, widths: list[int], kinds: list[int]
    ) -> "list[tuple[int, int | None]] | str | None":
        """The values and masks that a label stands for, the name of a value set, or None: anything."""
        declaration = self.checked.declaration(label)
        if isinstance(declaration, ast.ValueSet):
            found = self.frame.find(declaration)
            assert isinstance(found, Text)
            return found.value
        if isinstance(label, ast.ListExpression) and len(kinds) > 1:
            parts: list[ast.Expression] = list(label.items)
        else:
            parts = [label]
        if len(parts) == 1 and isinstance(label, ast.Anything):
            return None
        constants: list[Constant] = []
        for part in parts:
            if isinstance(self.checked.declaration(part), ast.ValueSet):
                raise refused(part.span, "a value set beside other keys is not supported on this target")
            constant = self.constant(part)
            if constant is None:
                raise refused(part.span, "a label must be known when compiling")
            constants.extend(constant if isinstance(constant, tuple) else [constant])
        if all(isinstance(one, DontCare) for one in constants):
            return None
        choices: list[tuple[int, int]] = [(0, 0)]
        for constant, bits in zip(constants, widths, strict=True):
            filled = (bits + 7) // 8 * 8
            options = self._options(constant, bits, label.span)
            choices = [(value << filled | one, mask << filled | own) for value, mask in choices for one, own in options]
            if len(choices) > _LARGEST_EXPANSION:
                raise refused(label.span, "these ranges become too many masks")
        full = 0
        for bits in widths:
            full = full << (bits + 7) // 8 * 8 | (1 << bits) - 1
        return [(value, None if mask == full else mask) for value, mask in choices]

    def _options(self, constant: Constant, bits: int, span: Span) -> list[tuple[int, int]]:
        full = (1 << bits) - 1
        match constant:
            case DontCare():
                return [(0, 0)]
            case MaskValue(value, mask):
                return [(value & mask & full, mask & full)]
            case RangeValue(low, high):
                return _prefixes(low, high, bits)
            case EnumValue(None, name):
                return [(self.context.error_number(name), full)]
            case EnumValue(enum, name) if enum is not None:
                return [([one.name for one in enum.members].index(name), full)]
            case int():
                return [(int(constant) & full, full)]
        raise refused(span, f"{span.text!r} is no label on this target")


def _prefixes(low: int, high: int, bits: int) -> list[tuple[int, int]]:
    """The values and masks that together are `low` to `high`."""
    full = (1 << bits) - 1
    found: list[tuple[int, int]] = []
    while low <= high:
        free = (low & -low).bit_length() - 1 if low else bits
        while free and low + (1 << free) - 1 > high:
            free -= 1
        found.append((low, full & ~((1 << free) - 1)))
        low += 1 << free
    return found


class _StateWriter:
    """Turns basic blocks into BMv2's parse states."""

    def __init__(self, context: Context, graph: Graph) -> None:
        self._context = context
        self._graph = graph
        self._names: dict[Label, str] = {}
        taken: set[str] = set()
        for block in graph.blocks:
            name, count = block.label.name or "state", 0
            key = name
            while key in taken:
                key, count = f"{name}_{count}", count + 1
            taken.add(key)
            self._names[block.label] = key

    def states(self) -> list[dict[str, Any]]:
        blocks = self._graph.blocks
        if not blocks:
            blocks = [Block(Label("start"), [], Jump(Label()))]
            self._names[blocks[0].label] = "start"
        return [self._state(block, number) for number, block in enumerate(blocks)]

    def _name(self, label: Label) -> str | None:
        return self._names.get(self._graph.resolved(label)) if self._graph.blocks else None

    def _state(self, block: Block, number: int) -> dict[str, Any]:
        operations = [_operation(one) for one in _without_overwritten(block.primitives)]
        transitions: list[dict[str, Any]] = []
        key: list[Term] = []
        match block.end:
            case Jump(target):
                transitions.append(_transition("default", None, None, self._name(target)))
            case Branch(condition, otherwise, span):
                assert block.follow is not None
                place = self._context.layout.place("branch", types.BOOL)
                assert isinstance(place, Scalar)
                chosen = Primitive("assign", (place.term, terms.argument(terms.from_truth(condition))), span)
                operations.append(_operation(chosen))
                key = [place.term]
                transitions.append(_transition("hexstr", "0x01", None, self._name(block.follow)))
                transitions.append(_transition("default", None, None, self._name(otherwise)))
            case Select(keys, bits, cases, otherwise):
                key = list(keys)
                for case in cases:
                    name = self._name(case.target)
                    if case.set_name is not None:
                        transitions.append(_transition("parse_vset", case.set_name, None, name))
                        continue
                    mask = None if case.mask is None else terms.hexadecimal(case.mask, bits)
                    transitions.append(_transition("hexstr", terms.hexadecimal(case.value, bits), mask, name))
                transitions.append(_transition("default", None, None, self._name(otherwise)))
        return {
            "name": self._names[block.label],
            "id": number,
            "parser_ops": operations,
            "transitions": transitions,
            "transition_key": key,
        }


def _without_overwritten(primitives: list[Primitive]) -> list[Primitive]:
    """`primitives` without the stores that a later one overwrites and nothing reads in between.

    So does the reference compiler, although a packet whose parsing fails in between would show the first value.
    """
    kept: list[Primitive] = []
    overwritten: set[Atom] = set()
    for one in reversed(primitives):
        if one.operator == "assign":
            target = next(terms.atoms(one.parameters[0]))
            if target in overwritten:
                continue
            overwritten.add(target)
            reads = one.parameters[1:]
        else:
            reads = one.parameters
        for term in reads:
            overwritten -= {(header, name) for header, name in overwritten if _reads(term, header, name)}
        kept.append(one)
    return kept[::-1]


def _reads(term: Term, header: str, name: str) -> bool:
    if term["type"] in ("hexstr", "lookahead", "regular", "stack", "union_stack", "string", "bool"):
        return False
    if term["type"] not in ("field", "expression", "stack_field"):
        return True
    return values.overlap({(header, name)}, set(terms.atoms(term)))


def _transition(kind: str, value: str | None, mask: str | None, following: str | None) -> dict[str, Any]:
    return {"type": kind, "value": value, "mask": mask, "next_state": following}


def _operation(one: Primitive) -> dict[str, Any]:
    operator = "set" if one.operator == "assign" else one.operator
    described = {"op": operator, "parameters": list(one.parameters), "source_info": source_info(one.span)}
    if operator in _OWN:
        return described
    return {"op": "primitive", "parameters": [described]}
