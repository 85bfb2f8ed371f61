"""From tokens to the syntax tree of a P4_16 program; goes on behind an error to find the next."""

from collections.abc import Callable, Sequence

from testbed.dataplane import ast
from testbed.dataplane.cursor import SyntaxProblem, deep_trees
from testbed.dataplane.diagnostics import Diagnostics, Span, did_you_mean
from testbed.dataplane.lexer import Kind, Token
from testbed.dataplane.parse_tables import TableParser

_DECLARING = ("const", "extern", "action", "parser", "control", "package", "struct", "header", "header_union", "enum")
_TOP_WORDS = frozenset((*_DECLARING, "typedef", "type", "error", "match_kind"))
_Annotations = tuple[ast.Annotation, ...]


def parse(tokens: Sequence[Token], diagnostics: Diagnostics) -> ast.Program:
    """The program; what could not be read is reported and left out."""
    with deep_trees():
        return _Parser(tokens, diagnostics).program()


class _Parser(TableParser):
    def program(self) -> ast.Program:
        start = self.token.span
        declarations: list[ast.Declaration] = []
        while self.token.kind is not Kind.END:
            if self.take(";"):
                continue
            at = self.at
            try:
                declarations.append(self._declaration())
            except SyntaxProblem as problem:
                self.diagnostics.error(problem.span, problem.message, problem.hint)
                self._skip_declaration(at)
        return ast.Program(self.since(start), tuple(declarations))

    def _skip_declaration(self, at: int) -> None:
        """Go on at what looks like the next declaration, at least one token behind `at`."""
        if self.at == at:
            self.next()
        while self.token.kind is not Kind.END:
            if self.token.span.column == 1 and (self.sees(*_TOP_WORDS) or self.sees("@")):
                return
            before = self.at
            if self.sees(";", "}"):
                self.next()
                return
            if self.sees("{"):
                self.skip_to_next(closes_block=False)
                return
            if self.at == before:
                self.next()

    def _declaration(self) -> ast.Declaration:
        start = self.token.span
        annotations = self.annotations()
        readers: dict[str, Callable[[Span, _Annotations], ast.Declaration]] = {
            "const": self.constant,
            "extern": self._extern,
            "action": self._action_declaration,
            "parser": self._parser,
            "control": self._control,
            "package": self._package,
            "struct": self._struct,
            "header": self._struct,
            "header_union": self._struct,
            "enum": self._enum,
            "typedef": self._typedef,
            "type": self._typedef,
        }
        if self.token.kind is Kind.NAME and self.token.text in readers:
            return readers[self.token.text](start, annotations)
        if self.sees("error", "match_kind") and self.peek().text == "{":
            return self._member_list(start, annotations)
        return self._function_or_instance(start, annotations)

    def _function_or_instance(self, start: Span, annotations: _Annotations) -> ast.Declaration:
        first = self.token
        if first.kind is not Kind.NAME and first.text != ".":
            raise self.unexpected("a declaration")
        try:
            type_ = self.type()
            if self.sees("(") and isinstance(type_, ast.NamedType):
                arguments = self.arguments()
                callee = ast.Name(type_.span, type_.name, type_.is_global)
                made = ast.Call(self.since(type_.span), callee, type_.arguments, arguments)
                instance = self.instance(start, annotations, made, callee)
                self.expect(";")
                return instance
            if self.sees_name() and self.peek().text in (";", "="):
                message = "variables are declared in parsers, controls, actions and functions only"
                raise SyntaxProblem(self.token.span, message, "a constant begins with 'const'")
            return self.function(start, annotations, type_)
        except SyntaxProblem as problem:
            hint = did_you_mean(first.text, _TOP_WORDS)
            if hint and first.text not in self.type_names and first.text not in _TOP_WORDS:
                raise SyntaxProblem(first.span, f"{first.text!r} begins no declaration", hint) from problem
            raise

    # ---- types ----

    def _type_name(self, what: str) -> Token:
        name = self.name(what)
        self.type_names.add(name.text)
        return name

    def _struct(self, start: Span, annotations: _Annotations) -> ast.Struct:
        kind = ast.StructKind(self.next().text)
        name = self._type_name("a name of a type")
        type_parameters = self.type_parameters()
        self.expect("{")
        fields: list[ast.Field] = []
        while not self.sees("}"):
            fields.extend(self.recovering(self._field))
            if self.token.kind is Kind.END:
                raise SyntaxProblem(name.span, f"the fields of {name.text} have no end")
        self.next()
        span = self.since(start)
        return ast.Struct(span, name.text, name.span, annotations, kind, type_parameters, tuple(fields))

    def _field(self) -> ast.Field:
        start = self.token.span
        annotations = self.annotations()
        type_ = self.type()
        name = self.name("a name of a field")
        self.expect(";")
        return ast.Field(self.since(start), name.text, name.span, annotations, type_)

    def _enum(self, start: Span, annotations: _Annotations) -> ast.Enum:
        self.next()
        underlying = None if self.sees_name() and self.peek().text == "{" else self.type()
        name = self._type_name("a name of a type")
        members = self._members()
        return ast.Enum(self.since(start), name.text, name.span, annotations, underlying, members)

    def _member_list(self, start: Span, annotations: _Annotations) -> ast.MemberList:
        name = self.next()
        members = self._members()
        return ast.MemberList(self.since(start), name.text, name.span, annotations, members)

    def _members(self) -> tuple[ast.EnumMember, ...]:
        self.expect("{")
        members = self.separated(self._member, "}")
        self.expect("}", "or ','")
        return members

    def _member(self) -> ast.EnumMember:
        start = self.token.span
        annotations = self.annotations()
        name = self.name()
        value = self.expression() if self.take("=") else None
        return ast.EnumMember(self.since(start), name.text, name.span, annotations, value)

    def _typedef(self, start: Span, annotations: _Annotations) -> ast.Typedef:
        is_new = self.next().text == "type"
        type_ = self.type()
        name = self._type_name("a name of a type")
        self.expect(";")
        return ast.Typedef(self.since(start), name.text, name.span, annotations, type_, is_new)

    # ---- externs, packages, actions ----

    def _extern(self, start: Span, annotations: _Annotations) -> ast.Extern | ast.Method:
        self.next()
        head = self.attempt(self._extern_head)
        if head is None:
            return self._method(start, annotations)
        name, type_parameters = head
        constructors: list[ast.Method] = []
        methods: list[ast.Method] = []
        while not self.sees("}"):
            for method in self.recovering(self._extern_member):
                (methods if method.result is not None else constructors).append(method)
            if self.token.kind is Kind.END:
                raise SyntaxProblem(name.span, f"the methods of {name.text} have no end")
        self.next()
        for method in constructors:
            if method.name != name.text:
                hint = f"a constructor is called {name.text}"
                self.diagnostics.error(method.name_span, f"the method {method.name} has no result type", hint)
        span = self.since(start)
        members = tuple(constructors), tuple(methods)
        return ast.Extern(span, name.text, name.span, annotations, type_parameters, *members)

    def _extern_head(self) -> tuple[Token, tuple[ast.TypeParameter, ...]]:
        name = self.name()
        type_parameters = self.type_parameters()
        self.expect("{")
        self.type_names.add(name.text)
        return name, type_parameters

    def _extern_member(self) -> ast.Method:
        start = self.token.span
        annotations = self.annotations()
        if self.sees_name() and self.peek().text == "(":
            name = self.name()
            parameters = self.parameters()
            self.expect(";")
            return ast.Method(self.since(start), name.text, name.span, annotations, None, (), parameters)
        return self._method(start, annotations, self.take("abstract"))

    def _method(self, start: Span, annotations: _Annotations, is_abstract: bool = False) -> ast.Method:
        result = self.type()
        name = self.name("a name of a function")
        type_parameters = self.type_parameters()
        parameters = self.parameters()
        self.expect(";")
        span = self.since(start)
        signature = (result, type_parameters, parameters)
        return ast.Method(span, name.text, name.span, annotations, *signature, is_abstract)

    def _package(self, start: Span, annotations: _Annotations) -> ast.Package:
        self.next()
        name = self._type_name("a name of a package")
        type_parameters = self.type_parameters()
        parameters = self.parameters()
        self.expect(";")
        return ast.Package(self.since(start), name.text, name.span, annotations, type_parameters, parameters)

    def _action_declaration(self, start: Span, annotations: _Annotations) -> ast.Action:
        self.next()
        name = self.name("a name of an action")
        parameters = self.parameters()
        body = self.block()
        return ast.Action(self.since(start), name.text, name.span, annotations, parameters, body)

    # ---- parsers and controls ----

    def _block_head(self) -> tuple[Token, tuple[ast.TypeParameter, ...], tuple[ast.Parameter, ...]]:
        self.next()
        name = self._type_name("a name")
        return name, self.type_parameters(), self.parameters()

    def _refuse_type_parameters(self, type_parameters: tuple[ast.TypeParameter, ...], what: str) -> None:
        if type_parameters:
            message = f"a {what} with a body has no type parameters"
            self.diagnostics.error(type_parameters[0].span, message)

    def _parser(self, start: Span, annotations: _Annotations) -> ast.Parser | ast.ParserType:
        name, type_parameters, parameters = self._block_head()
        if self.take(";"):
            span = self.since(start)
            return ast.ParserType(span, name.text, name.span, annotations, type_parameters, parameters)
        self._refuse_type_parameters(type_parameters, "parser")
        constructor_parameters = self.parameters() if self.sees("(") else ()
        opening = self.expect("{").span
        members: list[ast.ParserLocal] = []
        states: list[ast.State] = []
        while not self.sees("}"):
            if self.token.kind is Kind.END:
                raise SyntaxProblem(opening, "this '{' is never closed")
            for member in self.recovering(self._parser_member):
                if isinstance(member, ast.State):
                    states.append(member)
                else:
                    if states:
                        hint = "move it before the first state"
                        self.diagnostics.error(member.span, "declarations stand before the states", hint)
                    members.append(member)
        self.next()
        span = self.since(start)
        head = (name.text, name.span, annotations, parameters, constructor_parameters)
        return ast.Parser(span, *head, tuple(members), tuple(states))

    def _parser_member(self) -> ast.ParserLocal | ast.State:
        start = self.token.span
        annotations = self.annotations()
        if self.sees("state"):
            return self._state(start, annotations)
        if self.sees("value_set"):
            return self._value_set(start, annotations)
        return self._local(start, annotations, "a state or a declaration")

    def _local(self, start: Span, annotations: _Annotations, wanted: str) -> ast.Constant | ast.Variable | ast.Instance:
        if self.sees("const"):
            return self.constant(start, annotations)
        if self.token.kind is not Kind.NAME and not self.sees("."):
            raise self.unexpected(wanted)
        member = self._annotated(start, annotations)
        if isinstance(member, ast.Variable | ast.Instance):
            return member
        raise SyntaxProblem(member.span, f"a statement where {wanted} is expected")

    def _value_set(self, start: Span, annotations: _Annotations) -> ast.ValueSet:
        self.next()
        arguments = self.type_arguments()
        if len(arguments) != 1:
            raise SyntaxProblem(self.token.span, "a value_set has one type, as in value_set<bit<16>>(4)")
        self.expect("(")
        size = self.expression()
        self.expect(")")
        name = self.name("a name of a value set")
        self.expect(";")
        return ast.ValueSet(self.since(start), name.text, name.span, annotations, arguments[0], size)

    def _state(self, start: Span, annotations: _Annotations) -> ast.State:
        self.next()
        name = self.word()
        opening = self.expect("{").span
        statements: list[ast.Statement] = []
        while not self.sees("}", "transition"):
            if self.token.kind is Kind.END:
                raise SyntaxProblem(opening, "this '{' is never closed")
            statements.extend(self.recovering(self.statement))
        transition = None
        if self.take("transition"):
            found = self.recovering(self._transition)
            transition = found[0] if found else None
            if not self.sees("}"):
                message = "nothing stands behind the transition of a state"
                self.diagnostics.error(self.token.span, message)
                while not self.sees("}") and self.token.kind is not Kind.END:
                    self.skip_to_next(closes_block=True)
        self.expect("}")
        return ast.State(self.since(start), name.text, name.span, annotations, tuple(statements), transition)

    def _transition(self) -> ast.Name | ast.Select:
        start = self.token.span
        if not self.sees("select"):
            name = self.name("a state or 'select'")
            self.expect(";")
            return ast.Name(name.span, name.text)
        self.next()
        self.expect("(")
        keys = self.separated(self.expression, ")")
        self.expect(")")
        cases = self._braced(self._select_case)
        self.take(";")
        return ast.Select(self.since(start), keys, cases)

    def _select_case(self) -> ast.SelectCase:
        start = self.token.span
        labels = self.labels()
        self.expect(":", "and a state")
        state = self.name("a name of a state")
        span = self.since(start)
        label = labels[0] if len(labels) == 1 else ast.ListExpression(labels[0].span.to(labels[-1].span), labels)
        self.expect(";")
        return ast.SelectCase(span, label, ast.Name(state.span, state.text))

    def _control(self, start: Span, annotations: _Annotations) -> ast.Control | ast.ControlType:
        name, type_parameters, parameters = self._block_head()
        if self.take(";"):
            span = self.since(start)
            return ast.ControlType(span, name.text, name.span, annotations, type_parameters, parameters)
        self._refuse_type_parameters(type_parameters, "control")
        constructor_parameters = self.parameters() if self.sees("(") else ()
        opening = self.expect("{").span
        members: list[ast.ControlLocal] = []
        while not (self.sees("apply") and self.peek().text in ("{", "@")):
            if self.sees("}"):
                raise SyntaxProblem(name.span, f"the control {name.text} has no apply block")
            if self.token.kind is Kind.END:
                raise SyntaxProblem(opening, "this '{' is never closed")
            members.extend(self.recovering(self._control_member))
        self.next()
        body = self.block(self.annotations())
        self.expect("}", "after the apply block")
        span = self.since(start)
        head = (name.text, name.span, annotations, parameters, constructor_parameters)
        return ast.Control(span, *head, tuple(members), body)

    def _control_member(self) -> ast.ControlLocal:
        start = self.token.span
        annotations = self.annotations()
        if self.sees("action"):
            return self._action_declaration(start, annotations)
        if self.sees("table"):
            return self.table(start, annotations)
        return self._local(start, annotations, "a declaration or the apply block")
