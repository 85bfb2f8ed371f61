"""A client of a network's switches with a higher election id than the app's: it changes a route, and reads it back.

    python -m tests.p4runtime.takes_over ADDRESS DEVICE

In the network namespace that it is started in, as `drives.py`.
"""

import asyncio
import sys

from finsy import P4TableAction, P4TableEntry, Switch, SwitchOptions


async def take_over(address: str, device: int) -> None:
    async with Switch("s", address, SwitchOptions(device_id=device, initial_election_id=10)) as switch:
        assert switch.is_primary
        entries = [entry async for entry in switch.read(P4TableEntry("routes"))]
        for entry in entries:
            entry.action = P4TableAction("drop")
        await switch.modify(entries)
        print(len(entries))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(take_over(sys.argv[1], int(sys.argv[2])), 60))
