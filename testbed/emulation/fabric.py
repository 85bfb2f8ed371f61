"""The fabric process of a run: makes the TAPs, drives the native core, and serves the run's requests.

    python -m testbed.emulation.fabric --config FILE --control SOCKET

FILE holds a `FabricConfig`. Packets are moved by a thread that never holds the interpreter's lock; this one talks to
the run. The process ends when its channel closes, and all its TAPs vanish with it.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from testbed.emulation import namespaces
from testbed.emulation.fabric_client import FabricConfig, LinkEnd, SwitchConfig, parameters
from testbed.emulation.native import NativeSwitches
from testbed.emulation.scheduling import FABRIC_PRIORITY
from testbed.errors import TestbedError
from testbed.netcore import LONGEST_NS, Fabric, open_tap, set_running, set_timer_slack
from testbed.run.channel import Channel, ChannelClosed, Message
from testbed.threads import join
from testbed.topology.graph import LinkParameters

TIMER_SLACK_NS = 1
IDLE_WAIT_S = 3600.0  # for requests; the end of the channel is noticed at once
TX_DROPPED_COLUMN = 11  # of /proc/net/dev, after the interface's name
T = TypeVar("T")


class FabricProcess:
    """The devices, ports, native switches and links of one configuration."""

    def __init__(self, config: FabricConfig, report: Callable[..., None]) -> None:
        """`report(event, **fields)` is told what changes by itself, as a controller's app tells it."""
        self.config = config
        self.segmentation = config.segmentation == "auto"
        self._fabric = Fabric(config.seed)
        self._report = report
        self._native = NativeSwitches(self._fabric, config, report)
        self._ports: dict[tuple[str, int], int] = {}
        self._switches: dict[str, int] = {}  # those with TAPs: numbers, as the core knows them
        self._links: dict[int, int] = {}
        self._thread = threading.Thread(target=self._move_packets, name="fabric", daemon=True)
        for link in config.links:
            for end in (link.source, link.target):
                self._open(end)
        for link in config.links:
            source, target = (self._ports[end.node, end.port] for end in (link.source, link.target))
            self._links[link.index] = self._fabric.add_link(source, target, link.index)
            self._set_link(link.index, link.parameters)
        self._fabric.set_job(config.job_udp_port, *config.job_tcp_ports)
        self._fabric.set_job_hosts([(int(IPv4Address(ip)), job) for ip, job in config.job_hosts])
        self._native.set_up()

    def start(self) -> None:
        self._thread.start()
        self._native.start()

    def stop(self) -> None:
        """End moving packets and complete the captures; twice is fine.

        Raises OSError if a capture could not be written, or packets are still moved.
        """
        self._native.stop()
        self._fabric.stop()
        join(self._thread)
        self._fabric.capture_stop()

    def answer(self, request: Message) -> dict[str, Any]:
        """Carry a request out; raises KeyError, ValueError or OSError for one that cannot be."""
        return self._operations[request["op"]](self, request)

    def _open(self, end: LinkEnd) -> None:
        key = end.node, end.port
        if key in self._ports:
            return
        if end.node in self._native:
            self._ports[key] = self._native.add_port(end.node, end.port)
            return
        wanted = end.host and self.segmentation
        fd, segmentation = inside(end.netns, lambda: open_tap(end.interface, virtio=end.host, segmentation=wanted))
        if end.host:
            self.segmentation = segmentation
        self._ports[key] = self._fabric.add_port(
            fd,
            virtio=end.host,
            host=end.host,
            switch=0 if end.host else self._switches.setdefault(end.node, len(self._switches)),
            spray=self.config.spray and not end.host,
            join=segmentation,
        )
        if end.address is not None:
            mac, ip = bytes.fromhex(end.address.mac.replace(":", "")), int(IPv4Address(end.address.ip))
            self._fabric.set_address(self._ports[key], mac, ip)

    def _set_link(self, index: int, of: LinkParameters) -> None:
        dilation = self.config.dilation
        for name, time_ns in (("delay", of.delay_ns), ("jitter", of.jitter_ns)):
            if time_ns * dilation > LONGEST_NS:
                raise ValueError(
                    f"link {index}: a {name} of {time_ns} ns slowed down {dilation} times is more than {LONGEST_NS} ns"
                )
        self._fabric.set_link(
            self._links[index],
            rate_bps=max(1, round(of.rate_bps / dilation)),
            delay_ns=of.delay_ns * dilation,
            queue_bytes=of.queue_bytes,
            jitter_ns=of.jitter_ns * dilation,
            reorder=of.reorder,
            ecn=(of.ecn.min_bytes, of.ecn.max_bytes, of.ecn.probability) if of.ecn else None,
            loss=(of.loss.mean, of.loss.burst_packets) if of.loss else None,
            duplicate=of.duplicate,
            corrupt=of.corrupt,
        )

    def _move_packets(self) -> None:
        set_timer_slack(TIMER_SLACK_NS)
        if self.config.realtime:
            with contextlib.suppress(PermissionError):
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FABRIC_PRIORITY))
        try:
            self._fabric.run()
        except OSError as error:
            self._report("failed", reason=str(error))
            os.kill(os.getpid(), signal.SIGTERM)  # without packets there is no run
            raise

    def _counters(self, request: Message) -> dict[str, Any]:
        dropped = self._ring_drops()
        links = []
        for link, (everything, job, gauges) in zip(
            self.config.links, self._fabric.counters(request["job"], request["mark"]), strict=True
        ):
            known: dict[str, int | None] = dict(gauges)
            known["measured_bps"] = gauges["measured_bps"] or None
            for late in ("late_p50_ns", "late_p99_ns"):
                known[late] = None if gauges[late] < 0 else gauges[late]
            lost = dropped.get((link.source.netns, link.source.interface), 0)
            links.append({"index": link.index, "all": everything, "job": job, "ring_dropped": lost, **known})
        return {"links": links}

    def _ring_drops(self) -> dict[tuple[str | None, str], int]:
        """Frames that each TAP's kernel side dropped because the fabric did not read them in time."""
        taps = [link.source for link in self.config.links if link.source.node not in self._native]
        drops = {}
        for netns in {end.netns for end in taps}:
            table = inside(netns, Path("/proc/thread-self/net/dev").read_text)
            for line in table.splitlines()[2:]:
                name, _, columns = line.partition(":")
                drops[netns, name.strip()] = int(columns.split()[TX_DROPPED_COLUMN])
        return drops

    def _mark(self, _request: Message) -> dict[str, Any]:
        self._fabric.mark()
        return {}

    def _transit(self, _request: Message) -> dict[str, Any]:
        return {"transit": self._fabric.transit()}

    def _in_flight(self, request: Message) -> dict[str, Any]:
        counters = self._fabric.counters(request["job"])
        return {"all": sum(link[0]["in_flight"] for link in counters), "job": sum(k[1]["in_flight"] for k in counters)}

    def _change_link(self, request: Message) -> dict[str, Any]:
        self._set_link(request["link"], parameters(request["parameters"]))
        return {}

    def _link_down(self, request: Message) -> dict[str, Any]:
        return self._set_cable(request["cable"], up=False)

    def _link_up(self, request: Message) -> dict[str, Any]:
        return self._set_cable(request["cable"], up=True)

    def _set_cable(self, cable: int, *, up: bool) -> dict[str, Any]:
        """First the cable, then what its switches see of it: what they still send is counted where it is lost."""
        for link in self.config.links:
            if link.index // 2 == cable:
                self._fabric.set_link_up(self._links[link.index], up)
        for link in self.config.links:
            if link.index // 2 == cable and not link.source.host and link.source.node not in self._native:
                inside(link.source.netns, partial(set_running, link.source.interface, up))
        self._native.cable_changed(cable, up=up)
        return {}

    def _switches_counted(self, request: Message) -> dict[str, Any]:
        return {"switches": self._native.counters(request["job"])}

    def _swap(self, request: Message) -> dict[str, Any]:
        new = SwitchConfig.from_json(request["new"])
        return {"swapped": asdict(self._native.swap(new, keep_registers=request["keep_registers"]))}

    def _pauses(self, _request: Message) -> dict[str, Any]:
        indices = [link.index for link in self.config.links]
        return {"pauses": [(indices[link], *pause) for link, *pause in self._fabric.pauses()]}

    def _waiting(self, _request: Message) -> dict[str, Any]:
        return {"waiting": self._native.waiting()}

    def _entries(self, _request: Message) -> dict[str, Any]:
        return {"entries": {name: [asdict(e) for e in entries] for name, entries in self._native.entries().items()}}

    def _capture_start(self, request: Message) -> dict[str, Any]:
        node, port, dilation = request["node"], request["port"], self.config.dilation
        self._fabric.capture_start(
            self._ports[node, port],
            request["path"],
            request["snap_bytes"],
            interface=f"{node}-eth{port}",
            comment=f"node {node}, port {port}; time_dilation {dilation}: model time = real time / {dilation}",
        )
        return {}

    def _capture_stop(self, _request: Message) -> dict[str, Any]:
        self._fabric.capture_stop()
        return {}

    def _quit(self, _request: Message) -> dict[str, Any]:
        self.stop()
        return {}

    _operations: ClassVar[dict[str, Callable[["FabricProcess", Message], dict[str, Any]]]] = {
        "counters": _counters,
        "mark": _mark,
        "transit": _transit,
        "in-flight": _in_flight,
        "set-link": _change_link,
        "link-down": _link_down,
        "link-up": _link_up,
        "switches": _switches_counted,
        "pauses": _pauses,
        "swap": _swap,
        "waiting": _waiting,
        "entries": _entries,
        "capture-start": _capture_start,
        "capture-stop": _capture_stop,
        "quit": _quit,
    }


