"""Who gets the cores: an emulation's processes go before everything else on the machine, and in this order.

All of a run's processes together are what is measured, so none of them should wait for a stranger's. The fabric keeps
the time and goes first; ranks, which sleep but for tens of microseconds a packet, come before the switches, whose time
the links' delays make up for. A user's own programs are put back into the ordinary class. Niceness would not do: with
autogroups (sched(7)) it counts within a session only.

Where the kernel itself forwards (Open vSwitch's datapath, qdiscs), it does so in ksoftirqd under load, which is of the
ordinary class: there all but the fabric stay in it too, or they would hold up their own packets.
"""

import contextlib
import os

from testbed.plan.model import Datapath

SWITCH_PRIORITY, RANK_PRIORITY, FABRIC_PRIORITY = 1, 2, 3  # of SCHED_RR and SCHED_FIFO


def go_first(datapath: Datapath | None, priority: int = SWITCH_PRIORITY) -> None:
    """Put this process and its future children into SCHED_RR, where that helps and is allowed."""
    if datapath != "kernel":
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))


def stand_back() -> None:
    """Put this process and its future children back into the ordinary class."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
