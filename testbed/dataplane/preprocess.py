"""The preprocessor of P4_16: includes, macros and conditional lines, from files to one list of tokens."""

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.dataplane.conditions import condition_holds
from testbed.dataplane.diagnostics import Diagnostics, Source, Span, did_you_mean
from testbed.dataplane.inputs import Inputs
from testbed.dataplane.lexer import Kind, Token, tokens_of_line
from testbed.errors import UsageError

INCLUDE_DIR = Path(__file__).with_name("include")
_MAX_DEPTH = 64  # of includes: a file that includes itself ends here
_MAX_TOKENS = 500_000  # of one program after expansion
_MAX_USES = 50_000  # of macros in one program: those that double themselves end here
_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|/\*.*\Z', re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(?P<word>[A-Za-z_]*)(?P<rest>.*)", re.DOTALL)
_INCLUDED = re.compile(r'\s*(?:"(?P<near>[^"]+)"|<(?P<far>[^>]+)>)\s*')
_DEFINED = re.compile(r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<parameters>\([^)]*\))?(?P<body>.*)", re.DOTALL)
_WORDS = ("include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "warning")
_IGNORED = ("pragma", "line", "ident", "")


@dataclass(frozen=True, slots=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


@dataclass(slots=True)
class _Condition:
    """One `#if` that is open: whether its lines count now, did so before, and whether `#else` came."""

    span: Span
    is_active: bool
    was_active: bool
    had_else: bool = False


_Hidden = tuple[Token, frozenset[str]]  # a token and the macros it came out of, which are not expanded again


def preprocess(
    path: Path,
    diagnostics: Diagnostics,
    defines: Mapping[str, str] | None = None,
    include_dirs: Iterable[Path] = (),
    inputs: Inputs | None = None,
) -> list[Token]:
    """The tokens of the program in `path`, closed by one of kind END.

    `defines` are macros without parameters; `include_dirs` come before our own directory of core.p4 and v1model.p4.
    `inputs` is told what is read. Raises `UsageError` if `path` itself cannot be read.
    """
    inputs = Inputs() if inputs is None else inputs
    reader = _Preprocessor(diagnostics, [*include_dirs, INCLUDE_DIR], inputs)
    for name, value in (defines or {}).items():
        reader.define_given(name, value)
    try:
        text = _read(path, inputs)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    source = reader.read(path, text, 0)
    last = max((at for at, line in enumerate(source.lines, 1) if line.strip()), default=1)
    column = len(source.lines[last - 1]) + 1
    end = Span(source, last, column, last, column + 1)
    return [*reader.tokens, Token(Kind.END, "", end)]


def _read(path: Path, inputs: Inputs) -> str:
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is no regular file", str(path))  # a device may have no end
    content = path.read_bytes()
    inputs.read(str(path), content)
    return content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


class _Preprocessor:
    def __init__(self, diagnostics: Diagnostics, include_dirs: Sequence[Path], inputs: Inputs) -> None:
        self.tokens: list[Token] = []
        self._inputs = inputs
        self._diagnostics = diagnostics
        self._include_dirs = include_dirs
        self._macros: dict[str, _Macro] = {}
        self._uses = 0
        self._too_many = False

    def define_given(self, name: str, value: str) -> None:
        source = Source("<defines>", (f"{name}={value}",))
        body = tuple(tokens_of_line(value, source, 1, self._diagnostics, len(name) + 2))
        self._macros[name] = _Macro(None, body)

    def read(self, path: Path, text: str, depth: int) -> Source:
        source = Source(str(path), tuple(text.split("\n")))
        lines = self._without_comments(source, text).split("\n")
        conditions: list[_Condition] = []
        waiting: list[Token] = []
        number = 0
        while number < len(lines):
            line, first = lines[number], number
            directive = _DIRECTIVE.fullmatch(line)
            while line.endswith("\\"):
                number += 1
                following = lines[number] if number < len(lines) else ""
                line = line[:-1] + (" " + following if directive else "")
                if not directive:
                    number -= 1
                    break
            number += 1
            if directive:
                self._flush(waiting)
                found = _DIRECTIVE.fullmatch(line)
                assert found is not None
                column = len(line) - len(line.lstrip()) + 1
                span = Span(source, first + 1, column, first + 1, len(source.lines[first]) + 1)
                self._directive(found["word"], found["rest"], span, conditions, path, depth)
            elif all(condition.is_active for condition in conditions):
                waiting.extend(tokens_of_line(line, source, first + 1, self._diagnostics))
        self._flush(waiting)
        for condition in conditions:
            self._diagnostics.error(condition.span, "the #if has no #endif")
        return source

    def _without_comments(self, source: Source, text: str) -> str:
        def blank(found: re.Match[str]) -> str:
            if found[0].startswith('"'):
                return found[0]
            if found[0].startswith("/*") and (not found[0].endswith("*/") or len(found[0]) < len("/**/")):
                line = text.count("\n", 0, found.start()) + 1
                column = found.start() - text.rfind("\n", 0, found.start())
                self._diagnostics.error(Span(source, line, column, line, column + 2), "the comment does not end")
            return re.sub(r"[^\n]", " ", found[0])

        return _COMMENT_OR_STRING.sub(blank, text)

    # ---- directives ----

    def _directive(
        self, word: str, rest: str, span: Span, conditions: list[_Condition], path: Path, depth: int
    ) -> None:
        match word:
            case "if" | "ifdef" | "ifndef":
                outer = all(condition.is_active for condition in conditions)
                holds = outer and self._holds(word, rest, span)
                conditions.append(_Condition(span, holds, holds or not outer))
                return
            case "elif" | "else":
                if not conditions:
                    self._diagnostics.error(span, f"#{word} without #if")
                    return
                last = conditions[-1]
                if last.had_else:
                    self._diagnostics.error(span, f"#{word} after #else")
                last.had_else = word == "else"
                last.is_active = not last.was_active and (word == "else" or self._holds("if", rest, span))
                last.was_active |= last.is_active
                return
            case "endif":
                if conditions:
                    conditions.pop()
                else:
                    self._diagnostics.error(span, "#endif without #if")
                return
        if not all(condition.is_active for condition in conditions):
            return
        match word:
            case "include":
                self._include(rest, span, path, depth)
            case "define":
                self._define(rest, span)
            case "undef":
                self._macros.pop(rest.strip(), None)
            case "error":
                self._diagnostics.error(span, f"#error{rest.rstrip()}")
            case "warning":
                self._diagnostics.warning(span, f"#warning{rest.rstrip()}")
            case _ if word not in _IGNORED:
                self._diagnostics.error(span, f"unknown directive #{word}", did_you_mean(word, _WORDS))

    def _holds(self, word: str, rest: str, span: Span) -> bool:
        name = rest.strip()
        if word == "ifdef":
            return name in self._macros
        if word == "ifndef":
            return name not in self._macros
        tokens = list(tokens_of_line(rest, span.source, span.line, self._diagnostics, span.column))
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            if tokens[at].text == "defined" and at + 1 < len(tokens):
                in_parentheses = tokens[at + 1].text == "("
                at += 2 if in_parentheses else 1
                known = at < len(tokens) and tokens[at].text in self._macros
                out.extend(tokens_of_line(str(int(known)), span.source, span.line, self._diagnostics, span.column))
                at += 2 if in_parentheses else 1
            else:
                out.append(tokens[at])
                at += 1
        return condition_holds(self._expanded(out), span, self._diagnostics)

    def _define(self, rest: str, span: Span) -> None:
        found = _DEFINED.fullmatch(rest)
        if found is None:
            self._diagnostics.error(span, "#define needs a name")
            return
        parameters = None
        if found["parameters"] is not None:
            inside = found["parameters"][1:-1].strip()
            parameters = tuple(one.strip() for one in inside.split(",")) if inside else ()
        column = span.column + found.start("body")
        body = tuple(tokens_of_line(found["body"], span.source, span.line, self._diagnostics, column))
        self._macros[found["name"]] = _Macro(parameters, body)

    def _include(self, rest: str, span: Span, path: Path, depth: int) -> None:
        found = _INCLUDED.fullmatch(rest)
        if found is None:
            self._diagnostics.error(span, '#include takes "file" or <file>')
            return
        name = found["near"] or found["far"]
        places = [path.parent, *self._include_dirs] if found["near"] else self._include_dirs
        for place in places:
            try:
                text = _read(place / name, self._inputs)
            except (OSError, ValueError):
                self._inputs.missed(str(place / name))
                continue
            if depth >= _MAX_DEPTH:
                self._diagnostics.error(span, f"includes are nested more than {_MAX_DEPTH} deep")
            else:
                self.read(place / name, text, depth + 1)
            return
        known = [file.name for place in places if place.is_dir() for file in place.glob("*.p4")]
        looked = did_you_mean(name, known) or f"looked in {', '.join(str(place) for place in places)}"
        self._diagnostics.error(span, f"there is no file {name!r} to include", looked)

    # ---- expansion ----

    def _flush(self, waiting: list[Token]) -> None:
        self.tokens.extend(self._expanded(waiting))
        waiting.clear()
        if len(self.tokens) > _MAX_TOKENS:
            self._report_too_many(self.tokens[0].span)
            del self.tokens[_MAX_TOKENS:]

    def _report_too_many(self, span: Span) -> None:
        if not self._too_many:
            self._diagnostics.error(
                span, f"the macros expand to too much: more than {_MAX_USES} uses or {_MAX_TOKENS} tokens"
            )
        self._too_many = True

    def _expanded(self, tokens: Sequence[Token]) -> list[Token]:
        return [token for token, _ in self._expand([(token, frozenset()) for token in tokens])]

    def _expand(self, tokens: list[_Hidden]) -> list[_Hidden]:
        out: list[_Hidden] = []
        left = tokens[::-1]
        while left:
            token, hidden = left.pop()
            macro = self._macros.get(token.text) if token.kind is Kind.NAME and token.text not in hidden else None
            if token.text == "__LINE__" and token.kind is Kind.NAME:
                left.extend(
                    (one, hidden)
                    for one in tokens_of_line(str(token.span.line), token.span.source, 1, self._diagnostics)
                )
                continue
            if macro is None or (macro.parameters is not None and not (left and left[-1][0].text == "(")):
                out.append((token, hidden))
                continue
            arguments = [] if macro.parameters is None else self._arguments(left, token.span)
            inner = hidden | {token.text}
            body = self._replaced(macro, arguments, token, inner)
            self._uses += 1
            if self._uses > _MAX_USES or len(out) + len(left) + len(body) > _MAX_TOKENS:
                self._report_too_many(token.span)
                return out
            left.extend(reversed(body))
        return out

    def _arguments(self, left: list[_Hidden], span: Span) -> list[list[_Hidden]]:
        """The arguments behind a macro's name, taken off `left` (the rest of the tokens, last first)."""
        left.pop()
        arguments: list[list[_Hidden]] = [[]]
        depth = 0
        while left:
            one = left.pop()
            text = one[0].text if one[0].kind is Kind.SYMBOL else ""
            if text == ")" and depth == 0:
                return arguments
            if text == "," and depth == 0:
                arguments.append([])
                continue
            depth += (text == "(") - (text == ")")
            arguments[-1].append(one)
        self._diagnostics.error(span, "the arguments of the macro do not end")
        return arguments

    def _replaced(
        self, macro: _Macro, arguments: list[list[_Hidden]], use: Token, hidden: frozenset[str]
    ) -> list[_Hidden]:
        """The body with its parameters replaced; all tokens take the place of the use."""
        parameters = macro.parameters or ()
        if macro.parameters is not None and len(arguments) != len(parameters) and (parameters or arguments != [[]]):
            message = f"the macro {use.text} takes {len(parameters)} arguments, not {len(arguments)}"
            self._diagnostics.error(use.span, message)
            return []
        given = dict(zip(parameters, arguments, strict=False))
        expanded: dict[str, list[_Hidden]] = {}
        out: list[_Hidden] = []
        at = 0
        while at < len(macro.body):
            token = macro.body[at]
            following = macro.body[at + 1].text if at + 1 < len(macro.body) else ""
            if token.text == "#" and following in given:
                text = " ".join(one.span.text for one, _ in given[following])
                out.append((Token(Kind.STRING, text, use.span), hidden))
                at += 2
            elif _pastes(macro.body, at):
                joined = self._text(token, given)
                while _pastes(macro.body, at):
                    at += len("##") + 1
                    joined += self._text(macro.body[at], given)
                at += 1
                for one in tokens_of_line(joined, use.span.source, use.span.line, self._diagnostics, use.span.column):
                    out.append((Token(one.kind, one.text, use.span, one.integer), hidden))
            elif token.kind is Kind.NAME and token.text in given:
                if token.text not in expanded:
                    expanded[token.text] = self._expand(list(given[token.text]))
                out.extend((one, hides | hidden) for one, hides in expanded[token.text])
                at += 1
            else:
                out.append((Token(token.kind, token.text, use.span, token.integer), hidden))
                at += 1
        return out

    def _text(self, token: Token, given: Mapping[str, list[_Hidden]]) -> str:
        if token.kind is Kind.NAME and token.text in given:
            return "".join(one.text for one, _ in given[token.text])
        return token.text


def _pastes(body: Sequence[Token], at: int) -> bool:
    """Whether `##` and one more token follow."""
    return at + 3 < len(body) and body[at + 1].text == body[at + 2].text == "#"
