"""A transport of the spec worked out: which one, its congestion control, and the value of each of their constants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.transport.congestion import CONGESTIONS, Congestion
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values, kind_of, problems, resolve


@dataclass(frozen=True, slots=True)
class Settings:
    """All values in base units (ns, bytes, bits per second)."""

    kind: str
    values: Values
    congestion: Congestion
    congestion_values: Values


def congestion_problems(given: str | Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What is wrong with the spec's `congestion`: key below `transport` -> (message, hint)."""
    name, parameters = kind_of(given)
    if name not in CONGESTIONS:
        return {"congestion": (f"no congestion control is called {name!r}", f"one of: {', '.join(CONGESTIONS)}")}
    found = problems(CONGESTIONS[name].parameters, parameters)
    return {f"congestion.{key}": problem for key, problem in found.items()}


def settle(
    kind: str,
    table: Sequence[Parameter],
    given: Mapping[str, Any],
    *,
    congestion: str | Mapping[str, Any],
    path: Path,
    scale: str,
) -> Settings:
    """The settings for checked parameters."""
    name, parameters = kind_of(congestion)
    control = CONGESTIONS[name]
    values = resolve(table, given, path, scale)
    return Settings(
        kind=kind,
        values=values,
        congestion=control,
        congestion_values=resolve(control.parameters, parameters, path, scale, beside=values),
    )


def written(settings: Settings, table: Sequence[Parameter]) -> dict[str, Any]:
    """The `transport` section of the resolved spec: every constant, with its unit, and `scale: none`."""

    def values(parameters: Sequence[Parameter], resolved: Values) -> dict[str, Value]:
        return {parameter.name: parameter.written(resolved[parameter.name]) for parameter in parameters}

    congestion = {
        "kind": settings.congestion.name,
        **values(settings.congestion.parameters, settings.congestion_values),
    }
    return {"kind": settings.kind, "scale": "none", "congestion": congestion, **values(table, settings.values)}
