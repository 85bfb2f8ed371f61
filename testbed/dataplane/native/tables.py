"""Tables: how keys and action data are laid out, descriptors that the runtime reads, entries that a program brings."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.dataplane.bmv2model import EntryKey, JsonError, Program, Table
from testbed.dataplane.native.expressions import Expressions
from testbed.dataplane.native.names import comment
from testbed.dataplane.native.numbers import modular

_KINDS = {"exact": "TABLE_EXACT", "lpm": "TABLE_LPM", "ternary": "TABLE_TERNARY", "range": "TABLE_TERNARY"}
_MATCHES = {
    "exact": "MATCH_EXACT",
    "valid": "MATCH_EXACT",
    "lpm": "MATCH_LPM",
    "ternary": "MATCH_TERNARY",
    "range": "MATCH_RANGE",
    "optional": "MATCH_OPTIONAL",
}
MAX_KEY_BITS = 64 * 64  # MAX_KEY_WORDS of parts.h


@dataclass(frozen=True, slots=True)
class KeyField:
    """A field of a key: C for its bits, how many, and where its first one is in the key."""

    code: str
    bits: int
    offset: int
    match: str


@dataclass(frozen=True, slots=True)
class TableLayout:
    table: Table
    number: int
    fields: tuple[KeyField, ...]
    key_bits: int

    @property
    def key_words(self) -> int:
        return (self.key_bits + 63) // 64

    @property
    def kind(self) -> str:
        return _KINDS[self.table.match]


def data_words(program: Program, actions: Sequence[int]) -> int:
    """The 64-bit words that the data of any of the actions needs."""
    return max((sum((bits + 63) // 64 for _, bits in program.actions[a].parameters) for a in actions), default=0)


def table_layout(table: Table, number: int, expressions: Expressions) -> TableLayout:
    """Place each field into the words of the key; a prefix field comes last."""
    if table.match not in _KINDS:
        raise JsonError(f"table {table.name}: unknown match type {table.match!r}")
    order = sorted(range(len(table.keys)), key=lambda i: table.keys[i].match == "lpm")
    fields: dict[int, KeyField] = {}
    offset = 0
    for i in order:
        key = table.keys[i]
        if key.match not in _MATCHES:
            raise JsonError(f"table {table.name}: unknown match type {key.match!r}")
        if key.target.kind == "header":
            code, bits = f"{expressions.header(key.target)[0]}.valid", 1
        else:
            code, bits = expressions.pattern(key.target)
        if key.mask is not None and bits <= 64:
            code = f"({code} & {modular(bits).literal(key.mask)})"
        if offset % 64 + bits > 64 and offset % 64:
            offset += 64 - offset % 64
        fields[i] = KeyField(code, bits, offset, key.match)
        offset += bits
    if offset > MAX_KEY_BITS:
        raise JsonError(f"table {table.name}: a key of {offset} bits; at most {MAX_KEY_BITS} are supported")
    return TableLayout(table, number, tuple(fields[i] for i in range(len(fields))), offset)


def key_words(layout: TableLayout) -> list[str]:
    """C for each word of the key of the packet at hand."""
    words: list[list[str]] = [[] for _ in range(layout.key_words)]
    for field in layout.fields:
        word, shift = field.offset // 64, 64 - field.offset % 64 - field.bits
        if field.bits <= 64:
            words[word].append(f"(uint64_t){field.code} << {shift}" if shift else f"(uint64_t){field.code}")
        else:
            count = (field.bits + 63) // 64
            up = 64 * count - field.bits
            for k in range(count):
                if field.bits <= 128:
                    value = f"({field.code} << {up})" if up else field.code
                    words[word + k].append(f"(uint64_t)({value} >> {64 * (count - 1 - k)})")
                else:
                    words[word + k].append(f"wide_shl({field.code}, {up}).limb[{count - 1 - k}]")
    return [" | ".join(parts) for parts in words]


def _bytes(value: int, bits: int) -> bytes:
    return (value & ((1 << bits) - 1)).to_bytes((bits + 7) // 8, "big")


def _c_bytes(data: bytes) -> str:
    return f"(const uint8_t[]){{{', '.join(f'{b:#04x}' for b in data) or '0'}}}"


def _c_call(action: int, data: bytes) -> str:
    return f"P4_CALL_ACTION, {action}, {_c_bytes(data)}"


def _entry_bytes(key: EntryKey, bits: int) -> tuple[bytes, bytes]:
    ones = (1 << bits) - 1
    if key.match == "range":
        return _bytes(key.value, bits), _bytes(key.high if key.high is not None else ones, bits)
    if key.match == "lpm":
        prefix = key.prefix if key.prefix is not None else bits
        return _bytes(key.value, bits), _bytes(ones >> prefix ^ ones, bits)
    return _bytes(key.value, bits), _bytes(ones if key.mask is None else key.mask, bits)


def _call(program: Program, table: Table, action: int, data: Sequence[int]) -> tuple[int, bytes]:
    """An action's place in the table, and its data as bytes."""
    if action not in table.actions:
        raise JsonError(f"table {table.name}: an entry or the default calls an action that the table does not list")
    parameters = program.actions[action].parameters
    if len(parameters) != len(data):
        raise JsonError(f"table {table.name}: {program.actions[action].name} takes {len(parameters)} arguments")
    packed = b"".join(_bytes(value, bits) for value, (_, bits) in zip(data, parameters, strict=True))
    return table.actions.index(action), packed


