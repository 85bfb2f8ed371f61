"""How far into a frame a program looks: the longest way through its parser."""

from testbed.dataplane.bmv2model import HeaderType, Primitive, State
from testbed.dataplane.native.expressions import lookaheads
from testbed.dataplane.native.layout import Layout


def looks_bytes(layout: Layout) -> int | None:
    """The most bytes from a frame's beginning that are parsed or looked ahead at; None: any, if it is long enough.

    That is so for a checksum of the payload, for a parser that may come back to a state, and for one that advances by
    what it has read.
    """
    program = layout.program
    summed = (program.calculations[c.calculation] for c in program.checksums)
    if any(term.kind == "payload" for calculation in summed for term in calculation.inputs):
        return None
    states = {state.name: state for state in program.parser.states}
    known: dict[str, int | None] = {}

    def longest(name: str, above: frozenset[str]) -> int | None:
        if name in above:
            return None
        if name not in known:
            known[name] = _beyond(name, above | {name})
        return known[name]

    def _beyond(name: str, above: frozenset[str]) -> int | None:
        moved, seen = _state(layout, states[name])
        if moved is None:
            return None
        for following in {t.next for t in states[name].transitions if t.next is not None}:
            further = longest(following, above)
            if further is None:
                return None
            seen = max(seen, moved + further)
        return seen

    return longest(program.parser.start, frozenset())


def _state(layout: Layout, state: State) -> tuple[int | None, int]:
    """By how many bytes a state moves on, None: the packet tells; and the most that it looks at from there."""
    moved = seen = 0
    for operation in state.operations:
        seen = max(seen, moved + (lookaheads(operation.arguments) + 7) // 8)
        step = _step(layout, operation)
        if step is None:
            return None, 0
        moved += step
    return moved, max(seen, moved + (lookaheads(state.key) + 7) // 8)


def _step(layout: Layout, operation: Primitive) -> int | None:
    match operation.op:
        case "extract" | "extract_VL":
            return max((t.max_bits + 7) // 8 for t in _extracted(layout, operation))
        case "advance" | "shift":
            amount = operation.arguments[0]
            if amount.kind != "hexstr":
                return None
            return int(amount.value) if operation.op == "shift" else (int(amount.value) + 7) // 8
    return 0


def _extracted(layout: Layout, operation: Primitive) -> list[HeaderType]:
    program, term = layout.program, operation.arguments[0]
    if term.kind == "regular":
        return [layout.place(term.value).type]
    if term.kind == "stack":
        return [program.stacks[term.value].headers[0].type]
    return [header.type for _, header in program.union_stacks[term.value[0]].unions[0].members]
