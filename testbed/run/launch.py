"""Starts the processes that make traffic: the ranks' parent, and the generator of background traffic."""

import json
import sys
from pathlib import Path

from testbed.emulation import processes
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.processes import Child


def start_workers(network: EmulatedNetwork, logs: Path) -> Child:
    """The zygote: it warms up once and forks one process a rank or server, each in its host's namespace."""
    namespaces = {number: network.netns(host) for number, host in enumerate(network.plan.hosts)}
    return _start(network, logs, "worker", "testbed.worker", namespaces)


def start_generator(network: EmulatedNetwork, logs: Path) -> Child:
    """Background traffic: one process with sockets in the hosts' namespaces."""
    namespaces = {host: network.netns(host) for host in network.plan.graph.hosts}
    return _start(network, logs, "generator", "testbed.stress.generator", namespaces)


def _start(
    network: EmulatedNetwork,
    logs: Path,
    name: str,
    module: str,
    namespaces: dict[int, str] | dict[str, str],
) -> Child:
    return processes.start(
        network.state,
        name,
        [
            sys.executable, "-P", "-m", module,  # -P: nothing of the folder where the user is comes in between
            "--plan", str(network.state.directory / "plan.json"),
            "--control", str(network.hub.path),
            "--namespaces", json.dumps(namespaces),
        ],
        logs / f"{name}.log",
        namespace=network.outer,
    )  # fmt: skip
