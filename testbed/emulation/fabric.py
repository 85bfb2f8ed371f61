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
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from testbed.emulation import namespaces
from testbed.emulation.scheduling import FABRIC_PRIORITY
from testbed.errors import TestbedError
from testbed.fabric.model import FabricConfig, LinkEnd, SwitchConfig, interface, parameters
from testbed.fabric.network import FabricNetwork
from testbed.netcore import Fabric, open_tap, set_running, set_timer_slack
from testbed.run.channel import Channel, ChannelClosed, Message
from testbed.threads import join

TIMER_SLACK_NS = 1
IDLE_WAIT_S = 3600.0  # for requests; the end of the channel is noticed at once
TX_DROPPED_COLUMN = 11  # of /proc/net/dev, after the interface's name
T = TypeVar("T")


class FabricProcess:
    """The network of one configuration between TAPs, and the thread that moves its packets."""

    def __init__(self, config: FabricConfig, report: Callable[..., None]) -> None:
        """`report` as `FabricNetwork` takes it."""
        self.config = config
        self.segmentation = config.segmentation == "auto"
        self._fabric = Fabric(config.seed)
        self._report = report
        self._switches: dict[str, int] = {}  # those with TAPs: numbers, as the core knows them
        self._thread = threading.Thread(target=self._move_packets, name="fabric", daemon=True)
        self._network = FabricNetwork(self._fabric, config, self._open, report)

    def start(self) -> None:
        self._thread.start()
        self._network.native.start()

    def stop(self) -> None:
        """End moving packets and complete the captures; twice is fine.

        Raises OSError if a capture could not be written, or packets are still moved.
        """
        self._network.native.stop()
        self._fabric.stop()
        join(self._thread)
        self._network.capture_stop()

    def answer(self, request: Message) -> dict[str, Any]:
        """Carry a request out; raises KeyError, ValueError or OSError for one that cannot be."""
        return self._operations[request["op"]](self, request)

    def _open(self, end: LinkEnd) -> int:
        """Make an end's TAP."""
        wanted = end.host and self.segmentation
        fd, segmentation = inside(end.netns, lambda: open_tap(end.interface, virtio=end.host, segmentation=wanted))
        if end.host:
            self.segmentation = segmentation
        return self._fabric.add_port(
            fd,
            virtio=end.host,
            host=end.host,
            switch=0 if end.host else self._switches.setdefault(end.node, len(self._switches)),
            spray=self.config.spray and not end.host,
            join=segmentation,
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
        for link, counters in zip(
            self.config.links, self._network.counters(request["job"], mark=request["mark"]), strict=True
        ):
            lost = dropped.get((link.source.netns, link.source.interface), 0)
            links.append(asdict(replace(counters, ring_dropped=lost)))
        return {"links": links}

    def _ring_drops(self) -> dict[tuple[str | None, str], int]:
        """Frames that each TAP's kernel side dropped because the fabric did not read them in time."""
        taps = [link.source for link in self.config.links if link.source.node not in self._network.native]
        drops = {}
        for netns in {end.netns for end in taps}:
            table = inside(netns, Path("/proc/thread-self/net/dev").read_text)
            for line in table.splitlines()[2:]:
                name, _, columns = line.partition(":")
                drops[netns, name.strip()] = int(columns.split()[TX_DROPPED_COLUMN])
        return drops

    def _mark(self, _request: Message) -> dict[str, Any]:
        self._network.mark()
        return {}

    def _transit(self, _request: Message) -> dict[str, Any]:
        return {"transit": self._network.transit()}

    def _in_flight(self, request: Message) -> dict[str, Any]:
        everything, job = self._network.in_flight(request["job"])
        return {"all": everything, "job": job}

    def _change_link(self, request: Message) -> dict[str, Any]:
        self._network.set_link(request["link"], parameters(request["parameters"]))
        return {}

    def _link_down(self, request: Message) -> dict[str, Any]:
        return self._set_cable(request["cable"], up=False)

    def _link_up(self, request: Message) -> dict[str, Any]:
        return self._set_cable(request["cable"], up=True)

    def _set_cable(self, cable: int, *, up: bool) -> dict[str, Any]:
        """First the cable, then what its switches see of it: what they still send is counted where it is lost."""
        self._network.set_cable(cable, up=up)
        for link in self.config.links:
            if link.index // 2 == cable and not link.source.host and link.source.node not in self._network.native:
                inside(link.source.netns, partial(set_running, link.source.interface, up))
        return {}

    def _switches_counted(self, request: Message) -> dict[str, Any]:
        return {"switches": [asdict(switch) for switch in self._network.switches(request["job"])]}

    def _swap(self, request: Message) -> dict[str, Any]:
        new = SwitchConfig.from_json(request["new"])
        return {"swapped": asdict(self._network.swap(new, keep_registers=request["keep_registers"]))}

    def _pauses(self, _request: Message) -> dict[str, Any]:
        return {"pauses": self._network.pauses()}

    def _waiting(self, _request: Message) -> dict[str, Any]:
        return {"waiting": self._network.waiting()}

    def _entries(self, _request: Message) -> dict[str, Any]:
        return {"entries": {name: [asdict(e) for e in entries] for name, entries in self._network.entries().items()}}

    def _capture_start(self, request: Message) -> dict[str, Any]:
        node, port, dilation = request["node"], request["port"], self.config.dilation
        self._network.capture_start(
            node,
            port,
            request["path"],
            request["snap_bytes"],
            interface=interface(node, port),
            comment=f"node {node}, port {port}; time_dilation {dilation}: model time = real time / {dilation}",
        )
        return {}

    def _capture_stop(self, _request: Message) -> dict[str, Any]:
        self._network.capture_stop()
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
