"""Starts the processes that make traffic: the ranks' parent, and the generator of background traffic."""

import json
import sys

from testbed.emulation import processes
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.processes import Child
from testbed.results.rundir import RunDirectory


def start_workers(network: EmulatedNetwork, directory: RunDirectory) -> Child:
    """The zygote: it warms up once and forks one process a rank, each in its host's namespace."""
    namespaces = {rank: network.netns(host) for rank, host in enumerate(network.plan.placement)}
    return _start(network, directory, "worker", "testbed.worker", namespaces)


def start_generator(network: EmulatedNetwork, directory: RunDirectory) -> Child:
    """Background traffic: one process with sockets in the hosts' namespaces."""
    namespaces = {host: network.netns(host) for host in network.plan.graph.hosts}
    return _start(network, directory, "generator", "testbed.stress.generator", namespaces)


def _start(
    network: EmulatedNetwork,
    directory: RunDirectory,
    name: str,
    module: str,
    namespaces: dict[int, str] | dict[str, str],
) -> Child:
    return processes.start(
        network.state,
        name,
        [
            sys.executable, "-m", module,
            "--plan", str(network.state.directory / "plan.json"),
            "--control", str(network.hub.path),
            "--namespaces", json.dumps(namespaces),
        ],
        directory.log(name),
        namespace=network.outer,
    )  # fmt: skip