def inside(netns: str | None, work: Callable[[], T]) -> T:
    """Call `work` in the namespace that `ip netns` knows by that name; None: here."""
    return work() if netns is None else namespaces.inside(netns, work)


def serve(process: FabricProcess, channel: Channel) -> None:
    """Answer requests until `quit` or the end of the channel."""
    with contextlib.suppress(ChannelClosed):
        while True:
            request = channel.receive(IDLE_WAIT_S)
            try:
                channel.answer(request, **process.answer(request))
            except TestbedError as error:
                channel.answer(request, error=error.message)
            except (KeyError, TypeError, ValueError, OverflowError, OSError, RuntimeError) as error:
                channel.answer(request, error=f"{request['op']}: {type(error).__name__}: {error}")
            if request["op"] == "quit":
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's to answer
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that captures are written out
    config = FabricConfig.from_json(json.loads(arguments.config.read_text()))
    channel = Channel.connect(arguments.control, role="fabric")
    try:
        process = FabricProcess(config, lambda event, **fields: channel.send({"event": event, **fields}))
    except (OSError, ValueError, OverflowError, TestbedError) as error:
        channel.send({"event": "failed", "reason": str(error)})
        return
    process.start()
    channel.send({"event": "ready", "segmentation": process.segmentation})
    try:
        serve(process, channel)
    finally:
        process.stop()


if __name__ == "__main__":
    main()
