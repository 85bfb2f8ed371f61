"""Types in P4Info: of parameters, keys, registers and digests, and what `type_info` says of those that have names."""

import re

from testbed.dataplane import ast, types
from testbed.dataplane.checked import Checked
from testbed.dataplane.lower.context import refused
from testbed.dataplane.lower.layout import ENUM_BITS
from testbed.dataplane.p4info_format import Message

_TRANSLATION = re.compile("(?P<uri>.*) , (?:bit < (?P<bits>[0-9]+) >|(?P<number>[0-9]+)|string)")  # tokens in a row


class TypeInfo:
    """Collects the types that are used; `is_shown` if the reference compiler writes `type_info`, even an empty one."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._types: Message = {}
        self.is_shown = False

    def message(self) -> Message:
        return {
            kind: sorted(one, key=lambda entry: str(entry["key"])) if isinstance(one, list) else one
            for kind, one in self._types.items()
        }

    def value(self, type_: types.Type) -> Message:
        """The width of a key or parameter, and the name of its type if that is a new one."""
        self.is_shown = True
        if isinstance(type_, types.NewType):
            self._new_type(type_)
            return {"bitwidth": bits_of(type_), "type_name": {"name": type_.declaration.name}}
        return {"bitwidth": bits_of(type_)}

    def data(self, type_: types.Type) -> Message:
        match type_:
            case types.Bits(width, is_signed):
                return {"bitstring": {"int" if is_signed else "bit": {"bitwidth": width}}}
            case types.Varbits(width):
                return {"bitstring": {"varbit": {"max_bitwidth": width}}}
            case types.Bool():
                return {"bool": {}}
            case types.Error():
                self._types["error"] = {"members": list(self._checked.errors)}
                return {"error": {}}
            case types.Tuple(elements):
                return {"tuple": {"members": [self.data(one) for one in elements]}}
            case types.NewType():
                self._new_type(type_)
                return {"new_type": {"name": type_.declaration.name}}
            case types.EnumType():
                return self._enum(type_)
            case types.StructType():
                name = type_.declaration.name
                members: list[Message] = [{"name": key, "type_spec": self.data(one)} for key, one in type_.fields]
                if type_.kind is ast.StructKind.HEADER:
                    plain = [{"name": one["name"], "type_spec": one["type_spec"].get("bitstring")} for one in members]
                    self._entry("headers", name, {"members": plain})
                    return {"header": {"name": name}}
                self._entry("structs", name, {"members": members})
                return {"struct": {"name": name}}
        return {}

    def _enum(self, type_: types.EnumType) -> Message:
        name = type_.declaration.name
        if type_.underlying is None:
            self._entry("enums", name, {"members": [{"name": one.name} for one in type_.declaration.members]})
            return {"enum": {"name": name}}
        bits = type_.underlying.width
        members: list[Message] = []
        for one in type_.declaration.members:
            value = self._checked.constant(one)
            if isinstance(value, int):
                cut = value & ((1 << bits) - 1)
                members.append({"name": one.name, "value": cut.to_bytes((bits + 7) // 8, "big")})
        self._entry("serializable_enums", name, {"underlying_type": {"bitwidth": bits}, "members": members})
        return {"serializable_enum": {"name": name}}

    def _new_type(self, type_: types.NewType) -> None:
        annotation = ast.annotation(type_.declaration, "p4runtime_translation")
        if annotation is None:
            self._entry("new_types", type_.declaration.name, {"original_type": self.data(type_.underlying)})
            return
        found = _TRANSLATION.fullmatch(annotation.text)
        if found is None:
            message = 'a translation is to bits or a string, as ("name.org/type", bit<32>) or ("name.org/type", string)'
            raise refused(annotation.span, message)
        width = found["bits"] or found["number"]
        translated: Message = {"uri": found["uri"], **({"sdn_bitwidth": int(width)} if width else {"sdn_string": {}})}
        self._entry("new_types", type_.declaration.name, {"translated_type": translated})

    def _entry(self, kind: str, name: str, value: Message) -> None:
        entries = self._types.setdefault(kind, [])
        if all(one["key"] != name for one in entries):
            entries.append({"key": name, "value": value})


def bits_of(type_: types.Type) -> int:
    """The width by which the control plane gives a value."""
    plain = types.plain(type_)
    if isinstance(plain, types.EnumType | types.Error):
        return ENUM_BITS
    return types.width_bits(plain) or 0
