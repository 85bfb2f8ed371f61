"""When each message of a schedule could leave if none had to share a link with another: its α-β time.

Walked from what waits for nothing, a generation of operations at a time.
"""

import numpy as np
import numpy.typing as npt

from testbed.simulation.messages.dependencies import Messages

Floats = npt.NDArray[np.float64]


def earliest(messages: Messages, whole_ns: Floats, acknowledged_ns: Floats) -> Floats:
    """By message, in ns from the start of all ranks. whole_ns: from when it leaves until all of it is there;
    acknowledged_ns: until its sender knows.
    """
    count = len(messages)
    waits = messages.waits.copy()
    waits[count:] += 1  # a receive waits for its message too
    ready = np.zeros(2 * count)
    done = np.flatnonzero(waits == 0)
    while len(done):
        sends = done[done < count]
        receives = sends + count
        ready[receives] = np.maximum(ready[receives], ready[sends] + whole_ns[sends])
        waits[receives] -= 1
        at = ready[done]
        at[done < count] += acknowledged_ns[sends]
        begin, length = messages.first[done], messages.first[done + 1] - messages.first[done]
        within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        freed = messages.freed[np.repeat(begin, length) + within]
        np.subtract.at(waits, freed, 1)
        np.maximum.at(ready, freed, np.repeat(at, length))
        touched = np.unique(np.concatenate((receives, freed)))
        done = touched[waits[touched] == 0]
    return ready[:count]
