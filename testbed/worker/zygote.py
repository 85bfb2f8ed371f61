"""The parent of all ranks of a run: imports everything once, makes what they share, forks them and outlives them.

A rank that dies is seen by the run at once at the end of its control stream; what is left to the zygote is to note that
the others need not wait for it, and to go when the last one has gone.
"""

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from testbed.emulation import scheduling
from testbed.errors import TestbedError
from testbed.netcore import set_timer_slack
from testbed.run.channel import Channel, ChannelClosed
from testbed.worker import process
from testbed.worker.setup import Shared, Sockets
from testbed.worker.sum_server import start_server

_GONE = np.iinfo(np.int64).max


def run_ranks(jobs: Sequence[Shared], control: Path, namespaces: Mapping[int, str]) -> int:
    """Fork a process a rank, in the network namespace of its number (none: here), and wait for all of them.

    Ranks are numbered through over all jobs. Returns the exit status: that of the first rank that ended badly, or 0.
    """
    gc.freeze()  # the children's collections shall not copy the parent's pages
    parent = os.getpid()
    servers = [*_servers(jobs, control, namespaces)]
    children: dict[int, tuple[Shared, int]] = {}
    for shared in jobs:
        for rank, number in enumerate(shared.job.numbers):
            child = os.fork()
            if child == 0:
                work = partial(_be_rank, shared, control, rank, parent, namespaces.get(number))
                os._exit(_guarded(shared.job.called(rank), work))
            children[child] = shared, rank
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it outlives them
    worst = 0
    while children:
        child, status = os.wait()
        worst = worst or abs(os.waitstatus_to_exitcode(status))
        if child in servers:  # which the run sees at the end of its control stream
            servers.remove(child)
            continue
        shared, rank = children.pop(child)
        shared.inputs.finished[rank] = _GONE
    for server in servers:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    return worst


def _servers(jobs: Sequence[Shared], control: Path, namespaces: Mapping[int, str]) -> Iterator[int]:
    """The processes of the jobs' servers, up and waiting; their numbers are behind the ranks'."""
    for shared in jobs:
        if (tree := shared.job.aggregation) and (server := tree.server):
            namespace = namespaces.get(shared.plan.hosts.index(server.host))
            yield start_server(shared, tree, server, control, namespace)


def _be_rank(shared: Shared, control: Path, rank: int, parent: int, namespace: str | None) -> None:
    process.die_with_parent(parent)
    number, job = shared.job.numbers[rank], shared.job
    process.name_process(f"rank{number}")
    connect = partial(
        Channel.connect, control, "rank", rank=number, name=f"{job.called(rank)} on {job.placement[rank]}"
    )  # its hello says that the rank's sockets are there
    channel = None
    try:
        scheduling.go_first(shared.plan.datapath, scheduling.RANK_PRIORITY)
        set_timer_slack(1)
        if namespace is not None:
            process.enter_network(namespace)
        sockets = Sockets(shared, rank)
        channel = connect()
        sockets.serve(channel)
    except ChannelClosed:
        return  # the run has gone, and so may its ranks
    except BaseException as error:
        reason = error.message if isinstance(error, TestbedError) else repr(error)
        with contextlib.suppress(ChannelClosed, OSError):
            (channel or connect()).send({"event": "failed", "rank": rank, "reason": reason})
        raise


def _guarded(name: str, work: Callable[[], None]) -> int:
    """The exit status of a child: nothing of its parent's clean-up may run in it, whatever happens."""
    try:
        work()
    except TestbedError as error:
        print(f"{name}: {error.message}", file=sys.stderr, flush=True)
        return error.exit_status
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0
