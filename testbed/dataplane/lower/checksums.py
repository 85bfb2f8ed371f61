"""verify_checksum and update_checksum as calculations and checksums of the JSON."""

from testbed.dataplane import ast
from testbed.dataplane.checked import Invocation
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.code import Mark, source_info
from testbed.dataplane.lower.context import Numbered, refused
from testbed.dataplane.lower.controls import ControlLowering
from testbed.dataplane.lower.terms import Term
from testbed.dataplane.lower.values import Scalar, Value

_NAMES = {
    "verify_checksum": (True, False),
    "verify_checksum_with_payload": (True, True),
    "update_checksum": (False, False),
    "update_checksum_with_payload": (False, True),
}


class ChecksumLowering(ControlLowering):
    """The checksum controls run no code: all they may do is call these functions, under conditions."""

    def checksums(self, into: Numbered) -> None:
        self._into = into
        self._conditions: list[Term] = []

    def statement(self, node: ast.Statement) -> None:
        match node:
            case ast.If(condition=condition, if_true=if_true, if_false=if_false):
                term = self.scalar(condition)
                self._under(term, if_true)
                if if_false is not None:
                    self._under(terms.negation(term), if_false)
            case ast.Block() | ast.CallStatement() | ast.Empty() | ast.Constant():
                super().statement(node)
            case _:
                raise refused(node.span, "this target can only compute checksums here")
        if not all(isinstance(one, Mark) for one in self.code):
            raise refused(node.span, "this target can only compute checksums over fields here")

    def _under(self, condition: Term, node: ast.Statement) -> None:
        self._conditions.append(condition)
        self.statement(node)
        self._conditions.pop()

    def extern(self, node: ast.Call, call: Invocation) -> Value | None:
        if call.name not in _NAMES or call.receiver is not None:
            raise refused(node.span, "this target can only compute checksums here")
        is_verify, has_payload = _NAMES[call.name]
        given = {one.parameter.name: one.value for one in call.passed if one.value is not None}
        data = self.value(given["data"])
        inputs = self.flat(data, given["data"].span)
        if has_payload:
            inputs.append({"type": "payload", "value": None})
        target = self.place(given["checksum"])
        if not isinstance(target, Scalar) or target.term["type"] != "field":
            raise refused(given["checksum"].span, "a checksum has to be a field on this target")
        condition = terms.truth(True)
        for term in (*self._conditions, self.scalar(given["condition"])):
            condition = terms.conjunction(condition, term)
        calculation = self.context.calculation(self.algorithm(given["algo"]), inputs)
        self._into.add(
            self._into.unique("cksum"),
            source_info=source_info(node.span),
            target=target.term["value"],
            type="generic",
            calculation=calculation,
            verify=is_verify,
            update=not is_verify,
            if_cond=_condition(condition),
        )
        return None


def _condition(term: Term) -> Term | None:
    """A condition as BMv2 wants it: none where it always holds."""
    if term["type"] == "bool":
        return None if term["value"] else terms.operation("==", terms.number(0), terms.number(1))
    return term if term["type"] == "expression" else terms.expression(term)
