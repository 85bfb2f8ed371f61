"""Tables: keys and their kinds of match, actions with bound arguments, default actions, entries, properties."""

from collections.abc import Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.check_statements import StatementChecker
from testbed.dataplane.checked import Checked, DontCare, MaskValue, RangeValue, Value
from testbed.dataplane.diagnostics import Span, did_you_mean
from testbed.dataplane.names import Place
from testbed.dataplane.types import BOOL, UNKNOWN, Bits, Type, plain

_BITS_ONLY = ("lpm", "range")
# What an entry may say about a key, besides a value.
_LABELS = {
    "exact": (),
    "lpm": (MaskValue, DontCare),
    "ternary": (MaskValue, DontCare),
    "range": (RangeValue, DontCare),
    "optional": (DontCare,),
}
_INSTANCES = {
    "implementation": ("action_profile", "action_selector"),
    "counters": ("direct_counter",),
    "meters": ("direct_meter",),
}
_NUMBERS = ("size", "priority_delta", "idle_timeout")
_BOOLS = ("largest_priority_wins", "support_timeout")
_PROPERTIES = (*_INSTANCES, *_NUMBERS, *_BOOLS, "key", "actions", "entries", "default_action")


class TableChecker(StatementChecker):
    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self.match_kinds: dict[str, ast.EnumMember] = {}

    def table(self, node: ast.Table) -> None:
        self.checked.types[node] = types.TableType(node)
        with self.scope(Place.TABLE):
            keys = [self._key(key) for key in node.key]
            actions = self._actions(node)
            if node.default_action is not None:
                self._default_action(node.default_action, node, actions)
            self._properties(node)
            if node.entries and not node.key:
                self.diagnostics.error(node.name_span, f"the table {node.name} has entries, but no key")
            elif node.entries:
                self._entries(node.entries, node, keys, actions)
        self.declare(node)

    def _key(self, node: ast.KeyElement) -> Type:
        found = self.value(node.expression)
        allowed = Bits | types.Bool | types.EnumType | types.Error
        if found is not UNKNOWN and not isinstance(plain(found), allowed):
            hint = "use its fields" if isinstance(found, types.StructType) else ""
            hint = "give the number a width, as in 8w5" if isinstance(found, types.Integer) else hint
            self.diagnostics.error(node.expression.span, f"a value of type {found} cannot be a key", hint)
            found = UNKNOWN
        self._check_key_name(node)
        kind = node.match_kind
        member = self.match_kinds.get(kind.name)
        if member is None:
            hint = did_you_mean(kind.name, self.match_kinds)
            self.diagnostics.error(kind.span, f"there is no kind of match {kind.name!r}", hint)
            return found
        self.checked.declarations[kind] = member
        self.checked.types[kind] = types.MATCH_KIND
        if kind.name in _BITS_ONLY and found is not UNKNOWN and not isinstance(plain(found), Bits):
            self.diagnostics.error(node.expression.span, f"a {kind.name} key is made of bits, and this is {found}")
        return found

    def _check_key_name(self, node: ast.KeyElement) -> None:
        if not _has_plain_name(node.expression) and ast.annotation(node, "name") is None:
            hint = 'write ... : exact @name("some_name")'
            self.diagnostics.error(node.expression.span, "the key has no name for the control plane", hint)

    # ---- actions ----

    def _actions(self, node: ast.Table) -> dict[ast.Action, ast.ActionRef]:
        known: dict[ast.Action, ast.ActionRef] = {}
        for ref in node.actions:
            action = self._action(ref)
            if action is None:
                continue
            if action in known:
                self.diagnostics.error(ref.span, f"the action {ref.name.name!r} stands twice")
            known.setdefault(action, ref)
            bound = [one for one in action.parameters if one.direction is not ast.Direction.NONE]
            self._check_data(action)
            if len(ref.arguments) > len(bound):
                extra = ref.arguments[len(bound)]
                message = "only parameters with a direction are bound here: the control plane gives the others"
                self.diagnostics.error(extra.span, message)
            elif len(ref.arguments) < len(bound):
                missing = bound[len(ref.arguments)]
                self.diagnostics.error(ref.span, f"{action.name} lacks an argument for {missing.name!r}")
            self._action_arguments(ref, bound, must_be_constant=False)
        return known

    def _check_data(self, action: ast.Action) -> None:
        """What the control plane gives to an action is made of bits."""
        for parameter in action.parameters:
            type_ = self.checked.types.get(parameter, UNKNOWN)
            allowed = Bits | types.Bool | types.Error | types.Unknown
            is_plain = isinstance(plain(type_), allowed) or (isinstance(type_, types.EnumType))
            if parameter.direction is ast.Direction.NONE and not is_plain:
                message = f"the control plane cannot give {parameter.name!r} of type {type_}"
                self.diagnostics.error(parameter.span, message, "give its fields one by one")

    def _action(self, ref: ast.ActionRef) -> ast.Action | None:
        declaration = self.look_up(ref.name, "action")
        if declaration is None:
            return None
        if isinstance(declaration, ast.Action):
            self.checked.types[ref.name] = types.Callable("an action")
            return declaration
        self.diagnostics.error(ref.name.span, f"{ref.name.name!r} is no action")
        return None

    def _action_arguments(
        self, ref: ast.ActionRef, parameters: Sequence[ast.Parameter], must_be_constant: bool
    ) -> None:
        for argument, parameter in zip(ref.arguments, parameters, strict=False):
            if argument.value is None:
                self.diagnostics.error(argument.span, "an argument of an action cannot be left open")
                continue
            what = f"the parameter {parameter.name!r} of {ref.name.name}"
            wanted = self.checked.types.get(parameter, UNKNOWN)
            if not self.expected(argument.value, wanted, what):
                continue
            if parameter.direction in (ast.Direction.OUT, ast.Direction.INOUT):
                self.check_assignable(argument.value, f"for {what}")
            elif must_be_constant and not self.is_static(argument.value):
                self.diagnostics.error(argument.value.span, f"{what} must be known when compiling")

    def _chosen(self, ref: ast.ActionRef, node: ast.Table, actions: dict[ast.Action, ast.ActionRef], what: str) -> None:
        """Check the action of an entry or a default action: one of the table's, all its data given."""
        action = self._action(ref)
        if action is None:
            return
        if action not in actions:
            hint = f"add it: actions = {{ {ref.name.name}; ... }}" if node.actions else ""
            self.diagnostics.error(ref.span, f"{what} {ref.name.name!r} is not among the actions of {node.name}", hint)
            return
        data = [one for one in action.parameters if one.direction is ast.Direction.NONE]
        bound = [one for one in action.parameters if one.direction is not ast.Direction.NONE]
        repeats_bound = bool(bound) and len(ref.arguments) == len(action.parameters)
        wanted = [*bound, *data] if repeats_bound else data
        if len(ref.arguments) > len(wanted):
            message = f"{action.name} takes {len(wanted)} arguments, not {len(ref.arguments)}"
            self.diagnostics.error(ref.arguments[len(wanted)].span, message)
        elif len(ref.arguments) < len(wanted):
            missing = wanted[len(ref.arguments)]
            self.diagnostics.error(ref.span, f"{action.name} lacks an argument for {missing.name!r}")
        if repeats_bound:
            self._check_repeated(ref, actions[action], len(bound))
        self._action_arguments(ref, wanted, must_be_constant=not repeats_bound)
        for argument in ref.arguments[len(bound) :] if repeats_bound else ():
            if argument.value is not None and not self.is_static(argument.value):
                self.diagnostics.error(argument.value.span, "the data of an action must be known when compiling")

    def _check_repeated(self, ref: ast.ActionRef, listed: ast.ActionRef, count: int) -> None:
        for given, bound in zip(ref.arguments[:count], listed.arguments, strict=False):
            if "".join(given.span.text.split()) != "".join(bound.span.text.split()):
                message = f"the list of actions binds {bound.span.text!r} here"
                self.diagnostics.error(given.span, message)

    def _default_action(self, ref: ast.ActionRef, node: ast.Table, actions: dict[ast.Action, ast.ActionRef]) -> None:
        self._chosen(ref, node, actions, "the default action")
        self._check_use(ref, actions, "tableonly", "is for entries only")

    def _check_use(
        self, ref: ast.ActionRef, actions: dict[ast.Action, ast.ActionRef], annotation: str, why: str
    ) -> None:
        declaration = self.checked.declaration(ref.name)
        listed = actions.get(declaration) if isinstance(declaration, ast.Action) else None
        if listed is not None and ast.annotation(listed, annotation) is not None:
            self.diagnostics.error(ref.span, f"the action {ref.name.name!r} {why} (@{annotation})")

    # ---- entries ----

    def _entries(
        self,
        entries: Sequence[ast.Entry],
        node: ast.Table,
        keys: Sequence[Type],
        actions: dict[ast.Action, ast.ActionRef],
    ) -> None:
        for entry in entries:
            if len(entry.keys) == len(keys):
                for label, key, type_ in zip(entry.keys, node.key, keys, strict=True):
                    self._entry_label(label, key.match_kind.name, type_)
            elif not (len(entry.keys) == 1 and isinstance(entry.keys[0], ast.Anything)):
                message = f"the table has {len(keys)} keys, and the entry has {len(entry.keys)}"
                self.diagnostics.error(entry.keys[0].span.to(entry.keys[-1].span), message)
            self._priority(entry, node, entries)
            self._chosen(entry.action, node, actions, "the action")
            self._check_use(entry.action, actions, "defaultonly", "is for the default action only")

    def _priority(self, entry: ast.Entry, node: ast.Table, entries: Sequence[ast.Entry]) -> None:
        if entry.priority is None:
            if not node.are_entries_const and entry is entries[0] and any(one.priority for one in entries):
                self.diagnostics.error(entry.span, "the first entry has no priority, but another one has")
            return
        if all(key.match_kind.name in ("exact", "lpm") for key in node.key):
            self.diagnostics.error(entry.priority.span, "a table with exact and lpm keys alone has no priorities")
        self.size(entry.priority, "a priority", 0, (1 << 31) - 1)

    def _entry_label(self, label: ast.Expression, kind: str, type_: Type) -> None:
        self.label(label, type_)
        if UNKNOWN in (type_, self.checked.types[label]):
            return
        value = self.checked.constant(label)
        if value is None:
            self.diagnostics.error(label.span, "an entry must be known when compiling")
            return
        special = MaskValue | RangeValue | DontCare
        if isinstance(value, special) and not isinstance(value, _LABELS.get(kind, (MaskValue, RangeValue, DontCare))):
            self.diagnostics.error(label.span, f"{label.span.text!r} cannot be matched with a key of kind {kind}")
        elif kind == "lpm" and isinstance(value, MaskValue) and not _is_prefix(value.mask, plain(type_)):
            self.diagnostics.error(label.span, "the mask of an lpm key has its ones first, then its zeros")

    def label(self, node: ast.Expression, type_: Type, what: str = "the key", at: Span | None = None) -> None:
        """Check a label of a select case or entry: a value, mask, range, value set or `_`; blame it `at`."""
        inner = plain(type_)
        match node:
            case ast.Anything():
                self.checked.types[node] = type_
                self.checked.constants[node] = DontCare()
                return
            case ast.Mask(value=first, mask=second) | ast.Range(low=first, high=second):
                if not isinstance(inner, Bits) and inner is not UNKNOWN:
                    self.diagnostics.error(node.span, f"masks and ranges are made of bits, and this is {type_}")
                sides = [self.expression(part) for part in (first, second)]
                if sides[0] != sides[1] and all(isinstance(plain(one), Bits) for one in sides):
                    message = f"the two sides of {node.span.text!r} differ: {sides[0]} and {sides[1]}"
                    self.diagnostics.error(node.span, message)
                else:
                    for part in (first, second):
                        self.converted(part, inner, what, at)
                self.checked.types[node] = types.Set(type_)
                self._note_set(node, self.checked.constant(first), self.checked.constant(second))
                return
        found = self.expression(node)
        if isinstance(found, types.Set):
            if not holds(found.element, [type_]):
                message = f"the value set holds {found.element}, and the value that is selected on is {type_}"
                self.diagnostics.error(node.span, message)
            return
        self.converted(node, type_, what, at)

    def _note_set(self, node: ast.Expression, first: Value | None, second: Value | None) -> None:
        if not isinstance(first, int) or not isinstance(second, int):
            return
        if isinstance(node, ast.Range):
            self.checked.constants[node] = RangeValue(first, second)
            if first > second:
                self.diagnostics.warning(node.span, f"nothing is in the range {first} .. {second}")
        else:
            self.checked.constants[node] = MaskValue(first, second)

    # ---- properties ----

    def _properties(self, node: ast.Table) -> None:
        for one in node.properties:
            if one.name in _NUMBERS:
                self._number_property(one)
            elif one.name in _BOOLS:
                self.expected(one.value, BOOL, f"the property {one.name}")
            elif one.name in _INSTANCES:
                self._instance_property(one)
            else:
                hint = did_you_mean(one.name, _PROPERTIES)
                self.diagnostics.warning(one.name_span, f"the property {one.name!r} has no meaning here", hint)

    def _number_property(self, one: ast.Property) -> None:
        what = f"the property {one.name}"
        if isinstance(one.value, ast.Name) and isinstance(self.look_up(one.value), ast.Parameter):
            self.expression(one.value)  # of the constructor: its value comes with the instance
            if not self.is_static(one.value):
                self.diagnostics.error(one.value.span, f"{what} must be known when compiling")
        else:
            self.size(one.value, what, 0, (1 << 31) - 1)

    def _instance_property(self, one: ast.Property) -> None:
        found = self.expression(one.value)
        wanted = _INSTANCES[one.name]
        if found is UNKNOWN:
            return
        if isinstance(found, types.ExternType) and _plain_name(found.declaration.name) in map(_plain_name, wanted):
            return
        self.diagnostics.error(one.value.span, f"{one.name} is an {' or '.join(wanted)}, and this is {found}")


