"""Comparisons of values of any type, and validity."""

from testbed.dataplane import types
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.context import refused
from testbed.dataplane.lower.emission import Emission
from testbed.dataplane.lower.terms import Term
from testbed.dataplane.lower.values import (
    Bitslice,
    Elements,
    Fresh,
    Header,
    Indexed,
    Invalid,
    Scalar,
    Stack,
    Struct,
    Union,
    Value,
    headers_of,
)


class Comparison(Emission):
    def compared(self, operator: str, left: Value, right: Value, span: Span) -> Term:
        left, right = self._apart_from_index(left, span), self._apart_from_index(right, span)
        if isinstance(left, Scalar | Bitslice | Indexed) and isinstance(right, Scalar | Bitslice | Indexed):
            return self._simple(operator, self.read(left, span), self.read(right, span))
        same = self._same(left, right, span)
        return same if operator == "==" else terms.negation(same)

    @staticmethod
    def _simple(operator: str, left: Term, right: Term) -> Term:
        if operator in ("==", "!="):
            for one, other in ((left, right), (right, left)):
                if one["type"] == "bool":
                    return other if one["value"] == (operator == "==") else terms.negation(other)
        return terms.operation(operator, left, right)

    def _apart_from_index(self, value: Value, span: Span) -> Value:
        """A whole header or a varbit that is chosen at run time, in a place of its own."""
        value = self.whole(value, span)
        if isinstance(value, Indexed) and (
            isinstance(types.plain(value.type), types.Varbits)
            or not isinstance(value.options[0], Scalar | Bitslice | Indexed)
        ):
            return self.saved(value, value.type, span)
        return value

    def _same(self, left: Value, right: Value, span: Span) -> Term:
        match left, right:
            case Header(), Invalid():
                return terms.negation(terms.valid(left.name))
            case Invalid(), Header():
                return terms.negation(terms.valid(right.name))
            case (Fresh(), Invalid()) | (Invalid(), Fresh()):
                return terms.truth(False)
            case (Fresh(), Header()) | (Header(), Fresh()) | (Fresh(), Fresh()):
                header = left if isinstance(left, Header) else right
                valid = terms.valid(header.name) if isinstance(header, Header) else terms.truth(True)
                return terms.conjunction(valid, self._members_same(left, right, span))
            case Header(), Header():
                here, there = terms.valid(left.name), terms.valid(right.name)
                neither = terms.conjunction(terms.negation(here), terms.negation(there))
                both = terms.conjunction(here, there)
                return terms.disjunction(neither, terms.conjunction(both, self._members_same(left, right, span)))
            case (Struct(), Struct()) | (Union(), Union()):
                return self._members_same(left, right, span)
            case (Stack(), _) | (_, Stack()):
                result = terms.truth(True)
                for one, other in zip(_items(left, span), _items(right, span), strict=True):
                    result = terms.conjunction(result, self._same(one, other, span))
                return result
        return self.compared("==", left, right, span)

    def _members_same(self, left: Value, right: Value, span: Span) -> Term:
        assert isinstance(left, Header | Struct | Union | Fresh)
        assert isinstance(right, Header | Struct | Union | Fresh)
        result = terms.truth(True)
        for one, other in zip(left.members.values(), right.members.values(), strict=True):
            result = terms.conjunction(result, self.compared("==", one, other, span))
        return result

    def valid(self, value: Value, span: Span) -> Term:
        """Whether a header, or any member of a union, is valid."""
        match self.whole(value, span):
            case Header(name=name):
                return terms.valid(name)
            case Fresh():
                return terms.truth(True)
            case Invalid():
                return terms.truth(False)
            case Union() as union:
                result = terms.truth(False)
                for header in headers_of(union):
                    result = terms.disjunction(result, terms.valid(header.name))
                return result
            case Indexed(index=index, options=options):
                return self.chosen(index, [self.valid(option, span) for option in options], True)
        raise refused(span, f"{span.text!r} has no validity here")


def _items(value: Value, span: Span) -> tuple[Value, ...]:
    match value:
        case Stack(elements=elements):
            return tuple(elements)
        case Elements(items=items):
            return items
    raise refused(span, f"{span.text!r} is not supported here")
