"""Actions: their bodies as one list of primitives with jumps."""

from collections.abc import Sequence
from typing import Any

from testbed.dataplane import ast
from testbed.dataplane.checked import Passed
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.calls import CopyOut, Scope
from testbed.dataplane.lower.code import Branch, Instruction, Jump, Label, Mark, Primitive, source_info
from testbed.dataplane.lower.context import Context, refused
from testbed.dataplane.lower.externs import ExternLowering
from testbed.dataplane.lower.frames import Frame
from testbed.dataplane.lower.layout import Unsupported
from testbed.dataplane.lower.values import Scalar


class ActionLowering(ExternLowering):
    """The body of an action that a table runs; `pending` is what the controls around it copy out when it exits."""

    def __init__(self, context: Context, frame: Frame, pending: Sequence[CopyOut]) -> None:
        super().__init__(context, frame)
        self._pending = pending

    def leave(self, node: ast.Exit) -> None:
        for scope in reversed(self.scopes):
            self.copy_out(scope.copy_outs)
        self.copy_out(list(self._pending))
        self.emit("exit", [], node.span)
        self.jump(self.finish)

    def run(self, node: ast.Action, name: str, bound: Sequence[ast.Expression], span: Span) -> dict[str, Any]:
        """The action in the JSON; `bound` are the arguments that the table gives to parameters with a direction."""
        frame = self.frame.inner()
        data: list[dict[str, Any]] = []
        directed: list[ast.Parameter] = []
        for parameter in node.parameters:
            if parameter.direction is not ast.Direction.NONE:
                directed.append(parameter)
                continue
            type_ = self.type_of(parameter)
            try:
                bits = self.layout.bits(type_)
            except Unsupported as error:
                raise refused(parameter.span, str(error)) from error
            frame.bindings[parameter] = Scalar({"type": "runtime_data", "value": len(data)}, type_)
            data.append({"name": parameter.name, "bitwidth": bits})
        outs = self.bind_bound(frame, directed, bound, node, span)
        scope = Scope(Label(), None, outs)
        with self.inside(frame, scope):
            self.body(node.body)
            self.mark(scope.end)
        self.copy_out(outs)
        self.mark(self.finish)
        return self.context.actions.add(name, runtime_data=data, primitives=linear(self.code))

    def bind_bound(
        self,
        frame: Frame,
        parameters: list[ast.Parameter],
        bound: Sequence[ast.Expression],
        node: ast.Action,
        span: Span,
    ) -> list[CopyOut]:
        passed = tuple(
            Passed(parameter, value, self.type_of(parameter))
            for parameter, value in zip(parameters, bound, strict=True)
        )
        holder = self.frame.holder(node) or self.frame
        return self.bind(frame, passed, span, lambda: self.touched(node, holder))


def linear(code: list[Instruction]) -> list[dict[str, Any]]:
    """Primitives in order, jumps by number; those behind an `exit` or a jump that nobody reaches are left out."""
    code = _without_dead(code)
    positions: dict[Label, int] = {}
    count = 0
    for one in code:
        if isinstance(one, Mark):
            positions[one.label] = count
        else:
            count += 1
    found: list[dict[str, Any]] = []
    for one in code:
        match one:
            case Primitive(operator, given, span):
                found.append({"op": operator, "parameters": list(given), "source_info": source_info(span)})
            case Jump(target):
                found.append({"op": "_jump", "parameters": [terms.number(positions[target])]})
            case Branch(condition, otherwise, span):
                parameters = [terms.argument(terms.from_truth(condition)), terms.number(positions[otherwise])]
                found.append({"op": "_jump_if_zero", "parameters": parameters, "source_info": source_info(span)})
            case Mark():
                pass
            case _:
                raise AssertionError("tables are not applied in actions")
    return found


def _without_dead(code: list[Instruction]) -> list[Instruction]:
    """Code without jumps to what follows and without what follows a jump up to the next label that is jumped to."""
    while True:
        targets = {one.target for one in code if isinstance(one, Jump)}
        targets |= {one.otherwise for one in code if isinstance(one, Branch)}
        kept: list[Instruction] = []
        is_reached = True
        for at, one in enumerate(code):
            if isinstance(one, Mark):
                is_reached = is_reached or one.label in targets
                if one.label in targets:
                    kept.append(one)
                continue
            if not is_reached:
                continue
            if isinstance(one, Jump):
                if _leads_on(code, at + 1, one.target):
                    continue
                is_reached = False
            kept.append(one)
        if len(kept) == len(code):
            return kept
        code = kept


def _leads_on(code: list[Instruction], at: int, target: Label) -> bool:
    for one in code[at:]:
        if not isinstance(one, Mark):
            return False
        if one.label is target:
            return True
    return False
