"""Our client in `controller/`, on a switch in this process: changes that come while it makes one."""

import asyncio
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from finsy.proto import p4i, p4r

from testbed.resources import shared_folder
from testbed.routing.model import Entry
from tests.p4runtime.client import Client
from tests.p4runtime.rig import DEVICE, Rig, compiled

LIMIT_S = 30
PROGRAM = shared_folder("p4") / "l3_ecmp.p4"
ALWAYS, CUT = Entry("10.0.0.1/32", "single", (1,)), Entry("10.0.0.2/32", "ecmp", (1, 2))


def controller() -> Any:
    spec = spec_from_file_location("p4runtime_client", shared_folder("controller") / "p4runtime.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Cables:
    """Routes of one switch, whose ports are cables of the same number; one prefix is there while any is cut."""

    names: Mapping[int, str] = {DEVICE: "s0"}
    salts: Mapping[str, int] = {"s0": 5}

    def cable(self, name: str, port: int) -> int | None:
        return port if name == "s0" else None

    def foresaw(self, down: set[int]) -> bool:
        return bool(down)

    def entries(self, name: str, down: set[int]) -> Mapping[str, Entry]:
        return {each.prefix: each for each in ((ALWAYS, CUT) if down else (ALWAYS,))} if name == "s0" else {}


def prefixes(address: str) -> list[bytes]:
    """The addresses of the routes that a switch has."""
    info = p4i.P4Info.FromString(compiled(Path(PROGRAM)).p4info.binary)
    [routes] = [table.preamble.id for table in info.tables if table.preamble.alias == "routes"]
    with Client(address) as reader:
        found = reader.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=routes)))
    return sorted(each.table_entry.match[0].lpm.value for each in found)


def test_cables_that_are_cut_at_once_are_one_change_after_the_other() -> None:
    module, told = controller(), []
    with Rig(PROGRAM) as rig:
        app = module.App(
            Cables(), {"s0": module.Target(rig.address)}, lambda what, **fields: told.append((what, fields))
        )

        async def cut_all() -> None:
            driving = asyncio.create_task(app._drive())
            while not told:
                await asyncio.sleep(0.01)
            await asyncio.gather(*(app.port_changed("s0", port, False) for port in (1, 2, 3)))
            driving.cancel()

        app.loop.run_until_complete(asyncio.wait_for(cut_all(), LIMIT_S))
        assert "refused" not in [what for what, _ in told]
        assert told[-1] == ("installed", {"switches": 1, "down": [1, 2, 3]})
        assert prefixes(rig.address) == [b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"]


def test_a_switch_that_refuses_a_change_is_filled_from_the_start() -> None:
    module, told = controller(), []
    with Rig(PROGRAM) as rig:
        app = module.App(
            Cables(), {"s0": module.Target(rig.address)}, lambda what, **fields: told.append((what, fields))
        )

        async def cut() -> None:
            driving = asyncio.create_task(app._drive())
            while not told:
                await asyncio.sleep(0.01)
            [switch] = app._switches
            switch._installed["routes", (0x0B000001, 32)] = "to_port", (1,)  # which nobody has written
            await app.port_changed("s0", 1, False)
            driving.cancel()

        app.loop.run_until_complete(asyncio.wait_for(cut(), LIMIT_S))
        assert [what for what, _ in told] == ["installed", "links", "refused", "installed"]
        assert prefixes(rig.address) == [b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"]
