"""The server of a best-effort job: a process on a host of its own, which adds up what the switch has no room for."""

import os
import select
import signal
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

from testbed import transport
from testbed.emulation import scheduling
from testbed.errors import RunFailed, TestbedError
from testbed.netcore import set_timer_slack
from testbed.plan.model import Aggregation, SumServer
from testbed.run.channel import Channel
from testbed.transport.aggregation import AGGREGATOR, AggregationServer
from testbed.transport.framing import of_aggregation
from testbed.worker import process
from testbed.worker.frames import frames_of
from testbed.worker.loop import Loop
from testbed.worker.nic import ServerNic
from testbed.worker.setup import Shared

_READY_LIMIT_MS = 60_000


def start_server(shared: Shared, tree: Aggregation, server: SumServer, control: Path, namespace: str | None) -> int:
    """Fork the server's process, and wait until its sockets are there; its process id. Raises RunFailed."""
    parent = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            process.die_with_parent(parent)
            process.name_process("sum-server")
            _serve(shared, tree, server, control, namespace, writing)
            status = 0
        except TestbedError as error:
            os.write(2, f"server on {server.host}: {error.message}\n".encode())
        finally:
            os._exit(status)
    os.close(writing)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    ready = poll.poll(_READY_LIMIT_MS) and os.read(reading, 1)
    os.close(reading)
    if not ready:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise RunFailed(f"the server on {server.host} did not start", hint="see logs/worker.log")
    return child


def _serve(
    shared: Shared, tree: Aggregation, server: SumServer, control: Path, namespace: str | None, ready: int
) -> None:
    scheduling.go_first(shared.plan.datapath, scheduling.RANK_PRIORITY)
    set_timer_slack(1)
    if namespace is not None:
        process.enter_network(namespace)
    link = shared.plan.graph.links_from(server.host)[0]
    path = replace(shared.path, rate_bps=link.parameters.rate_bps)
    settings = transport.settle(shared.job.spec.transport, shared.path)
    endpoint = AggregationServer(path, tree.number, len(shared.job.placement), settings)
    frames = frames_of(of_aggregation(str(settings.values["framing"])), int(IPv4Address(server.address.ip)))
    nic = ServerNic(server.address.ip, {AGGREGATOR: tree.address.ip}, endpoint, frames, path, shared.clock)
    channel = Channel.connect(control, "server", name=f"server on {server.host}")
    os.write(ready, b"\1")
    os.close(ready)
    loop = Loop(shared.clock.monotonic)
    loop.add(_Serving(channel, nic, loop))
    loop.run()


class _Serving:
    """Serves the switch until the run goes away."""

    def __init__(self, channel: Channel, nic: ServerNic, loop: Loop) -> None:
        self._channel = channel
        self._nic = nic
        self._loop = loop

    def watched(self) -> list[tuple[int, int]]:
        return [(self._channel.fileno(), select.POLLIN), *self._nic.watched()]

    def serve(self, ready: Mapping[int, int]) -> None:
        if self._channel.fileno() in ready:
            self._channel.poll()
            if self._channel.closed:
                self._loop.stop()
                return
        self._nic.receive(ready)
        self._nic.transmit()

    def wake_ns(self) -> int | None:
        return self._nic.wake_ns()
