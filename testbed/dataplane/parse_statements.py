"""Statements of P4_16 and the declarations that may stand among them, by recursive descent."""

from collections.abc import Callable
from typing import TypeVar

from testbed.dataplane import ast
from testbed.dataplane.cursor import SyntaxProblem
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lexer import Kind, Token
from testbed.dataplane.parse_expressions import TYPE_WORDS, ExpressionParser

_T = TypeVar("_T")

_JUMPS: dict[str, type[ast.Exit | ast.Break | ast.Continue]] = {
    "exit": ast.Exit,
    "break": ast.Break,
    "continue": ast.Continue,
}
_COMPOUND = ("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|=")


class StatementParser(ExpressionParser):
    def block(self, annotations: tuple[ast.Annotation, ...] = ()) -> ast.Block:
        start = self.expect("{").span
        statements: list[ast.Statement] = []
        while not self.sees("}"):
            if self.token.kind is Kind.END:
                raise SyntaxProblem(start, "this '{' is never closed")
            statements.extend(self.recovering(self.statement))
        self.next()
        return ast.Block(self.since(start), annotations, tuple(statements))

    def recovering(self, parse: Callable[[], _T]) -> tuple[_T, ...]:
        """One item of a block; none, with the problem reported, if it cannot be read."""
        at = self.at
        try:
            return (parse(),)
        except SyntaxProblem as problem:
            if self.token.kind is Kind.END:
                raise
            self.diagnostics.error(problem.span, problem.message, problem.hint)
            self.skip_to_next(closes_block=True)
            if self.at == at and not self.sees("}"):
                self.next()
            return ()

    def statement(self) -> ast.Statement:
        with self.nested():
            start = self.token.span
            annotations = self.annotations()
            if self.sees("{"):
                return self.block(annotations)
            if self.sees("for"):
                return self._for(start, annotations)
            if self.sees("const"):
                return self.constant(start, annotations)
            if annotations or self.sees(*TYPE_WORDS, "error"):
                return self._annotated(start, annotations)
            match self.token.text if self.token.kind is Kind.NAME else "":
                case "if":
                    return self._if()
                case "switch":
                    return self._switch()
                case "return":
                    self.next()
                    value = None if self.sees(";") else self.expression()
                    self.end_of_statement()
                    return ast.Return(self.since(start), value)
                case "exit" | "break" | "continue" as word:
                    self.next()
                    self.end_of_statement()
                    return _JUMPS[word](self.since(start))
            if self.take(";"):
                return ast.Empty(start)
            return self._annotated(start, annotations)

    def end_of_statement(self) -> None:
        self.expect(";")

    def _annotated(self, start: Span, annotations: tuple[ast.Annotation, ...]) -> ast.Statement:
        statement = self._simple(start, annotations)
        self.end_of_statement()
        return statement

    def _simple(self, start: Span, annotations: tuple[ast.Annotation, ...] = ()) -> ast.Statement:
        """A variable, an instance, an assignment or a call, without the `;`."""
        declared = self._variable_start()
        if declared is not None:
            type_, name = declared
            value = self.expression() if self.take("=") else None
            return ast.Variable(self.since(start), name.text, name.span, annotations, type_, value)
        target = self.postfix()
        operator = self._assignment_operator()
        if operator is not None:
            assigned = self.expression()
            span = self.since(start)
            if operator:
                assigned = ast.Binary(span, operator, target, assigned)
            return ast.Assign(span, target, assigned)
        if isinstance(target, ast.Call):
            if self.sees_name() and isinstance(target.callee, ast.Name):
                return self.instance(start, annotations, target, target.callee)
            return ast.CallStatement(self.since(start), target)
        if self.sees("=="):
            raise SyntaxProblem(self.token.span, "'==' compares and is no statement", "use '=' to assign")
        raise self.unexpected("'=' or a call")

    def _variable_start(self) -> tuple[ast.TypeSyntax, Token] | None:
        """`type name` if that is what follows."""
        if self.sees(*TYPE_WORDS) or (self.sees("error") and self.peek().text != "."):
            return self.type(), self.name("a name of a variable")
        if self.sees_name() and self.sees_name(1):
            return self.type(), self.name()
        if (self.sees_name() and self.peek().text in ("<", "[")) or self.sees("."):
            return self.attempt(lambda: (self.type(), self.name()))
        return None

    def _assignment_operator(self) -> str | None:
        if self.take("="):
            return ""
        if self.sees(*_COMPOUND):
            return self.next().text[:-1]
        if self.sees(">") and self.peek().text == ">=" and self.adjacent(self.token, self.peek()):
            self.next()
            self.next()
            return ">>"
        return None

    def instance(
        self, start: Span, annotations: tuple[ast.Annotation, ...], made: ast.Call, type_name: ast.Name
    ) -> ast.Instance:
        """The instance whose `Type<...>(arguments)` was read as the call `made`."""
        name = self.name()
        type_ = ast.NamedType(type_name.span, type_name.name, type_name.is_global, made.type_arguments)
        members: tuple[ast.Function | ast.Instance, ...] = ()
        if self.take("="):
            members = self.instance_members()
        return ast.Instance(self.since(start), name.text, name.span, annotations, type_, made.arguments, members)

    def instance_members(self) -> tuple[ast.Function | ast.Instance, ...]:
        self.expect("{")
        members: list[ast.Function | ast.Instance] = []
        while not self.take("}"):
            start = self.token.span
            annotations = self.annotations()
            at = self.at
            made = self.attempt(self.postfix)
            if isinstance(made, ast.Call) and isinstance(made.callee, ast.Name) and self.sees_name():
                members.append(self.instance(start, annotations, made, made.callee))
                self.end_of_statement()
            else:
                self.at = at
                members.append(self.function(start, annotations, self.type()))
        return tuple(members)

    def function(self, start: Span, annotations: tuple[ast.Annotation, ...], result: ast.TypeSyntax) -> ast.Function:
        """A function whose result type was read."""
        name = self.name("a name of a function")
        type_parameters = self.type_parameters()
        parameters = self.parameters()
        body = self.block()
        span = self.since(start)
        return ast.Function(span, name.text, name.span, annotations, result, type_parameters, parameters, body)

    def constant(self, start: Span, annotations: tuple[ast.Annotation, ...]) -> ast.Constant:
        self.expect("const")
        type_ = self.type()
        name = self.name("a name of a constant")
        self.expect("=")
        value = self.expression()
        self.end_of_statement()
        return ast.Constant(self.since(start), name.text, name.span, annotations, type_, value)

    # ---- control flow ----

    def _if(self) -> ast.If:
        start = self.next().span
        self.expect("(")
        condition = self.expression()
        if self.sees("="):
            raise SyntaxProblem(self.token.span, "'=' assigns and is no condition", "use '==' to compare")
        self.expect(")")
        if_true = self.statement()
        if_false = self.statement() if self.take("else") else None
        return ast.If(self.since(start), condition, if_true, if_false)

    def _switch(self) -> ast.Switch:
        start = self.next().span
        self.expect("(")
        subject = self.expression()
        self.expect(")")
        self.expect("{")
        cases: list[ast.SwitchCase] = []
        while not self.sees("}"):
            case_start = self.token.span
            label = self.label()
            self.expect(":")
            body = self.block() if self.sees("{") else None
            cases.append(ast.SwitchCase(self.since(case_start), label, body))
        self.next()
        return ast.Switch(self.since(start), subject, tuple(cases))

    def _for(self, start: Span, annotations: tuple[ast.Annotation, ...]) -> ast.Statement:
        self.next()
        self.expect("(")
        variable = self.attempt(self._loop_variable)
        if variable is not None:
            collection = self.label()
            self.expect(")")
            if not isinstance(variable, ast.Variable):
                message = "the variable of such a loop is declared here, with its type"
                self.diagnostics.error(variable.span, message, f"as bit<8> {variable.span.text} in ...")
                variable = ast.Variable(variable.span, "_", variable.span, (), ast.BaseType(variable.span, "_"), None)
            body = self.statement()
            return ast.ForIn(self.since(start), annotations, variable, collection, body)
        initial = self._simple_list(";")
        self.expect(";")
        condition = self.expression()
        self.expect(";")
        updates = self._simple_list(")")
        self.expect(")")
        body = self.statement()
        return ast.For(self.since(start), annotations, initial, condition, updates, body)

    def _loop_variable(self) -> "ast.Variable | ast.Expression":
        start = self.token.span
        annotations = self.annotations()
        declared = self._variable_start()
        variable: ast.Variable | ast.Expression
        if declared is None:
            variable = self.postfix()
        else:
            type_, name = declared
            variable = ast.Variable(self.since(start), name.text, name.span, annotations, type_, None)
        self.expect("in")
        return variable

    def _simple_list(self, end: str) -> tuple[ast.Statement, ...]:
        return self.separated(lambda: self._simple(self.token.span, self.annotations()), end)
