"""`kind: graph`: the hosts, switches and cables as they are written out in the spec."""

import re
from collections.abc import Mapping
from typing import Any

from testbed.suggest import did_you_mean
from testbed.topology.graph import Graph, GraphBuilder, LinkParameters
from testbed.topology.parameters import Topology, TopologyError, check_node

_CABLE = re.compile(r"\s*(\w+)\s*-\s*(\w+)\s*")


def build(parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    """`hosts` and `switches` are counts (h0, h1, ...; s0, s1, ...) or names; `links` are pairs or `x-y`."""
    net = GraphBuilder("graph", default)
    hosts = _names(parameters, "hosts", "h")
    switches = _names(parameters, "switches", "s")
    for host in hosts:
        net.host(host)
    for switch in switches:
        if switch in hosts:
            raise TopologyError("switches", f"{switch!r} is both a host and a switch", hint="give one another name")
        net.switch(switch)
    links = parameters["links"]
    if not isinstance(links, list | tuple):
        raise TopologyError("links", f"links is {links!r}", hint="a list of pairs, e.g. links: [h0-s0, s0-s1]")
    for i, entry in enumerate(links):
        first, second = _pair(f"links.{i}", entry)
        for end in (first, second):
            if end not in hosts and end not in switches:
                hint = did_you_mean(end, [*hosts, *switches])
                raise TopologyError(f"links.{i}", f"no host or switch is called {end!r}", hint=hint)
        if first == second:
            raise TopologyError(f"links.{i}", f"{first!r} is joined to itself", hint="a link joins two nodes")
        net.cable(first, second)
    return net.graph()


def _names(parameters: Mapping[str, Any], key: str, letter: str) -> list[str]:
    value = parameters[key]
    if type(value) is int and 1 <= value <= 4096:
        return [f"{letter}{i}" for i in range(value)]
    if not isinstance(value, list | tuple) or not value:
        raise TopologyError(key, f"{key} is {value!r}", hint=f"a count, or a list of names, e.g. {key}: [{letter}0]")
    for name in value:
        check_node(key, name)
        if value.count(name) > 1:
            raise TopologyError(key, f"{name!r} stands there twice", hint="each name once")
    return list(value)


def _pair(key: str, entry: Any) -> tuple[str, str]:
    if isinstance(entry, str) and (match := _CABLE.fullmatch(entry)):
        return match[1], match[2]
    if isinstance(entry, list | tuple) and len(entry) == 2 and all(isinstance(end, str) for end in entry):
        return entry[0], entry[1]
    raise TopologyError(key, f"{entry!r} is not a link", hint="two names, e.g. h0-s0 or [h0, s0]")


TOPOLOGY = Topology(
    "any graph, written out",
    {"hosts": "a count or names", "switches": "a count or names", "links": "pairs, e.g. [h0-s0, s0-s1]"},
    build,
)
