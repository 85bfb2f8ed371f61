"""The parent of all ranks of a run: imports everything once, prepares what they share, forks them and outlives them.

A rank that dies is seen by the run at once at the end of its control stream; what is left to the zygote is to note that
the others need not wait for it, and to go when the last one has gone.
"""

import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.errors import TestbedError
from testbed.worker import process
from testbed.worker.memory import SharedInputs

_GONE = np.iinfo(np.int64).max


def fork_ranks(
    ranks: Sequence[int], finished: "np.ndarray[tuple[int], np.dtype[np.int64]]", body: Callable[[int], None]
) -> int:
    """Run `body(rank)` in a process of its own for each rank; returns the exit status: 0 if all ended well.

    `finished` (see SharedInputs) is set to its highest value for a rank that has gone.
    """
    gc.freeze()  # the children's collections shall not copy the parent's pages
    parent, children = os.getpid(), {}
    for rank in ranks:
        child = os.fork()
        if child == 0:
            os._exit(_child(rank, parent, body))
        children[child] = rank
    worst = 0
    while children:
        child, status = os.wait()
        rank = children.pop(child)
        finished[rank] = _GONE
        worst = max(worst, abs(os.waitstatus_to_exitcode(status)))
    return worst


def _child(rank: int, parent: int, body: Callable[[int], None]) -> int:
    """Runs in the child; returns its exit status."""
    try:
        process.die_with_parent(parent)
        process.name_process(f"rank{rank}")
        process.sharpen_timers()
        body(rank)
    except TestbedError as error:
        print(f"rank {rank}: {error.message}", file=sys.stderr)
        return error.exit_status
    except BaseException:  # nothing may run the parent's clean-up in a child
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0
