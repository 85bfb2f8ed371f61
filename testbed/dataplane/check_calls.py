"""Calls: which function, method or constructor is meant, what goes to which parameter, and what comes back."""

from collections.abc import Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.check_arguments import ArgumentChecker, Made, accepts
from testbed.dataplane.checked import Callee, CallKind, Checked, Invocation, Passed
from testbed.dataplane.diagnostics import did_you_mean
from testbed.dataplane.inference import Inference
from testbed.dataplane.names import Place
from testbed.dataplane.types import BOOL, INTEGER, UNKNOWN, VOID, Bindings, ExternType, Stack, Type, TypeVariable

_SIZES = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")
_ACTION_PLACES = (Place.APPLY, Place.ACTION)


class CallChecker(ArgumentChecker):
    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self.extern_of: dict[ast.Method, ast.Extern] = {}  # of constructors

    def call(self, node: ast.Call) -> Type:
        callee = node.callee
        if isinstance(callee, ast.Member):
            return self._method_call(node, callee)
        if not isinstance(callee, ast.Name) or callee.name == "error":
            self.expression(callee)
            self.diagnostics.error(callee.span, f"{callee.span.text!r} cannot be called")
            return self._failed(node.arguments)
        if self.look_up(callee, "function") is None:
            self.checked.types[callee] = UNKNOWN
            return self._failed(node.arguments)
        found = self.all_of(callee.name, callee.is_global)
        self.checked.types[callee] = types.Callable("a function")
        match found[0]:
            case ast.Function() | ast.Method():
                several = [one for one in found if isinstance(one, ast.Function | ast.Method)]
                kind = CallKind.FUNCTION if isinstance(found[0], ast.Function) else CallKind.EXTERN_FUNCTION
                self._check_place_of_function(node, callee.name)
                return self._invoke(node, kind, callee.name, several, None, {})
            case ast.Action() as action:
                if self.place not in _ACTION_PLACES:
                    self.diagnostics.error(node.span, "actions are called in apply blocks and actions only")
                return self._invoke(node, CallKind.ACTION, callee.name, [action], None, {})
            case ast.Extern() | ast.Parser() | ast.Control() | ast.Package() | ast.Typedef() as made:
                type_ = ast.NamedType(callee.span, callee.name, callee.is_global, node.type_arguments)
                return self.construct(node, type_, made, node.arguments)
        self.diagnostics.error(callee.span, f"{callee.name!r} cannot be called")
        return self._failed(node.arguments)

    def _check_place_of_function(self, node: ast.Call, name: str) -> None:
        if name == "verify" and self.place is not Place.STATE:
            self.diagnostics.error(node.span, "verify is for parser states only")

    def _failed(self, arguments: Sequence[ast.Argument]) -> Type:
        for argument in arguments:
            if argument.value is not None:
                self.expression(argument.value)
        return UNKNOWN

    # ---- methods ----

    def _method_call(self, node: ast.Call, callee: ast.Member) -> Type:
        target, name = callee.target, callee.name
        if isinstance(target, ast.Name) and target.name != "error":
            found = self.all_of(target.name, target.is_global)
            if found and isinstance(found[0], ast.Parser | ast.Control) and name == "apply":
                return self._direct_application(node, target, found[0])
        type_ = self.expression(target)
        self.checked.types[callee] = types.Callable("a method")
        match type_:
            case types.Unknown():
                return self._failed(node.arguments)
            case types.TableType(table):
                return self._table_apply(node, callee, table)
            case types.BlockType():
                return self._block_apply(node, callee, type_)
            case ExternType(declaration, arguments):
                return self._extern_method(node, callee, declaration, arguments)
            case types.StructType() | Stack():
                return self._built_in(node, callee, type_)
        if name in _SIZES:
            return self._built_in(node, callee, type_)
        self.diagnostics.error(callee.name_span, f"{type_} has no method {name!r}")
        return self._failed(node.arguments)

    def _extern_method(
        self, node: ast.Call, callee: ast.Member, declaration: ast.Extern, arguments: tuple[Type, ...]
    ) -> Type:
        several = [method for method in declaration.methods if method.name == callee.name]
        if not several:
            hint = did_you_mean(callee.name, [method.name for method in declaration.methods])
            self.diagnostics.error(callee.name_span, f"{declaration.name} has no method {callee.name!r}", hint)
            return self._failed(node.arguments)
        outer = dict(zip(map(TypeVariable, declaration.type_parameters), arguments, strict=False))
        return self._invoke(node, CallKind.EXTERN_METHOD, callee.name, several, callee.target, outer)

    def _direct_application(self, node: ast.Call, target: ast.Name, declaration: ast.Parser | ast.Control) -> Type:
        self.checked.declarations[target] = declaration
        self.checked.types[target] = types.BlockType(declaration)
        self.checked.types[node.callee] = types.Callable("a method")
        if declaration.constructor_parameters:
            hint = f"declare an instance: {declaration.name}(...) name;"
            self.diagnostics.error(node.span, f"{declaration.name} needs arguments to be made", hint)
        return self._apply(node, declaration, None, {})

    def _block_apply(self, node: ast.Call, callee: ast.Member, type_: types.BlockType) -> Type:
        if callee.name != "apply" or isinstance(type_.declaration, ast.Package):
            self.diagnostics.error(callee.name_span, f"{type_} has no method {callee.name!r}")
            return self._failed(node.arguments)
        outer = dict(zip(map(TypeVariable, _type_parameters(type_.declaration)), type_.arguments, strict=False))
        return self._apply(node, type_.declaration, callee.target, outer)

    def _apply(
        self,
        node: ast.Call,
        declaration: ast.Parser | ast.Control | ast.ParserType | ast.ControlType,
        receiver: ast.Expression | None,
        outer: Bindings,
    ) -> Type:
        is_parser = isinstance(declaration, ast.Parser | ast.ParserType)
        if self.place is not (Place.STATE if is_parser else Place.APPLY):
            what = "parsers are applied in parser states" if is_parser else "controls are applied in apply blocks"
            self.diagnostics.error(node.span, f"{what} only")
        kind = CallKind.PARSER if is_parser else CallKind.CONTROL
        return self._invoke(node, kind, "apply", [declaration], receiver, outer)

    def _table_apply(self, node: ast.Call, callee: ast.Member, table: ast.Table) -> Type:
        if callee.name != "apply":
            self.diagnostics.error(callee.name_span, f"a table has no method {callee.name!r}, but apply")
            return self._failed(node.arguments)
        if self.place not in (Place.APPLY, Place.TABLE):
            self.diagnostics.error(node.span, "tables are applied in apply blocks only")
        if node.arguments:
            self.diagnostics.error(node.arguments[0].span, "apply of a table takes no arguments")
        result = types.ApplyResult(table)
        self.checked.calls[node] = Invocation(CallKind.TABLE, "apply", table, callee.target, {}, (), result)
        return result

    def _built_in(self, node: ast.Call, callee: ast.Member, type_: Type) -> Type:
        name = callee.name
        methods: dict[str, Type] = dict.fromkeys(_SIZES, INTEGER)
        if types.is_header(type_):
            methods |= {"isValid": BOOL, "setValid": VOID, "setInvalid": VOID}
        elif types.is_union(type_):
            methods |= {"isValid": BOOL}
        elif isinstance(type_, Stack):
            methods |= {"push_front": VOID, "pop_front": VOID}
        if name not in methods:
            hint = did_you_mean(name, methods)
            self.diagnostics.error(callee.name_span, f"{type_} has no method {name!r}", hint)
            return self._failed(node.arguments)
        wanted = 1 if name.endswith("_front") else 0
        if len(node.arguments) != wanted or any(one.value is None for one in node.arguments):
            self.diagnostics.error(node.span, f"{name} takes {wanted} arguments, not {len(node.arguments)}")
            return self._failed(node.arguments)
        for argument in node.arguments:
            assert argument.value is not None
            self.size(argument.value, f"the count of {name}", 0, 1 << 16)
        if methods[name] is VOID:
            self.check_assignable(callee.target)
        result = methods[name]
        self.checked.calls[node] = Invocation(CallKind.BUILTIN, name, None, callee.target, {}, (), result)
        return result

    # ---- constructors ----

    def construct(
        self, node: Made, written: ast.NamedType, declaration: ast.Declared, arguments: Sequence[ast.Argument]
    ) -> Type:
        """Check what makes an instance; the type of the instance."""
        self.checked.declarations[written] = declaration  # type: ignore[assignment]
        outer: Bindings = {}
        if isinstance(declaration, ast.Typedef):
            aliased = self.checked.types.get(declaration, UNKNOWN)
            if isinstance(aliased, ExternType | types.BlockType) and not written.arguments:
                declaration = aliased.declaration
                outer = dict(zip(map(TypeVariable, _type_parameters(declaration)), aliased.arguments, strict=False))
        candidates: Sequence[Callee | ast.Method]
        if isinstance(declaration, ast.Extern):
            candidates = declaration.constructors
            if not candidates:
                self.diagnostics.error(node.span, f"{declaration.name} has no constructor: instances come from outside")
                return self._failed(arguments)
        elif isinstance(declaration, ast.Parser | ast.Control | ast.Package):
            candidates = [declaration]
        else:
            self.diagnostics.error(written.span, f"{written.name!r} makes no instances")
            return self._failed(arguments)
        made = self._invoke_on(
            node, CallKind.CONSTRUCTOR, declaration.name, candidates, None, outer, written.arguments, arguments
        )
        if made is not UNKNOWN:
            self.checked.types[written] = made
        return made

    # ---- what all calls share ----

    def _invoke(
        self,
        node: ast.Call,
        kind: CallKind,
        name: str,
        candidates: "Sequence[Callee]",
        receiver: ast.Expression | None,
        outer: Bindings,
    ) -> Type:
        return self._invoke_on(node, kind, name, candidates, receiver, outer, node.type_arguments, node.arguments)

    def _invoke_on(
        self,
        node: Made,
        kind: CallKind,
        name: str,
        candidates: "Sequence[Callee]",
        receiver: ast.Expression | None,
        outer: Bindings,
        type_arguments: Sequence[ast.TypeSyntax],
        arguments: Sequence[ast.Argument],
    ) -> Type:
        callee = next((one for one in candidates if accepts(_parameters(one, kind), arguments)), candidates[0])
        bound = self.bound(node, name, _parameters(callee, kind), arguments)
        if bound is None:
            return self._failed(arguments)
        owner = self._owner(callee, kind)
        variables = _type_parameters(callee) if kind is not CallKind.CONSTRUCTOR else _type_parameters(owner)
        inference = Inference(
            [TypeVariable(one) for one in variables if TypeVariable(one) not in outer], self.checked.types
        )
        if not self.explicit(node, name, [TypeVariable(one) for one in variables], type_arguments, inference):
            return self._failed(arguments)
        passed = self.passed(bound, outer, inference, name)
        if inference.unsettled and not isinstance(callee, ast.Package):
            missing = inference.unsettled[0]
            if not any(passed_type is UNKNOWN for _, _, passed_type in passed):
                message = f"the type {missing} of {name} does not follow from its arguments"
                self.diagnostics.error(node.span, message, f"write {name}<type>(...)")
            return UNKNOWN
        bindings = {**outer, **inference.bindings}
        settled = tuple(
            Passed(parameter, value, types.substitute(type_, bindings)) for parameter, value, type_ in passed
        )
        for one in settled:
            self.check_argument(one, kind, name)
        result = self._result_type(callee, kind, owner, bindings)
        shown = owner if kind is CallKind.CONSTRUCTOR else callee
        constructor = callee if kind is CallKind.CONSTRUCTOR and isinstance(callee, ast.Method) else None
        self.checked.calls[node] = Invocation(kind, name, shown, receiver, bindings, settled, result, constructor)
        self._warn_if_deprecated(node, callee, name)
        if receiver is not None and name in ("extract", "lookahead"):
            self._check_packet_method(node, name, settled, result, receiver)
        if kind is CallKind.EXTERN_FUNCTION and name == "static_assert":
            self._static_assert(node, settled)
        return result

    def _check_packet_method(
        self, node: Made, name: str, passed: Sequence[Passed], result: Type, receiver: ast.Expression
    ) -> None:
        packet = self.checked.types[receiver]
        if not isinstance(packet, ExternType) or packet.declaration.name != "packet_in":
            return
        if name == "lookahead":
            if types.width_bits(result) is None or _has_varbit(result):
                self.diagnostics.error(node.span, f"lookahead takes a type of a fixed size, not {result}")
            return
        type_ = passed[0].type
        place = passed[0].value.span if passed[0].value is not None else node.span
        if type_ is UNKNOWN or isinstance(type_, TypeVariable):
            return
        if not types.is_header(type_):
            self.diagnostics.error(place, f"extract reads a header, not a value of type {type_}")
        elif len(_varbits(type_)) > 1:
            first = _varbits(type_)[0]
            self.diagnostics.error(first.span, f"a header with several varbit fields cannot be extracted: {type_}")
        elif _has_varbit(type_) is not (len(passed) > 1):
            what = "has a varbit field: say how many bits it gets" if len(passed) == 1 else "has no varbit field"
            self.diagnostics.error(place, f"the header {type_} {what}")

    def _static_assert(self, node: Made, passed: Sequence[Passed]) -> None:
        if passed[0].value is None or self.checked.constant(passed[0].value) is not False:
            return
        message = self.checked.constant(passed[1].value) if len(passed) > 1 and passed[1].value is not None else None
        self.diagnostics.error(node.span, "static_assert fails" + (f": {message}" if message else ""))

    def _owner(self, callee: Callee, kind: CallKind) -> Callee:
        """For an extern's constructor the extern, else the callee."""
        if kind is CallKind.CONSTRUCTOR and isinstance(callee, ast.Method):
            return self.extern_of[callee]
        return callee

    def _result_type(self, callee: Callee, kind: CallKind, owner: Callee, bindings: Bindings) -> Type:
        if kind is CallKind.CONSTRUCTOR:
            arguments = tuple(bindings.get(TypeVariable(one), TypeVariable(one)) for one in _type_parameters(owner))
            if isinstance(owner, ast.Extern):
                return ExternType(owner, arguments)
            assert isinstance(owner, ast.Parser | ast.Control | ast.Package)
            return types.BlockType(owner, arguments)
        if isinstance(callee, ast.Function | ast.Method) and callee.result is not None:
            return types.substitute(self.checked.types.get(callee.result, UNKNOWN), bindings)
        return VOID

    def _warn_if_deprecated(self, node: Made, callee: Callee, name: str) -> None:
        if isinstance(callee, ast.Method):
            found = ast.annotation(callee, "deprecated")
            if found is not None:
                self.diagnostics.warning(node.span, f"{name} is deprecated", found.text)


def _type_parameters(node: ast.Node) -> Sequence[ast.TypeParameter]:
    if isinstance(node, ast.Function | ast.Method | ast.Extern | ast.Package | ast.ParserType | ast.ControlType):
        return node.type_parameters
    return ()


def _parameters(callee: Callee, kind: CallKind) -> Sequence[ast.Parameter]:
    if kind is CallKind.CONSTRUCTOR and isinstance(callee, ast.Parser | ast.Control):
        return callee.constructor_parameters
    return () if isinstance(callee, ast.Extern | ast.Table) else callee.parameters


def _varbits(type_: Type) -> list[ast.Field]:
    if not isinstance(type_, types.StructType):
        return []
    pairs = zip(type_.declaration.fields, type_.fields, strict=False)
    return [field for field, (_, inner) in pairs if isinstance(inner, types.Varbits)]


def _has_varbit(type_: Type) -> bool:
    match type_:
        case types.Varbits():
            return True
        case types.StructType(fields=fields):
            return any(_has_varbit(one) for _, one in fields)
    return False
