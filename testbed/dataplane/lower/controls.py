"""Controls: apply blocks as code, and that code as the tables and conditionals of a pipeline."""

from collections.abc import Mapping
from typing import Any

from testbed.dataplane import ast
from testbed.dataplane.checked import Invocation
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower.actions import linear
from testbed.dataplane.lower.calls import Scope
from testbed.dataplane.lower.code import Apply, Block, Branch, Graph, Jump, Label, source_info
from testbed.dataplane.lower.context import Context, refused
from testbed.dataplane.lower.frames import ActionBinding, BlockInstance, Frame, TableInstance
from testbed.dataplane.lower.instances import control_plane_name
from testbed.dataplane.lower.tables import DEFAULT_SIZE, TableLowering
from testbed.dataplane.lower.values import Value


class ControlLowering(TableLowering):
    def run(self, instance: BlockInstance, bindings: Mapping[ast.Node, Value]) -> None:
        """Lower the control of a pipeline."""
        frame = self.frame_of(instance)
        frame.bindings |= bindings
        self._control(instance, frame, Scope(Label()))

    @staticmethod
    def frame_of(instance: BlockInstance) -> Frame:
        outer = instance.outer
        known = dict(outer.known) | dict(instance.known)
        types = dict(outer.type_arguments) | dict(instance.type_arguments)
        return Frame(outer, instance.name, dict(instance.parts), known, types)

    def _control(self, instance: BlockInstance, frame: Frame, scope: Scope) -> None:
        declaration = instance.declaration
        assert isinstance(declaration, ast.Control)
        for one in declaration.locals:
            if isinstance(one, ast.Action):
                frame.bindings[one] = ActionBinding(one)
        with self.inside(frame, scope):
            for one in declaration.locals:
                if isinstance(one, ast.Variable | ast.Constant):
                    self.statement(one)
            self.body(declaration.body)
            self.mark(scope.end)

    def apply_control(self, node: ast.Call, call: Invocation) -> None:
        instance, passed = self.applied(node, call)
        frame = self.frame_of(instance)
        outs = self.bind(frame, passed, node.span)
        scope = Scope(Label(), None, outs)
        self._control(instance, frame, scope)
        self.copy_out(outs)

    def apply_table(self, node: ast.Call, targets: Mapping[str, Label]) -> None:
        """Apply a table; `targets` are for `__HIT__` and `__MISS__`, or for names of actions and `default`."""
        call = self.checked.call(node)
        assert call.receiver is not None
        instance = self.instance(call.receiver)
        if not isinstance(instance, TableInstance):
            raise refused(node.span, f"{call.receiver.span.text!r} is not a table that can be applied here")
        described = self.table(instance, node.span)
        if "__HIT__" in targets or not targets:
            self.code.append(Apply(described, tuple(targets.items())))
            return
        names: dict[str, Label] = {}
        default = targets["default"]
        for ref in instance.declaration.actions:
            action = self._action(ref)
            known = control_plane_name("" if self.frame.holder(action) is None else self.frame.prefix, action)
            names[known] = targets.get(ref.name.name, default)
        for known in described["actions"]:
            names.setdefault(known, targets.get(known.rpartition(".")[2], default))
        self.code.append(Apply(described, tuple(names.items())))

    def pipeline(self, name: str, number: int, span: Span) -> dict[str, Any]:
        """The pipeline that the code makes."""
        graph = Graph(self.code, (self.finish,))
        return _PipelineWriter(self.context, graph).pipeline(name, number, span)


class _PipelineWriter:
    """Turns basic blocks into keyless tables that run an action, and what they lead to."""

    def __init__(self, context: Context, graph: Graph) -> None:
        self._context = context
        self._graph = graph
        self._tables: list[dict[str, Any]] = []
        self._conditionals: list[dict[str, Any]] = []
        self._actions: dict[Label, dict[str, Any]] = {}
        self._ends: dict[Label, str] = {}  # the names of conditionals

    def pipeline(self, name: str, number: int, span: Span) -> dict[str, Any]:
        blocks = self._graph.blocks
        for block in blocks:
            self._name(block)
        for block in blocks:
            self._write(block)
        start = self._graph.block(self._graph.start)
        return {
            "name": name,
            "id": number,
            "source_info": source_info(span),
            "init_table": None if start is None else self._entry(start),
            "tables": self._tables,
            "action_profiles": [],
            "conditionals": self._conditionals,
        }

    def _name(self, block: Block) -> None:
        if block.primitives:
            line = block.primitives[0].span.line
            name = self._context.actions.unique(f"{self._context.stem}{line}")
            action = self._context.actions.add(name, runtime_data=[], primitives=linear(list(block.primitives)))
            self._actions[block.label] = action
        if isinstance(block.end, Branch):
            self._ends[block.label] = self._context.conditionals.unique("node")

    def _entry(self, block: Block) -> str | None:
        if block.label in self._actions:
            return f"tbl_{self._actions[block.label]['name']}"
        return self._exit(block)

    def _exit(self, block: Block) -> str | None:
        """The node that follows a block's primitives."""
        match block.end:
            case Branch():
                return self._ends[block.label]
            case Apply(table=table):
                return str(table["name"])
            case Jump(target):
                return self._to(target)
        raise AssertionError("no other instruction ends a block of a control")

    def _to(self, label: Label | None) -> str | None:
        assert label is not None
        block = self._graph.block(label)
        return None if block is None else self._entry(block)

    def _write(self, block: Block) -> None:
        action = self._actions.get(block.label)
        if action is not None:
            self._tables.append(self._action_table(block, action))
        match block.end:
            case Branch(condition, otherwise, span):
                self._conditionals.append(
                    {
                        "name": self._ends[block.label],
                        "id": len(self._context.conditionals.items),
                        "source_info": source_info(span),
                        "expression": _wrapped(condition),
                        "true_next": self._to(block.follow),
                        "false_next": self._to(otherwise),
                    }
                )
                self._context.conditionals.items.append({})
            case Apply(table, targets):
                self._tables.append(self._applied(block, table, dict(targets)))

    def _applied(self, block: Block, table: dict[str, Any], targets: dict[str, Label]) -> dict[str, Any]:
        following = self._to(block.follow)
        if "__HIT__" in targets:
            table["base_default_next"] = None
            table["next_tables"] = {key: self._to(targets[key]) for key in ("__HIT__", "__MISS__")}
        else:
            table["base_default_next"] = following
            table["next_tables"] = {
                name: self._to(targets[name]) if name in targets else following for name in table["actions"]
            }
        return table

    def _action_table(self, block: Block, action: dict[str, Any]) -> dict[str, Any]:
        following = self._exit(block)
        return self._context.tables.add(
            f"tbl_{action['name']}",
            source_info=source_info(block.primitives[0].span),
            key=[],
            match_type="exact",
            type="simple",
            max_size=DEFAULT_SIZE,
            with_counters=False,
            support_timeout=False,
            direct_meters=None,
            action_ids=[action["id"]],
            actions=[action["name"]],
            base_default_next=following,
            next_tables={action["name"]: following},
            default_entry={
                "action_id": action["id"],
                "action_const": True,
                "action_data": [],
                "action_entry_const": True,
            },
        )


def _wrapped(condition: dict[str, Any]) -> dict[str, Any]:
    return condition if condition["type"] == "expression" else {"type": "expression", "value": condition}
