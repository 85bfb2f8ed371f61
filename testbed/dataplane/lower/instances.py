"""Instances of externs, tables, parsers and controls: their control-plane names, and arrays in the JSON."""

from collections.abc import Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.checked import CallKind, EnumValue, Invocation
from testbed.dataplane.checked import Value as Constant
from testbed.dataplane.constants import evaluate
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower.code import source_info
from testbed.dataplane.lower.context import Context, refused
from testbed.dataplane.lower.frames import Binding, BlockInstance, ExternInstance, Frame, TableInstance
from testbed.dataplane.lower.layout import Unsupported
from testbed.dataplane.lower.values import Text


def control_plane_name(prefix: str, node: ast.Declared) -> str:
    """The name that the control plane knows `node` by: within `prefix`, unless its `@name` begins with a dot."""
    name = node.name
    annotation = ast.annotation(node, "name")
    if annotation is not None:
        name = annotation_text(annotation)
    if name.startswith("."):
        return name[1:]
    return f"{prefix}.{name}" if prefix else name


def annotation_text(annotation: ast.Annotation) -> str:
    if annotation.expressions and isinstance(annotation.expressions[0], ast.StringLiteral):
        return annotation.expressions[0].value
    return annotation.text.strip().strip('"')


def make_all(context: Context, frame: Frame, declarations: Sequence[ast.Declared]) -> None:
    """Make the instances, tables and value sets among `declarations` and bind them in `frame`."""
    for one in declarations:
        if isinstance(one, ast.Instance | ast.Table | ast.ValueSet | ast.Action):
            context.claim(control_plane_name(frame.prefix, one), one)
        if isinstance(one, ast.Instance):
            made = make_instance(context, frame, one)
            if made is not None:
                frame.bindings[one] = made
        elif isinstance(one, ast.Table):
            frame.bindings[one] = TableInstance(control_plane_name(frame.prefix, one), one)
        elif isinstance(one, ast.ValueSet):
            _value_set(context, frame, one)


def make_instance(context: Context, frame: Frame, node: ast.Instance) -> ExternInstance | BlockInstance | None:
    call = context.checked.call(node)
    name = control_plane_name(frame.prefix, node)
    made = make(context, frame, name, call, node.span)
    if isinstance(made, ExternInstance):
        made.declaration = node
    return made


def make(
    context: Context, frame: Frame, name: str, call: Invocation, span: Span
) -> ExternInstance | BlockInstance | None:
    """What a call of a constructor makes; None for packages."""
    values: dict[ast.Node, Constant | None] = {}
    parts: dict[ast.Node, Binding] = {}
    for one in call.passed:
        given = None if one.value is None else _given(context, frame, f"{name}.{one.parameter.name}", one.value)
        if given is not None:
            parts[one.parameter] = given
        elif one.value is not None:
            values[one.parameter] = evaluate(context.checked, one.value, frame.known)
    if isinstance(call.callee, ast.Parser | ast.Control):
        context.spend(span)
        known: dict[ast.Node, Constant] = {key: value for key, value in values.items() if value is not None}
        missing = [one.parameter.name for one in call.passed if values.get(one.parameter, 0) is None]
        if missing:
            raise refused(span, f"the constructor argument {missing[0]!r} must be known when compiling")
        bound = {key: types.substitute(one, frame.type_arguments) for key, one in call.type_arguments.items()}
        instance = BlockInstance(name, call.callee, known, bound, frame)
        inner = Frame(frame, name, parts, dict(frame.known) | dict(known), dict(frame.type_arguments) | bound)
        make_all(
            context, inner, [one for one in call.callee.locals if not isinstance(one, ast.Constant | ast.Variable)]
        )
        instance.parts = inner.bindings
        return instance
    type_ = types.substitute(call.result, frame.type_arguments)
    if isinstance(type_, types.ExternType):
        made = ExternInstance(name, type_, tuple(values.values()), None)
        context.externs.append(made)
        _describe(context, made, span)
        return made
    return None


def _given(context: Context, frame: Frame, name: str, value: ast.Expression) -> ExternInstance | BlockInstance | None:
    """The instance that a constructor is given: one with a name of its own, or one that is made for it."""
    call = context.checked.calls.get(value)
    if call is not None and call.kind is CallKind.CONSTRUCTOR:
        return make(context, frame, name, call, value.span)
    declaration = context.checked.declaration(value)
    found = None if declaration is None else frame.find(declaration)
    return found if isinstance(found, ExternInstance | BlockInstance) else None


def _describe(context: Context, made: ExternInstance, span: Span) -> None:
    """Add what the JSON says of an array that is not bound to a table."""
    kind = made.type.declaration.name
    info = source_info(span)
    if kind == "register":
        try:
            bits = context.layout.bits(made.type.arguments[0])
        except Unsupported as error:
            raise refused(span, str(error)) from error
        size = _size(made.arguments, span)
        context.registers.add(made.name, source_info=info, size=size, bitwidth=bits)
    elif kind == "counter":
        context.counters.add(made.name, source_info=info, size=_size(made.arguments, span), is_direct=False)
    elif kind == "meter":
        size = _size(made.arguments, span)
        unit = enum_name(made.arguments[1])
        context.meters.add(made.name, source_info=info, is_direct=False, size=size, rate_count=2, type=unit)


def _size(arguments: tuple[Constant | None, ...], span: Span) -> int:
    size = arguments[0]
    if not isinstance(size, int):
        raise refused(span, "the size must be known when compiling")
    return size


def enum_name(value: Constant | None) -> str:
    return value.name if isinstance(value, EnumValue) else ""


def _value_set(context: Context, frame: Frame, node: ast.ValueSet) -> None:
    type_ = types.substitute(context.checked.type_of(node), frame.type_arguments)
    element = type_.element if isinstance(type_, types.Set) else type_
    bits = types.width_bits(element)
    size = evaluate(context.checked, node.size, frame.known)
    if bits is None or not isinstance(size, int):
        raise refused(node.span, "this value set is not supported on this target")
    name = control_plane_name(frame.prefix, node)
    info = source_info(node.span)
    frame.bindings[node] = Text(name)
    context.value_sets.add(name, source_info=info, compressed_bitwidth=bits, max_size=size)
