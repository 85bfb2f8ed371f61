"""Registers, counters, meters and tables that the native target has no room for are refused with their place."""

from pathlib import Path

import pytest

from testbed.cli import execute
from testbed.dataplane.bmv2model import JsonError
from testbed.dataplane.native.exchange import Exchange
from testbed.dataplane.native.generator import generate
from testbed.errors import MachineLacks
from tests.dataplane import small_programs
from tests.dataplane.programs import program

WRONG = [
    (
        "register<bit<32>>(4294967295) r;",
        "the register Ig.r has 4294967295 elements",
        "room for 268435456 of 4 bytes (1GiB)",
    ),
    (
        "register<bit<8>>(4294967295) r;",
        "the register Ig.r has 4294967295 elements",
        "room for 1073741824 of 1 bytes (1GiB)",
    ),
    (
        "counter(4000000000, CounterType.packets) r;",
        "the counter Ig.r has 4000000000",
        "room for 67108864 of 16 bytes (1GiB)",
    ),
    ("meter(4000000000, MeterType.bytes) r;", "the meter Ig.r has 4000000000", "room for 16777216 of 64 bytes (1GiB)"),
]
USES = {"register": "r.write(0, 0);", "counter": "r.count(0);", "meter": "r.execute_meter(0, m.x);"}


@pytest.mark.parametrize(("member", "what", "room"), WRONG)
def test_an_array_that_is_too_large(
    member: str, what: str, room: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.p4"
    kind = member[: 7 if member.startswith("counter") else 8 if member.startswith("register") else 5]
    path.write_text(program(members=f"\n{member}", apply=USES[kind]))
    path.with_suffix(".stf").write_text("packet 0 00\n")
    assert execute(["p4", "test", str(path)]) == 2
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if text == member)
    told = capsys.readouterr().err
    assert told.startswith(f"testbed: {path}:{line}: {what}")
    assert room in told


def test_a_table_for_too_many_entries() -> None:
    tables = [small_programs.table("t", {"a": "exact"}, ["start"], "exact", size=1 << 32)]
    with pytest.raises(JsonError, match="t is for 4294967296 entries: the native target has at most 2147483648"):
        generate(small_programs.program([("a", 8)], [], tables))


def test_a_machine_without_that_much_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, *_: object, **__: object) -> None: ...

        def add_switch(self, *_: object, **__: object) -> int:
            raise MemoryError

    monkeypatch.setattr("testbed.dataplane.native.exchange.Fabric", Full)
    with pytest.raises(MachineLacks, match="small: no memory for its tables, registers and counters"):
        Exchange(small_programs.program([("a", 8)], [], []))
