"""Statements, and the declarations that stand among them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from testbed.dataplane import ast, types
from testbed.dataplane.check_calls import CallChecker
from testbed.dataplane.checked import Checked, Value
from testbed.dataplane.diagnostics import Span, did_you_mean
from testbed.dataplane.names import Place
from testbed.dataplane.types import BOOL, UNKNOWN, VOID, Bits, Type

_NO_INSTANCES = (Place.STATE, Place.ACTION, Place.FUNCTION, Place.APPLY)


class StatementChecker(CallChecker):
    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self._wanted_result: Type = VOID  # of the function whose body is looked at
        self._loops = 0

    @contextmanager
    def returning(self, result: Type) -> Iterator[None]:
        before, loops = self._wanted_result, self._loops
        self._wanted_result, self._loops = result, 0
        yield
        self._wanted_result, self._loops = before, loops

    def statements(self, nodes: Sequence[ast.Statement]) -> None:
        for node in nodes:
            self.statement(node)

    def block(self, node: ast.Block) -> None:
        with self.scope():
            self.statements(node.statements)

    def statement(self, node: ast.Statement) -> None:
        match node:
            case ast.Block():
                self.block(node)
            case ast.Assign():
                self._assign(node)
            case ast.CallStatement(call=call):
                self.checked.types[call] = self.call(call)
            case ast.If():
                self.expected(node.condition, BOOL, "the condition of 'if'")
                self._nested(node.if_true)
                if node.if_false is not None:
                    self._nested(node.if_false)
            case ast.Switch():
                self._switch(node)
            case ast.For():
                self._for(node)
            case ast.ForIn():
                self._for_in(node)
            case ast.Return():
                self._return(node)
            case ast.Exit():
                if self.place in (Place.STATE, Place.FUNCTION):
                    self.diagnostics.error(node.span, f"'exit' cannot stand {self.place.value}")
            case ast.Break() | ast.Continue():
                if not self._loops:
                    self.diagnostics.error(node.span, f"{node.span.text.strip(';')!r} stands outside of a loop")
            case ast.Constant():
                self.constant(node)
            case ast.Variable():
                self.variable(node)
            case ast.Instance():
                self.instance(node)

    def _nested(self, node: ast.Statement) -> None:
        with self.scope():
            self.statement(node)

    def _assign(self, node: ast.Assign) -> None:
        target = self.value(node.target)
        if target is not UNKNOWN and not self.check_assignable(node.target):
            target = UNKNOWN
        self.value(node.value)
        if target is not UNKNOWN:
            self.converted(node.value, target, "the target of the assignment")

    def _return(self, node: ast.Return) -> None:
        if self.place is Place.STATE:
            self.diagnostics.error(node.span, "'return' cannot stand in a parser state")
        elif node.value is None:
            if self._wanted_result not in (VOID, UNKNOWN):
                self.diagnostics.error(node.span, f"the function returns a value of type {self._wanted_result}")
        elif self._wanted_result is VOID:
            self.value(node.value)
            self.diagnostics.error(node.value.span, "nothing is returned here")
        else:
            self.expected(node.value, self._wanted_result, "the result of the function")

    # ---- switch and loops ----

    def _switch(self, node: ast.Switch) -> None:
        if self.place is Place.STATE:
            self.diagnostics.error(node.span, "'switch' cannot stand in a parser state", "use transition select")
        self.in_switch_subject = isinstance(node.subject, ast.Member)
        subject = self.value(node.subject)
        self.in_switch_subject = False
        allowed = Bits | types.EnumType | types.Error | types.ActionRun | types.Bool | types.NewType
        if subject is not UNKNOWN and not isinstance(subject, allowed):
            self.diagnostics.error(node.subject.span, f"'switch' does not choose by a value of type {subject}")
            subject = UNKNOWN
        seen: list[Value | str] = []
        for position, case in enumerate(node.cases):
            if isinstance(case.label, ast.Anything):
                if position != len(node.cases) - 1:
                    after = node.cases[position + 1].label
                    message = f"the label {after.span.text!r} in line {after.span.line} follows 'default'"
                    self.diagnostics.error(node.span, message, "'default' comes last")
            else:
                self._switch_label(case.label, subject, seen, node.subject.span)
            if case.body is not None:
                self.block(case.body)
        if node.cases and node.cases[-1].body is None:
            self.diagnostics.warning(node.cases[-1].span, "the last label has no block and does nothing")

    def _switch_label(self, label: ast.Expression, subject: Type, seen: list[Value | str], at: Span) -> None:
        found: Value | str | None
        if isinstance(subject, types.ActionRun):
            found = self._action_label(label, subject.table)
        else:
            self.expression(label)
            if not self.converted(label, subject, "a label of this switch", at):
                return
            found = self.checked.constant(label)
            if found is None and self.checked.types[label] is not UNKNOWN:
                self.diagnostics.error(label.span, "a label must be known when compiling")
        if found is not None and found in seen:
            self.diagnostics.error(label.span, f"the label {label.span.text!r} stands twice")
        if found is not None:
            seen.append(found)

    def _action_label(self, label: ast.Expression, table: ast.Table) -> str | None:
        names = [action.name.name for action in table.actions]
        if not isinstance(label, ast.Name):
            self.diagnostics.error(label.span, "a label names an action of the table")
            return None
        self.checked.types[label] = types.ActionRun(table)
        for action in table.actions:
            declaration = self.checked.declaration(action.name)
            if action.name.name == label.name and declaration is not None:
                self.checked.declarations[label] = declaration
        if label.name not in names:
            message = f"{label.name!r} is no action of the table {table.name}"
            self.diagnostics.error(label.span, message, did_you_mean(label.name, names))
            return None
        return label.name

    def _for(self, node: ast.For) -> None:
        self._check_loop_place(node)
        with self.scope():
            self.statements(node.initial)
            self.expected(node.condition, BOOL, "the condition of 'for'")
            self.statements(node.updates)
            self._body(node.body)

    def _for_in(self, node: ast.ForIn) -> None:
        self._check_loop_place(node)
        with self.scope():
            wanted = self.value_type(node.variable.type, "a variable")
            self.checked.types[node.variable] = wanted
            self.declare(node.variable)
            self._collection(node.collection, wanted)
            self._body(node.body)

    def _collection(self, node: ast.Expression, wanted: Type) -> None:
        if isinstance(node, ast.Range):
            for end in (node.low, node.high):
                self.expected(end, wanted, "the variable of the loop")
            self.checked.types[node] = types.Set(wanted)
            return
        match self.value(node):
            case types.Stack(element) | types.List(element):
                elements: tuple[Type, ...] = (element,)
            case types.Tuple(elements) if isinstance(node, ast.ListExpression):
                for item in node.items:
                    self.converted(item, wanted, "the variable of the loop")
                return
            case types.Unknown():
                return
            case found:
                hint = "a range is written low .. high"
                self.diagnostics.error(node.span, f"a value of type {found} has no elements to go through", hint)
                return
        if UNKNOWN not in (wanted, elements[0]) and elements[0] != wanted:
            self.diagnostics.error(node.span, f"the elements are {elements[0]}, and the variable is {wanted}")

    def _check_loop_place(self, node: ast.For | ast.ForIn) -> None:
        if self.place is Place.STATE:
            self.diagnostics.error(node.span, "'for' cannot stand in a parser state", "go back to a state instead")

    def _body(self, node: ast.Statement) -> None:
        self._loops += 1
        self._nested(node)
        self._loops -= 1

    # ---- declarations ----

    def constant(self, node: ast.Constant) -> None:
        wanted = self.value_type(node.type, "a constant")
        if isinstance(wanted, types.ExternType | types.BlockType):
            self.diagnostics.error(node.span, f"a constant cannot have the type {wanted}")
            wanted = UNKNOWN
        self.checked.types[node] = wanted
        self.expression(node.value)
        if self.converted(node.value, wanted, f"the constant {node.name!r}"):
            value = self.checked.constant(node.value)
            if value is not None:
                self.checked.constants[node] = value
            elif UNKNOWN not in (wanted, self.checked.types[node.value]) and not self.is_static(node.value):
                self.diagnostics.error(node.value.span, f"the constant {node.name!r} must be known when compiling")
        self.declare(node)

    def variable(self, node: ast.Variable) -> None:
        wanted = self.value_type(node.type, "a variable")
        if isinstance(wanted, types.Integer | types.String | types.ExternType | types.BlockType | types.List):
            hint = {"int": "give it a width, as in bit<32>"}.get(str(wanted), "")
            self.diagnostics.error(node.type.span, f"a variable cannot have the type {wanted}", hint)
            wanted = UNKNOWN
        self.checked.types[node] = wanted
        if node.value is not None:
            self.expected(node.value, wanted, f"the variable {node.name!r}")
        self.declare(node)

    def instance(self, node: ast.Instance) -> None:
        if self.place in _NO_INSTANCES:
            self.diagnostics.error(node.span, f"no instance can be declared {self.place.value}")
        made: Type = UNKNOWN
        declaration = self.look_up(node.type, "type")
        if declaration is None:
            self._failed(node.arguments)
        else:
            made = self.construct(node, node.type, declaration, node.arguments)
        self._check_nesting(node, made)
        self.checked.types[node] = made
        for member in node.members:
            self.abstract_member(member)
        self._check_abstract(node, made)
        self.declare(node)

    def _check_nesting(self, node: ast.Instance, made: Type) -> None:
        if not isinstance(made, types.BlockType):
            return
        if isinstance(made.declaration, ast.Package) and self.place is not Place.TOP:
            self.diagnostics.error(node.span, "a package is made at the top of the program only")
        elif self.place is Place.TOP and not isinstance(made.declaration, ast.Package):
            hint = "declare it in the parser or control that uses it"
            self.diagnostics.error(node.span, "a parser or control cannot be made at the top of the program", hint)
        elif isinstance(made.declaration, ast.Parser) and self.place is not Place.PARSER:
            self.diagnostics.error(node.span, f"no parser can be declared {self.place.value}")
        elif isinstance(made.declaration, ast.Control) and self.place is Place.PARSER:
            self.diagnostics.error(node.span, "no control can be declared in a parser")

    def _check_abstract(self, node: ast.Instance, made: Type) -> None:
        if not isinstance(made, types.ExternType):
            return
        written = {member.name for member in node.members}
        asked = {
            method.name
            for method in made.declaration.methods
            if method.is_abstract and ast.annotation(method, "optional") is None
        }
        for name in sorted(asked - written):
            self.diagnostics.error(node.span, f"{node.name} does not say what its abstract method {name!r} does")

    def abstract_member(self, node: ast.Function | ast.Instance) -> None:
        raise NotImplementedError


def always_returns(node: ast.Statement) -> bool:
    """Whether no way leads behind the statement."""
    match node:
        case ast.Return() | ast.Exit():
            return True
        case ast.Block(statements=statements):
            return any(always_returns(one) for one in statements)
        case ast.If(if_true=if_true, if_false=if_false):
            return if_false is not None and always_returns(if_true) and always_returns(if_false)
        case ast.Switch(cases=cases):
            has_default = any(isinstance(case.label, ast.Anything) for case in cases)
            return has_default and all(case.body is None or always_returns(case.body) for case in cases)
    return False
