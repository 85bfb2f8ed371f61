"""Which forwarding entry holds for an address: the longest prefix that it is in."""

import ipaddress
from collections.abc import Iterable

from testbed.routing.model import Entry

_BITS = 32
_ALL_ONES = (1 << _BITS) - 1


class Lookup:
    """Longest-prefix match over entries of one switch; of two with the same prefix the later one holds."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries: dict[int, dict[int, Entry]] = {}
        for entry in entries:
            network = ipaddress.IPv4Network(entry.prefix)
            self._entries.setdefault(network.prefixlen, {})[int(network.network_address)] = entry
        self._lengths = sorted(self._entries, reverse=True)

    def of(self, ip: int) -> Entry | None:
        """The entry for an IPv4 address; None: there is none."""
        for length in self._lengths:
            if entry := self._entries[length].get(ip & _ALL_ONES << (_BITS - length) & _ALL_ONES):
                return entry
        return None
