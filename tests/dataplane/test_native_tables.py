"""Tables against a list that is searched from front to back: random entries come and go, random keys are looked up."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from testbed.dataplane.bmv2model import Program
from testbed.dataplane.native.control import ActionCall, ControlError, FieldMatch
from testbed.dataplane.native.exchange import Exchange
from testbed.dataplane.native.loader import Rates
from tests.dataplane.small_programs import action, assign, field, parameter, program, table

MISS = 0xFFFF
SET = action("set", {"v": 16}, assign("v", parameter(0)))


def _program(keys: dict[str, tuple[int, str]], match: str, **more: object) -> Program:
    fields = [*((n, bits) for n, (bits, _) in keys.items()), ("v", 16)]
    kinds = {n: kind for n, (_, kind) in keys.items()}
    return program(fields, [SET], [table("t", kinds, ["set"], match, default=("set", [MISS]), **more)])


@dataclass(frozen=True)
class Entry:
    fields: tuple[FieldMatch | None, ...]
    priority: int
    value: int

    def matches(self, key: tuple[int, ...], widths: tuple[int, ...]) -> bool:
        for want, got, width in zip(self.fields, key, widths, strict=True):
            if want is None:
                continue
            if want.high is not None:
                if not want.value <= got <= want.high:
                    return False
            else:
                mask = (1 << width) - 1 if want.mask is None else want.mask
                if want.prefix is not None:
                    mask = (1 << width) - (1 << (width - want.prefix))
                if (want.value ^ got) & mask:
                    return False
        return True

    @property
    def prefix(self) -> int:
        return max((f.prefix for f in self.fields if f and f.prefix is not None), default=0)


def _frame(key: tuple[int, ...], widths: tuple[int, ...]) -> bytes:
    return b"".join(value.to_bytes(width // 8, "big") for value, width in zip(key, widths, strict=True)) + b"\0\0"


def _churn(exchange: Exchange, widths: tuple[int, ...], entries: Iterator[Entry], seed: int) -> None:
    """Add and remove entries and compare look-ups with the model; keys are drawn near the entries."""
    draw = random.Random(seed)
    present: dict[int, Entry] = {}
    for _ in range(300):
        if present and draw.random() < 0.35:
            handle = draw.choice(list(present))
            exchange.control.remove("t", handle)
            del present[handle]
        else:
            entry = next(entries)
            call = ActionCall("set", {"v": entry.value})
            if any(e.fields == entry.fields and e.priority == entry.priority for e in present.values()):
                with pytest.raises(ControlError, match="exists already"):
                    exchange.control.insert("t", entry.fields, call, entry.priority)
            else:
                present[exchange.control.insert("t", entry.fields, call, entry.priority)] = entry
        for _ in range(4):
            near = draw.choice([*present.values(), None])
            key = tuple(
                (f.value ^ (1 << draw.randrange(w) if draw.random() < 0.5 else 0)) if f else draw.getrandbits(w)
                for f, w in zip(near.fields if near else [None] * len(widths), widths, strict=True)
            )
            found = [e for e in present.values() if e.matches(key, widths)]
            best = max(found, key=lambda e: (e.priority, e.prefix), default=None)
            ((_, sent),) = exchange.inject(0, _frame(key, widths))
            got = int.from_bytes(sent[-2:], "big")
            ties = [e for e in found if best and (e.priority, e.prefix) == (best.priority, best.prefix)]
            assert got in ([e.value for e in ties] or [MISS])


@pytest.mark.parametrize(("width", "exact"), [(32, 0), (24, 0), (128, 0), (32, 16), (64, 8)])
def test_longest_prefix(width: int, exact: int) -> None:
    draw = random.Random(width)
    keys = {**({"x": (exact, "exact")} if exact else {}), "k": (width, "lpm")}
    widths = (exact, width) if exact else (width,)

    def entries() -> Iterator[Entry]:
        value = 0
        while True:
            value = (value + 1) % 0xFFFF
            prefix = draw.choice((0, 1, 7, 8, 9, 12, 16, width - 1, width, draw.randrange(width + 1)))
            k = draw.getrandbits(6) << (width - 6) | draw.getrandbits(2)
            first = (FieldMatch(draw.randrange(2)),) if exact else ()
            yield Entry((*first, FieldMatch(k & ((1 << width) - (1 << (width - prefix))), prefix=prefix)), 0, value)

    with Exchange(_program(keys, "lpm")) as exchange:
        _churn(exchange, widths, entries(), width)


@pytest.mark.parametrize("kind", ["ternary", "range"])
def test_priorities_among_masks_and_ranges(kind: str) -> None:
    draw = random.Random(kind)
    keys = {"a": (16, "ternary"), "b": (8, kind), "c": (96, "ternary"), "d": (8, "exact")}
    widths = (16, 8, 96, 8)

    def entries() -> Iterator[Entry]:
        value = 0
        while True:
            value = (value + 1) % 0xFFFF
            mask = draw.choice((0, 0xFF00, 0xFFFF, 0x0F0F))
            low, high = sorted((draw.randrange(256), draw.randrange(256)))
            b = FieldMatch(low, high=high) if kind == "range" else FieldMatch(low & 0xF0, mask=0xF0)
            wide = draw.choice((None, FieldMatch(1 << 90, mask=7 << 89)))
            fields = (
                FieldMatch(draw.choice((0x1234, 0xABCD, 0)) & mask, mask=mask),
                b,
                wide,
                FieldMatch(draw.randrange(2)),
            )
            yield Entry(fields, draw.randrange(1, 50), value)

    with Exchange(_program(keys, kind)) as exchange:
        _churn(exchange, widths, entries(), 3)


def test_exact_on_several_words_with_many_entries() -> None:
    widths = (128, 48, 8)
    draw = random.Random(5)
    known = {(draw.getrandbits(128), draw.getrandbits(48), draw.getrandbits(8)): i for i in range(2000)}
    with Exchange(_program({"a": (128, "exact"), "b": (48, "exact"), "c": (8, "exact")}, "exact")) as exchange:
        for key, value in known.items():
            exchange.control.insert("t", [FieldMatch(k) for k in key], ActionCall("set", {"v": value}))
        for key, value in known.items():
            ((_, sent),) = exchange.inject(0, _frame(key, widths))
            assert int.from_bytes(sent[-2:], "big") == value
        ((_, sent),) = exchange.inject(0, _frame((1, 2, 3), widths))
        assert int.from_bytes(sent[-2:], "big") == MISS


def test_what_a_table_refuses() -> None:
    with Exchange(_program({"a": (8, "exact")}, "exact", size=1)) as exchange:
        control = exchange.control
        control.insert("t", [FieldMatch(1)], ActionCall("set", {"v": 1}))
        with pytest.raises(ControlError, match="exists already"):
            control.insert("t", [FieldMatch(1)], ActionCall("set", {"v": 2}))
        with pytest.raises(ControlError, match="full"):
            control.insert("t", [FieldMatch(2)], ActionCall("set", {"v": 2}))
        with pytest.raises(ControlError, match="does not fit 8 bits"):
            control.insert("t", [FieldMatch(256)], ActionCall("set", {"v": 2}))
        with pytest.raises(ControlError, match="needs an argument 'v'"):
            control.insert("t", [FieldMatch(2)], ActionCall("set", {}))
        with pytest.raises(ControlError, match="there is no action"):
            control.insert("t", [FieldMatch(2)], ActionCall("go", {}))
        with pytest.raises(ControlError, match="not found"):
            control.remove("t", 7)
        handle = control.find("t", [FieldMatch(1)])
        control.modify("t", handle, ActionCall("set", {"v": 9}))
        assert exchange.inject(0, b"\1\0\0") == [(1, b"\1\0\x09")]
        control.set_default("t", ActionCall("set", {"v": 5}))
        assert exchange.inject(0, b"\2\0\0") == [(1, b"\2\0\x05")]
        control.set_default("t", None)
        assert exchange.inject(0, b"\2\0\0") == [(1, b"\2\xff\xff")]


def test_a_group_of_an_action_selector_spreads_by_the_hash_of_its_fields() -> None:
    profile = {"name": "ap", "id": 0, "max_size": 8, "selector": {"algo": "crc16", "input": [field("s")]}}
    own = table("t", {"k": "exact"}, ["set"], "exact", type="indirect_ws", profile="ap")
    built = program([("k", 8), ("s", 8), ("v", 16)], [SET], [own], action_profiles=[profile])
    with Exchange(built) as exchange:
        members = [exchange.control.add_member("ap", ActionCall("set", {"v": 10 + i})) for i in range(3)]
        exchange.control.set_group("ap", 4, members)
        exchange.control.insert("t", [FieldMatch(1)], ActionCall(group=4))
        exchange.control.insert("t", [FieldMatch(2)], ActionCall(member=members[2]))
        for s in range(256):
            ((_, sent),) = exchange.inject(0, bytes((1, s, 0, 0)))
            assert sent[3] == 10 + _crc16(bytes((s,))) % 3
        assert exchange.inject(0, bytes((2, 0, 0, 0))) == [(1, bytes((2, 0, 0, 12)))]
        assert exchange.inject(0, bytes((3, 0, 0, 0))) == [(1, bytes((3, 0, 0, 0)))]  # a miss, and no default
        exchange.control.set_group("ap", 4, [])
        assert exchange.inject(0, bytes((1, 0, 0, 0))) == [(1, bytes((1, 0, 0, 0)))]


def _crc16(data: bytes) -> int:
    """CRC-16/ARC, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def test_a_meter_marks_as_rfc_2698_says() -> None:
    """Committed 1 packet/ms with a burst of 2, peak 2 packets/ms with a burst of 4; buckets start full."""
    meter = {"type": "meter_array", "value": "m"}
    body = {"op": "execute_meter", "parameters": [meter, field("i"), field("v")]}
    meters = [{"name": "m", "id": 0, "type": "packets", "rate_count": 2, "size": 2, "is_direct": False}]
    own = table("t", {}, ["go"], "exact", default=("go", []))
    built = program([("i", 8), ("v", 8)], [action("go", {}, body)], [own], meter_arrays=meters)
    with Exchange(built) as exchange:
        exchange.control.set_meter("m", 0, Rates(0.001, 0.002, 2, 4))

        def colours(count: int, now_ns: int, index: int = 0) -> list[int]:
            return [exchange.inject(0, bytes((index, 9)), now_ns)[0][1][1] for _ in range(count)]

        assert colours(6, 0) == [0, 0, 1, 1, 2, 2]
        assert colours(3, 1_000_000) == [0, 1, 2]  # one committed token and two peak tokens later
        assert colours(6, 100_000_000) == [0, 0, 1, 1, 2, 2]
        assert colours(3, 100_000_000, 1) == [0, 0, 0]  # without rates


