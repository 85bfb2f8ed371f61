"""finsy, as it comes, drives a native switch: what it writes is what packets meet, and what it reads back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import finsy
import pytest
from finsy import (
    GRPCStatusCode,
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4CloneSessionEntry,
    P4CounterData,
    P4CounterEntry,
    P4DigestEntry,
    P4DigestListAck,
    P4DirectCounterEntry,
    P4DirectMeterEntry,
    P4IndirectAction,
    P4Member,
    P4MeterConfig,
    P4MeterEntry,
    P4MulticastGroupEntry,
    P4PacketOut,
    P4RegisterEntry,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
    P4ValueSetEntry,
    Switch,
    SwitchOptions,
)
from finsy.p4entity import P4Replica, P4ValueSetMember

from tests.p4runtime.rig import DEVICE, EVERYTHING, Rig, compiled, config_of, frame, note_of, value_of

LIMIT_S = 60.0
STEP = 10


@pytest.fixture
def rig() -> Iterator[Rig]:
    with Rig() as made:
        yield made


def drive(rig: Rig, body: Callable[[Switch], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Connect and run."""

    async def main() -> None:
        async with Switch("s", rig.address, SwitchOptions(device_id=DEVICE, **options)) as switch:
            await body(switch)

    asyncio.run(asyncio.wait_for(main(), LIMIT_S))


def step(action: str, number: int = STEP, **arguments: int) -> P4TableEntry:
    return P4TableEntry("steps", match=P4TableMatch(step=number), action=P4TableAction(action, **arguments))


def mark(table: str, bits: int, priority: int = 0, **match: object) -> P4TableEntry:
    action = P4TableAction("mark", bits=bits)
    return P4TableEntry(table, match=P4TableMatch(match), action=action, priority=priority)


async def everything(switch: Switch, entity: Any) -> list[Any]:
    return [each async for each in switch.read(entity)]


async def next_of(stream: AsyncIterator[Any]) -> Any:
    return await asyncio.wait_for(anext(stream), LIMIT_S)


def codes(error: finsy.P4ClientError) -> dict[int, GRPCStatusCode]:
    return {index: each.canonical_code for index, each in error.details.items()}


async def refused(work: Coroutine[Any, Any, Any]) -> list[str]:
    """The codes of the updates that were refused."""
    with pytest.raises(finsy.P4ClientError) as caught:
        await work
    assert caught.value.code == GRPCStatusCode.UNKNOWN
    return [code.name for code in codes(caught.value).values()]


