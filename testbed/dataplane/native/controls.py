"""Ingress and egress: a C function each, with a label for every table and condition, as the JSON's graph has them."""

from collections.abc import Mapping

from testbed.dataplane.bmv2model import ActionCall, Conditional, JsonError, Pipeline, Program, Table
from testbed.dataplane.native.expressions import Expressions
from testbed.dataplane.native.layout import Layout
from testbed.dataplane.native.names import Scope, bare, comment
from testbed.dataplane.native.numbers import stored
from testbed.dataplane.native.tables import TableLayout, data_words, key_words

Node = Table | Conditional | ActionCall


class ControlFunction:
    """`static void NAME_control(c, s)`."""

    def __init__(
        self,
        layout: Layout,
        pipeline: Pipeline,
        tables: Mapping[str, TableLayout],
        actions: Mapping[int, str],
        exiting: frozenset[int],
    ) -> None:
        self._layout = layout
        self._program: Program = layout.program
        self._expressions = Expressions(layout)
        self._pipeline = pipeline
        self._tables = tables
        self._actions = actions
        self._exiting = exiting
        nodes: tuple[Node, ...] = (*pipeline.tables, *pipeline.conditionals, *pipeline.calls)
        self._nodes: dict[str, Node] = {node.name: node for node in nodes}
        scope = Scope("done")
        self._labels = {name: scope.name(name, name) for name in self._nodes}
        self._profiles = {p.name: i for i, p in enumerate(self._program.profiles)}
        self._meters = {m.name: m for m in self._program.meters}

    @property
    def dereferenced(self) -> dict[str, None]:
        return self._expressions.dereferenced

    def lines(self) -> list[str]:
        head = [
            f"static void {self._pipeline.name}_control(struct context *c, struct p4_instance *s)",
            "{",
            "    (void)c, (void)s;",
        ]
        if self._pipeline.start is None:
            return [*head, "}", ""]
        lines = [f"    goto {self._label(self._pipeline.start)};"]
        heads = self._loop_heads(self._pipeline.start)
        for name in self._reachable():
            node = self._nodes[name]
            if isinstance(node, Table):
                body = self._table(node)
            elif isinstance(node, Conditional):
                body = self._conditional(node)
            else:
                body = [*self._invoke(node.action, "NULL"), self._goto(node.next)]
            if name in heads:
                body = ["if (++c->progress.turns > CONTROL_TURNS)", "    goto done;", *body]
            lines += ["", f"{self._labels[name]}: {{", *(f"    {line}" for line in body), "}"]
        return [*head, *lines, "done:", "    return;", "}", ""]

    def _reachable(self) -> list[str]:
        order: dict[str, None] = {}
        pending = [] if self._pipeline.start is None else [self._pipeline.start]
        while pending:
            name = pending.pop()
            if name not in order:
                order[name] = None
                pending += reversed(self._following(name))
        return list(order)

    def _following(self, name: str) -> list[str]:
        """Where a node may lead."""
        if name not in self._nodes:
            raise JsonError(f"{self._pipeline.name}: there is no node {name!r}")
        node = self._nodes[name]
        if isinstance(node, Table):
            following = [node.next, *node.next_tables.values()]
        elif isinstance(node, Conditional):
            following = [node.true_next, node.false_next]
        else:
            following = [node.next]
        return [one for one in following if one is not None]

    def _loop_heads(self, start: str) -> set[str]:
        """Nodes that the graph comes back to, at least one of every loop."""
        heads: set[str] = set()
        ended: set[str] = set()
        path = {start: iter(self._following(start))}  # of the walk, with what is still to be tried
        while path:
            last, following = next(reversed(path.items()))
            name = next(following, None)
            if name is None:
                ended.add(last)
                del path[last]
            elif name in path:
                heads.add(name)
            elif name not in ended:
                path[name] = iter(self._following(name))
        return heads

    def _label(self, name: str) -> str:
        if name not in self._labels:
            raise JsonError(f"{self._pipeline.name}: there is no node {name!r}")
        return self._labels[name]

    def _goto(self, name: str | None) -> str:
        return f"goto {self._label(name)};" if name is not None else "goto done;"

    def _conditional(self, node: Conditional) -> list[str]:
        source = [comment(str(node.source))] if node.source else []
        condition = self._expressions.boolean(node.expression)
        return [*source, f"if ({bare(condition)})", f"    {self._goto(node.true_next)}", self._goto(node.false_next)]

    def _invoke(self, action: int, data: str) -> list[str]:
        lines = [f"{self._actions[action]}(c, s, {data});"]
        if action in self._exiting:
            lines += ["if (c->progress.exited)", "    goto done;"]
        return lines

    def _table(self, table: Table) -> list[str]:
        source = comment(f"{table.source or table.name}")
        layout = self._tables[table.name]
        if not table.keys:
            return [source, *self._without_key(table, layout)]
        words = key_words(layout)
        n, data = layout.number, data_words(self._program, table.actions)
        size = f"{layout.key_words}, {data}"
        match layout.kind:
            case "TABLE_EXACT":
                found = f"table_exact(&s->tables[{n}], key, {size})"
            case "TABLE_LPM":
                found = f"table_lpm(&s->tables[{n}], key, {layout.key_bits}, {data})"
            case _:
                found = f"table_ternary(&s->tables[{n}], key)"
        hit = ["action = entry->action;", "data = entry->words;"]
        if table.profile:
            hit = self._member(table)
        if table.counted or table.timeout:
            hit.insert(0, "count_packet(&entry->count, c->progress.received);")
        if table.meter is not None:
            hit.insert(0, self._direct_meter(table))
        return [
            source,
            f"const uint64_t key[] = {{{', '.join(words)}}};",
            f"struct entry *entry = {found};",
            f"uint32_t action = s->tables[{n}].default_action;",
            f"const uint64_t *data = s->tables[{n}].default_data;",
            "if (entry) {",
            *(f"    {line}" for line in hit),
            "}",
            *self._dispatch(table, "entry"),
        ]

    def _without_key(self, table: Table, layout: TableLayout) -> list[str]:
        """A table without key always misses; where its default cannot change, it is a call."""
        n = layout.number
        if table.default and table.default_fixed and (table.default_data_fixed or not table.default[1]):
            action = table.default[0]
            data = f"s->tables[{n}].default_data" if table.default[1] else "NULL"
            return [*self._invoke(action, data), self._goto(self._after(table, action, hit=False))]
        head = [f"uint32_t action = s->tables[{n}].default_action;"]
        return [*head, f"const uint64_t *data = s->tables[{n}].default_data;", *self._dispatch(table, "false")]

    def _after(self, table: Table, action: int | None, hit: bool) -> str | None:
        following = table.next_tables
        outcome = "__HIT__" if hit else "__MISS__"
        if outcome in following:
            return following[outcome]
        name = self._program.actions[action].name if action is not None else ""
        return following.get(name, table.next)

    def _dispatch(self, table: Table, hit: str) -> list[str]:
        """Run the action that `action` numbers, and go on to what follows it."""
        lines = ["switch (action) {"]
        for number, action in enumerate(table.actions):
            after = [self._after(table, action, outcome) for outcome in (True, False)]
            lines += [f"case {number}:", *(f"    {line}" for line in self._invoke(action, "data"))]
            if after[0] == after[1]:
                lines.append(f"    {self._goto(after[0])}")
            else:
                lines += [f"    if ({hit})", f"        {self._goto(after[0])}", f"    {self._goto(after[1])}"]
        lines += ["default: /* no action */", "    (void)data;", "    break;", "}"]
        after = [self._after(table, None, outcome) for outcome in (True, False)]
        if after[0] != after[1]:
            lines += [f"if ({hit})", f"    {self._goto(after[0])}"]
        return [*lines, self._goto(after[1])]

    def _member(self, table: Table) -> list[str]:
        """The action of the profile's member that an entry names, or that its group's hash picks."""
        number = self._profiles[str(table.profile)]
        profile = self._program.profiles[number]
        lines = ["uint32_t member = entry->action;"]
        if profile.algorithm is not None:
            pick = f"profile_pick(&s->profiles[{number}], member, selector_{number}(s, c, NULL))"
            lines += ["if (entry->call_kind == P4_CALL_GROUP)", f"    member = {pick};"]
        return [*lines, f"action = profile_call(&s->profiles[{number}], member, &data);"]

    def _direct_meter(self, table: Table) -> str:
        meter = self._meters[str(table.meter)]
        amount = "c->progress.received" if meter.bytes else "1"
        n = self._tables[table.name].number
        own = f"s->tables[{n}].meters[entry->handle]"
        run = f"meter_run(&{own}, c->progress.now_ns, {amount})"
        if meter.target is None:
            return f"{run};"
        path, field = self._layout.field(*meter.target)
        return f"{path} = ({stored(field.bits)}){run};"
