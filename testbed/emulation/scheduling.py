"""Who gets the cores: an emulation's processes go before everything else on the machine, the fabric before them.

All of a run's processes together are what is measured, so none of them should wait for a stranger's. They inherit
SCHED_RR from the run; a user's own programs are put back to the ordinary class. Niceness would not do: with
autogroups (sched(7)) it counts within a session only.
"""

import os

PROCESS_PRIORITY = 1
FABRIC_PRIORITY = 2


def go_first() -> bool:
    """Put this process and its future children into SCHED_RR; False where that is not allowed (in some containers)."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PROCESS_PRIORITY))
    except PermissionError:
        return False
    return True


def stand_back() -> None:
    """Put this process and its future children back into the ordinary class."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