class TestPipeline:
    def test_a_switch_tells_what_it_runs(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            assert switch.is_primary
            assert {table.alias for table in switch.p4info.tables} >= {"steps", "choices", "by_group"}
            assert str(switch.p4runtime_version) == "1.5.0"

        drive(rig, body)

    def test_finsy_sets_a_pipeline_and_what_was_there_is_gone(self, rig: Rig, tmp_path: Path) -> None:
        info, blob = tmp_path / "p4info.txt", tmp_path / "program.json"
        info.write_text(compiled(EVERYTHING).p4info.text)
        blob.write_bytes(config_of(EVERYTHING).p4_device_config)

        async def first(switch: Switch) -> None:
            await switch.write([+step("spread", group=5), +P4MulticastGroupEntry(5, replicas=[1])])
            assert rig.send(frame(STEP)) == [(1, frame(STEP))]

        async def second(switch: Switch) -> None:
            assert await everything(switch, P4TableEntry("steps")) == []
            assert await everything(switch, P4MulticastGroupEntry()) == []
            await switch.write([+step("spread", group=5)])
            assert rig.send(frame(STEP)) == []
            await switch.write([~step("forward", port=3)])
            assert rig.send(frame(STEP)) == [(3, frame(STEP))]

        drive(rig, first)
        drive(rig, second, p4info=info, p4blob=blob, p4force=True)


class TestTables:
    def test_an_exact_entry_is_written_met_read_changed_and_deleted(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            await switch.write([+step("forward", port=2)])
            assert rig.send(frame(STEP)) == [(2, frame(STEP))]
            assert await everything(switch, P4TableEntry("steps")) == [step("forward", port=2)]
            await switch.write([~step("forward", port=3)])
            assert rig.send(frame(STEP)) == [(3, frame(STEP))]
            await switch.write([-P4TableEntry("steps", match=P4TableMatch(step=STEP))])
            assert await everything(switch, P4TableEntry("steps")) == []
            assert rig.send(frame(STEP)) == []

        drive(rig, body)

    def test_prefixes_masks_ranges_and_optional_fields(self, rig: Rig) -> None:
        long, short = 0x0A0000000000, 0x0A0B00000000
        entries = [
            mark("prefixes", 0x01, destination="0x0a0000000000/8"),
            mark("prefixes", 0x02, destination="0x0a0b00000000/16"),
            mark("choices", 0x04, 10, kind="0x8000/&0xf000", value="100...200"),
            mark("choices", 0x08, 20, kind="0x8000/&0xf000", value="150...160"),
            mark("choices", 0x10, 30, source=0x02_00_00_00_00_09),
        ]

        async def body(switch: Switch) -> None:
            await switch.write([+step("forward", port=2), *(+entry for entry in entries)])

            def note(**fields: int) -> int:
                [(_, sent)] = rig.send(frame(STEP, **fields))
                return note_of(sent)

            assert note(destination=long) == 0x01
            assert note(destination=short) == 0x02
            assert note(value=100) == note(value=200) == 0x04
            assert (note(value=99), note(value=201)) == (0, 0)
            assert note(value=155) == 0x08, "the larger priority wins"
            assert note(value=155, source=0x02_00_00_00_00_09) == 0x10
            assert note(value=155, kind=0x7000) == 0
            read = await everything(switch, [P4TableEntry("prefixes"), P4TableEntry("choices")])
            assert [entry.action for entry in read] == [entry.action for entry in entries]
            assert [entry.priority for entry in read] == [0, 0, 10, 20, 30]
            assert await everything(switch, P4TableEntry("choices", priority=20)) == [read[3]]
            assert await everything(switch, read[1]) == [read[1]]
            assert await everything(switch, P4TableEntry()) != []

        drive(rig, body)

    def test_the_default_action_is_changed_and_reset(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            default = P4TableEntry("steps", is_default_action=True)
            [initial] = await everything(switch, default)
            assert initial.action == P4TableAction("NoAction")
            default.action = P4TableAction("forward", port=4)
            await switch.write([~default])
            assert rig.send(frame(1)) == [(4, frame(1))]
            assert await everything(switch, P4TableEntry("steps", is_default_action=True)) == [default]
            await switch.write([~P4TableEntry("steps", is_default_action=True)])
            assert rig.send(frame(1)) == []

        drive(rig, body)

    def test_constant_entries_are_shown_and_stay(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            read = await everything(switch, P4TableEntry("fixed_ones"))
            assert [(entry.priority, entry.action, entry.is_const) for entry in read] == [
                (2, P4TableAction("mark", bits=0x40), True),
                (1, P4TableAction("mark", bits=0x20), True),
            ]
            await switch.write([+step("forward", number, port=1) for number in (0xFF, 0x81)])
            assert [note_of(rig.send(frame(number))[0][1]) for number in (0xFF, 0x81)] == [0x40, 0x20]
            own = mark("fixed_ones", 1, 5, step=3)
            read[0].is_const = False
            default = P4TableEntry("fixed_ones", is_default_action=True, action=P4TableAction("mark", bits=1))
            denied = "PERMISSION_DENIED"
            assert await refused(switch.insert([own])) == [denied]
            assert await refused(switch.modify([read[0], default])) == [denied] * 2
            assert await refused(switch.delete([read[0]])) == [denied]

        drive(rig, body)

    def test_direct_counters_count_and_are_set(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            entry = step("forward", port=2)
            await switch.write([+entry])
            for _ in range(3):
                rig.send(frame(STEP))
            [counted] = await everything(switch, P4DirectCounterEntry("step_counter"))
            assert counted.data == P4CounterData(packet_count=3, byte_count=3 * len(frame()))
            await switch.write(
                [P4DirectCounterEntry("step_counter", table_entry=entry, data=P4CounterData(packet_count=9))]
            )
            rig.send(frame(STEP))
            asked = P4TableEntry("steps", counter_data=P4CounterData())
            [read] = await everything(switch, asked)
            assert read.counter_data == P4CounterData(packet_count=10, byte_count=len(frame()))

        drive(rig, body)

    def test_direct_meters_are_read_as_written(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            entry, config = (
                mark("prefixes", 1, destination="0x0a0000000000/8"),
                P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4),
            )
            await switch.write([+entry])
            [unset] = await everything(switch, P4DirectMeterEntry(table_entry=entry))
            assert unset.config is None
            await switch.write([P4DirectMeterEntry(table_entry=entry, config=config)])
            [read] = await everything(switch, P4DirectMeterEntry(table_entry=entry))
            assert read.config == config

        drive(rig, body)

    def test_an_idle_entry_is_told_again_and_again(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            entry = mark("aging", 1, step=STEP)
            entry.idle_timeout_ns, entry.metadata = 50_000_000, b"mine"
            idle = switch.read_idle_timeouts()
            listening = asyncio.ensure_future(anext(idle))
            await asyncio.sleep(0)
            await switch.write([+entry, +step("forward", port=2)])
            told = await asyncio.wait_for(listening, LIMIT_S)
            assert [each.match for each in told.table_entry] == [P4TableMatch(step=STEP)]
            assert [(each.idle_timeout_ns, each.metadata) for each in told.table_entry] == [(50_000_000, b"mine")]
            assert (await next_of(idle)).timestamp - told.timestamp >= 50_000_000
            rig.send(frame(STEP))
            [read] = await everything(switch, P4TableEntry("aging", time_since_last_hit=0))
            assert read.time_since_last_hit < 10**9

        drive(rig, body)


class TestProfiles:
    def test_members_and_groups(self, rig: Rig) -> None:
        members = [
            P4ActionProfileMember("selector", member_id=n, action=P4TableAction("forward", port=n)) for n in (1, 2, 3)
        ]
        group = P4ActionProfileGroup("selector", group_id=9, max_size=8)

        async def body(switch: Switch) -> None:
            group.members = [P4Member(1, weight=1), P4Member(2, weight=1)]
            entry = P4TableEntry("by_group", match=P4TableMatch(step=STEP), action=P4IndirectAction(group_id=9))
            await switch.insert([*members, group, entry])

            def ports() -> list[int]:
                return sorted({port for n in range(64) for port, _ in rig.send(frame(STEP, value=n))})

            assert ports() == [1, 2]
            assert await everything(switch, P4ActionProfileMember()) == members
            assert await everything(switch, P4ActionProfileGroup()) == [group]
            assert await everything(switch, P4TableEntry("by_group")) == [entry]
            group.members = [P4Member(3, weight=2)]
            await switch.modify([group])
            assert ports() == [3]
            members[2].action = P4TableAction("forward", port=4)
            await switch.modify([members[2]])
            assert ports() == [4]
            assert await refused(switch.delete([members[2], group])) == ["FAILED_PRECONDITION"] * 2
            await switch.delete([entry, group, *members])
            assert await everything(switch, [P4ActionProfileMember(), P4ActionProfileGroup()]) == []

        drive(rig, body)

    def test_weights_are_how_often_a_member_is_chosen(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            actions = [3 * P4TableAction("forward", port=1), 1 * P4TableAction("forward", port=2)]
            entry = P4TableEntry("by_group", match=P4TableMatch(step=STEP), action=P4IndirectAction(actions))
            await switch.write([+entry])
            ports = [port for n in range(2000) for port, _ in rig.send(frame(STEP, value=n))]
            assert ports.count(1) / len(ports) == pytest.approx(0.75, abs=0.05)
            assert await everything(switch, P4TableEntry("by_group")) == [entry]

        drive(rig, body)

    def test_one_shots_come_and_go_whole_and_do_not_mix_with_members(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            def entry(number: int, *ports: int) -> P4TableEntry:
                actions = P4IndirectAction([1 * P4TableAction("forward", port=port) for port in ports])
                return P4TableEntry("by_group", match=P4TableMatch(step=number), action=actions)

            for _ in range(3):  # 64 members fit, so that all are given back each time
                await switch.write([+entry(number, *[1] * 30) for number in (1, 2)])
                await switch.write([~entry(1, 3)])
                assert rig.send(frame(1)) == [(3, frame(1))]
                member = P4ActionProfileMember("selector", member_id=1, action=P4TableAction("forward", port=1))
                assert await refused(switch.write([+member])) == ["INVALID_ARGUMENT"]
                assert await refused(switch.write([+entry(3, *[1] * 34)])) == ["RESOURCE_EXHAUSTED"]
                await switch.write([-entry(number) for number in (1, 2)])

        drive(rig, body)

    def test_a_profile_without_selector_takes_members(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            member = P4ActionProfileMember("profile", member_id=5, action=P4TableAction("forward", port=2))
            entry = P4TableEntry("by_member", match=P4TableMatch(step=STEP), action=P4IndirectAction(member_id=5))
            assert await refused(switch.insert([entry])) == ["NOT_FOUND"]
            await switch.insert([member, entry])
            assert rig.send(frame(STEP)) == [(2, frame(STEP))]

        drive(rig, body)


class TestArrays:
    def test_counters(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            await switch.write([+step("tally", port=2, index=3)])
            rig.send(frame(STEP))
            rig.send(frame(STEP))
            [one] = await everything(switch, P4CounterEntry("tallies", index=3))
            assert one.data == P4CounterData(packet_count=2, byte_count=2 * len(frame()))
            await switch.write([P4CounterEntry("tallies", index=4, data=P4CounterData(packet_count=7, byte_count=8))])
            every = await everything(switch, P4CounterEntry("tallies"))
            assert [each.data.packet_count for each in every] == [0, 0, 0, 2, 7, *[0] * 11]
            await switch.write([P4CounterEntry("tallies", data=P4CounterData())])
            assert not any(e.data.packet_count for e in await everything(switch, P4CounterEntry()))

        drive(rig, body)

    def test_meters_colour_by_their_rates(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            config = P4MeterConfig(cir=1, cburst=2, pir=1, pburst=4)
            await switch.write([+step("colour", port=2, index=1), P4MeterEntry("colours", index=1, config=config)])
            colours = [value_of(rig.send(frame(STEP), after_ns=0)[0][1]) for _ in range(6)]
            assert colours == [0, 0, 1, 1, 2, 2], "RFC 2698: two of the committed burst, two more of the peak burst"
            assert [e.config for e in await everything(switch, P4MeterEntry("colours"))] == [None, config, *[None] * 6]
            await switch.write([P4MeterEntry("colours", index=1)])
            assert [value_of(rig.send(frame(STEP), after_ns=0)[0][1]) for _ in range(6)] == [0] * 6

        drive(rig, body)

    def test_registers_are_read_and_written(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            await switch.write([+step("store", port=2, index=3), P4RegisterEntry("memory", data=5)])
            rig.send(frame(STEP, value=0xBEEF))
            assert [e.data for e in await everything(switch, P4RegisterEntry("memory", index=3))] == [0xBEEF]
            every = await everything(switch, P4RegisterEntry("memory"))
            assert [e.data for e in every] == [5, 5, 5, 0xBEEF, *[5] * 28]
            await switch.write([P4RegisterEntry("signs", index=0, data=-128)])
            rig.send(frame(STEP))
            signs = [e.data for e in await everything(switch, P4RegisterEntry("signs"))]
            assert signs == [-128, 127, 0, 0], "a signed number of 8 bits goes round"

        drive(rig, body)


class TestCopies:
    def test_a_multicast_group(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            group = P4MulticastGroupEntry(77, replicas=(P4Replica(1, instance=11), P4Replica(2, instance=12)))
            await switch.insert([step("spread", group=77), group])
            assert {(port, value_of(sent)) for port, sent in rig.send(frame(STEP))} == {(1, 11), (2, 12)}
            assert await everything(switch, P4MulticastGroupEntry()) == [group]
            group.replicas = (P4Replica(4, instance=14),)
            await switch.modify([group])
            assert [(port, value_of(sent)) for port, sent in rig.send(frame(STEP))] == [(4, 14)]
            await switch.delete([group])
            assert rig.send(frame(STEP)) == []

        drive(rig, body)

    def test_a_clone_session(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            session = P4CloneSessionEntry(100, replicas=(3, P4Replica(4, instance=9)))
            await switch.insert([step("mirror", port=2), session])
            assert {(port, value_of(sent)) for port, sent in rig.send(frame(STEP))} == {(2, 0), (3, 0), (4, 9)}
            assert await everything(switch, P4CloneSessionEntry(100)) == [session]
            await switch.delete([session])
            assert rig.send(frame(STEP)) == [(2, frame(STEP))]

        drive(rig, body)


class TestStream:
    def test_packets_come_in_and_go_out_with_their_metadata(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            packets = switch.read_packets()
            listening = asyncio.ensure_future(anext(packets))
            await asyncio.sleep(0)
            await switch.write([+step("punt")])
            rig.send(frame(STEP), port=3)
            packet = await asyncio.wait_for(listening, LIMIT_S)
            assert (packet.payload, packet.metadata) == (frame(STEP), {"ingress_port": 3, "reason": 5})
            await switch.write([P4PacketOut(frame(1), egress_port=4, unused=0)])
            for _ in range(100):
                if sent := rig.send(frame(0)):
                    break
                await asyncio.sleep(0.02)
            assert sent == [(4, frame(1))]

        drive(rig, body)

    def test_digests_are_told_once_until_acknowledged(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            config = P4DigestEntry("learned_t", max_list_size=2, max_timeout_ns=200_000_000, ack_timeout_ns=10**12)
            digests = switch.read_digests("learned_t")
            listening = asyncio.ensure_future(anext(digests))
            await asyncio.sleep(0)
            await switch.insert([step("learn", port=2), config])
            assert await everything(switch, P4DigestEntry("learned_t")) == [config]
            for source in (0xA, 0xB, 0xA, 0xB):
                rig.send(frame(STEP, source=source), port=3)
            told = await asyncio.wait_for(listening, LIMIT_S)
            assert [dict(each) for each in told.data] == [{"source": 0xA, "port": 3}, {"source": 0xB, "port": 3}]
            rig.send(frame(STEP, source=0xA), port=3)  # nobody is told again ...
            rig.send(frame(STEP, source=0xC), port=4)
            later = await next_of(digests)
            assert [dict(each) for each in later.data] == [{"source": 0xC, "port": 4}], "after the timeout, alone"
            await switch.write([P4DigestListAck("learned_t", told.list_id)])
            await asyncio.sleep(0.1)
            rig.send(frame(STEP, source=0xA), port=3)  # ... until the list was acknowledged
            assert [dict(each) for each in (await next_of(digests)).data] == [{"source": 0xA, "port": 3}]
            await switch.delete([config])

        drive(rig, body)

    def test_value_sets_lead_the_parser(self, rig: Rig) -> None:
        async def body(switch: Switch) -> None:
            await switch.write([+step("forward", port=2)])
            members = P4ValueSetEntry("special_kinds", members=[P4ValueSetMember(n) for n in (0x1111, 0x2222)])
            await switch.write([members])
            notes = [note_of(rig.send(frame(STEP, kind=kind))[0][1]) for kind in (0x1111, 0x2222, 0x3333)]
            assert notes == [0x80, 0x80, 0]
            assert await everything(switch, P4ValueSetEntry("special_kinds", members=[])) == [members]
            await switch.write([P4ValueSetEntry("special_kinds", members=[])])
            assert note_of(rig.send(frame(STEP, kind=0x1111))[0][1]) == 0

        drive(rig, body)


def test_finsy_clears_a_switch(rig: Rig) -> None:
    async def body(switch: Switch) -> None:
        member = P4ActionProfileMember("profile", member_id=5, action=P4TableAction("forward", port=2))
        entry = P4TableEntry("by_member", match=P4TableMatch(step=STEP), action=P4IndirectAction(member_id=5))
        digest = P4DigestEntry("learned_t", max_list_size=1)
        await switch.insert([member, entry, step("spread", group=3), P4MulticastGroupEntry(3, replicas=[1]), digest])
        await switch.delete_all()
        assert {entry.table_id for entry in await everything(switch, P4TableEntry())} == {"fixed_ones"}
        assert await refused(switch.modify([digest])) == ["NOT_FOUND"]

    drive(rig, body)
