"""Tables in the JSON: keys, actions, default actions, entries, and what is bound to a table."""

from collections.abc import Sequence
from typing import Any

from testbed.dataplane import ast, types
from testbed.dataplane.checked import DontCare, EnumValue, MaskValue, RangeValue
from testbed.dataplane.checked import Value as Constant
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.actions import ActionLowering
from testbed.dataplane.lower.calls import CopyOut
from testbed.dataplane.lower.code import source_info
from testbed.dataplane.lower.context import refused
from testbed.dataplane.lower.externs import ExternLowering
from testbed.dataplane.lower.frames import ExternInstance, Frame, TableInstance
from testbed.dataplane.lower.instances import control_plane_name, enum_name, make
from testbed.dataplane.lower.terms import Term
from testbed.dataplane.lower.values import Scalar, Value

DEFAULT_SIZE = 1024
_MOST_PRIORITY = (1 << 31) - 1
_STRICTNESS = ("exact", "lpm", "ternary", "range")  # the match type of a table is that of its least strict key


def key_name(key: ast.KeyElement) -> str:
    """The name that the control plane knows a key by: its `@name`, else the expression as written."""
    annotation = ast.annotation(key, "name")
    if annotation is not None and annotation.expressions:
        first = annotation.expressions[0]
        if isinstance(first, ast.StringLiteral):
            return first.value
    return "".join(key.expression.span.text.split())


