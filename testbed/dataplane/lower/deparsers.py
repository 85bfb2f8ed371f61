"""The deparser: the order in which headers are written, and what it computes before."""

from typing import Any

from testbed.dataplane import ast
from testbed.dataplane.checked import Invocation
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.actions import linear
from testbed.dataplane.lower.code import source_info
from testbed.dataplane.lower.context import refused
from testbed.dataplane.lower.controls import ControlLowering
from testbed.dataplane.lower.externs import Arguments
from testbed.dataplane.lower.frames import BlockInstance
from testbed.dataplane.lower.values import Fresh, Header, Indexed, Value, headers_of


class DeparserLowering(ControlLowering):
    """Where headers are written always and as they are, their order is all; else what is to be written is copied into
    headers of the deparser's own when its emit is reached."""

    def deparser(self, instance: BlockInstance, bindings: dict[ast.Node, Value], span: Span) -> dict[str, Any]:
        self._order: list[str] = []
        self._is_plain = _is_plain(instance.declaration)
        self.run(instance, bindings)
        self.mark(self.finish)
        primitives = linear(self.code)
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
        if self._is_plain and header.name not in self._order:
            self._order.append(header.name)
            return
        copy = self.temporary(f"{header.name}_emitted", header.type, span)
        assert isinstance(copy, Header)
        self.emit("assign_header", [terms.header(copy.name), terms.header(header.name)], span)
        self._order.append(copy.name)


def _is_plain(node: ast.Parser | ast.Control) -> bool:
    """Whether a deparser only emits, one after the other."""
    assert isinstance(node, ast.Control)
    return not node.locals and all(isinstance(one, ast.CallStatement) for one in node.body.statements)
