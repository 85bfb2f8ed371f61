"""Statements: conditions, switches, loops (unrolled where they can be), declarations, and the ways out."""

from collections.abc import Mapping

from testbed.dataplane import ast, types
from testbed.dataplane.checked import Value as Constant
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.calls import CallLowering, Scope
from testbed.dataplane.lower.code import Branch, Label
from testbed.dataplane.lower.context import Context, children, refused
from testbed.dataplane.lower.frames import Frame
from testbed.dataplane.lower.values import Elements, Scalar, Stack, Value, headers_of

MAX_TURNS = 1024  # of a loop that is unrolled: more would fill the switch rather than run in it


class StatementLowering(CallLowering):
    """Writes code for statements; `finish` is where code goes that leaves the whole pipeline."""

    may_run_again = False  # whether a declaration may be passed twice by one packet

    def __init__(self, context: Context, frame: Frame) -> None:
        super().__init__(context, frame)
        self.scopes = []
        self.finish = Label("finish")

    def body(self, block: ast.Block) -> None:
        self.statements(block.statements)

    def statements(self, several: tuple[ast.Statement, ...]) -> None:
        for one in several:
            self.statement(one)

    def statement(self, node: ast.Statement) -> None:
        self.context.spend(node.span)
        match node:
            case ast.Block(statements=statements):
                self.statements(statements)
            case ast.Assign():
                self._assignment(node)
            case ast.CallStatement(call=call):
                self.call(call)
            case ast.If():
                self._if(node)
            case ast.Switch():
                self._switch(node)
            case ast.For():
                self._for(node)
            case ast.ForIn():
                self._for_in(node)
            case ast.Return(value=value):
                self._return(node, value)
            case ast.Exit():
                self.leave(node)
            case ast.Break() | ast.Continue():
                out, on = self._loop(node)
                self.jump(out if isinstance(node, ast.Break) else on)
            case ast.Variable():
                self.declare(node)
            case ast.Constant():
                self._declare_constant(node)
            case ast.Instance():
                raise refused(node.span, "an instance is declared outside of statements on this target")

    def _loop(self, node: ast.Statement) -> tuple[Label, Label]:
        if not self.scopes or not self.scopes[-1].loops:
            raise refused(node.span, "not inside of a loop")
        return self.scopes[-1].loops[-1]

    # ---- declarations ----

    def declare(self, node: ast.Variable) -> None:
        type_ = self.type_of(node)
        value = None if node.value is None else self.value(node.value)
        place = self.temporary(node.name, type_, node.span)
        self.frame.bindings[node] = place
        if value is not None:
            self.assign(place, value, node.span)
        elif self.may_run_again:
            for header in headers_of(place):
                self.emit("remove_header", [terms.header(header.name)], node.span)

    def _declare_constant(self, node: ast.Constant) -> None:
        value = self.constant(node.value)
        if value is not None and node not in self.checked.constants:
            self.frame.known[node] = value

    # ---- assignments and branches ----

    def _assignment(self, node: ast.Assign) -> None:
        place = self.place(node.target)
        if isinstance(node.value, ast.Binary) and node.value.left is node.target:  # `target += x`: one target, once
            value: Value = self.binary(node.value, place)
        else:
            value = self.value(node.value)
        self.assign(place, value, node.span)

    def branch(self, condition: ast.Expression, otherwise: Label, wanted: bool = True) -> None:
        """Go on here if `condition` is as `wanted`, else to `otherwise`."""
        constant = self.constant(condition)
        if constant is not None:
            if constant is not wanted:
                self.jump(otherwise)
            return
        match condition:
            case ast.Unary(operator="!", operand=operand):
                self.branch(operand, otherwise, not wanted)
                return
            case ast.Member(target=target) if isinstance(self.checked.types.get(target), types.ApplyResult):
                self.result_of_apply(condition, otherwise, wanted)
                return
            case ast.Binary(operator="&&" | "||", left=left, right=right) if self.context.has_effects(condition):
                if (condition.operator == "&&") == wanted:
                    self.branch(left, otherwise, wanted)
                    self.branch(right, otherwise, wanted)
                    return
                through, second = Label(), Label()
                self.branch(left, second, wanted)
                self.jump(through)
                self.mark(second)
                self.branch(right, otherwise, wanted)
                self.mark(through)
                return
        term = self.scalar(condition)
        if term["type"] == "bool":
            if term["value"] is not wanted:
                self.jump(otherwise)
            return
        self.code.append(Branch(term if wanted else terms.negation(term), otherwise, condition.span))

    def _if(self, node: ast.If) -> None:
        otherwise, end = Label(), Label()
        self.branch(node.condition, otherwise)
        self.statement(node.if_true)
        if node.if_false is None:
            self.mark(otherwise)
            return
        self.jump(end)
        self.mark(otherwise)
        self.statement(node.if_false)
        self.mark(end)

    def _return(self, node: ast.Return, value: ast.Expression | None) -> None:
        if not self.scopes:
            raise refused(node.span, "nothing to return from")
        scope = self.scopes[-1]
        if value is not None:
            assert scope.result is not None
            self.assign(scope.result, self.value(value), node.span)
        self.jump(scope.end)

    def leave(self, node: ast.Exit) -> None:
        """End the whole pipeline: what was passed to be written is written first."""
        del node
        for scope in reversed(self.scopes):
            self.copy_out(scope.copy_outs)
        self.jump(self.finish)

    # ---- switches ----

    def _switch(self, node: ast.Switch) -> None:
        labels = [Label() for _ in node.cases]
        end = Label()
        # A case without a body runs that of the next one that has one.
        runs = list(labels)
        following = end
        for at in range(len(node.cases) - 1, -1, -1):
            if node.cases[at].body is not None:
                following = labels[at]
            runs[at] = following
        subject = node.subject
        if isinstance(subject, ast.Member) and isinstance(self.checked.types.get(subject.target), types.ApplyResult):
            self._switch_on_action(subject, node, runs, end)
        else:
            self._switch_on_value(subject, node, runs, end)
        for case, label in zip(node.cases, labels, strict=True):
            if case.body is not None:
                self.mark(label)
                self.statement(case.body)
                self.jump(end)
        self.mark(end)

    def _switch_on_action(self, subject: ast.Member, node: ast.Switch, runs: list[Label], end: Label) -> None:
        targets: dict[str, Label] = {}
        default = end
        for case, label in zip(node.cases, runs, strict=True):
            if isinstance(case.label, ast.Anything):
                default = label
            elif isinstance(case.label, ast.Name):
                targets.setdefault(case.label.name, label)
        assert isinstance(subject.target, ast.Call)
        self.apply_table(subject.target, {**targets, "default": default})
        self.jump(default)

    def _switch_on_value(self, subject: ast.Expression, node: ast.Switch, runs: list[Label], end: Label) -> None:
        type_ = self.type_of(subject)
        value: Value = self.value(subject)
        if not isinstance(value, Scalar) or value.term["type"] != "field":
            value = self.saved(value, type_, subject.span)
        default = end
        for case, label in zip(node.cases, runs, strict=True):
            if isinstance(case.label, ast.Anything):
                default = label
                continue
            known = self.constant(case.label)
            if known is None:
                raise refused(case.label.span, "the label of a switch must be known when compiling")
            same = self.compared("==", value, self.from_constant(known, type_, case.label.span), case.label.span)
            following = Label()
            self.code.append(Branch(same, following, case.label.span))
            self.jump(label)
            self.mark(following)
        self.jump(default)

    # ---- loops ----

    def _for(self, node: ast.For) -> None:
        before = dict(self.frame.known)
        counters = self._counters(node)
        turns = self._turns(node, counters)
        if turns is None:
            self.frame.known = before
            self.statements(node.initial)
            self._at_run_time(node.condition, node.body, node.updates)
            return
        end = Label()
        self.statements(tuple(one for one in node.initial if one not in counters))
        for known in turns:
            self.frame.known = {**before, **known}
            self._turn(node.body, end)
            self.statements(tuple(one for one in node.updates if self._counter_of(one) not in counters))
        self.mark(end)
        self.frame.known = before

    def _turn(self, body: ast.Statement, end: Label) -> None:
        following = Label()
        if not self.scopes:
            self.scopes.append(Scope(self.finish))
        self.scopes[-1].loops.append((end, following))
        self.statement(body)
        self.scopes[-1].loops.pop()
        self.mark(following)

    def _at_run_time(self, condition: ast.Expression, body: ast.Statement, updates: tuple[ast.Statement, ...]) -> None:
        top, end = Label(), Label()
        before, self.may_run_again = self.may_run_again, True
        self.mark(top)
        self.branch(condition, end)
        self._turn(body, end)
        self.statements(updates)
        self.jump(top)
        self.mark(end)
        self.may_run_again = before

    def _counter_of(self, update: ast.Statement) -> ast.Node | None:
        return self.checked.declaration(update.target) if isinstance(update, ast.Assign) else None

    def _counters(self, node: ast.For) -> dict[ast.Node, Constant]:
        """The variables of the loop that only its updates change, with their first values."""
        assigned = _assigned(self, node.body)
        counters: dict[ast.Node, Constant] = {}
        for one in node.initial:
            if isinstance(one, ast.Variable) and one.value is not None and one not in assigned:
                value = self.constant(one.value)
                if value is not None:
                    counters[one] = self.frame.known[one] = value
        return counters

    def _turns(self, node: ast.For, counters: Mapping[ast.Node, Constant]) -> list[dict[ast.Node, Constant]] | None:
        """The counters' values in each turn; None where they are not known when compiling, or are too many."""
        known = dict(counters)
        turns: list[dict[ast.Node, Constant]] = []
        while len(turns) <= MAX_TURNS:
            self.frame.known.update(known)
            holds = self.constant(node.condition)
            if holds is None:
                return None
            if not holds:
                return turns
            turns.append(dict(known))
            for one in node.updates:
                target = self._counter_of(one)
                if target not in counters:
                    continue
                assert isinstance(one, ast.Assign)
                assert target is not None
                value = self.constant(one.value)
                if value is None:
                    return None
                known[target] = self.frame.known[target] = value
        return None

    def _for_in(self, node: ast.ForIn) -> None:
        items = self._collection(node.collection)
        if items is None:
            assert isinstance(node.collection, ast.Range)
            self._for_in_range(node, node.collection)
            return
        end = Label()
        before = dict(self.frame.known)
        for item in items:
            place = self._loop_variable(node)
            if isinstance(item, int) and node.variable not in _assigned(self, node.body):
                self.frame.known[node.variable] = item
            else:
                value = (
                    self.from_constant(item, getattr(place, "type", types.UNKNOWN), node.span)
                    if isinstance(item, int)
                    else item
                )
                self.assign(place, value, node.span)
            self._turn(node.body, end)
        self.mark(end)
        self.frame.known = before

    def _loop_variable(self, node: ast.ForIn) -> Value:
        place = self.temporary(node.variable.name, self.type_of(node.variable), node.variable.span)
        self.frame.bindings[node.variable] = place
        return place

    def _for_in_range(self, node: ast.ForIn, among: ast.Range) -> None:
        """The ends are read once, and the body may change the variable: a counter apart from it tells the turns."""
        type_ = self.type_of(node.variable)
        span = node.span
        counter, last = (self.temporary("tmp", type_, span) for _ in range(2))
        self.assign(counter, self.value(among.low), among.low.span)
        self.assign(last, self.value(among.high), among.high.span)
        place = self._loop_variable(node)
        top, end = Label(), Label()
        before, self.may_run_again = self.may_run_again, True
        self.code.append(Branch(self.compared("<=", counter, last, span), end, span))
        self.mark(top)
        self.assign(place, counter, span)
        self._turn(node.body, end)
        self.code.append(Branch(self.compared("!=", counter, last, span), end, span))
        plain = types.plain(type_)
        assert isinstance(plain, types.Bits)
        following = terms.arithmetic("+", self.read(counter, span), terms.number(1, plain.width), plain)
        self.assign(counter, Scalar(following, type_, False), span)
        self.jump(top)
        self.mark(end)
        self.may_run_again = before

    def _collection(self, node: ast.Expression) -> list[int | Value] | None:
        """What is looped over; None for a range that is not known when compiling, or too long to unroll."""
        if isinstance(node, ast.Range):
            low, high = self.constant(node.low), self.constant(node.high)
            if not isinstance(low, int) or not isinstance(high, int) or high - low >= MAX_TURNS:
                return None
            return list(range(low, high + 1))
        value = self.value(node)
        if isinstance(value, Stack):
            return list(value.elements)
        if isinstance(value, Elements):
            return list(value.items)
        members = getattr(value, "members", None)
        if members is None:
            raise refused(node.span, "this cannot be looped over")
        return list(members.values())


def _assigned(lowering: StatementLowering, body: ast.Node) -> set[ast.Node]:
    """The variables that `body` assigns to, or hands to something that may."""
    found: set[ast.Node] = set()
    waiting = [body]
    while waiting:
        node = waiting.pop()
        targets: list[ast.Expression] = []
        if isinstance(node, ast.Assign):
            targets.append(node.target)
        call = lowering.checked.calls.get(node)
        if call is not None:
            targets.extend(
                one.value
                for one in call.passed
                if one.value is not None and one.parameter.direction in (ast.Direction.OUT, ast.Direction.INOUT)
            )
        for target in targets:
            root: ast.Expression = target
            while isinstance(root, ast.Member | ast.Index | ast.Slice):
                root = root.target
            declaration = lowering.checked.declaration(root)
            if declaration is not None:
                found.add(declaration)
        waiting.extend(children(node))
    return found