def test_hash_algorithms_give_their_published_check_values() -> None:
    """CRC catalogue: of "123456789", CRC-16/ARC BB3D, CRC-32 CBF43926, CRC-16/IBM-3740 29B1; sum after RFC 1071."""
    text = b"123456789"
    wanted = {"crc16": 0xBB3D, "crc32": 0xCBF43926, "crcCCITT": 0x29B1}
    words = [int.from_bytes(text[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, 10, 2)]
    total = sum(words)
    wanted["csum16"] = 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))
    wanted["xor16"] = words[0] ^ words[1] ^ words[2] ^ words[3] ^ words[4]
    calculations = [
        {"name": f"c{i}", "id": i, "algo": algo, "input": [field("lo"), field("hi")]} for i, algo in enumerate(wanted)
    ]
    body = [
        {
            "op": "modify_field_with_hash_based_offset",
            "parameters": [
                field(f"r{i}"),
                {"type": "hexstr", "value": "0x0"},
                {"type": "calculation", "value": f"c{i}"},
                {"type": "hexstr", "value": "0x100000000"},
            ],
        }
        for i in range(len(wanted))
    ]
    fields = [("lo", 40), ("hi", 32), *((f"r{i}", 32) for i in range(len(wanted)))]
    own = table("t", {}, ["go"], "exact", default=("go", []))
    built = program(fields, [action("go", {}, *body)], [own], calculations=calculations)
    with Exchange(built) as exchange:
        ((_, sent),) = exchange.inject(0, text + bytes(4 * len(wanted)))
        got = [int.from_bytes(sent[9 + 4 * i : 13 + 4 * i], "big") for i in range(len(wanted))]
        assert got == list(wanted.values())


