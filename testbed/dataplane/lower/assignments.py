"""Assignments: to fields, slices, headers, structs, stacks, unions, and to what is chosen at run time."""

from collections.abc import Callable

from testbed.dataplane import types
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.code import Branch, Label
from testbed.dataplane.lower.context import refused
from testbed.dataplane.lower.expressions import ExpressionLowering
from testbed.dataplane.lower.terms import Term
from testbed.dataplane.lower.values import (
    Bitslice,
    Elements,
    Fresh,
    Header,
    Indexed,
    Invalid,
    Last,
    Scalar,
    Stack,
    Struct,
    Union,
    Value,
    atoms,
    headers_of,
    overlap,
    scalars_of,
)

_NUMBERS = (types.Bits, types.Bool, types.EnumType, types.Error)  # what one expression can choose by an index


class AssignmentLowering(ExpressionLowering):
    def assign(self, place: Value, value: Value, span: Span) -> None:
        value = self.whole(value, span)
        if isinstance(value, Indexed) and not isinstance(types.plain(value.type), _NUMBERS):
            self.each(value, lambda option: self.assign(place, option, span), span)
            return
        match place:
            case Scalar():
                self._assign_scalar(place, value, span)
            case Bitslice(base=base, base_type=type_, high=high, low=low):
                bits = terms.with_slice(self.read(base, span), type_, high, low, self.read(value, span))
                self.assign(base, Scalar(bits, type_, False), span)
            case Indexed():
                value = self._apart(place, value, span)
                self.each(place, lambda option: self.assign(option, value, span), span)
            case Last():
                self.assign(self.whole(place, span), value, span)
            case Header():
                self._assign_header(place, value, span)
            case Struct():
                self._assign_members(place, self._apart(place, value, span), span)
            case Stack():
                self._assign_stack(place, self._apart(place, value, span), span)
            case Union():
                self._assign_union(place, value, span)
            case _:
                raise refused(span, f"{span.text!r} cannot be assigned to on this target")

    def each(self, chosen: Indexed, act: "Callable[[Value], None]", span: Span) -> None:
        """`act` on the option that the index names; on none if it is out of range."""
        end = Label()
        for at, option in enumerate(chosen.options):
            following = Label()
            self.code.append(Branch(terms.operation("==", chosen.index, terms.number(at)), following, span))
            act(option)
            self.jump(end)
            self.mark(following)
        self.mark(end)

    def _apart(self, place: Value, value: Value, span: Span) -> Value:
        """`value` with those parts kept aside that the assignment itself would change before they are read."""
        if not isinstance(value, Struct | Fresh | Elements | Scalar) or value is place:
            return value
        if isinstance(value, Scalar):
            is_safe = terms.is_constant(value.term) or not isinstance(place, Indexed)
            return (
                value
                if is_safe or not overlap(set(atoms(place)), set(atoms(value)))
                else self.saved(value, value.type, span)
            )
        written = set(atoms(place))
        if not overlap(written, set(atoms(value))):
            return value
        match value:
            case Struct(type=type_, members=members):
                if all(members.get(key) is one for key, one in getattr(place, "members", {}).items()):
                    return value
                return Struct(type_, {key: self._kept(one, span) for key, one in members.items()})
            case Fresh(type=fresh_type, members=members):
                return Fresh(fresh_type, {key: self._kept(one, span) for key, one in members.items()})
            case Elements(items=items):
                return Elements(tuple(self._kept(one, span) for one in items))

    def _kept(self, value: Value, span: Span) -> Value:
        type_ = getattr(value, "type", None)
        if isinstance(value, Bitslice):
            type_ = types.Bits(value.high - value.low + 1)
        return value if type_ is None else self.saved(value, type_, span)

    def _assign_scalar(self, place: Scalar, value: Value, span: Span) -> None:
        plain = types.plain(place.type)
        if isinstance(plain, types.Varbits):
            if not isinstance(value, Scalar):
                raise refused(span, "only a varbit can be assigned to a varbit")
            self.emit("assign_VL", [place.term, value.term], span)
            return
        term = self.read(value, span)
        if isinstance(plain, types.Bool):
            term = terms.from_truth(term)
        if place.term["type"] != "field":
            raise refused(span, f"{span.text!r} cannot be assigned to on this target")
        if term != place.term:
            self.emit("assign", [place.term, term], span)

    def _assign_header(self, place: Header, value: Value, span: Span) -> None:
        match value:
            case Header(name=name):
                if name != place.name:
                    self.emit("assign_header", [terms.header(place.name), terms.header(name)], span)
            case Invalid():
                self.emit("remove_header", [terms.header(place.name)], span)
            case Fresh() | Struct():
                value = self._apart(place, value, span)
                self.emit("add_header", [terms.header(place.name)], span)
                self._assign_members(place, value, span)
            case _:
                raise refused(span, "this cannot be assigned to a header")

    def _assign_members(self, place: Header | Struct, value: Value, span: Span) -> None:
        if isinstance(value, Invalid):
            for header in headers_of(place):
                self.emit("remove_header", [terms.header(header.name)], span)
            return
        if not isinstance(value, Struct | Fresh | Header | Last):
            raise refused(span, "this cannot be assigned to a struct")
        for one, other in zip(place.members.values(), value.members.values(), strict=True):
            self.assign(one, other, span)

    def _assign_stack(self, place: Stack, value: Value, span: Span) -> None:
        if isinstance(value, Stack):
            if value.name != place.name:
                kind = "header_union_stack" if place.holds_unions else "header_stack"
                operator = "assign_union_stack" if place.holds_unions else "assign_header_stack"
                self.emit(operator, [terms.named(kind, place.name), terms.named(kind, value.name)], span)
            return
        if not isinstance(value, Elements):
            raise refused(span, "this cannot be assigned to a stack")
        for one, other in zip(place.elements, value.items, strict=True):
            self.assign(one, other, span)

    def _assign_union(self, place: Union, value: Value, span: Span) -> None:
        if isinstance(value, Union):
            if value.name != place.name:
                names = [terms.named("header_union", one.name) for one in (place, value)]
                self.emit("assign_union", names, span)
            return
        if isinstance(value, Invalid):
            self.invalidate(place, span)
            return
        if isinstance(value, Struct):
            for one, other in zip(place.members.values(), value.members.values(), strict=True):
                if not isinstance(other, Invalid):
                    self.assign(one, other, span)
            return
        raise refused(span, "this cannot be assigned to a header union")

    def invalidate(self, value: Value, span: Span) -> None:
        """Make all headers of a place invalid."""
        for header in headers_of(value):
            self.emit("remove_header", [terms.header(header.name)], span)

    def flat(self, value: Value, span: Span) -> list[Term]:
        """The scalars of a value as fields and sized constants: what calculations and digests read."""
        found: list[Term] = []
        if isinstance(value, Indexed | Last):
            value = self.saved(value, value.type, span)
        if isinstance(value, Bitslice):
            value = Scalar(self.read(value, span), types.Bits(value.high - value.low + 1), False)
        for one in scalars_of(value):
            found.append(self.sized(one, span))
        return found

    def sized(self, value: Scalar, span: Span) -> Term:
        term = value.term
        if terms.is_constant(term):
            term = terms.from_truth(term) if term["type"] == "bool" else term
            return {**term, "bitwidth": self.layout.bits(value.type)}
        return term if term["type"] == "field" else self.fixed_term(value.read(), value.type, span)
