"""Max-min fair rates, natively; see `testbed.simulation.messages.sharing`."""

from testbed.netcore import Buffer

def max_min(paths: Buffer, back: Buffer, capacity: Buffer, rates: bytearray | memoryview) -> None:
    """Fill `rates` (float64, one a flow) with each flow's max-min fair rate, in the unit of `capacity`.

    paths: int64, as many links for each flow, by number; the number after the last link stands for none and fills up
    shorter paths. Of the flow's rate `back` (float64) comes back, by link 2 i + 1 where it crosses 2 i and the other
    way round. A flow over no link at all has the rate -1. capacity: float64, of each link. Raises ValueError for paths
    that are not of so many flows or name other links.
    """
