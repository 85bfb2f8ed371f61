"""P4Info: what the control plane may know of a program, with the numbers that the reference compiler gives."""

from collections.abc import Iterator

from testbed.dataplane import ast, types
from testbed.dataplane.checked import CallKind, Checked
from testbed.dataplane.compiled import P4Info
from testbed.dataplane.constants import evaluate
from testbed.dataplane.lower.context import children
from testbed.dataplane.lower.frames import BlockInstance, ExternInstance, Frame, TableInstance
from testbed.dataplane.lower.instances import annotation_text, control_plane_name, enum_name
from testbed.dataplane.lower.program import Lowered
from testbed.dataplane.lower.tables import DEFAULT_SIZE, key_name
from testbed.dataplane.p4info_format import Message, to_binary, to_text
from testbed.dataplane.p4info_names import Ids, given, numbered, set_aliases
from testbed.dataplane.p4info_types import TypeInfo, bits_of

_EXTERNS = {
    "action_profile": "action_profiles",
    "action_selector": "action_profiles",
    "counter": "counters",
    "direct_counter": "direct_counters",
    "meter": "meters",
    "direct_meter": "direct_meters",
    "register": "registers",
}
_UNITS = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
_OWN_ANNOTATIONS = frozenset({"name", "id", "alias", "pkginfo", "p4runtime_translation"})


def p4info(checked: Checked, lowered: Lowered) -> P4Info:
    message = _Writer(checked, lowered).message()
    return P4Info(to_text(message), to_binary(message))


