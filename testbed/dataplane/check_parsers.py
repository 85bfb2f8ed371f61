"""Parsers: their states, transitions and selects."""

from collections.abc import Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.check_tables import TableChecker, holds
from testbed.dataplane.diagnostics import Span, did_you_mean
from testbed.dataplane.names import Place
from testbed.dataplane.types import UNKNOWN, Bits, Type, plain

BUILT_IN_STATES = ("accept", "reject")


class ParserChecker(TableChecker):
    def states(self, node: ast.Parser) -> None:
        known: dict[str, ast.State] = {}
        for state in node.states:
            if state.name in BUILT_IN_STATES:
                self.diagnostics.error(state.name_span, f"the state {state.name!r} is built in")
            elif state.name in known:
                hint = f"the first time is at {known[state.name].name_span}"
                self.diagnostics.error(state.name_span, f"the state {state.name!r} is declared twice", hint)
            known.setdefault(state.name, state)
        if "start" not in known:
            hint = did_you_mean("start", known)
            self.diagnostics.error(node.name_span, f"the parser {node.name} has no state 'start'", hint)
        for state in node.states:
            with self.scope(Place.STATE):
                self.statements(state.statements)
                self._transition(state, known)
        self._check_ways(node, known)

    def _transition(self, state: ast.State, known: dict[str, ast.State]) -> None:
        match state.transition:
            case ast.Name() as target:
                self._target(target, known)
            case ast.Select() as select:
                self._select(select, known)
            case None:
                message = f"the state {state.name!r} has no transition and rejects the packet"
                self.diagnostics.warning(state.name_span, message)

    def _target(self, node: ast.Name, known: dict[str, ast.State]) -> None:
        self.checked.types[node] = types.Callable("a state")
        if node.name in BUILT_IN_STATES:
            return
        if node.name in known:
            self.checked.declarations[node] = known[node.name]
            return
        hint = did_you_mean(node.name, [*known, *BUILT_IN_STATES])
        self.diagnostics.error(node.span, f"there is no state {node.name!r}", hint)

    def _select(self, node: ast.Select, known: dict[str, ast.State]) -> None:
        keys = [self._select_key(key) for key in node.keys]
        if not node.cases:
            self.diagnostics.warning(node.span, "the select has no cases")
        for position, case in enumerate(node.cases):
            self._case(case, keys, node.span)
            self._target(case.state, known)
            if isinstance(case.label, ast.Anything) and position < len(node.cases) - 1:
                after = node.cases[position + 1]
                self.diagnostics.warning(after.span, "this case is never reached: the one before takes everything")

    def _select_key(self, node: ast.Expression) -> Type:
        found = self.value(node)
        allowed = Bits | types.Bool | types.EnumType | types.Error
        if found is UNKNOWN or isinstance(plain(found), allowed):
            return found
        self.diagnostics.error(node.span, f"'select' does not choose by a value of type {found}")
        return UNKNOWN

    def _case(self, case: ast.SelectCase, keys: list[Type], at: Span) -> None:
        label = case.label
        if isinstance(label, ast.Anything):
            self.label(label, keys[0] if len(keys) == 1 else types.Tuple(tuple(keys)))
            return
        if len(keys) == 1 and not isinstance(label, ast.ListExpression):
            self._label_of_key(label, keys[0], at)
            return
        if isinstance(label, ast.Name):
            found = self.expression(label)
            if isinstance(found, types.Set):
                self._value_set_of_tuple(label, found.element, keys)
                return
        labels = label.items if isinstance(label, ast.ListExpression) else (label,)
        if len(labels) != len(keys):
            shown = f"the label {label.span.text!r} in line {label.span.line}"
            message = f"'select' chooses by {len(keys)} values, and {shown} has {len(labels)}"
            self.diagnostics.error(at, message)
            return
        for one, key in zip(labels, keys, strict=True):
            self._label_of_key(one, key, at)
        self.checked.types[label] = types.Set(types.Tuple(tuple(keys)))

    def _label_of_key(self, label: ast.Expression, key: Type, at: Span) -> None:
        self.label(label, key, "a label of this select", at)
        found = self.checked.types[label]
        if UNKNOWN in (found, key) or (isinstance(found, types.Set) and not isinstance(label, ast.Mask | ast.Range)):
            return
        if self.checked.constant(label) is None and not self.is_static(label):
            self.diagnostics.error(label.span, "a label must be known when compiling")

    def _value_set_of_tuple(self, label: ast.Name, element: Type, keys: list[Type]) -> None:
        if not holds(element, keys):
            shown = ", ".join(map(str, keys))
            self.diagnostics.error(label.span, f"the value set holds {element}, and 'select' chooses by {shown}")

    def _check_ways(self, node: ast.Parser, known: dict[str, ast.State]) -> None:
        """Some way from start leads to an end, and to each state leads one."""
        reached: set[str] = set()
        targets: set[str] = set()
        waiting = ["start"]
        while waiting:
            name = waiting.pop()
            state = known.get(name)
            if state is None or name in reached:
                continue
            reached.add(name)
            following = _following(state)
            targets.update(following)
            waiting.extend(following)
        ends = any(known[name].transition is None for name in reached)
        if "start" in known and not ends and not targets & set(BUILT_IN_STATES) and targets <= set(known):
            self.diagnostics.error(
                node.name_span, f"the parser {node.name} never ends: no way leads to accept or reject"
            )
        for name, state in known.items():
            if name not in reached and "start" in known:
                self.diagnostics.warning(state.name_span, f"no way leads from 'start' to the state {name!r}")


def _following(state: ast.State) -> list[str]:
    """The names of the states that may come next."""
    match state.transition:
        case ast.Name(name=target):
            return [target]
        case ast.Select(cases=cases):
            return [*(case.state.name for case in cases), *([] if _takes_all(cases) else ["reject"])]
    return []


def _takes_all(cases: Sequence[ast.SelectCase]) -> bool:
    return any(isinstance(case.label, ast.Anything) for case in cases)
