"""Max-min fair rates: no flow's rate can be raised without lowering that of one that has no more.

Found by progressive filling (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2), natively: at every
instant at which a message leaves or has left all others may have to be given other rates.
"""

import numpy as np
import numpy.typing as npt

from testbed.netcore import _sharing

Paths = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def max_min(paths: Paths, capacity: Floats) -> Floats:
    """The rate of each flow, in the unit of `capacity`.

    paths: (flows, links of the longest path), numbers of links; that after the last stands for no link and fills up
    shorter paths, each of which has at least one link. A link of capacity 0 gives its flows nothing.
    """
    rates = np.empty(len(paths))
    _sharing.max_min(np.ascontiguousarray(paths, np.int64).data, np.ascontiguousarray(capacity).data, rates.data)
    return rates
