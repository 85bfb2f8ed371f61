"""The routes of one run as the controller needs them: read from the plan's JSON, never computed.

A switch has *base* entries, and for each failure that the plan foresaw a set of entries that take their place while
those cables are down. `Routes.entries(switch, down)` is what should be installed now.
"""

import json
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """Packets to `prefix` leave by one of `ports` (none: drop), chosen as `kind` says (single, ecmp, spray)."""

    prefix: str
    kind: str
    ports: tuple

    @property
    def priority(self):
        """The longest prefix wins."""
        return 100 + int(self.prefix.split("/")[1])


class Routes:
    """All switches' entries, by the name of the switch."""

    def __init__(self, plan):
        self.names = {int(switch["dpid"]): name for name, switch in plan["switches"].items()}
        self.salts = {name: int(switch["salt"]) for name, switch in plan["switches"].items()}
        self._base = {name: _by_prefix(switch["entries"]) for name, switch in plan["switches"].items()}
        self._alternates = {
            frozenset(alternate["cables"]): {name: _by_prefix(e) for name, e in alternate["entries"].items()}
            for alternate in plan["alternates"]
        }
        self._cables = {}
        switches = set(plan["switches"])
        for link in plan["graph"]["links"]:
            if link["source"] in switches and link["target"] in switches:
                self._cables[link["source"], link["source_port"]] = link["index"] // 2

    @classmethod
    def read(cls, path):
        return cls(json.loads(Path(path).read_text(encoding="utf-8")))

    def cable(self, switch, port):
        """The switch-to-switch cable at a port, or None."""
        return self._cables.get((switch, port))

    def ends(self, cable):
        """The switches and ports that a switch-to-switch cable joins."""
        return [end for end, joined in self._cables.items() if joined == cable]

    def foresaw(self, down):
        """Whether the plan has entries for just these cables being down."""
        return not down or frozenset(down) in self._alternates

    def entries(self, switch, down):
        """prefix -> Entry while the cables `down` are down.

        Where the plan did not foresee just these together, a prefix that several of them change keeps the ports that
        each of them leaves it.
        """
        base = self._base[switch]
        result = dict(base)
        exact = self._alternates.get(frozenset(down))
        for change in [exact] if exact is not None else [self._alternates.get(frozenset([c]), {}) for c in down]:
            for prefix, entry in change.get(switch, {}).items():
                held, ports = result.get(prefix), entry.ports
                if held is not None and held != base.get(prefix):
                    ports = tuple(port for port in ports if port in held.ports)
                result[prefix] = entry._replace(ports=ports)
        return result


def _by_prefix(entries):
    return {e["prefix"]: Entry(e["prefix"], e["kind"], tuple(e["ports"])) for e in entries}
