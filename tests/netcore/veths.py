"""Namespaces joined to one in the middle by veth pairs, as a switch on existing interfaces has them."""

import contextlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.emulation import namespaces
from tests.netcore.rig import run

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A host's namespace; its interface is `eth0`, whose peer in the middle is `interface`."""

    netns: str
    interface: str
    number: int

    @property
    def ip(self) -> str:
        return f"10.8.0.{self.number + 1}"

    @property
    def ip6(self) -> str:
        return f"fd00::{self.number + 1}"

    @property
    def mac(self) -> str:
        return f"02:00:00:00:08:{self.number + 1:02x}"

    def command(self, *arguments: str) -> str:
        return run("ip", "netns", "exec", self.netns, *arguments)


@contextlib.contextmanager
def veths(count: int) -> Iterator[tuple[str, list[Leaf]]]:
    """The middle's name and the hosts, who know each other's addresses; all offloads are as the kernel has them."""
    tag = f"fv{os.getpid():x}-{next(_numbers)}"
    middle = f"{tag}-m"
    leaves = [Leaf(f"{tag}-{i}", f"veth{i}", i) for i in range(count)]
    with contextlib.ExitStack() as stack:
        for name in (middle, *(leaf.netns for leaf in leaves)):
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
        quiet = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
        namespaces.inside(middle, lambda: quiet.write_text("1"))
        for leaf in leaves:
            run("ip", "-n", middle, "link", "add", leaf.interface, "type", "veth", "peer", "eth0", "netns", leaf.netns)
            run("ip", "-n", middle, "link", "set", leaf.interface, "up")
            run("ip", "-n", leaf.netns, "link", "set", "eth0", "address", leaf.mac, "up")
            run("ip", "-n", leaf.netns, "addr", "add", f"{leaf.ip}/24", "dev", "eth0")
            run("ip", "-n", leaf.netns, "addr", "add", f"{leaf.ip6}/64", "dev", "eth0", "nodad")
        for leaf, other in itertools.permutations(leaves, 2):
            for ip in (other.ip, other.ip6):
                run("ip", "-n", leaf.netns, "neigh", "replace", ip, "lladdr", other.mac, "dev", "eth0")
        yield middle, leaves