def _actions(program: Program, ids: Sequence[int], name: str) -> list[str]:
    lines, entries = [], []
    for i, action in enumerate(ids):
        widths = ", ".join(str(bits) for _, bits in program.actions[action].parameters)
        if widths:
            lines.append(f"static const uint16_t {name}_{i}[] = {{{widths}}};")
        count = len(program.actions[action].parameters)
        entries.append(
            f"    {{{count}, {f'{name}_{i}' if widths else 'NULL'}}}, {comment(program.actions[action].name)}"
        )
    return [*lines, f"static const struct action_type {name}[] = {{", *entries, "};"] if entries else lines


def table_types(program: Program, layouts: Sequence[TableLayout]) -> list[str]:
    """The descriptors of all tables and action profiles."""
    profiles = {p.name: i for i, p in enumerate(program.profiles)}
    lines: list[str] = []
    rows = [row for layout in layouts for row in _table_type(program, layout, profiles, lines)]
    if rows:
        lines += ["static const struct table_type table_types[] = {", *rows, "};", ""]
    rows = []
    for profile in program.profiles:
        user = next((t for t in program.tables if t.profile == profile.name), None)
        ids = user.actions if user else ()
        name = f"profile_{profiles[profile.name]}_actions"
        lines += _actions(program, ids, name)
        rows.append(
            f"    {{.data_words = {data_words(program, ids)}, .action_count = {len(ids)}, "
            f".actions = {name if ids else 'NULL'}, .max_size = {profile.max_size}}}, {comment(profile.name)}"
        )
    if rows:
        lines += ["static const struct profile_type profile_types[] = {", *rows, "};", ""]
    return lines


def _table_type(program: Program, layout: TableLayout, profiles: dict[str, int], lines: list[str]) -> list[str]:
    """The row of one table; what it refers to is added to `lines`."""
    table, n = layout.table, layout.number
    lines += ["", comment(f"table {table.name}")]
    if layout.fields:
        lines.append(f"static const struct key_field table_{n}_fields[] = {{")
        lines += [
            f"    {{{f.bits}, {f.offset}, {_MATCHES[f.match]}}}, {comment(k.name)}"
            for f, k in zip(layout.fields, table.keys, strict=True)
        ]
        lines.append("};")
    lines += _actions(program, table.actions, f"table_{n}_actions")
    if table.entries:
        lines += _entries(program, layout)
    initial = ""
    if table.default is not None:
        initial = f"&(const struct p4_call){{{_c_call(*_call(program, table, *table.default))}}}"
    values: dict[str, str | int | bool] = {
        "kind": layout.kind,
        "fixed": table.entries is not None,
        "ranged": any(k.match == "range" for k in table.keys),
        "counted": table.counted or table.timeout,  # whether an entry is idle shows in its count
        "metered": table.meter is not None,
        "profile": profiles[table.profile] if table.profile else -1,
        "key_words": layout.key_words,
        "key_bits": layout.key_bits,
        "data_words": data_words(program, table.actions),
        "field_count": len(layout.fields),
        "fields": f"table_{n}_fields" if layout.fields else "",
        "action_count": len(table.actions),
        "actions": f"table_{n}_actions" if table.actions else "",
        "max_size": table.max_size,
        "const_count": len(table.entries or ()),
        "consts": f"table_{n}_entries" if table.entries else "",
        "initial": initial,
        "default_fixed": table.default_fixed,
        "default_data_fixed": table.default_data_fixed,
    }
    members = (f".{name} = {'true' if value is True else value}" for name, value in values.items() if value)
    return [f"    {{ {comment(table.name)}", *(f"        {member}," for member in members), "    },"]


def _entries(program: Program, layout: TableLayout) -> list[str]:
    """Entries in the order of the program, so that of two equal ones the first is kept."""
    table = layout.table
    assert table.entries is not None
    top = max(e.priority for e in table.entries) + 1
    lines = [f"static const struct const_entry table_{layout.number}_entries[] = {{"]
    for entry in table.entries:
        pairs = [_entry_bytes(k, f.bits) for k, f in zip(entry.key, layout.fields, strict=True)]
        value, mask = (b"".join(p[i] for p in pairs) for i in (0, 1))
        action, data = _call(program, table, entry.action, entry.data)
        match, call = f"{_c_bytes(value)}, {_c_bytes(mask)}, {top - entry.priority}", _c_call(action, data)
        lines.append(f"    {{{{{match}}}, {{{call}}}}},")
    return [*lines, "};"]
