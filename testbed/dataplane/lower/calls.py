"""Calls: arguments with P4's copy-in and copy-out, functions and actions put in place, built-in methods."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from testbed.dataplane import ast, types
from testbed.dataplane.checked import CallKind, Invocation, Passed
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.assignments import AssignmentLowering
from testbed.dataplane.lower.code import Label
from testbed.dataplane.lower.context import children, refused
from testbed.dataplane.lower.frames import ActionBinding, BlockInstance, ExternInstance, Frame, TableInstance
from testbed.dataplane.lower.instances import control_plane_name, make
from testbed.dataplane.lower.terms import Atom
from testbed.dataplane.lower.values import Header, Indexed, Scalar, Stack, Struct, Union, Value, atoms, overlap

CopyOut = tuple[Value, Value, Span]


@dataclass(slots=True)
class Scope:
    """Where `return`, `break` and `continue` lead, and what is copied out before code leaves for good."""

    end: Label
    result: Value | None = None
    copy_outs: list[CopyOut] = field(default_factory=list)
    loops: list[tuple[Label, Label]] = field(default_factory=list)  # where break and continue lead


class CallLowering(AssignmentLowering):
    scopes: list[Scope]

    def body(self, block: ast.Block) -> None:
        raise NotImplementedError

    def extern(self, node: ast.Call, call: Invocation) -> Value | None:
        raise NotImplementedError

    def apply_parser(self, node: ast.Call, call: Invocation) -> None:  # noqa: ARG002
        raise refused(node.span, "a parser cannot be applied here")

    def apply_control(self, node: ast.Call, call: Invocation) -> None:  # noqa: ARG002
        raise refused(node.span, "a control cannot be applied here")

    def apply_table(self, node: ast.Call, targets: Mapping[str, Label]) -> None:  # noqa: ARG002
        raise refused(node.span, "a table cannot be applied here")

    def call(self, node: ast.Call) -> Value | None:
        call = self.checked.call(node)
        match call.kind:
            case CallKind.FUNCTION | CallKind.ACTION:
                callee = call.callee
                assert isinstance(callee, ast.Function | ast.Action)
                return self._inline(node, call, callee)
            case CallKind.BUILTIN:
                return self._built_in(node, call)
            case CallKind.EXTERN_FUNCTION | CallKind.EXTERN_METHOD:
                return self.extern(node, call)
            case CallKind.PARSER:
                self.apply_parser(node, call)
                return None
            case CallKind.CONTROL:
                self.apply_control(node, call)
                return None
            case CallKind.TABLE:
                self.apply_table(node, {})
                return None
        raise refused(node.span, "nothing can be made here")

    def result_of_apply(self, node: ast.Member, otherwise: Label, wanted: bool) -> None:
        """Apply the table of `node` (`.hit` or `.miss`) and go on here if that is as `wanted`."""
        assert isinstance(node.target, ast.Call)
        leaves = "__MISS__" if (node.name == "hit") == wanted else "__HIT__"
        stays = Label()
        self.apply_table(node.target, {leaves: otherwise, "__HIT__" if leaves == "__MISS__" else "__MISS__": stays})
        self.mark(stays)

    def instance(self, receiver: ast.Expression) -> ExternInstance | TableInstance | BlockInstance | None:
        """What a Name that stands for an instance stands for."""
        declaration = self.checked.declaration(receiver)
        found = self.frame.find(declaration) if declaration is not None else None
        return found if isinstance(found, ExternInstance | TableInstance | BlockInstance) else None

    def applied(self, node: ast.Call, call: Invocation) -> tuple[BlockInstance, tuple[Passed, ...]]:
        """The parser or control that is applied (made here where it is named by its type), and what its own
        parameters get: those of `call` are a type's where the instance is a constructor parameter."""
        instance = None if call.receiver is None else self.instance(call.receiver)
        if instance is None:
            assert isinstance(call.callee, ast.Parser | ast.Control)
            name = control_plane_name(self.frame.prefix, call.callee)
            made = Invocation(CallKind.CONSTRUCTOR, name, call.callee, None, call.type_arguments, (), call.result)
            found = make(self.context, self.frame, name, made, node.span)
            assert isinstance(found, BlockInstance)
            instance = found
        assert isinstance(instance, BlockInstance)
        own = instance.declaration.parameters
        return instance, tuple(replace(one, parameter=mine) for one, mine in zip(call.passed, own, strict=True))

    # ---- arguments ----

    @contextmanager
    def inside(self, frame: Frame, scope: Scope) -> Iterator[None]:
        before = self.frame
        self.frame = frame
        self.scopes.append(scope)
        try:
            yield
        finally:
            self.scopes.pop()
            self.frame = before

    def bind(
        self, frame: Frame, passed: tuple[Passed, ...], span: Span, touched: "Callable[[], set[Atom]]" = set
    ) -> list[CopyOut]:
        """Bind parameters in `frame` to their arguments; what to copy out at the end. `touched` is what the callee
        may read or write besides its parameters."""
        written: list[set[Atom]] = []
        places: dict[int, Value] = {}
        values: dict[int, Value] = {}
        for at, one in enumerate(passed):
            later = [other.value for other in passed[at + 1 :] if other.value is not None]
            if one.parameter.direction in (ast.Direction.OUT, ast.Direction.INOUT):
                if one.value is not None:
                    places[at] = self.whole(self.place(one.value), one.value.span)
                    written.append(set(atoms(places[at])))
            elif isinstance(types.substitute(one.type, self.frame.type_arguments), types.ExternType):
                continue
            else:
                expression = one.value if one.value is not None else one.parameter.default
                if expression is None:
                    raise refused(span, f"no value for {one.parameter.name!r}")
                value = self.value(expression)
                if any(map(self.context.has_effects, later)):
                    value = self.saved(value, types.substitute(one.type, self.frame.type_arguments), expression.span)
                values[at] = value
        captured = touched()
        for at, value in values.items():
            one = passed[at]
            where = one.value.span if one.value is not None else span
            type_ = types.substitute(one.type, self.frame.type_arguments)
            others = [*written, captured]
            frame.bindings[one.parameter] = self._passed_in(value, type_, others, where, one.parameter.name)
        outs: list[CopyOut] = []
        fresh: list[tuple[Value, Span]] = []
        for at, one in enumerate(passed):
            if one.parameter.direction not in (ast.Direction.OUT, ast.Direction.INOUT):
                continue
            where = one.value.span if one.value is not None else span
            place = places.get(at)
            others = [captured, *(set(atoms(other)) for key, other in places.items() if key != at)]
            mine = set(atoms(place)) if place is not None else set()
            if place is None or not _is_plain(place) or any(overlap(mine, other) for other in others):
                type_ = types.substitute(one.type, self.frame.type_arguments)
                kept = self.temporary(one.parameter.name, type_, where)
                if place is not None:
                    if one.parameter.direction is ast.Direction.INOUT:
                        self.assign(kept, place, where)
                    outs.append((place, kept, where))
                place = kept
            if one.parameter.direction is ast.Direction.OUT:
                fresh.append((place, where))
            frame.bindings[one.parameter] = place
        for place, where in fresh:  # when all that is passed in has been copied
            self.invalidate(place, where)
        return outs

    def _passed_in(self, value: Value, type_: types.Type, others: list[set[Atom]], span: Span, name: str) -> Value:
        if isinstance(value, Scalar):
            if terms.is_constant(value.term):
                return value
            if value.term["type"] == "runtime_data":
                return value
        mine = set(atoms(value))
        if _is_plain(value) and not any(overlap(mine, other) for other in others):
            return value
        return self.saved(value, type_, span, name)

    def copy_out(self, outs: list[CopyOut]) -> None:
        for place, kept, span in outs:
            self.assign(place, kept, span)

    # ---- functions and actions ----

    def _inline(self, node: ast.Call, call: Invocation, callee: ast.Function | ast.Action) -> Value | None:
        holder = self.frame.holder(callee) or self._outermost()
        frame = holder.inner()
        frame.known |= {key: value for key, value in self.frame.known.items() if key not in frame.known}
        frame.type_arguments = {
            key: types.substitute(one, self.frame.type_arguments) for key, one in call.type_arguments.items()
        } | dict(holder.type_arguments)
        outs = self.bind(frame, call.passed, node.span, lambda: self.touched(callee, holder))
        result: Value | None = None
        result_type = types.substitute(call.result, self.frame.type_arguments)
        if isinstance(callee, ast.Function) and not isinstance(result_type, types.Void):
            result = self.temporary("result", result_type, node.span)
        scope = Scope(Label(), result, outs)
        with self.inside(frame, scope):
            self.body(callee.body)
            self.mark(scope.end)
        self.copy_out(outs)
        return result

    def _outermost(self) -> Frame:
        frame = self.frame
        while frame.outer is not None:
            frame = frame.outer
        return frame

    def touched(self, callee: ast.Function | ast.Action, holder: Frame) -> set[Atom]:
        """What the body of `callee` names besides its own parameters, through the actions it calls too."""
        if isinstance(callee, ast.Function):
            return set()
        found: set[Atom] = set()
        seen: set[ast.Node] = set()
        waiting: list[ast.Node] = [callee.body]
        while waiting:
            node = waiting.pop()
            declaration = self.checked.declarations.get(node)
            if declaration is not None and declaration not in seen and not isinstance(node, ast.Member):
                seen.add(declaration)
                binding = holder.find(declaration)
                if isinstance(binding, ActionBinding):
                    waiting.append(binding.declaration.body)
                elif isinstance(binding, Value):
                    found |= set(atoms(binding))
            waiting.extend(children(node))
        return found

    # ---- built-in methods ----

    def _built_in(self, node: ast.Call, call: Invocation) -> Value | None:
        receiver = call.receiver
        assert receiver is not None
        value = self.place(receiver)
        span = node.span
        match call.name:
            case "isValid":
                return Scalar(self.valid(value, span), types.BOOL, False)
            case "setValid" | "setInvalid":
                operator = "add_header" if call.name == "setValid" else "remove_header"
                self._on_headers(self.whole(value, span), operator, span)
                return None
            case "push_front" | "pop_front":
                count = node.arguments[0].value
                known = None if count is None else self.constant(count)
                if not isinstance(known, int) or not isinstance(value, Stack):
                    raise refused(span, f"{call.name} needs a stack and a constant here")
                if value.holds_unions:
                    raise refused(span, f"{call.name} on a stack of unions is not supported on this target")
                operator = "push" if call.name == "push_front" else "pop"
                self.emit(operator, [terms.named("header_stack", value.name), terms.number(known)], span)
                return None
        raise refused(span, f"{call.name} is not supported on this target")

    def _on_headers(self, value: Value, operator: str, span: Span) -> None:
        match value:
            case Header(name=name):
                self.emit(operator, [terms.header(name)], span)
            case Indexed():
                self.each(value, lambda option: self._on_headers(option, operator, span), span)
            case _:
                raise refused(span, f"{span.text!r} is not supported on this target")


def _is_plain(value: Value) -> bool:
    """Whether `value` can stand for a parameter itself: a place that is always the same."""
    match value:
        case Scalar(term=term, is_place=is_place):
            return is_place and term["type"] == "field"
        case Header() | Stack() | Union():
            return True
        case Struct(members=members):
            return all(map(_is_plain, members.values()))
    return False
