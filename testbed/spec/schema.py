"""The JSON Schema of a spec, for editors: keys, words and units. What needs the network is `testbed validate`'s."""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from testbed import units
from testbed.codec import CODECS, NONE
from testbed.collective import ALGORITHMS, IN_NETWORK
from testbed.spec.model import Spec
from testbed.spec.unbuilt import UNBUILT_VALUES
from testbed.topology import TOPOLOGIES
from testbed.transport import TRANSPORTS
from testbed.transport.congestion import CONGESTIONS

_NUMBER = r"\+?\d+(\.\d+)?([eE][+-]?\d+)?"
_REFERENCE = {"type": "string", "pattern": r"\.py:[A-Za-z_]\w*$", "description": "one's own: FILE.py:NAME"}


_SECTIONS = {"": "", "switches": "SwitchesSpec", "workload": "WorkloadSpec", "faults": "FaultSpec"}


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12)."""
    schema = Spec.model_json_schema(by_alias=True, schema_generator=_Generate)
    parts = schema["$defs"]
    parts["TopologySpec"]["properties"]["kind"] = _one_of(TOPOLOGIES)
    parts["TransportSpec"]["properties"]["kind"] = _one_of(TRANSPORTS)
    parts["TransportSpec"]["properties"]["congestion"]["anyOf"][0] = {"enum": list(CONGESTIONS)}
    for key, names in (("algorithm", (*ALGORITHMS, IN_NETWORK)), ("codec", (NONE, *CODECS))):
        parts["WorkloadSpec"]["properties"][key]["anyOf"][0] = _one_of(names)
    for key, words in UNBUILT_VALUES.items():
        section, _, name = key.rpartition(".")
        enum = (parts.get(_SECTIONS.get(section)) or schema)["properties"].get(name, {}).get("enum", [])
        enum[:] = [word for word in enum if word not in words]
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "A Testbed spec"}


def _one_of(names: Iterable[str]) -> dict[str, Any]:
    return {"anyOf": [{"enum": list(names)}, _REFERENCE]}


def _quantity(known: dict[str, int], sign: str = "") -> JsonSchemaValue:
    pattern = rf"^\s*{sign}{_NUMBER}\s*({'|'.join(known)})\s*$"
    return {"anyOf": [{"type": "string", "pattern": pattern}, {"const": 0}]}


_SHARE: JsonSchemaValue = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "string", "pattern": rf"^\s*{_NUMBER}\s*%?\s*$"},
    ]
}
_BY_PARSER: dict[Callable[..., Any], JsonSchemaValue] = {
    units.parse_duration: _quantity(units.DURATION_UNITS),
    units.parse_fine_duration: _quantity(units.DURATION_UNITS),
    units.parse_instant: _quantity(units.DURATION_UNITS, "-?"),
    units.parse_bytes: _quantity(units.BYTE_UNITS),
    units.parse_mtu: {"anyOf": [{"type": "integer"}, *_quantity(units.BYTE_UNITS)["anyOf"]]},
    units.parse_rate: _quantity(units.RATE_UNITS),
    units.parse_fraction: _SHARE,
}


class _Generate(GenerateJsonSchema):
    """Quantities as text with a unit rather than as what they are parsed into."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        function: Any = schema["function"]["function"]
        if function in _BY_PARSER:
            return dict(_BY_PARSER[function])
        return {"anyOf": [_SHARE, super().function_before_schema(schema)]}  # a loss

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])  # a key that is not set is left out

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])  # the model's defaults are without units
