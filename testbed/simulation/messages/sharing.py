"""Max-min fair rates: no flow's rate can be raised without lowering that of one that has no more.

Progressive filling (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2), a round at a time: every link
whose equal share is the least that any of its flows meets on its way gives that share to all of them at once. Shares
elsewhere only grow by that, so those links are bottlenecks for good, and the order among them does not matter.
"""

import numpy as np
import numpy.typing as npt

Paths = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]

_EQUAL = 1 + 1e-12  # shares that differ by rounding only


def max_min(paths: Paths, capacity: Floats) -> Floats:
    """The rate of each flow, in the unit of `capacity`.

    paths: (flows, links of the longest path), indices into `capacity`, whose last entry stands for no link and fills
    up shorter paths; each path has at least one link. A link of capacity 0 gives its flows nothing.
    """
    links = len(capacity)
    left = capacity.copy()
    rates = np.zeros(len(paths))
    waiting = np.arange(len(paths))
    while len(waiting):
        here = paths[waiting]
        each = here.ravel()
        flows = np.bincount(each, minlength=links)
        share = np.divide(left, flows, out=np.full(links, np.inf), where=flows > 0)
        met = share[here]
        least = met.min(axis=1)
        limited = met <= least[:, np.newaxis] * _EQUAL
        bottleneck = np.bincount(each, limited.ravel(), links) == flows
        settled = (bottleneck[here] & limited).any(axis=1)
        rates[waiting[settled]] = least[settled]
        if settled.all():
            break
        taken = np.repeat(least[settled], here.shape[1])
        left = np.maximum(left - np.bincount(here[settled].ravel(), taken, links), 0)
        waiting = waiting[~settled]
    return rates
