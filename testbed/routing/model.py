"""Forwarding entries as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

RoutingKind = Literal["ecmp", "spray", "single"]

MISS: Final = "miss"  # in a prefix's place: packets that no entry matches; controllers count them under it too


@dataclass(frozen=True, slots=True)
class Entry:
    """One forwarding entry: packets to `prefix` (IPv4, longest wins) leave by one of `ports`.

    kind single: the one port; ecmp: by a hash of the 5-tuple salted per switch; spray: by a draw per packet.
    """

    prefix: str
    kind: RoutingKind
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """A switch: its OpenFlow datapath id, the salt of its hash and its entries."""

    dpid: int
    salt: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """Per switch, the entries that replace those of the same prefix, or come beside them, while `cables` are down.

    `cables` are switch-to-switch, ascending; an entry with ports () says that the prefix cannot be reached.
    """

    cables: tuple[int, ...]
    entries: Mapping[str, tuple[Entry, ...]]