class _Writer:
    def __init__(self, checked: Checked, lowered: Lowered) -> None:
        self._checked = checked
        self._lowered = lowered
        self._ids = Ids()
        self._message: Message = {"pkg_info": {"arch": "v1model"}}
        self._types = TypeInfo(checked)
        self._table_ids: dict[str, int] = {}

    def message(self) -> Message:
        instances = list(self._instances())
        tables = [(frame, one) for frame, one in instances if isinstance(one, TableInstance)]
        self._package()
        self._actions(tables)
        for frame, table in tables:
            self._add("tables", self._table(frame, table))
        for _, one in instances:
            if isinstance(one, ExternInstance):
                self._extern(one)
        self._controller_headers()
        self._value_sets()
        for name, type_ in self._lowered.digests:
            self._types.is_shown = True
            described: Message = {"preamble": self._preamble("digests", name), "type_spec": self._types.data(type_)}
            self._add("digests", described)
        set_aliases(self._message)
        if self._types.is_shown:
            self._message["type_info"] = self._types.message()
        return self._message

    def _add(self, kind: str, described: Message) -> None:
        self._message.setdefault(kind, []).append(described)

    def _package(self) -> None:
        main = self._checked.main
        annotation = None if main is None else ast.annotation(main, "pkginfo")
        for key, value in annotation.pairs if annotation else ():
            if isinstance(value, ast.StringLiteral) and key in ("name", "version", "organization", "contact", "url"):
                self._message["pkg_info"][key] = value.value

    # ---- what there is ----

    def _instances(self) -> Iterator[tuple[Frame, ExternInstance | TableInstance]]:
        """Tables that are applied and instances of externs in order, each with the frame it is in."""
        frame = self._lowered.globals
        for one in frame.bindings.values():
            if isinstance(one, ExternInstance):
                yield frame, one
        for block in self._lowered.blocks:
            yield from self._inside(block)

    def _inside(self, block: BlockInstance) -> Iterator[tuple[Frame, ExternInstance | TableInstance]]:
        frame = _frame(block)
        for one in block.parts.values():
            if isinstance(one, BlockInstance):
                yield from self._inside(one)
            elif isinstance(one, ExternInstance) or (isinstance(one, TableInstance) and one.is_applied):
                yield frame, one

    def _blocks(self) -> Iterator[BlockInstance]:
        waiting = list(self._lowered.blocks)
        while waiting:
            block = waiting.pop(0)
            yield block
            waiting[:0] = [one for one in block.parts.values() if isinstance(one, BlockInstance)]

    # ---- what all have in common ----

    def _preamble(self, kind: str, name: str, annotations: tuple[ast.Annotation, ...] = ()) -> Message:
        return {
            "id": self._ids.of(kind, name, annotations),
            "name": name,
            "annotations": [_shown(one) for one in annotations if one.name not in _OWN_ANNOTATIONS],
        }

    # ---- actions and tables ----

    def _actions(self, tables: list[tuple[Frame, TableInstance]]) -> None:
        used: dict[str, tuple[Frame, ast.Action]] = {}
        wanted: set[tuple[str, ast.Node]] = set()
        for frame, table in tables:
            for action in self._actions_of(table):
                wanted.add((self._prefix(frame, action), action))
        for block in self._blocks():
            for node in _walk(block.declaration.body) if isinstance(block.declaration, ast.Control) else ():
                call = self._checked.calls.get(node)
                # The reference compiler looks for digests among the functions that are called, and leaves this trace.
                self._types.is_shown = self._types.is_shown or (
                    call is not None and call.kind is CallKind.EXTERN_FUNCTION
                )
                called = call.callee if call is not None and call.kind is CallKind.ACTION else None
                if isinstance(called, ast.Action) and self._is_local(block, called):
                    wanted.add((block.name, called))
        in_tables = {action for _, table in tables for action in self._actions_of(table)}
        for block in self._blocks():
            frame = _frame(block)
            mine = {
                action for holder, table in tables if holder.prefix == block.name for action in self._actions_of(table)
            }
            for declaration in self._checked.program.declarations:
                if isinstance(declaration, ast.Action) and declaration in mine:
                    used.setdefault(control_plane_name("", declaration), (self._lowered.globals, declaration))
            for one in block.declaration.locals:
                if isinstance(one, ast.Action) and (block.name, one) in wanted:
                    used[control_plane_name(block.name, one)] = (frame, one)
        for name, (frame, action) in used.items():
            self._add("actions", self._action(name, frame, action, action in in_tables))

    @staticmethod
    def _is_local(block: BlockInstance, action: ast.Action) -> bool:
        return any(one is action for one in block.declaration.locals)

    def _prefix(self, frame: Frame, action: ast.Action) -> str:
        is_global = any(one is action for one in self._checked.program.declarations)
        return "" if is_global else frame.prefix

    def _action_of(self, ref: ast.ActionRef) -> ast.Action:
        action = self._checked.declaration(ref.name)
        assert isinstance(action, ast.Action)
        return action

    def _actions_of(self, table: TableInstance) -> list[ast.Action]:
        found = [self._action_of(ref) for ref in table.declaration.actions]
        default = table.declaration.default_action
        action = self._action_of(default) if default is not None else self._no_action()
        return found if action in found else [*found, action]

    def _no_action(self) -> ast.Action:
        return next(
            one for one in self._checked.program.declarations if isinstance(one, ast.Action) and one.name == "NoAction"
        )

    def _action(self, name: str, frame: Frame, action: ast.Action, has_data: bool) -> Message:
        params: list[Message] = []
        for parameter in _data_parameters(action) if has_data else ():
            type_ = types.substitute(self._checked.type_of(parameter), frame.type_arguments)
            params.append(
                {
                    "id": numbered(parameter.annotations, len(params) + 1),
                    "name": _own_name(parameter),
                    "annotations": [_shown(one) for one in parameter.annotations if one.name not in _OWN_ANNOTATIONS],
                    **self._types.value(type_),
                }
            )
        return {"preamble": self._preamble("actions", name, action.annotations), "params": params}

    def _action_id(self, frame: Frame, action: ast.Action) -> int:
        name = control_plane_name(self._prefix(frame, action), action)
        return self._ids.of("actions", name, action.annotations)

    def _table(self, frame: Frame, table: TableInstance) -> Message:
        node = table.declaration
        described: Message = {"preamble": self._preamble("tables", table.name, node.annotations)}
        self._table_ids[table.name] = described["preamble"]["id"]
        described["match_fields"] = self._match_fields(frame, node)
        described["action_refs"] = self._action_refs(frame, table)
        default = node.default_action
        action = self._action_of(default) if default is not None else self._no_action()
        number = self._action_id(frame, action)
        if node.is_default_const:
            described["const_default_action_id"] = number
        described["initial_default_action"] = {
            "action_id": number,
            "arguments": self._arguments(frame, default, action),
        }
        given = {one.name: one for one in node.properties}
        resources: list[int] = []
        for key, kind in (
            ("counters", "direct_counters"),
            ("meters", "direct_meters"),
            ("implementation", "action_profiles"),
        ):
            owner = self._owner(table, key)
            if owner is None:
                continue
            annotations = owner.declaration.annotations if owner.declaration else ()
            number = self._ids.of(kind, owner.name, annotations)
            if key == "implementation":
                described["implementation_id"] = number
            else:
                resources.append(number)
        described["direct_resource_ids"] = resources
        size = evaluate(self._checked, given["size"].value, frame.known) if "size" in given else None
        described["size"] = size if isinstance(size, int) and size > 0 else DEFAULT_SIZE
        timeout = given.get("support_timeout")
        if timeout is not None and evaluate(self._checked, timeout.value, frame.known) is True:
            described["idle_timeout_behavior"] = "NOTIFY_CONTROL"
        described["is_const_table"] = node.are_entries_const
        described["has_initial_entries"] = bool(node.entries)
        return described

    def _owner(self, table: TableInstance, key: str) -> ExternInstance | None:
        """What is bound to a table as its `counters`, `meters` or `implementation`."""
        kinds = {
            "counters": ("direct_counter",),
            "meters": ("direct_meter",),
            "implementation": ("action_profile", "action_selector"),
        }[key]
        for one in self._lowered.externs:
            if table.name in one.tables and one.type.declaration.name in kinds:
                return one
        return None

    def _match_fields(self, frame: Frame, node: ast.Table) -> list[Message]:
        found: list[Message] = []
        for key in node.key:
            kind = key.match_kind.name
            if kind == "selector":
                continue
            type_ = types.substitute(self._checked.type_of(key.expression), frame.type_arguments)
            found.append(
                {
                    "id": numbered(key.annotations, len(found) + 1),
                    "name": key_name(key),
                    "annotations": [_shown(one) for one in key.annotations if one.name not in _OWN_ANNOTATIONS],
                    "match_type": kind.upper(),
                    **self._types.value(type_),
                }
            )
        return found

    def _action_refs(self, frame: Frame, table: TableInstance) -> list[Message]:
        listed = [self._action_of(ref) for ref in table.declaration.actions]
        by_action = dict(zip(listed, table.declaration.actions, strict=True))
        found: list[Message] = []
        for action in self._actions_of(table):
            ref = by_action.get(action)
            names = {one.name for one in ref.annotations} if ref is not None else {"defaultonly"}
            annotations = [_shown(one) for one in ref.annotations] if ref is not None else ["@defaultonly"]
            scope = "TABLE_ONLY" if "tableonly" in names else "DEFAULT_ONLY" if "defaultonly" in names else None
            found.append({"id": self._action_id(frame, action), "annotations": annotations, "scope": scope})
        return found

    def _arguments(self, frame: Frame, ref: ast.ActionRef | None, action: ast.Action) -> list[Message]:
        if ref is None:
            return []
        wanted = _data_parameters(action)
        positional = list(action.parameters) if len(ref.arguments) == len(action.parameters) else wanted
        by_name = {one.name: one.value for one in ref.arguments if one.name is not None} or {
            parameter.name: one.value for parameter, one in zip(positional, ref.arguments, strict=False)
        }
        found: list[Message] = []
        for at, parameter in enumerate(wanted, 1):
            expression = by_name.get(parameter.name) or parameter.default
            value = None if expression is None else evaluate(self._checked, expression, frame.known)
            bits = bits_of(types.substitute(self._checked.type_of(parameter), frame.type_arguments))
            if isinstance(value, int):
                cut = int(value) & ((1 << bits) - 1)
                number = numbered(parameter.annotations, at)
                found.append({"param_id": number, "value": cut.to_bytes((bits + 7) // 8, "big")})
        return found

    # ---- externs and the rest ----

    def _extern(self, one: ExternInstance) -> None:
        kind = _EXTERNS.get(one.type.declaration.name)
        if kind is None:
            return
        annotations = one.declaration.annotations if one.declaration else ()
        described: Message = {"preamble": self._preamble(kind, one.name, annotations)}
        ids = [self._table_ids[name] for name in one.tables if name in self._table_ids]
        sizes = [value for value in one.arguments if isinstance(value, int)]
        match kind:
            case "action_profiles":
                described |= {"table_ids": ids, "size": sizes[0]}
                described["with_selector"] = one.type.declaration.name == "action_selector"
                described["max_group_size"] = given(annotations, "max_group_size")
            case "registers":
                self._types.is_shown = True
                described |= {"type_spec": self._types.data(one.type.arguments[0]), "size": sizes[0]}
            case "counters" | "meters":
                described |= {"spec": {"unit": _UNITS[enum_name(one.arguments[1])]}, "size": sizes[0]}
            case _:
                if not ids:
                    return
                described |= {"spec": {"unit": _UNITS[enum_name(one.arguments[0])]}, "direct_table_id": ids[0]}
        self._add(kind, described)

    def _controller_headers(self) -> None:
        for one in self._checked.program.declarations:
            annotation = ast.annotation(one, "controller_header") if isinstance(one, ast.Struct) else None
            if annotation is None or not isinstance(one, ast.Struct):
                continue
            name = annotation_text(annotation)
            fields: list[Message] = []
            for at, part in enumerate(one.fields, 1):
                fields.append(
                    {
                        "id": numbered(part.annotations, at),
                        "name": _own_name(part),
                        "annotations": [_shown(two) for two in part.annotations if two.name not in _OWN_ANNOTATIONS],
                        **self._types.value(self._checked.type_of(part)),
                    }
                )
            # The reference compiler numbers these by the name of the type, and shows the annotation's.
            preamble = self._preamble("controller_packet_metadata", control_plane_name("", one), one.annotations)
            preamble["name"] = name
            self._add("controller_packet_metadata", {"preamble": preamble, "metadata": fields})

    def _value_sets(self) -> None:
        for block in self._blocks():
            frame = _frame(block)
            for one in block.declaration.locals:
                if isinstance(one, ast.ValueSet):
                    name = control_plane_name(block.name, one)
                    type_ = types.substitute(self._checked.type_of(one), frame.type_arguments)
                    size = evaluate(self._checked, one.size, frame.known)
                    preamble = self._preamble("value_sets", name, one.annotations)
                    self._add("value_sets", {"preamble": preamble, "match": _set_fields(type_), "size": size})


def _frame(block: BlockInstance) -> Frame:
    known = dict(block.outer.known) | dict(block.known)
    type_arguments = dict(block.outer.type_arguments) | dict(block.type_arguments)
    return Frame(block.outer, block.name, {}, known, type_arguments)


def _walk(node: ast.Node) -> Iterator[ast.Node]:
    yield node
    for one in children(node):
        yield from _walk(one)


def _shown(annotation: ast.Annotation) -> str:
    return " ".join(annotation.span.text.split())


def _own_name(node: ast.Declared) -> str:
    annotation = ast.annotation(node, "name")
    return node.name if annotation is None else annotation_text(annotation)


def _data_parameters(action: ast.Action) -> list[ast.Parameter]:
    """The parameters that the control plane gives."""
    return [one for one in action.parameters if one.direction is ast.Direction.NONE]


def _set_fields(type_: types.Type) -> list[Message]:
    """What is matched in a value set."""
    element = type_.element if isinstance(type_, types.Set) else type_
    if isinstance(element, types.StructType):
        return [
            {"id": at, "name": name, "bitwidth": bits_of(one), "match_type": "EXACT"}
            for at, (name, one) in enumerate(element.fields, 1)
        ]
    if isinstance(element, types.Tuple):
        return [
            {"id": at, "bitwidth": bits_of(one), "match_type": "EXACT"} for at, one in enumerate(element.elements, 1)
        ]
    return [{"id": 1, "bitwidth": bits_of(element), "match_type": "EXACT"}]
