"""The longest prefix wins: against the words of RFC 1812 (5.2.4.3), by looking at all entries."""

from ipaddress import IPv4Address, IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from testbed.routing.lookup import Lookup
from testbed.routing.model import Entry

networks = st.builds(
    lambda address, length: IPv4Network((address, length), strict=False), st.integers(0, 2**32 - 1), st.integers(0, 32)
)


@given(networks=st.lists(networks, max_size=12), data=st.data())
def test_the_longest_prefix_that_an_address_is_in(networks: list[IPv4Network], data: st.DataObject) -> None:
    entries = [Entry(str(network), "single", (port,)) for port, network in enumerate(networks)]
    inside = (
        st.sampled_from(networks).flatmap(lambda n: st.integers(int(n[0]), int(n[-1]))) if networks else st.nothing()
    )
    address = data.draw(st.one_of(inside, st.integers(0, 2**32 - 1)))
    fit = [entry for entry, network in zip(entries, networks, strict=True) if IPv4Address(address) in network]
    best = max((IPv4Network(entry.prefix).prefixlen for entry in fit), default=None)
    # Of two with one prefix the later one holds.
    right = next((entry for entry in reversed(fit) if IPv4Network(entry.prefix).prefixlen == best), None)
    assert Lookup(entries).of(address) == right
