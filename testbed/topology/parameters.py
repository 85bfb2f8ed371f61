"""What a builder's parameters may be, and how one that is wrong is reported."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.errors import UsageError
from testbed.suggest import did_you_mean
from testbed.topology.graph import Graph, LinkParameters

_NODE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,8}")
# Selectors, and what is in a namespace already: a switch is also a device of its own name.
_NOT_NODES = ("all", "host", "core", "lo", "default")


class TopologyError(UsageError):
    """A parameter of the topology is wrong. `key` names it below `topology`, e.g. `k` or `links.3` (counted from 0)."""

    def __init__(self, key: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key


@dataclass(frozen=True, slots=True)
class Topology:
    """A registered builder: what it makes, its parameters with what each means, and `build(parameters, default)`.

    The parameters that reach `build` are there and are all known; it checks their values and raises TopologyError.
    """

    summary: str
    parameters: Mapping[str, str]
    build: Callable[[Mapping[str, Any], LinkParameters], Graph]


def check_names(kind: str, topology: Topology, given: Mapping[str, Any]) -> None:
    """Raise TopologyError for a parameter that `topology` lacks or that is not given."""
    takes = ", ".join(topology.parameters)
    for key in given:
        if key not in topology.parameters:
            raise TopologyError(key, f"{kind} has no parameter {key!r}", hint=did_you_mean(key, topology.parameters))
    for key, meaning in topology.parameters.items():
        if key not in given:
            raise TopologyError("kind", f"{kind} needs {key!r} ({meaning})", hint=f"{kind} takes {takes}")


def check_node(key: str, name: object) -> None:
    """Raise TopologyError for a node's name that no selector could mean, or whose interfaces would clash."""
    if not isinstance(name, str) or not _NODE.fullmatch(name) or name in _NOT_NODES:
        hint = f"a letter, then up to 8 letters, digits or underscores; not {', '.join(_NOT_NODES)}"
        raise TopologyError(key, f"{name!r} cannot be a node's name", hint=hint)


def integer(given: Mapping[str, Any], key: str, least: int, most: int) -> int:
    """The whole number at `key`, within bounds."""
    value = given[key]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TopologyError(key, f"{key} must be a whole number, not {value!r}", hint=f"e.g. {key}: {least}")
    if not least <= value <= most:
        raise TopologyError(key, f"{key} is {value}", hint=f"from {least} to {most}")
    return value
