"""Types, expressions, labels, arguments, annotations and parameters of P4_16, by recursive descent."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from testbed.dataplane import ast
from testbed.dataplane.cursor import MAX_CHAIN, Cursor, SyntaxProblem
from testbed.dataplane.diagnostics import Diagnostics, Span
from testbed.dataplane.lexer import Kind, Token

_T = TypeVar("_T")

# From the weakest to the strongest, as the grammar of the language specification has them.
_LEVELS = (
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-", "|+|", "|-|", "++"),
    ("*", "/", "%"),
)
_STRENGTH = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
_WIDTH_STRENGTH = _STRENGTH["<<"] + 1  # in bit<...> the next `>` closes
_BASE_TYPES = ("bool", "error", "string", "int", "match_kind", "void")
TYPE_WORDS = ("bool", "bit", "int", "varbit", "string", "tuple")
_OPERAND_SYMBOLS = ("(", "{", "!", "~", "-", "+")


class ExpressionParser(Cursor):
    def __init__(self, tokens: Sequence[Token], diagnostics: Diagnostics) -> None:
        super().__init__(tokens, diagnostics)
        self.type_names: set[str] = set()  # what was declared as a type so far: `(name)` may then be a cast

    # ---- small things ----

    def attempt(self, parse: Callable[[], _T]) -> _T | None:
        """What `parse` reads; None, with nothing taken, if it cannot."""
        at = self.at
        try:
            return parse()
        except SyntaxProblem:
            self.at = at
            return None

    def separated(self, parse: Callable[[], _T], end: str) -> tuple[_T, ...]:
        """Items with commas between (one more at the end is fine) up to the symbol `end`, which stays."""
        items: list[_T] = []
        while not self.sees(end):
            items.append(parse())
            if not self.take(","):
                break
        return tuple(items)

    def annotations(self) -> tuple[ast.Annotation, ...]:
        found: list[ast.Annotation] = []
        while self.sees("@"):
            found.append(self._annotation())
        return tuple(found)

    def _annotation(self) -> ast.Annotation:
        start = self.next().span
        name = self.word().text
        if name == "pragma":
            return self._pragma(start)
        expressions: tuple[ast.Expression, ...] = ()
        pairs: tuple[tuple[str, ast.Expression], ...] = ()
        text = ""
        if self.sees("(", "["):
            opening = self.at
            is_list = self.next().text == "("
            if is_list:
                read_pairs = self.attempt(lambda: self._closed(self._pair))
                if read_pairs:
                    pairs = read_pairs
                else:
                    self.at = opening + 1
                    expressions = self.attempt(lambda: self._closed(self.expression)) or ()
            self.at = opening
            text = self._balanced()
        return ast.Annotation(self.since(start), name, expressions, pairs, text)

    def _pragma(self, start: Span) -> ast.Annotation:
        """`@pragma name anything`, to the end of the line."""
        name = self.word().text
        words: list[str] = []
        while self.token.kind is not Kind.END and self.token.span.line == start.line:
            words.append(self.next().text)
        return ast.Annotation(self.since(start), name, (), (), " ".join(words))

    def _closed(self, parse: Callable[[], _T]) -> tuple[_T, ...]:
        items = self.separated(parse, ")")
        self.expect(")")
        return items

    def _pair(self) -> tuple[str, ast.Expression]:
        name = self.word().text
        self.expect("=")
        return name, self.expression()

    def _balanced(self) -> str:
        """The words from an opening bracket to the one that closes it, without the two."""
        opening = self.next()
        depth = 1
        words: list[str] = []
        while self.token.kind is not Kind.END:
            token = self.next()
            if token.kind is not Kind.STRING:
                depth += (token.text in "([{") - (token.text in ")]}")
            if depth == 0:
                return " ".join(words)
            words.append(token.text)
        raise SyntaxProblem(opening.span, "the annotation does not end")

    # ---- types ----

    def type(self) -> ast.TypeSyntax:
        with self.nested():
            element = self._simple_type()
            while self.sees("[") and not isinstance(element, ast.TupleSyntax):
                self.next()
                size = self.expression()
                self.expect("]")
                element = ast.StackSyntax(self.since(element.span), element, size)
            return element

    def _simple_type(self) -> ast.TypeSyntax:
        start = self.token.span
        if self.sees("bit", "int", "varbit") and (self.peek().text == "<" or not self.sees("int")):
            return self._sized_type()
        if self.sees(*_BASE_TYPES):
            return ast.BaseType(start, self.next().text)
        if self.sees("_"):
            return ast.BaseType(start, self.next().text)
        if self.sees("tuple") or (self.sees("list") and self.peek().text == "<"):
            is_list = self.next().text == "list"
            elements = self.type_arguments()
            return ast.TupleSyntax(self.since(start), elements, is_list)
        return self.named_type()

    def _sized_type(self) -> ast.SizedType:
        start = self.token.span
        keyword = self.next().text
        width: ast.Expression
        if keyword == "bit" and not self.sees("<"):
            width = ast.IntLiteral(start, 1)
        else:
            self.expect("<")
            width = self._binary(_WIDTH_STRENGTH)
            self._close_angle()
        return ast.SizedType(self.since(start), keyword, width)

    def named_type(self) -> ast.NamedType:
        start = self.token.span
        is_global = self.take(".")
        name = self.name("a type").text
        arguments = self.type_arguments() if self.sees("<") else ()
        return ast.NamedType(self.since(start), name, is_global, arguments)

    def type_arguments(self) -> tuple[ast.TypeSyntax, ...]:
        self.expect("<")
        arguments = self.separated(self.type, ">")
        self._close_angle()
        return arguments

    def _close_angle(self) -> None:
        self.expect(">")

    # ---- expressions ----

    def expression(self) -> ast.Expression:
        with self.nested():
            value = self._binary(0)
            chain = 0
            while self.sees("?"):
                chain += 1
                self._limit_chain(chain)
                self.next()
                if_true = self.expression()
                self.expect(":")
                if_false = self._binary(0)
                value = ast.Conditional(self.since(value.span), value, if_true, if_false)
            return value

    def _limit_chain(self, length: int) -> None:
        if length > MAX_CHAIN:
            raise SyntaxProblem(self.token.span, f"more than {MAX_CHAIN} operators follow each other")

    def _operator(self) -> tuple[str, int]:
        """The binary operator that is next and of how many tokens it is made."""
        token = self.token
        if token.kind is not Kind.SYMBOL:
            return "", 0
        if token.text == ">":
            following = self.peek()
            if self.adjacent(token, following):
                if following.text == ">" and following.kind is Kind.SYMBOL:
                    return ">>", 2
                if following.text == ">=" and following.kind is Kind.SYMBOL:
                    return "", 0  # `>>=`
        return (token.text, 1) if token.text in _STRENGTH else ("", 0)

    def _binary(self, least: int) -> ast.Expression:
        """Operators of at least this strength, grouped to the left."""
        left = self._unary()
        chain = 0
        while True:
            operator, length = self._operator()
            if not operator or _STRENGTH[operator] < least:
                return left
            chain += 1
            self._limit_chain(chain)
            for _ in range(length):
                self.next()
            with self.nested():
                right = self._binary(_STRENGTH[operator] + 1)
            left = ast.Binary(self.since(left.span), operator, left, right)

    def _unary(self) -> ast.Expression:
        with self.nested():
            start = self.token.span
            if self.sees("!", "~", "-", "+"):
                operator = self.next().text
                operand = self._unary()
                return ast.Unary(self.since(start), operator, operand)
            if self.sees("("):
                type_ = self.attempt(self._cast_type)
                if type_ is not None:
                    operand = self._unary()
                    return ast.Cast(self.since(start), type_, operand)
            return self.postfix()

    def _cast_type(self) -> ast.TypeSyntax:
        """`(type)` where that is a cast and not an expression in parentheses."""
        self.expect("(")
        if self.sees("error") and self.peek().text == ".":
            raise self.unexpected("a type")
        is_sure = self.sees(*TYPE_WORDS, "error") or (self.sees("list") and self.peek().text == "<")
        is_known = self.token.text in self.type_names
        type_ = self.type()
        self.expect(")")
        token = self.token
        is_operand = token.kind in (Kind.NAME, Kind.INTEGER, Kind.STRING)
        if not is_sure and not is_operand and not (is_known and self.sees(*_OPERAND_SYMBOLS)):
            raise self.unexpected("an operand")
        return type_

    def postfix(self) -> ast.Expression:
        value = self._primary()
        chain = 0
        while True:
            chain += 1
            self._limit_chain(chain)
            if self.sees("."):
                self.next()
                name = self.word()
                value = ast.Member(self.since(value.span), value, name.text, name.span)
            elif self.sees("["):
                value = self._index(value)
            elif self.sees("("):
                value = self._call(value, ())
            elif self.sees("<") and isinstance(value, ast.Name | ast.Member):
                arguments = self.attempt(self._call_type_arguments)
                if arguments is None:
                    return value
                value = self._call(value, arguments)
            else:
                return value

    def _call_type_arguments(self) -> tuple[ast.TypeSyntax, ...]:
        arguments = self.type_arguments()
        if not self.sees("("):
            raise self.unexpected("'('")
        return arguments

    def _index(self, target: ast.Expression) -> ast.Expression:
        self.next()
        first = self.expression()
        if self.take(":"):
            low = self.expression()
            self.expect("]")
            return ast.Slice(self.since(target.span), target, first, low)
        if self.take("+:"):
            width = self.expression()
            self.expect("]")
            above = ast.Binary(width.span, "+", first, width)
            high = ast.Binary(width.span, "-", above, ast.IntLiteral(width.span, 1))
            return ast.Slice(self.since(target.span), target, high, first)
        self.expect("]")
        return ast.Index(self.since(target.span), target, first)

    def _call(self, callee: ast.Expression, type_arguments: tuple[ast.TypeSyntax, ...]) -> ast.Call:
        arguments = self.arguments()
        return ast.Call(self.since(callee.span), callee, type_arguments, arguments)

    def arguments(self) -> tuple[ast.Argument, ...]:
        self.expect("(")
        arguments = self.separated(self._argument, ")")
        self.expect(")", "or ','")
        return arguments

    def _argument(self) -> ast.Argument:
        start = self.token.span
        name = None
        if self.token.kind is Kind.NAME and self.peek().text == "=" and self.peek().kind is Kind.SYMBOL:
            name = self.word().text
            self.next()
        value = None
        if not self.take("_"):
            value = self.expression()
        return ast.Argument(self.since(start), name, value)

    def _primary(self) -> ast.Expression:
        token = self.token
        span = token.span
        if token.kind is Kind.INTEGER:
            self.next()
            assert token.integer is not None
            return ast.IntLiteral(span, token.integer.value, token.integer.width, token.integer.is_signed)
        if token.kind is Kind.STRING:
            self.next()
            return ast.StringLiteral(span, token.text)
        if self.sees("true", "false"):
            self.next()
            return ast.BoolLiteral(span, token.text == "true")
        if self.sees("error", "this"):
            self.next()
            return ast.Name(span, token.text)
        if self.sees("..."):
            self.next()
            return ast.Rest(span)
        if self.sees("."):
            self.next()
            name = self.name()
            return ast.Name(self.since(span), name.text, is_global=True)
        if self.sees_name():
            self.next()
            return ast.Name(span, token.text)
        if self.sees("("):
            self.next()
            value = self.expression()
            self.expect(")")
            return value
        if self.sees("{"):
            return self._braces()
        raise self.unexpected("an expression")

    def _braces(self) -> ast.Expression:
        start = self.next().span
        if self.take("#"):
            self.expect("}")
            return ast.InvalidHeader(self.since(start))
        is_record = self.token.kind is Kind.NAME and self.peek().text == "=" and self.peek().kind is Kind.SYMBOL
        fields: list[tuple[str, ast.Expression]] = []
        items: list[ast.Expression] = []
        has_rest = False
        while not self.sees("}"):
            if self.take("..."):
                has_rest = True
                self.take(",")
                break
            if is_record:
                fields.append(self._pair())
            else:
                items.append(self.expression())
            if not self.take(","):
                break
        self.expect("}", "or ','")
        if is_record:
            return ast.RecordExpression(self.since(start), tuple(fields), has_rest)
        return ast.ListExpression(self.since(start), tuple(items), has_rest)

    # ---- labels of select, switch and entries ----

    def labels(self) -> tuple[ast.Expression, ...]:
        """The labels before a `:`, one for each key."""
        if self.sees("("):
            several = self.attempt(self._label_tuple)
            if several is not None:
                return several
        label = self.label()
        is_tuple = isinstance(label, ast.ListExpression) and label.items and not label.has_rest
        return label.items if is_tuple and isinstance(label, ast.ListExpression) else (label,)

    def _label_tuple(self) -> tuple[ast.Expression, ...]:
        self.expect("(")
        labels = self.separated(self.label, ")")
        self.expect(")")
        if not self.sees(":"):
            raise self.unexpected("':'")
        return labels

    def label(self) -> ast.Expression:
        start = self.token.span
        if self.sees("default", "_"):
            return ast.Anything(start, self.next().text == "default")
        value = self.expression()
        if self.take("&&&"):
            mask = self.expression()
            return ast.Mask(self.since(start), value, mask)
        if self.take(".."):
            high = self.expression()
            return ast.Range(self.since(start), value, high)
        return value

    # ---- parameters ----

    def type_parameters(self) -> tuple[ast.TypeParameter, ...]:
        if not self.take("<"):
            return ()
        parameters = self.separated(self._type_parameter, ">")
        self._close_angle()
        return parameters

    def _type_parameter(self) -> ast.TypeParameter:
        annotations = self.annotations()
        name = self.name("a name of a type")
        self.type_names.add(name.text)
        return ast.TypeParameter(name.span, name.text, name.span, annotations)

    def parameters(self) -> tuple[ast.Parameter, ...]:
        self.expect("(")
        parameters = self.separated(self._parameter, ")")
        self.expect(")", "or ','")
        return parameters

    def _parameter(self) -> ast.Parameter:
        start = self.token.span
        annotations = self.annotations()
        direction = ast.Direction.NONE
        if self.sees("in", "out", "inout"):
            direction = ast.Direction(self.next().text)
        type_ = self.type()
        name = self.name("a name of a parameter")
        default = self.expression() if self.take("=") else None
        span: Span = self.since(start)
        return ast.Parameter(span, name.text, name.span, annotations, direction, type_, default)
