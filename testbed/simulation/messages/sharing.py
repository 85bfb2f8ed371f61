"""Max-min fair rates: no flow's rate can be raised without lowering that of one that has no more.

Found by progressive filling (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2), natively: at every
instant at which a message leaves or has left all others may have to be given other rates.
"""

import numpy as np
import numpy.typing as npt

from testbed.netcore import _sharing

Paths = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def max_min(paths: Paths, back: Floats, capacity: Floats) -> Floats:
    """The rate of each flow, in the unit of `capacity`.

    paths: (flows, links of the longest path), numbers of links; that after the last stands for no link and fills up
    shorter paths, each of which has at least one link. back: of its rate, what a flow has come back the same way
    (link 2 i comes back as 2 i + 1 and the other way round). A link of capacity 0 gives its flows nothing.
    """
    rates = np.empty(len(paths))
    whole = np.ascontiguousarray
    _sharing.max_min(whole(paths).data, whole(back).data, whole(capacity).data, rates.data)
    return rates
