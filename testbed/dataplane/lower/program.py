"""A whole v1model program as BMv2 JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.dataplane import ast, types
from testbed.dataplane.checked import Checked
from testbed.dataplane.constants import evaluate
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower.checksums import ChecksumLowering
from testbed.dataplane.lower.context import Context, Numbered, refused
from testbed.dataplane.lower.controls import ControlLowering
from testbed.dataplane.lower.deparsers import DeparserLowering
from testbed.dataplane.lower.frames import BlockInstance, ExternInstance, Frame
from testbed.dataplane.lower.instances import control_plane_name, make, make_instance
from testbed.dataplane.lower.layout import Unsupported
from testbed.dataplane.lower.parsers import ParserLowering
from testbed.dataplane.lower.values import Struct, Value

FORMAT_VERSION = [2, 23]


@dataclass(frozen=True, slots=True)
class Lowered:
    """The JSON, and what P4Info is made of: the global instances and the blocks of V1Switch, in order."""

    json: dict[str, Any]
    globals: Frame
    blocks: tuple[BlockInstance, ...]
    externs: tuple[ExternInstance, ...]
    digests: tuple[tuple[str, types.Type], ...]


def lower(checked: Checked) -> Lowered:
    """Raises `P4Errors` for what this target cannot run."""
    return _Program(checked).lowered()


_PARAMETERS = (4, 2, 3, 3, 2, 2)  # of the blocks of V1Switch


class _Program:
    def __init__(self, checked: Checked) -> None:
        self._context = Context(checked)
        self._globals = Frame()

    def lowered(self) -> Lowered:
        checked = self._context.checked
        main = checked.main
        assert main is not None
        for one in checked.program.declarations:
            if isinstance(one, ast.Instance) and one is not main:
                made = make_instance(self._context, self._globals, one)
                if made is not None:
                    self._globals.bindings[one] = made
        blocks = self._blocks(main)
        try:
            document = self._document(main, blocks)
        except Unsupported as error:
            raise refused(main.span, str(error)) from error
        return Lowered(
            document, self._globals, tuple(blocks), tuple(self._context.externs), tuple(self._context.digests)
        )

    def _blocks(self, main: ast.Instance) -> list[BlockInstance]:
        checked = self._context.checked
        call = checked.call(main)
        if call.name != "V1Switch":
            raise refused(main.span, f"the architecture {call.name} is not supported", "use V1Switch of v1model.p4")
        found: list[BlockInstance] = []
        for one in call.passed:
            block = self._block(one.value, main.span)
            if not isinstance(block, BlockInstance):
                raise refused((one.value or main).span, f"{one.parameter.name} has to be a parser or control")
            found.append(block)
        if tuple(len(block.declaration.parameters) for block in found) != _PARAMETERS:
            raise refused(main.span, "this V1Switch is not that of v1model.p4", "include <v1model.p4>")
        return found

    def _block(self, node: ast.Expression | None, span: Span) -> BlockInstance | ExternInstance | None:
        checked = self._context.checked
        if isinstance(node, ast.Call):
            call = checked.call(node)
            assert isinstance(call.callee, ast.Parser | ast.Control)
            name = control_plane_name("", call.callee)
            return make(self._context, self._globals, name, call, span)
        declaration = None if node is None else checked.declaration(node)
        found = self._globals.find(declaration) if declaration is not None else None
        return found if isinstance(found, BlockInstance) else None

    def _document(self, main: ast.Instance, blocks: Sequence[BlockInstance]) -> dict[str, Any]:
        context = self._context
        parser, verify, ingress, egress, compute, deparser = blocks
        headers, metadata, standard = self._roots(parser)
        span = main.span
        self._constants()
        states = ParserLowering(context, self._globals).run(
            parser, _bound(parser, [headers, metadata, standard], 1), span
        )
        checksums = Numbered()
        for block in (verify, compute):
            lowering = ChecksumLowering(context, self._globals)
            lowering.checksums(checksums)
            lowering.run(block, _bound(block, [headers, metadata]))
        pipelines: list[dict[str, Any]] = []
        for number, (name, block) in enumerate((("ingress", ingress), ("egress", egress))):
            control = ControlLowering(context, self._globals)
            control.run(block, _bound(block, [headers, metadata, standard]))
            described = control.pipeline(name, number, block.declaration.name_span)
            described["action_profiles"] = list(context.profiles.items)
            pipelines.append(described)
            context.profiles.items.clear()
        deparsing = DeparserLowering(context, self._globals)
        described = deparsing.deparser(deparser, _bound(deparser, [headers], 1), deparser.declaration.name_span)
        layout = context.layout.document()
        path = span.source.path
        return {
            **{key: layout[key] for key in layout if key not in ("enums", "field_aliases")},
            "field_lists": context.field_lists,
            "errors": [[name, number] for number, name in enumerate(context.checked.errors)],
            "enums": layout["enums"],
            "parsers": [{"name": "parser", "id": 0, "init_state": states[0]["name"], "parse_states": states}],
            "parse_vsets": context.value_sets.items,
            "deparsers": [described],
            "meter_arrays": context.meters.items,
            "counter_arrays": context.counters.items,
            "register_arrays": context.registers.items,
            "calculations": context.calculations.items,
            "learn_lists": context.learn_lists.items,
            "actions": context.actions.items,
            "pipelines": pipelines,
            "checksums": checksums.items,
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": layout["field_aliases"],
            "program": path,
            "__meta__": {"version": FORMAT_VERSION, "compiler": "testbed"},
        }

    def _constants(self) -> None:
        """Values of global constants that the checker left to us."""
        checked = self._context.checked
        for one in checked.program.declarations:
            if isinstance(one, ast.Constant) and one not in checked.constants:
                value = evaluate(checked, one.value, self._globals.known)
                if value is not None:
                    self._globals.known[one] = value

    def _roots(self, parser: BlockInstance) -> tuple[Value, Value, Value]:
        """The headers, the user's metadata and the standard metadata."""
        checked, layout = self._context.checked, self._context.layout
        assert isinstance(parser.declaration, ast.Parser)
        _, headers, metadata, standard = (
            types.substitute(checked.type_of(one), parser.type_arguments) for one in parser.declaration.parameters
        )
        assert isinstance(standard, types.StructType)
        known = layout.standard_metadata(standard)
        user = layout.place(
            metadata.declaration.name if isinstance(metadata, types.StructType) else "metadata", metadata
        )
        roots = layout.place("", headers)
        self._context.metadata = user if isinstance(user, Struct) else None
        self._context.standard = known
        return roots, user, known


def _bound(block: BlockInstance, values: Sequence[Value], skip: int = 0) -> dict[ast.Node, Value]:
    """The parameters of a block with their values; the first `skip` are externs."""
    return dict(zip(block.declaration.parameters[skip:], values, strict=True))
