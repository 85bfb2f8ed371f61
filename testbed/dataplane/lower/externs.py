"""The externs of core.p4 and v1model.p4 as BMv2's primitives."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from testbed.dataplane import ast, types
from testbed.dataplane.checked import EnumValue, Invocation
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.context import refused
from testbed.dataplane.lower.frames import ExternInstance
from testbed.dataplane.lower.statements import StatementLowering
from testbed.dataplane.lower.terms import Term
from testbed.dataplane.lower.values import Scalar, Struct, Value

Arguments: TypeAlias = Mapping[str, ast.Expression]
DROP_PORT = 511  # of simple_switch


class ExternLowering(StatementLowering):
    def extern(self, node: ast.Call, call: Invocation) -> Value | None:
        arguments = {one.parameter.name: one.value for one in call.passed if one.value is not None}
        if call.receiver is None:
            act = _FUNCTIONS.get(call.name)
            if act is None:
                raise refused(node.span, f"the function {call.name} is not one of this target's")
            return act(self, node, arguments)
        type_ = types.plain(self.type_of(call.receiver))
        kind = type_.declaration.name if isinstance(type_, types.ExternType) else ""
        if kind in ("packet_in", "packet_out"):
            return self.packet(node, call, arguments)
        act = _METHODS.get((kind, call.name))
        if act is None:
            raise refused(node.span, f"{kind}.{call.name} is not one of this target's")
        return act(self, node, arguments)

    def packet(self, node: ast.Call, call: Invocation, arguments: Arguments) -> Value | None:
        """Methods of the packet, which parsers and deparsers have."""
        del arguments
        raise refused(node.span, f"{call.name} cannot be called here")

    # ---- results ----

    def _result(self, target: ast.Expression, type_: types.Type, emit: Callable[[Term], None]) -> None:
        """Let `emit` write to a field, and bring that to where the result is wanted."""
        place = self.place(target)
        if isinstance(place, Scalar) and place.is_place and place.term["type"] == "field":
            emit(place.term)
            return
        kept = self.temporary("tmp", type_, target.span)
        assert isinstance(kept, Scalar)
        emit(kept.term)
        self.assign(place, kept, target.span)

    def _owner(self, node: ast.Call) -> ExternInstance:
        call = self.checked.call(node)
        assert call.receiver is not None
        found = self.instance(call.receiver)
        if not isinstance(found, ExternInstance):
            raise refused(node.span, f"{call.receiver.span.text!r} is not an instance that this target knows")
        return found

    # ---- registers, counters, meters ----

    def _register_read(self, node: ast.Call, arguments: Arguments) -> None:
        name = terms.named("register_array", self._owner(node).name)
        index = self.fixed(arguments["index"])
        target = arguments["result"]
        self._result(
            target, self.type_of(target), lambda field: self.emit("register_read", [field, name, index], node.span)
        )

    def _register_write(self, node: ast.Call, arguments: Arguments) -> None:
        name = terms.named("register_array", self._owner(node).name)
        index = self._argument(arguments["index"], [arguments["value"]])
        value = self._number(arguments["value"])
        self.emit("register_write", [name, index, value], node.span)

    def _argument(self, node: ast.Expression, later: list[ast.Expression]) -> Term:
        term = self.fixed(node)
        if term["type"] == "field" and any(map(self.context.has_effects, later)):
            type_ = self.type_of(node)
            kept = self.saved(Scalar(term, type_, True), type_, node.span)
            assert isinstance(kept, Scalar)
            return kept.term
        return term

    def _number(self, node: ast.Expression) -> Term:
        """A value as a number, bools too."""
        type_ = self.type_of(node)
        if isinstance(types.plain(type_), types.Bool):
            return self.fixed_term(terms.from_truth(self.scalar(node)), types.Bits(1), node.span)
        if isinstance(types.plain(type_), types.StructType | types.Tuple):
            raise refused(node.span, f"a register of {type_} is not supported on this target")
        return self.fixed(node)

    def _count(self, node: ast.Call, arguments: Arguments) -> None:
        name = terms.named("counter_array", self._owner(node).name)
        self.emit("count", [name, self.fixed(arguments["index"])], node.span)

    def _direct_count(self, node: ast.Call, arguments: Arguments) -> None:
        del arguments
        owner = self._owner(node)
        if not owner.tables:
            raise refused(node.span, f"the direct counter {owner.name} belongs to no table")

    def _execute_meter(self, node: ast.Call, arguments: Arguments) -> None:
        name = terms.named("meter_array", self._owner(node).name)
        index = self.fixed(arguments["index"])
        target = arguments["result"]
        self._result(
            target, self.type_of(target), lambda field: self.emit("execute_meter", [name, index, field], node.span)
        )

    def _direct_meter(self, node: ast.Call, arguments: Arguments) -> None:
        owner = self._owner(node)
        if not owner.tables:
            raise refused(node.span, f"the direct meter {owner.name} belongs to no table")
        target = arguments["result"]
        if owner.result is None:
            owner.result = self.temporary(f"{owner.name}.colour", self.type_of(target), node.span)
        self.assign(self.place(target), owner.result, node.span)

    # ---- numbers ----

    def _random(self, node: ast.Call, arguments: Arguments) -> None:
        low = self._argument(arguments["lo"], [arguments["hi"]])
        high = self.fixed(arguments["hi"])
        target = arguments["result"]
        self._result(
            target,
            self.type_of(target),
            lambda field: self.emit("modify_field_rng_uniform", [field, low, high], node.span),
        )

    def _hash(self, node: ast.Call, arguments: Arguments) -> None:
        base = self._argument(arguments["base"], [arguments["data"], arguments["max"]])
        inputs = self.flat(self.value(arguments["data"]), arguments["data"].span)
        size = self.fixed(arguments["max"])
        name = terms.named("calculation", self.context.calculation(self.algorithm(arguments["algo"]), inputs))
        target = arguments["result"]
        operator = "modify_field_with_hash_based_offset"
        self._result(
            target, self.type_of(target), lambda field: self.emit(operator, [field, base, name, size], node.span)
        )

    def _checksum16(self, node: ast.Call, arguments: Arguments) -> Value:
        inputs = self.flat(self.value(arguments["data"]), node.span)
        name = terms.named("calculation", self.context.calculation("csum16", inputs))
        kept = self.temporary("tmp", types.Bits(16), node.span)
        assert isinstance(kept, Scalar)
        size = terms.number(1 << 16, 32)
        self.emit("modify_field_with_hash_based_offset", [kept.term, terms.number(0, 16), name, size], node.span)
        return kept

    def algorithm(self, node: ast.Expression) -> str:
        value = self.constant(node)
        if not isinstance(value, EnumValue):
            raise refused(node.span, "the hash algorithm must be known when compiling")
        return value.name

    # ---- the packet's fate ----

    def _mark_to_drop(self, node: ast.Call, arguments: Arguments) -> None:
        standard = self.context.standard
        target = arguments.get("standard_metadata")
        place = self.place(target) if target is not None else standard
        if place is standard:
            self.emit("mark_to_drop", [terms.header("standard_metadata")], node.span)
            return
        assert isinstance(place, Struct)
        for name, value in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
            member = place.members[name]
            self.assign(member, Scalar(terms.number(value), getattr(member, "type", types.UNKNOWN), False), node.span)

    def _clone_operator(self, node: ast.Expression) -> str:
        kind = self.constant(node)
        if not isinstance(kind, EnumValue):
            raise refused(node.span, "the kind of clone must be known when compiling")
        return "clone_ingress_pkt_to_egress" if kind.name == "I2E" else "clone_egress_pkt_to_egress"

    def _clone(self, node: ast.Call, arguments: Arguments) -> None:
        number = self.context.field_list([])
        self._emit_clone(node, arguments, number)

    def _clone_preserving(self, node: ast.Call, arguments: Arguments) -> None:
        self._emit_clone(node, arguments, self._marked(arguments["index"]))

    def _clone3(self, node: ast.Call, arguments: Arguments) -> None:
        self._emit_clone(node, arguments, self._kept_list(arguments["data"]))

    def _emit_clone(self, node: ast.Call, arguments: Arguments, number: int) -> None:
        session = self.fixed(arguments["session"])
        self.emit(self._clone_operator(arguments["type"]), [session, terms.number(number)], node.span)

    def _marked(self, node: ast.Expression) -> int:
        index = self.constant(node)
        if not isinstance(index, int):
            raise refused(node.span, "the index of a field list must be known when compiling")
        return self.context.marked_list(index)

    def _kept_list(self, node: ast.Expression) -> int:
        return self.context.field_list(self.flat(self.value(node), node.span))

    def _resubmit(self, node: ast.Call, arguments: Arguments) -> None:
        self.emit("resubmit", [terms.number(self._kept_list(arguments["data"]))], node.span)

    def _resubmit_preserving(self, node: ast.Call, arguments: Arguments) -> None:
        self.emit("resubmit", [terms.number(self._marked(arguments["index"]))], node.span)

    def _recirculate(self, node: ast.Call, arguments: Arguments) -> None:
        self.emit("recirculate", [terms.number(self._kept_list(arguments["data"]))], node.span)

    def _recirculate_preserving(self, node: ast.Call, arguments: Arguments) -> None:
        self.emit("recirculate", [terms.number(self._marked(arguments["index"]))], node.span)

    def _truncate(self, node: ast.Call, arguments: Arguments) -> None:
        self.emit("truncate", [self.fixed(arguments["length"])], node.span)

    # ---- for the control plane and the log ----

    def _digest(self, node: ast.Call, arguments: Arguments) -> None:
        data = arguments["data"]
        type_ = self.type_of(data)
        value = self.value(data)
        elements: list[Term] = []
        for term in self.flat(value, data.span):
            # What the control plane gets is read at the end of ingress, and must be what it was here.
            if term["type"] == "field":
                bits = types.Bits(self.layout.field_bits(*term["value"]))
                kept = self.saved(Scalar(term, bits, False), bits, data.span, "digest")
                assert isinstance(kept, Scalar)
                elements.append(kept.term)
            else:
                elements.append(term)
        plain = types.plain(type_)
        name = plain.declaration.name if isinstance(plain, types.StructType) else "digest"
        if all(type_ != known for _, known in self.context.digests):
            self.context.digests.append((name, type_))
        described = self.context.learn_lists.add(name, first_id=1, elements=elements)
        receiver = self.fixed(arguments["receiver"])
        self.emit("generate_digest", [receiver, terms.number(described["id"])], node.span)

    def _log(self, node: ast.Call, arguments: Arguments) -> None:
        message = self.constant(arguments["msg"])
        data = self.flat(self.value(arguments["data"]), node.span) if "data" in arguments else []
        plain = [{"type": one["type"], "value": one["value"]} for one in data]
        text = {"type": "string", "value": str(message)}
        self.emit("log_msg", [text, {"type": "parameters_vector", "value": plain}], node.span)

    def _assert(self, node: ast.Call, arguments: Arguments) -> None:
        condition = self.scalar(arguments["check"])
        self.emit(self.checked.call(node).name, [terms.from_truth(condition)], node.span)

    def _nothing(self, node: ast.Call, arguments: Arguments) -> None:
        del node, arguments


_Act: TypeAlias = Callable[[ExternLowering, ast.Call, Arguments], "Value | None"]

_METHODS: Mapping[tuple[str, str], _Act] = {
    ("register", "read"): ExternLowering._register_read,
    ("register", "write"): ExternLowering._register_write,
    ("counter", "count"): ExternLowering._count,
    ("direct_counter", "count"): ExternLowering._direct_count,
    ("meter", "execute_meter"): ExternLowering._execute_meter,
    ("direct_meter", "read"): ExternLowering._direct_meter,
    ("Checksum16", "get"): ExternLowering._checksum16,
}
_FUNCTIONS: Mapping[str, _Act] = {
    "random": ExternLowering._random,
    "hash": ExternLowering._hash,
    "mark_to_drop": ExternLowering._mark_to_drop,
    "clone": ExternLowering._clone,
    "clone_preserving_field_list": ExternLowering._clone_preserving,
    "clone3": ExternLowering._clone3,
    "resubmit": ExternLowering._resubmit,
    "resubmit_preserving_field_list": ExternLowering._resubmit_preserving,
    "recirculate": ExternLowering._recirculate,
    "recirculate_preserving_field_list": ExternLowering._recirculate_preserving,
    "truncate": ExternLowering._truncate,
    "digest": ExternLowering._digest,
    "log_msg": ExternLowering._log,
    "assert": ExternLowering._assert,
    "assume": ExternLowering._assert,
    "static_assert": ExternLowering._nothing,
}
