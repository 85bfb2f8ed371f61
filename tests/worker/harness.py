"""The run's side of the ranks, for tests: a plan by hand, namespaces joined by veth, and the rounds of an iteration."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from testbed.errors import RunFailed
from testbed.plan.model import Address, Plan
from testbed.plan.planner import plan
from testbed.plan.serial import to_json
from testbed.run.channel import Channel, Hub
from testbed.spec.model import LinkSpec, Spec, TopologySpec, TransportSpec, WorkersSpec, WorkloadSpec
from testbed.units import Quantity

LIMIT_S = 30.0


def make_plan(
    ranks: int,
    *,
    transport: str = "roce",
    rate_bps: int = 10**9,
    delay_ns: int = 100_000,
    loopback: bool = False,
    workload: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Plan:
    """A star of `ranks` hosts; `loopback`: with addresses that the machine's own loopback answers to."""
    given = {"size": "64KiB", "dtype": "float32", "iterations": 1, "warmup": 0, **(workload or {})}
    given = {key: value for key, value in given.items() if value is not None}
    link = LinkSpec(rate=Quantity(rate_bps), delay=Quantity(delay_ns))
    made = plan(
        Spec(
            name="test",
            time_dilation=1,
            topology=TopologySpec(kind="star", hosts=max(2, ranks)),
            links=(link,),
            workers=WorkersSpec(count=ranks),
            transport=TransportSpec(kind=transport),
            workload=WorkloadSpec(**given),
            **spec,
        )
    )
    if not loopback:
        return made
    net = 1 + os.getpid() % 254
    addresses = {host: Address(f"127.{net}.0.{i + 1}", a.mac) for i, (host, a) in enumerate(made.addresses.items())}
    new = {f"{a.ip}/32": f"{addresses[host].ip}/32" for host, a in made.addresses.items()}
    switches = {
        name: replace(switch, entries=tuple(replace(e, prefix=new.get(e.prefix, e.prefix)) for e in switch.entries))
        for name, switch in made.switches.items()
    }
    return replace(made, addresses=addresses, switches=switches)


@contextmanager
def mesh(plan: Plan) -> Iterator[dict[str, str]]:
    """A namespace a host, each pair of hosts joined by a veth pair of its own; host -> namespace."""
    names = {host: f"tw{os.getpid()}-{host}" for host in plan.graph.hosts}
    lines = [f"netns add {name}" for name in names.values()]
    for a, b in combinations(names, 2):
        lines.append(f"link add {a}-{b} netns {names[a]} type veth peer name {b}-{a} netns {names[b]}")
    try:
        _ip(lines)
        for host, name in names.items():
            inside = ["link set lo up", f"addr add {plan.addresses[host].ip}/32 dev lo"]
            for other in names:
                if other != host:
                    ip = plan.addresses[other].ip
                    inside += [
                        f"link set {host}-{other} up",
                        f"route add {ip}/32 dev {host}-{other} src {plan.addresses[host].ip}",
                    ]
            _ip(inside, name)
        yield names
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=10)


def _ip(lines: list[str], namespace: str | None = None) -> None:
    where = ["-netns", namespace] if namespace else []
    subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(lines), text=True, check=True, timeout=20)


class Ranks:
    """The ranks of a plan, started as the run starts them, and their control channels."""

    def __init__(self, plan: Plan, directory: Path, namespaces: Mapping[str, str] | None = None) -> None:
        self.plan = plan
        self.channels: dict[int, Channel] = {}
        self._hub = Hub(directory / "control")
        self.log = directory / "worker.log"
        (directory / "plan.json").write_text(json.dumps(to_json(plan)))
        by_rank = {rank: namespaces[host] for rank, host in enumerate(plan.placement)} if namespaces else {}
        argv = [sys.executable, "-m", "testbed.worker", "--plan", str(directory / "plan.json")]
        argv += ["--control", str(self._hub.path), "--namespaces", json.dumps(by_rank)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log)

    def __enter__(self) -> "Ranks":
        deadline = time.monotonic() + LIMIT_S
        while len(self.channels) < len(self.plan.placement):
            assert time.monotonic() < deadline, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            if channel := self._hub.accept(0.1):
                self.channels[channel.hello["rank"]] = channel
        return self

    def __exit__(self, *_: object) -> None:
        self._hub.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise

    def tell(self, **message: Any) -> None:
        for channel in self.channels.values():
            channel.send(message)

    def gather(self, event: str, among: set[int] | None = None) -> dict[int, dict[str, Any]]:
        """The notice `event` of every rank; a failed one raises AssertionError with its reason."""
        wanted, found = among or set(self.channels), {}
        deadline = time.monotonic() + LIMIT_S
        while not wanted <= set(found):
            if time.monotonic() > deadline:
                said = {rank: self.channels[rank].request({"op": "progress"}) for rank in wanted}
                raise AssertionError(f"no {event}: {said}\n{self.log.read_text()}")
            for channel, messages in self._hub.wait(0.1):
                if channel.closed:
                    raise RunFailed(f"{channel.name} is gone")
                for message in messages:
                    if message.get("event") == event:
                        found[channel.hello["rank"]] = message
                    elif message.get("event") == "failed":
                        raise AssertionError(message["reason"])
        return found

    def iterate(self, number: int, among: set[int] | None = None) -> dict[int, dict[str, Any]]:
        """One iteration; rank -> its `done`."""
        self.tell(op="prepare", iteration=number)
        self.gather("ready")
        self.tell(op="release", iteration=number, at_ns=time.monotonic_ns() + 20_000_000)
        return self.gather("done", among)