def test_a_direct_meter_runs_on_each_hit() -> None:
    meters = [
        {
            "name": "m", "id": 0, "type": "bytes", "rate_count": 2, "size": 16, "is_direct": True, "binding": "t",
            "result_target": ["h", "v"],
        }
    ]  # fmt: skip
    own = table("t", {"k": "exact"}, ["go"], "exact", meter="m", default=("go", []))
    built = program([("k", 8), ("v", 8)], [action("go", {})], [own], meter_arrays=meters)
    with Exchange(built) as exchange:
        handle = exchange.control.insert("t", [FieldMatch(1)], ActionCall("go", {}))
        exchange.control.set_entry_rates("t", handle, Rates(0.001, 0.001, 4, 6))
        sent = [exchange.inject(0, bytes((1, 9)))[0][1][1] for _ in range(4)]
        assert sent == [0, 0, 1, 2]  # packets of two bytes
        assert exchange.inject(0, bytes((2, 9)))[0][1] == bytes((2, 9))


@pytest.mark.parametrize("kind", ["exact", "lpm"])
def test_what_was_looked_up_just_now_is_forgotten_when_entries_come_or_go(kind: str) -> None:
    prefix = 32 if kind == "lpm" else None
    keys = [0, 1, 1 << 31, 0xFFFFFFFF, *random.Random(kind).sample(range(1 << 32), 40)]
    with Exchange(_program({"k": (32, kind)}, kind)) as exchange:

        def found(key: int) -> int:
            ((_, sent),) = exchange.inject(0, _frame((key,), (32,)))
            return int.from_bytes(sent[-2:], "big")

        for key in keys:
            assert [found(key) for _ in range(2)] == [MISS, MISS]
        handles = []
        for value, key in enumerate(keys):
            assert found(key) == MISS
            handles.append(
                exchange.control.insert("t", [FieldMatch(key, prefix=prefix)], ActionCall("set", {"v": value}))
            )
            assert [found(key) for _ in range(2)] == [value, value]
        for value, (key, handle) in enumerate(zip(keys, handles, strict=True)):
            assert found(key) == value
            exchange.control.modify("t", handle, ActionCall("set", {"v": value + 1000}))
            assert found(key) == value + 1000
            exchange.control.remove("t", handle)
            assert found(key) == MISS