class TableLowering(ExternLowering):
    """Adds tables to a control's code. Actions are lowered where their table is applied."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._shared: dict[tuple[ast.Action, Frame | None], dict[str, Any]] = {}

    def table(self, instance: TableInstance, span: Span) -> dict[str, Any]:
        """What the JSON says of a table, without where it leads."""
        node = instance.declaration
        if instance.is_applied:
            raise refused(
                span,
                f"the table {instance.name} is applied in more than one place, which this target does not support",
                "give each place a control instance or table of its own",
            )
        instance.is_applied = True
        keys, selector = self._keys(node)
        described: dict[str, Any] = self.context.tables.add(
            self.context.tables.unique(instance.name), source_info=source_info(node.name_span), key=keys
        )
        described["match_type"] = self._match_type(keys)
        self._properties(node, instance, described, selector)
        actions: dict[ast.Action, dict[str, Any]] = {}
        pending = [one for scope in reversed(self.scopes) for one in scope.copy_outs]
        for ref in node.actions:
            action = self._action(ref)
            actions[action] = self._lowered(action, ref, pending)
        default, values, is_const = self._default_entry(node)
        if default not in actions and (described["type"] == "simple" or node.default_action is not None):
            actions[default] = self._lowered(default, None, pending)
        described["action_ids"] = [one["id"] for one in actions.values()]
        described["actions"] = [one["name"] for one in actions.values()]
        if described["type"] == "simple":
            described["default_entry"] = {
                "action_id": actions[default]["id"],
                "action_const": is_const,
                "action_data": values,
                "action_entry_const": is_const,
            }
        if node.entries:
            described["entries"] = self._entries(node, actions)
        return described

    # ---- keys ----

    def _keys(self, node: ast.Table) -> tuple[list[dict[str, Any]], list[Term]]:
        keys: list[dict[str, Any]] = []
        selector: list[Term] = []
        for at, key in enumerate(node.key):
            type_ = self.type_of(key.expression)
            value = self.value(key.expression)
            later = [one.expression for one in node.key[at + 1 :]]
            if any(map(self.context.has_effects, later)):
                value = self.saved(value, type_, key.span, "key")
            target = self._key_field(value, type_, key.span)
            kind = key.match_kind.name
            if kind == "selector":
                selector.append(target)
                continue
            keys.append(
                {
                    "match_type": "ternary" if kind == "optional" else kind,
                    "name": key_name(key),
                    "target": target["value"],
                    "mask": None,
                }
            )
        if sum(key["match_type"] == "lpm" for key in keys) > 1:
            raise refused(node.span, f"the table {node.name} has more than one lpm key")
        return keys, selector

    def _key_field(self, value: Value, type_: types.Type, span: Span) -> Term:
        if isinstance(value, Scalar):
            if value.is_place and value.term["type"] == "field":
                return value.term
            term = value.term
            # The validity of a header is a field of its own.
            if term["type"] == "expression" and term["value"].get("op") == "d2b":
                inner: Term = term["value"]["right"]
                if inner["type"] == "field":
                    return inner
        place = self.temporary("key", type_, span)
        self.assign(place, value, span)
        assert isinstance(place, Scalar)
        return place.term

    @staticmethod
    def _match_type(keys: list[dict[str, Any]]) -> str:
        return max((key["match_type"] for key in keys), key=_STRICTNESS.index, default="exact")

    # ---- properties ----

    def _properties(
        self, node: ast.Table, instance: TableInstance, described: dict[str, Any], selector: list[Term]
    ) -> None:
        given = {one.name: one for one in node.properties}
        described["type"] = "simple"
        profile = given.get("implementation")
        if profile is not None:
            self._profile(profile, instance, described, selector)
        size = given.get("size")
        number = self.constant(size.value) if size is not None else None
        entries = len(node.entries or ())
        if node.are_entries_const and entries:
            described["max_size"] = entries
        else:
            described["max_size"] = max(number if isinstance(number, int) and number > 0 else DEFAULT_SIZE, entries)
        described["with_counters"] = False
        timeout = given.get("support_timeout")
        described["support_timeout"] = timeout is not None and self.constant(timeout.value) is True
        described["direct_meters"] = None
        if "counters" in given:
            owner = self._bound(given["counters"], instance)
            described["with_counters"] = True
            info = source_info(given["counters"].span)
            self.context.counters.add(owner.name, source_info=info, is_direct=True, binding=described["name"])
        if "meters" in given:
            owner = self._bound(given["meters"], instance)
            described["direct_meters"] = owner.name
            self._direct_meter_of(owner, given["meters"].span, described["name"])

    def _direct_meter_of(self, owner: ExternInstance, span: Span, table: str) -> None:
        if owner.result is None:
            owner.result = self.temporary(f"{owner.name}.colour", owner.type.arguments[0], span)
        assert isinstance(owner.result, Scalar)
        self.context.meters.add(
            owner.name,
            source_info=source_info(span),
            is_direct=True,
            rate_count=2,
            type=enum_name(owner.arguments[0]),
            size=DEFAULT_SIZE,
            binding=table,
            result_target=owner.result.term["value"],
        )

    def _bound(self, node: ast.Property, table: TableInstance) -> ExternInstance:
        found = self.instance(node.value) if isinstance(node.value, ast.Name) else None
        if isinstance(node.value, ast.Call):
            name = control_plane_name(self.frame.prefix, table.declaration)
            made = make(self.context, self.frame, f"{name}.{node.name}", self.checked.call(node.value), node.span)
            found = made
        if not isinstance(found, ExternInstance):
            raise refused(node.span, f"{node.name} is not an instance that this target knows")
        if node.name != "implementation" and found.tables:
            raise refused(node.span, f"{found.name} belongs to the table {found.tables[0]} already")
        found.tables.append(table.name)
        return found

    def _profile(
        self, node: ast.Property, table: TableInstance, described: dict[str, Any], selector: list[Term]
    ) -> None:
        owner = self._bound(node, table)
        is_selector = owner.type.declaration.name == "action_selector"
        described["type"] = "indirect_ws" if is_selector else "indirect"
        described["action_profile"] = owner.name
        size = owner.arguments[1 if is_selector else 0]
        if any(one["name"] == owner.name for one in self.context.profiles.items):
            return
        added = self.context.profiles.add(owner.name, max_size=size)
        if is_selector:
            added["selector"] = {"algo": enum_name(owner.arguments[0]), "input": selector}

    # ---- actions ----

    def _action(self, ref: ast.ActionRef) -> ast.Action:
        action = self.checked.declaration(ref.name)
        assert isinstance(action, ast.Action)
        return action

    def _lowered(self, action: ast.Action, ref: ast.ActionRef | None, pending: Sequence[CopyOut]) -> dict[str, Any]:
        holder = self.frame.holder(action)
        bound = [one.value for one in ref.arguments if one.value is not None] if ref is not None else []
        key = (action, holder)
        if not bound and key in self._shared:
            return self._shared[key]
        name = control_plane_name("" if holder is None else self.frame.prefix, action)
        lowering = ActionLowering(self.context, self.frame, pending)
        described = lowering.run(action, name, bound, (ref or action).span)
        if not bound:
            self._shared[key] = described
        return described

    def _default_entry(self, node: ast.Table) -> tuple[ast.Action, list[str], bool]:
        if node.default_action is None:
            return self._no_action(node), [], False
        action = self._action(node.default_action)
        return action, self._data(node.default_action, action), node.is_default_const

    def _no_action(self, node: ast.Table) -> ast.Action:
        for one in self.checked.program.declarations:
            if isinstance(one, ast.Action) and one.name == "NoAction":
                return one
        raise refused(node.span, f"the table {node.name} has no default action, and there is no NoAction")

    def _data(self, ref: ast.ActionRef, action: ast.Action) -> list[str]:
        """The action's data from a call that may give the bound arguments too."""
        wanted = [one for one in action.parameters if one.direction is ast.Direction.NONE]
        given = list(ref.arguments)
        by_name = {one.name: one.value for one in given if one.name is not None}
        positional = list(action.parameters) if len(given) == len(action.parameters) else wanted
        if not by_name:
            by_name = {parameter.name: one.value for parameter, one in zip(positional, given, strict=False)}
        found: list[str] = []
        for parameter in wanted:
            expression = by_name.get(parameter.name) or parameter.default
            value = None if expression is None else self.constant(expression)
            if value is None:
                raise refused(ref.span, f"the value of {parameter.name!r} must be known when compiling")
            type_ = self.type_of(parameter)
            found.append(terms.hexadecimal(self._number_of(value, type_, ref.span)))
        return found

    def _number_of(self, value: Constant, type_: types.Type, span: Span) -> int:
        """A constant as the control plane would send it: without sign."""
        scalar = self.from_constant(value, type_, span)
        assert isinstance(scalar, Scalar)
        term = terms.from_truth(scalar.term) if scalar.term["type"] == "bool" else scalar.term
        return int(term["value"], 16) & ((1 << self.layout.bits(type_)) - 1)

    # ---- entries ----

    def _entries(self, node: ast.Table, actions: dict[ast.Action, dict[str, Any]]) -> list[dict[str, Any]]:
        assert node.entries is not None
        found: list[tuple[int, dict[str, Any]]] = []
        for priority, entry in zip(self._priorities(node), node.entries, strict=True):
            action = self._action(entry.action)
            match_key = [
                self._match(label, key)
                for label, key in zip(entry.keys, node.key, strict=True)
                if key.match_kind.name != "selector"
            ]
            found.append(
                (
                    priority,
                    {
                        "source_info": source_info(entry.span),
                        "match_key": match_key,
                        "action_entry": {
                            "action_id": actions[action]["id"],
                            "action_data": self._data(entry.action, action),
                        },
                    },
                )
            )
        found.sort(key=lambda one: one[0])
        return [{**entry, "priority": number} for number, (_, entry) in enumerate(found, 1)]

    def _priorities(self, node: ast.Table) -> list[int]:
        """For each entry a number, the smallest of which wins."""
        given = {one.name: self.constant(one.value) for one in node.properties}
        largest_wins = given.get("largest_priority_wins", True) is not False
        delta = given.get("priority_delta", 1)
        step = delta if isinstance(delta, int) else 1
        entries = node.entries or ()
        if all(entry.priority is None for entry in entries):
            return [_annotated(entry, place) for place, entry in enumerate(entries, 1)]
        found: list[int] = []
        current = 1 + (len(entries) - 1) * step if largest_wins else 1
        for entry in entries:
            own = None if entry.priority is None else self.constant(entry.priority)
            if isinstance(own, int):
                current = own
            elif found:
                current += -step if largest_wins else step
            if not 0 <= current <= _MOST_PRIORITY:
                raise refused(entry.span, f"the priority of this entry comes to {current}: it is 0 to {_MOST_PRIORITY}")
            found.append(current)
        return [-one if largest_wins else one for one in found]

    def _match(self, label: ast.Expression, key: ast.KeyElement) -> dict[str, Any]:
        type_ = self.type_of(key.expression)
        bits = self.layout.bits(type_)
        full = (1 << bits) - 1
        constant = self.constant(label)
        if constant is None and isinstance(label, ast.Anything):
            constant = DontCare()
        if constant is None:
            raise refused(label.span, "the key of an entry must be known when compiling")

        def shown(value: int) -> str:
            return terms.hexadecimal(value & full, bits)

        kind = key.match_kind.name
        value, mask = 0, 0
        match constant:
            case MaskValue():
                value, mask = constant.value & constant.mask, constant.mask & full
            case RangeValue(low, high):
                return {"match_type": "range", "start": shown(low), "end": shown(high)}
            case int() | EnumValue():
                value, mask = self._number_of(constant, type_, label.span), full
        match kind:
            case "exact":
                return {"match_type": "exact", "key": shown(value)}
            case "lpm":
                length = bin(mask).count("1")
                if mask != full & ~(full >> length):
                    raise refused(label.span, "the mask of an lpm key is not a prefix")
                return {"match_type": "lpm", "key": shown(value), "prefix_length": length}
            case "range":
                is_any = isinstance(constant, DontCare)
                return {
                    "match_type": "range",
                    "start": shown(0 if is_any else value),
                    "end": shown(full if is_any else value),
                }
        return {"match_type": "ternary", "key": shown(value), "mask": shown(mask)}


def _annotated(entry: ast.Entry, place: int) -> int:
    """What `@priority(N)` says, which is older than `priority = N` and where the smaller one wins; else `place`."""
    given = ast.annotation(entry, "priority")
    match given.expressions if given is not None else ():
        case (ast.IntLiteral(value=value),):
            return value
    return place
