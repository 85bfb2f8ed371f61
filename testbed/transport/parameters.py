"""A transport's constants as a table: each with its published default, unit, source, and the rule that scales it.

Published constants belong to fabrics of 25 to 400 Gb/s and round trips of microseconds. `scale: auto` derives from the
rate and the round trip of the emulated network those that have a rule; `scale: none` takes all as published.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import UsageError
from testbed.suggest import did_you_mean
from testbed.transport.endpoint import Path
from testbed.units import (
    QuantityError,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_mtu,
    parse_rate,
    shown,
)

Value = int | float | str
Values = Mapping[str, Value]

_PARSERS: Mapping[str, Callable[[object], Value]] = {
    "ns": parse_duration,
    "B": parse_bytes,
    "MTU bytes": parse_mtu,
    "bps": parse_rate,
    "fraction": parse_fraction,
}
_MOST = (1 << 31) - 1  # of what has no unit: beyond, what is worked out of it is no time that clocks have
_FORMATTERS: Mapping[str, Callable[[int], str]] = {"ns": format_duration, "B": format_bytes, "bps": format_rate}


class ParameterError(UsageError):
    """Parameters of a transport are wrong. `problems` maps each key below `transport` to (what is wrong, hint)."""

    def __init__(self, problems: Mapping[str, tuple[str, str]]) -> None:
        key, (message, hint) = next(iter(problems.items()))
        super().__init__(f"transport.{key}: {message}", hint=hint)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Parameter:
    """One constant. `default` is in `unit` (ns, B, MTU bytes, bps, fraction, packets, or what the summary says).

    `scaled(path, values)` gives the value under `scale: auto` by `rule` (its words); `values` are those of the
    parameters before this one in the table. Numbers lie from `least` to `most`, if that is None to `_MOST`.
    """

    name: str
    summary: str
    default: Value
    unit: str
    source: str
    rule: str = "as published"
    scaled: Callable[[Path, Values], Value] | None = None
    choices: tuple[Value, ...] = ()
    least: float = 0
    most: int | None = None

    def parse(self, given: object) -> Value:
        """`given`, as the spec has it, in base units; raises QuantityError."""
        value: Value
        if parser := _PARSERS.get(self.unit):
            value = parser(given)
        elif isinstance(given, type(self.default)) and not isinstance(given, bool):
            value = given
        elif isinstance(self.default, float) and isinstance(given, int) and not isinstance(given, bool):
            value = float(given)
        else:
            kind = {str: "a word", float: "a number"}.get(type(self.default), "a whole number")
            raise QuantityError(f"{shown(given)} is not {kind}, e.g. {self.default}")
        if self.choices and value not in self.choices:
            raise QuantityError(f"{shown(given)} is not one of {', '.join(str(choice) for choice in self.choices)}")
        most = _MOST if self.most is None and parser is None else self.most
        if not isinstance(value, str) and not (self.least <= value and (most is None or value <= most)):
            bounds = f"at least {self.least}" if most is None else f"from {self.least} to {most}"
            raise QuantityError(f"{shown(given)} is out of range: {bounds}")
        return value

    def written(self, value: Value) -> Value:
        """`value` as a spec has it, with its unit: what `parse` takes."""
        formatter = _FORMATTERS.get(self.unit)
        return formatter(value) if formatter and isinstance(value, int) else value

    def as_json(self) -> dict[str, Value]:
        """For `testbed list --json`."""
        return {
            "name": self.name,
            "summary": self.summary,
            "default": self.written(self.default),
            "unit": self.unit,
            "source": self.source,
            "scale": self.rule,
        }


def kind_of(given: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A name alone, such as `dcqcn`, or a mapping such as `{kind: dcqcn, g: ...}`, as (kind, its parameters)."""
    if isinstance(given, str):
        return given, {}
    return str(given.get("kind", "none")), {key: value for key, value in given.items() if key != "kind"}


def problems(table: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What is wrong with `given`: key -> (message, hint)."""
    known = {parameter.name: parameter for parameter in table}
    found = {}
    for key, value in given.items():
        if key not in known:
            found[key] = ("unknown key", did_you_mean(key, known))
            continue
        try:
            known[key].parse(value)
        except QuantityError as error:
            found[key] = (str(error), f"did you mean {error.suggestion}?" if error.suggestion else known[key].summary)
    return found


def resolve(
    table: Sequence[Parameter], given: Mapping[str, Any], path: Path, scale: str, beside: Values | None = None
) -> dict[str, Value]:
    """The value of every parameter, in base units: as given, else scaled, else as published. `given` is right.

    beside: what the rules see besides this table's values.
    """
    values: dict[str, Value] = {}
    for parameter in table:
        if parameter.name in given:
            values[parameter.name] = parameter.parse(given[parameter.name])
        elif parameter.scaled is not None and scale == "auto":
            values[parameter.name] = parameter.scaled(path, {**(beside or {}), **values})
        else:
            values[parameter.name] = parameter.default
    return values


def whole(values: Values, name: str) -> int:
    """The whole number at `name`."""
    value = values[name]
    assert isinstance(value, int)
    return value


def real(values: Values, name: str) -> float:
    """The number at `name`."""
    value = values[name]
    assert isinstance(value, int | float)
    return float(value)
