"""Queueing disciplines: the `tc` link driver (rate, byte queue, delay of veth links), and hosts' ports for `netcore`.

A switch's port: HTB (rate) over netem (delay) over bfifo (the byte queue, which then excludes the packet that HTB has
let go). A host's own port: HTB over a bfifo so long that the sender's socket buffer fills first, so that the sender
waits. netem there would set the packets free of their socket, and nothing would hold the sender back any more; the
delay of that direction is therefore put where the packets enter the switch (ingress, redirected through an ifb).
Where the fabric carries a host's link, the same HTB over bfifo on the host's TAP holds its senders back; the exact rate
is the fabric's there, so HTB may run ahead of it by what a NIC holds.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.emulation.commands import in_parallel, ip_batch, output_of, tc_batch
from testbed.emulation.links import namespace_of
from testbed.errors import RunFailed
from testbed.fabric.links import LinkCounters
from testbed.fabric.model import interface
from testbed.plan.model import Plan
from testbed.topology.graph import LinkParameters
from testbed.wire.ethernet import WIRE_BYTES  # which the kernel does not count

# The burst is what HTB may catch up on after its timer fired late, here by up to 50 us; more would hide short messages.
# Measured with 1,100-byte packets: 0.995 to 1.005 of the rate from 10 Mb/s to 1 Gb/s; at 1 us 0.96 and 0.76.
_LATE_TIMER_NS = 50_000
_NIC_BYTES = 64 << 10  # what the fabric's NIC may hold before its sender waits: one super-packet
_QUANTUM_BYTES = 60_000  # of no effect with one class, but HTB complains where it derives one from the rate
_HOST_QUEUE_BYTES = 256 << 20  # above what all sockets of a host may have under way (SO_SNDBUF)
_FRAME_BYTES = 64  # the shortest
_NETEM_MARGIN = 16  # packets may arrive at several times the rate while they wait out the delay
_RATE_TOLERANCE = 0.002  # tc prints four digits
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True)
class Shape:
    """What the kernel is asked for on one device, in real time."""

    rate_bps: int
    delay_ns: int
    queue_bytes: int
    hold_sender: bool = False
    ahead_bytes: int = 0  # what may pass at once, because the exact rate is kept elsewhere

    @property
    def netem_packets(self) -> int:
        """netem's limit: room for what the delay and the queue may hold, in the shortest packets, with a margin."""
        return (
            1000 + _NETEM_MARGIN * (self.rate_bps * self.delay_ns // 8_000_000_000 + self.queue_bytes) // _FRAME_BYTES
        )

    def set_up(self, device: str) -> Iterator[str]:
        """The tc commands for a device that has none of it yet."""
        yield f"qdisc replace dev {device} root handle 1: htb default 1"
        yield from self.change(device, with_netem=self.delay_ns > 0)

    def change(self, device: str, *, with_netem: bool) -> Iterator[str]:
        """The tc commands that change what `set_up` set, while packets flow."""
        burst_bytes = self.ahead_bytes or max(1, self.rate_bps * _LATE_TIMER_NS // 8_000_000_000)
        yield (
            f"class replace dev {device} parent 1: classid 1:1 htb rate {self.rate_bps}bit ceil {self.rate_bps}bit "
            f"burst {burst_bytes} cburst {burst_bytes} overhead {WIRE_BYTES} quantum {_QUANTUM_BYTES}"
        )
        if self.hold_sender:
            yield f"qdisc replace dev {device} parent 1:1 handle 20: bfifo limit {_HOST_QUEUE_BYTES}"
        elif with_netem:
            yield f"qdisc replace dev {device} parent 1:1 handle 10: {self._netem}"
            yield f"qdisc replace dev {device} parent 10:1 handle 20: bfifo limit {self.queue_bytes}"
        else:
            yield f"qdisc replace dev {device} parent 1:1 handle 20: bfifo limit {self.queue_bytes}"

    def set_up_entry(self, device: str) -> Iterator[str]:
        """The tc commands that delay what enters at `device`, through its relay."""
        yield from self.change_entry(device)
        yield f"qdisc replace dev {device} clsact"
        relay = relay_of(device)
        yield f"filter replace dev {device} ingress handle 1 prio 1 matchall action mirred egress redirect dev {relay}"

    def change_entry(self, device: str) -> Iterator[str]:
        """The tc command that changes that delay."""
        yield f"qdisc replace dev {relay_of(device)} root handle 10: {self._netem}"

    @property
    def _netem(self) -> str:
        return f"netem delay {self.delay_ns / 1000:.3f}us limit {self.netem_packets}"


def relay_of(device: str) -> str:
    """The ifb device through which packets entering at `device` are delayed."""
    return device.replace("-eth", "-ifb")


class TcDriver:
    """Carries the cables that the plan gives to `tc`, and holds senders back at hosts' ports of all others."""

    def __init__(self, plan: Plan, outer: str) -> None:
        self._plan = plan
        self._graph = plan.graph
        self._outer = outer
        self._delayed: set[int] = set()  # links with a netem; it stays when the delay becomes 0
        self._carried = [link.index for link in plan.graph.links if plan.drivers[link.cable] == "tc"]
        self._parameters = {
            link.index: link.parameters
            for link in plan.graph.links
            if plan.drivers[link.cable] == "tc" or self._from_host(link.index)
        }

    def configure(self) -> None:
        """Shape all links, one tc process a namespace. Raises RunFailed (also for a kernel without netem or ifb)."""
        commands: dict[str, list[str]] = defaultdict(list)
        for index in self._parameters:
            commands[self._namespace(index)] += self._shape(index).set_up(self._source(index))
        commands[self._outer] += self._start_delaying(self._parameters)
        in_parallel(lambda item: tc_batch(item[1], item[0]), commands.items())

    def set_link(self, index: int, parameters: LinkParameters) -> None:
        """Change a link, or a host's port, while packets flow. Raises RunFailed for what tc does not do."""
        if index not in self._parameters:
            return
        if parameters.impaired and index in self._carried:
            name = self._graph.links[index].name
            raise RunFailed(f"link {name} is carried by tc, which knows rate, delay and queue only")
        self._parameters[index] = parameters
        entry = list(self._start_delaying([index]))
        shape = self._shape(index)
        tc_batch(shape.change(self._source(index), with_netem=index in self._delayed), self._namespace(index))
        if self._from_host(index) and index in self._delayed:
            tc_batch(entry or shape.change_entry(self._target(index)), self._outer)

    def link_down(self, cable: int) -> None:
        """Both ends lose their carrier."""
        self._set_ends(cable, "down")

    def link_up(self, cable: int) -> None:
        self._set_ends(cable, "up")

    def counters(self, job: int | None = None) -> Mapping[int, LinkCounters]:  # noqa: ARG002 - it tells none apart
        """By index of a link that tc carries; from the root of each device, which counts what its inner queues drop."""
        qdiscs = self._qdiscs(self._carried)
        counters = {}
        for index in self._carried:
            root = qdiscs[self._source(index)]["1:"]
            relay = qdiscs[relay_of(self._target(index))].get("10:", {"qlen": 0})
            packets, size_bytes, drops = root["packets"], root["bytes"], root["drops"]
            inside = root["qlen"] + (relay["qlen"] if self._from_host(index) else 0)
            counters[index] = LinkCounters(
                packets=packets,
                bytes=size_bytes,
                job_packets=packets,
                job_bytes=size_bytes,
                dropped_queue=drops,
                job_dropped_queue=drops,
                in_flight=inside,
                job_in_flight=inside,
            )
        return counters

    def sender_drops(self) -> dict[str, int]:
        """Where -> packets that a host's own port dropped instead of holding the sender back."""
        ports = [index for index in self._parameters if self._from_host(index)]
        qdiscs = self._qdiscs(ports)
        drops = {device: qdiscs[device]["1:"]["drops"] for device in map(self._source, ports)}
        return {f"{device}: sender not held back": count for device, count in drops.items() if count}

    def read_back(self) -> list[str]:
        """Where the kernel's rate, delay or queue is not what was asked."""
        qdiscs, rates = self._qdiscs(self._parameters), self._rates()
        problems = []
        for index in self._parameters:
            shape, device, name = self._shape(index), self._source(index), self._graph.links[index].name
            rate_bps = rates.get(device, 0)
            if abs(rate_bps - shape.rate_bps) > _RATE_TOLERANCE * shape.rate_bps:
                problems.append(f"{name}: rate {rate_bps} bit/s instead of {shape.rate_bps}")
            on_way = qdiscs.get(relay_of(self._target(index)) if shape.hold_sender else device, {})
            delay_ns = round(on_way["10:"]["options"]["delay"]["delay"] * 1e9) if "10:" in on_way else 0
            if abs(delay_ns - shape.delay_ns) > 1000:  # printed to the microsecond
                problems.append(f"{name}: delay {delay_ns} ns instead of {shape.delay_ns}")
            asked = _HOST_QUEUE_BYTES if shape.hold_sender else shape.queue_bytes
            limit = qdiscs.get(device, {}).get("20:", {}).get("options", {}).get("limit", 0)
            if limit != asked:
                problems.append(f"{name}: queue of {limit} B instead of {asked}")
        return problems

    def _start_delaying(self, indices: Iterable[int]) -> Iterator[str]:
        """Take note of links that have a delay from now on; make the relays of hosts' links, return their commands."""
        fresh = [index for index in indices if self._shape(index).delay_ns and index not in self._delayed]
        self._delayed.update(fresh)
        entries = [(index, self._target(index)) for index in fresh if self._from_host(index)]
        ip_batch((f"link add name {relay_of(device)} type ifb" for _, device in entries), self._outer)
        ip_batch((f"link set dev {relay_of(device)} up" for _, device in entries), self._outer)
        return (command for index, device in entries for command in self._shape(index).set_up_entry(device))

    def _shape(self, index: int) -> Shape:
        parameters = self._parameters[index]
        dilation = self._plan.dilation
        carried = index in self._carried
        return Shape(
            max(1, parameters.rate_bps // dilation),
            parameters.delay_ns * dilation if carried else 0,
            parameters.queue_bytes,
            hold_sender=self._from_host(index),
            ahead_bytes=0 if carried else _NIC_BYTES,
        )

    def _set_ends(self, cable: int, state: str) -> None:
        # A host's interface stays up, as going down would make it forget its neighbours. It loses its carrier anyway.
        ends = [self._graph.links[2 * cable], self._graph.links[2 * cable + 1]]
        ip_batch(
            (f"link set dev {self._source(end.index)} {state}" for end in ends if not self._from_host(end.index)),
            self._outer,
        )

    def _qdiscs(self, indices: Iterable[int]) -> dict[str, dict[str, Any]]:
        """Device -> handle -> what `tc -s -j qdisc show` says, in the namespaces of both ends of some links."""
        ends = {(self._graph.links[index].source, self._graph.links[index].target) for index in indices}
        names = sorted({namespace_of(self._graph, node, self._outer) for end in ends for node in end})
        listings = in_parallel(
            lambda name: json.loads(output_of(["tc", "-n", name, "-s", "-j", "qdisc", "show"])), names
        )
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for qdisc in (qdisc for listing in listings for qdisc in listing):
            found[qdisc["dev"]][qdisc["handle"]] = qdisc
        return found

    def _rates(self) -> dict[str, int]:
        """Device -> the rate of its HTB class in bit/s (`tc class show` knows no JSON for HTB)."""
        devices = defaultdict(list)
        for index in self._parameters:
            devices[self._namespace(index)].append(self._source(index))

        def ask(item: tuple[str, Sequence[str]]) -> list[tuple[str, int]]:
            script = "".join(f"class show dev {device}\n" for device in item[1])
            text = output_of(["tc", "-n", item[0], "-batch", "-"], stdin=script)
            return list(zip(item[1], parse_rates(text), strict=True))

        return dict(pair for pairs in in_parallel(ask, devices.items()) for pair in pairs)

    def _namespace(self, index: int) -> str:
        return namespace_of(self._graph, self._graph.links[index].source, self._outer)

    def _from_host(self, index: int) -> bool:
        return self._graph.nodes[self._graph.links[index].source].kind == "host"

    def _source(self, index: int) -> str:
        link = self._graph.links[index]
        return interface(link.source, link.source_port)

    def _target(self, index: int) -> str:
        link = self._graph.links[index]
        return interface(link.target, link.target_port)


def parse_rates(text: str) -> list[int]:
    """`tc class show` of HTB -> the rates in bit/s, in order."""
    return [
        int(n) * _UNITS[unit] for n, unit in re.findall(r"^class htb .*? rate (\d+)([KMGT]?)bit ", text, re.MULTILINE)
    ]
