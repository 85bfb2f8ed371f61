"""P4Info messages as nested dictionaries, and how they are written: protobuf's text format and its wire format.

The numbers are those of `p4/config/v1/p4info.proto` and `p4types.proto` (P4Runtime specification). They are written
here because no generated module of that file loads with every protobuf library in use.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]  # by field; repeated ones are lists, map entries are messages with key and value


HEADER = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"

_ENUMS: Mapping[str, Mapping[str, int]] = {
    "match": {"EXACT": 2, "LPM": 3, "TERNARY": 4, "RANGE": 5, "OPTIONAL": 6},
    "scope": {"TABLE_AND_DEFAULT": 0, "TABLE_ONLY": 1, "DEFAULT_ONLY": 2},
    "idle": {"NO_TIMEOUT": 0, "NOTIFY_CONTROL": 1},
    "unit": {"BYTES": 1, "PACKETS": 2, "BOTH": 3},
}

# Of each message its fields in the order of their numbers, each with its number and type.
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "P4Info": {
        "pkg_info": (1, "PkgInfo"),
        "tables": (2, "Table"),
        "actions": (3, "Action"),
        "action_profiles": (4, "ActionProfile"),
        "counters": (5, "Array"),
        "direct_counters": (6, "Direct"),
        "meters": (7, "Array"),
        "direct_meters": (8, "Direct"),
        "controller_packet_metadata": (9, "PacketMetadata"),
        "value_sets": (10, "ValueSet"),
        "registers": (11, "Register"),
        "digests": (12, "Digest"),
        "type_info": (200, "TypeInfo"),
    },
    "PkgInfo": {"name": (1, "string"), "version": (2, "string"), "arch": (5, "string"), "organization": (6, "string"),
                "contact": (7, "string"), "url": (8, "string")},
    "Preamble": {"id": (1, "int"), "name": (2, "string"), "alias": (3, "string"), "annotations": (4, "string")},
    "Table": {
        "preamble": (1, "Preamble"),
        "match_fields": (2, "MatchField"),
        "action_refs": (3, "ActionRef"),
        "const_default_action_id": (4, "int"),
        "initial_default_action": (5, "ActionCall"),
        "implementation_id": (6, "int"),
        "direct_resource_ids": (7, "ints"),
        "size": (8, "int"),
        "idle_timeout_behavior": (9, "idle"),
        "is_const_table": (10, "bool"),
        "has_initial_entries": (11, "bool"),
    },
    "MatchField": {"id": (1, "int"), "name": (2, "string"), "annotations": (3, "string"), "bitwidth": (4, "int"),
                   "match_type": (5, "match"), "type_name": (8, "Named")},
    "ActionRef": {"id": (1, "int"), "annotations": (2, "string"), "scope": (3, "scope")},
    "ActionCall": {"action_id": (1, "int"), "arguments": (4, "Argument")},
    "Argument": {"param_id": (2, "int"), "value": (3, "bytes")},
    "Action": {"preamble": (1, "Preamble"), "params": (2, "Param")},
    "Param": {"id": (1, "int"), "name": (2, "string"), "annotations": (3, "string"), "bitwidth": (4, "int"),
              "type_name": (6, "Named")},
    "ActionProfile": {"preamble": (1, "Preamble"), "table_ids": (2, "ints"), "with_selector": (3, "bool"),
                      "size": (4, "int"), "max_group_size": (5, "int")},
    "Spec": {"unit": (1, "unit")},
    "Array": {"preamble": (1, "Preamble"), "spec": (2, "Spec"), "size": (3, "int")},
    "Direct": {"preamble": (1, "Preamble"), "spec": (2, "Spec"), "direct_table_id": (3, "int")},
    "PacketMetadata": {"preamble": (1, "Preamble"), "metadata": (2, "PacketField")},
    "PacketField": {"id": (1, "int"), "name": (2, "string"), "annotations": (3, "string"), "bitwidth": (4, "int"),
                    "type_name": (5, "Named")},
    "ValueSet": {"preamble": (1, "Preamble"), "match": (2, "MatchField"), "size": (3, "int")},
    "Register": {"preamble": (1, "Preamble"), "type_spec": (2, "DataType"), "size": (3, "int")},
    "Digest": {"preamble": (1, "Preamble"), "type_spec": (2, "DataType")},
    "Named": {"name": (1, "string")},
    "DataType": {"bitstring": (1, "Bitstring"), "bool": (2, "Empty"), "tuple": (3, "TupleType"), "struct": (4, "Named"),
                 "header": (5, "Named"), "enum": (9, "Named"), "error": (10, "Empty"),
                 "serializable_enum": (11, "Named"), "new_type": (12, "Named")},
    "Bitstring": {"bit": (1, "Width"), "int": (2, "Width"), "varbit": (3, "MaxWidth")},
    "Width": {"bitwidth": (1, "int")},
    "MaxWidth": {"max_bitwidth": (1, "int")},
    "Empty": {},
    "TupleType": {"members": (1, "DataType")},
    "TypeInfo": {"structs": (1, "StructEntry"), "headers": (2, "HeaderEntry"), "enums": (4, "EnumEntry"),
                 "error": (5, "ErrorMembers"), "serializable_enums": (6, "SerialEntry"), "new_types": (7, "NewEntry")},
    "StructEntry": {"key": (1, "string"), "value": (2, "StructType")},
    "StructType": {"members": (1, "Member")},
    "Member": {"name": (1, "string"), "type_spec": (2, "DataType")},
    "HeaderEntry": {"key": (1, "string"), "value": (2, "HeaderType")},
    "HeaderType": {"members": (1, "HeaderMember")},
    "HeaderMember": {"name": (1, "string"), "type_spec": (2, "Bitstring")},
    "EnumEntry": {"key": (1, "string"), "value": (2, "EnumType")},
    "EnumType": {"members": (1, "EnumMember")},
    "EnumMember": {"name": (1, "string")},
    "ErrorMembers": {"members": (1, "string")},
    "SerialEntry": {"key": (1, "string"), "value": (2, "SerialType")},
    "SerialType": {"underlying_type": (1, "Width"), "members": (2, "SerialMember")},
    "SerialMember": {"name": (1, "string"), "value": (2, "bytes")},
    "NewEntry": {"key": (1, "string"), "value": (2, "NewType")},
    "NewType": {"original_type": (1, "DataType"), "translated_type": (2, "Translation")},
    "Translation": {"uri": (1, "string"), "sdn_bitwidth": (2, "int"), "sdn_string": (3, "Empty")},
}  # fmt: skip


def to_text(message: Message) -> str:
    return HEADER + "".join(_lines(message, "P4Info", ""))


def _lines(message: Message, kind: str, indent: str) -> Iterator[str]:
    for name, (_, inner) in _MESSAGES[kind].items():
        for value in _values(message, name):
            if inner in _MESSAGES:
                yield f"{indent}{name} {{\n"
                yield from _lines(value, inner, indent + "  ")
                yield f"{indent}}}\n"
            else:
                yield f"{indent}{name}: {_shown(value, inner)}\n"


def _values(message: Message, name: str) -> list[Any]:
    value = message.get(name)
    if isinstance(value, list):
        return value
    return [] if value is None or value is False or (value in (0, "") and not isinstance(value, bool)) else [value]


def _shown(value: Any, kind: str) -> str:
    match kind:
        case "string":
            return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case "bytes":
            return '"' + "".join(_escaped(byte) for byte in value) + '"'
        case "bool":
            return "true" if value else "false"
    return str(value)


def _escaped(byte: int) -> str:
    known = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord('"'): '\\"', ord("'"): "\\'", ord("\\"): "\\\\"}
    if byte in known:
        return known[byte]
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def to_binary(message: Message) -> bytes:
    return _encoded(message, "P4Info")


def _encoded(message: Message, kind: str) -> bytes:
    found = bytearray()
    for name, (number, inner) in _MESSAGES[kind].items():
        values = _values(message, name)
        if inner == "ints":
            packed = b"".join(map(_varint, values))
            found += _field(number, packed) if values else b""
            continue
        for value in values:
            if inner in _MESSAGES:
                found += _field(number, _encoded(value, inner))
            elif inner in ("string", "bytes"):
                found += _field(number, value.encode() if isinstance(value, str) else value)
            else:
                plain = _ENUMS[inner][value] if inner in _ENUMS else int(value)
                found += _varint(number << 3) + _varint(plain)
    return bytes(found)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
