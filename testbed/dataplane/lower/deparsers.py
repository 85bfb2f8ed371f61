"""The deparser: the order in which headers are written, and what it computes before."""

from typing import Any

from testbed.dataplane import ast, types
from testbed.dataplane.checked import Invocation
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.actions import linear
from testbed.dataplane.lower.code import Branch, Label, source_info
from testbed.dataplane.lower.context import refused
from testbed.dataplane.lower.controls import ControlLowering
from testbed.dataplane.lower.externs import Arguments
from testbed.dataplane.lower.frames import BlockInstance
from testbed.dataplane.lower.values import Fresh, Header, Indexed, Scalar, Value, headers_of


class DeparserLowering(ControlLowering):
    """Headers are written in one order. One whose emit is not reached for every packet is made invalid if it was not;
    one that is written a second time is copied for that."""

    def deparser(self, instance: BlockInstance, bindings: dict[ast.Node, Value], span: Span) -> dict[str, Any]:
        self._order: list[str] = []
        self._reached: list[tuple[Header, Value]] = []
        self._is_plain = _is_plain(instance.declaration)
        self.run(instance, bindings)
        self.mark(self.finish)
        for header, was_reached in self._reached:
            following = Label()
            self.code.append(Branch(terms.negation(self.read(was_reached, span)), following, span))
            self.emit("remove_header", [terms.header(header.name)], span)
            self.mark(following)
        never = Scalar(terms.truth(False), types.BOOL, False)
        body, self.code = self.code, []
        for _, was_reached in self._reached:
            self.assign(was_reached, never, span)
        primitives = linear(self.code + body)
        return {
            "name": "deparser",
            "id": 0,
            "source_info": source_info(span),
            "order": self._order,
            "primitives": primitives,
        }

    def packet(self, node: ast.Call, call: Invocation, arguments: Arguments) -> Value | None:
        if call.name != "emit":
            raise refused(node.span, f"{call.name} cannot be called here")
        expression = arguments["hdr"]
        value = self.whole(self.value(expression), node.span)
        if isinstance(value, Indexed | Fresh):
            value = self.saved(value, value.type, node.span)
        for header in headers_of(value):
            self._emit(header, node.span)
        return None

    def _emit(self, header: Header, span: Span) -> None:
        if header.name in self._order:
            copy = self.temporary(f"{header.name}_again", header.type, span)
            assert isinstance(copy, Header)
            self.emit("assign_header", [terms.header(copy.name), terms.header(header.name)], span)
            self._order.append(copy.name)
            return
        self._order.append(header.name)
        if not self._is_plain:
            was_reached = self.temporary("emitted", types.BOOL, span)
            self.assign(was_reached, Scalar(terms.truth(True), types.BOOL, False), span)
            self._reached.append((header, was_reached))


def _is_plain(node: ast.Parser | ast.Control) -> bool:
    """Whether a deparser only emits, one after the other."""
    assert isinstance(node, ast.Control)
    return not node.locals and all(isinstance(one, ast.CallStatement) for one in node.body.statements)
