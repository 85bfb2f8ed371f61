"""The entries of every switch, and those that take their place while cables are down."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from testbed.routing.addressing import Addressing
from testbed.routing.model import Alternate, Entry, RoutingKind, SwitchPlan
from testbed.routing.prefixes import Table
from testbed.routing.shortest import Ports, ShortestPaths
from testbed.streams import stream
from testbed.topology.graph import Graph

_SALTS = range(1, 1 << 16)  # Open vSwitch's multipath action has 16 bits of basis


class Router:
    """Routes for one graph.

    ecmp: all shortest paths, by a hash of the flow with a salt per switch; spray: the same ports, by a draw per packet;
    single: one of them for each destination subnet, fixed by the salt.
    """

    def __init__(self, graph: Graph, addressing: Addressing, kind: RoutingKind, seed: int) -> None:
        self._graph = graph
        self._addressing = addressing
        self._subnets = addressing.subnets
        self._kind = kind
        # Alternates ask for the same ones again and again.
        self._entry, self._longest_first, self._ranked = (
            cache(self._new_entry),
            cache(_longest_first),
            cache(self._rank),
        )
        edges = dict.fromkeys(subnet.switch for subnet in self._subnets)
        self._paths = ShortestPaths(graph, edges)
        names = self._paths.names
        self._salts = salts(seed, len(names))
        self._subnets_of: dict[int, list[int]] = {}
        for i, subnet in enumerate(self._subnets):
            self._subnets_of.setdefault(self._paths.number[subnet.switch], []).append(i)
        choice: list[dict[int, Ports]] = [{} for _ in names]
        for target in self._paths.targets:
            for switch, ports in enumerate(self._paths.ports(target)):
                if switch != target:
                    choice[switch] |= self._pick(switch, self._subnets_of[target], ports)
        self._tables = [Table(self._subnets, each) for each in choice]

    def switches(self) -> dict[str, SwitchPlan]:
        """Every switch: datapath ids count from 1; hosts first (/32), then prefixes, longest first."""
        plans = {}
        for number, name in enumerate(self._paths.names):
            hosts = tuple(
                Entry(f"{self._addressing.hosts[link.target]}/32", "single", (link.source_port,))
                for link in self._graph.links_from(name)
                if self._graph.nodes[link.target].kind == "host"
            )
            plans[name] = SwitchPlan(
                number + 1, self._salts[number], hosts + self._entries(self._tables[number].entries)
            )
        return plans

    def alternates(self, sets: Iterable[frozenset[int]]) -> Iterator[Alternate]:
        """For each set of switch-to-switch cables the entries that change while just these are down."""
        for cables in sets:
            changed: dict[int, dict[int, Ports]] = {}
            for switch, targets, ports in self._paths.without(cables):
                before = self._tables[switch].choice
                subnets = [subnet for target in targets for subnet in self._subnets_of[target]]
                picked = self._pick(switch, subnets, ports)
                changed.setdefault(switch, {}).update((i, new) for i, new in picked.items() if new != before[i])
            entries = {
                self._paths.names[switch]: self._entries(self._tables[switch].override(news))
                for switch, news in sorted(changed.items())
                if news
            }
            yield Alternate(tuple(sorted(cables)), entries)

    def core_cables(self) -> tuple[int, ...]:
        """The switch-to-switch cables, ascending."""
        return tuple(self._paths.ends)

    def _pick(self, switch: int, subnets: Iterable[int], ports: Ports) -> dict[int, Ports]:
        """The ports by which a switch sends to each of the subnets to which `ports` lead."""
        if self._kind != "single" or len(ports) < 2:
            return dict.fromkeys(subnets, ports)
        return {i: (next(port for port in self._ranked(switch, i) if port in ports),) for i in subnets}

    def _rank(self, switch: int, subnet: int) -> Ports:
        """The highest draw first (Thaler and Ravishankar 1998): losing one port moves only what went through it."""
        draws = {port: _draw(self._salts[switch], subnet, port) for port in self._paths.port[switch].values()}
        return tuple(sorted(draws, key=lambda port: draws[port], reverse=True))

    def _entries(self, table: Mapping[str, Ports]) -> tuple[Entry, ...]:
        prefixes = sorted(table, key=self._longest_first) if len(table) > 1 else table
        return tuple([self._entry(prefix, table[prefix]) for prefix in prefixes])

    def _new_entry(self, prefix: str, ports: Ports) -> Entry:
        return Entry(prefix, "single" if len(ports) < 2 else self._kind, ports)


def salts(seed: int, switches: int) -> list[int]:
    """The salt of each switch's hash, no two alike."""
    return stream(seed, "routing", "salt").sample(_SALTS, switches)


def _longest_first(prefix: str) -> tuple[int, tuple[int, ...]]:
    address, bits = prefix.split("/")
    return -int(bits), tuple(int(octet) for octet in address.split("."))


def _draw(*words: int) -> int:
    """A number that each of the words decides: the mixing step of SplitMix64 (Steele, Lea and Flood 2014) on each."""
    state = 0
    for word in words:
        state = (state ^ word) + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ state >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 31
    return state