def _plain_name(name: str) -> str:
    """An extern's name as all architectures have it: ActionProfile of PSA is action_profile of v1model."""
    return name.replace("_", "").lower()


def holds(element: Type, keys: Sequence[Type]) -> bool:
    """Whether a value set of `element` fits these keys: a struct or tuple has a field for each."""
    parts = _parts(element)
    return UNKNOWN in (*parts, *keys) or parts == list(keys)


def _parts(type_: Type) -> list[Type]:
    match type_:
        case types.StructType(fields=fields):
            return [part for _, one in fields for part in _parts(one)]
        case types.Tuple(elements):
            return [part for one in elements for part in _parts(one)]
    return [type_]


def _has_plain_name(node: ast.Expression) -> bool:
    """Whether a key is named by its own text: a field, an element, a slice, a masked field, a validity."""
    match node:
        case ast.Name() | ast.IntLiteral() | ast.BoolLiteral():
            return True
        case ast.Member(target=target) | ast.Index(target=target) | ast.Slice(target=target):
            return _has_plain_name(target)
        case ast.Binary(operator="&", left=left, right=right):
            return _has_plain_name(left) or _has_plain_name(right)
        case ast.Call(callee=ast.Member(target=target, name="isValid")):
            return _has_plain_name(target)
    return False


def _is_prefix(mask: int, type_: Type) -> bool:
    if not isinstance(type_, Bits):
        return True
    zeros = ~mask & ((1 << type_.width) - 1)
    return zeros & (zeros + 1) == 0
