"""Counters, meters and registers by index; those of all tables are in `tables.py`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from finsy.proto import p4r
from grpc import StatusCode

from testbed.dataplane.native.control import Control
from testbed.dataplane.p4runtime.rates import check_rates, rates_of
from testbed.dataplane.p4runtime.refusal import Refusal, invalid, refusing, unsupported
from testbed.dataplane.p4runtime.schema import Array, Register, Schema
from testbed.dataplane.p4runtime.undo import Undo

_MOST_WRITTEN = 1 << 17  # elements by one update: half a second, as they are read before, to be taken back
_A = TypeVar("_A", bound=Array)


@dataclass(slots=True)
class ArrayStore:
    """The arrays of one pipeline; of a meter the switch does not tell, so that what was written is kept."""

    schema: Schema
    control: Control
    _meters: dict[tuple[int, int], p4r.MeterConfig] = field(default_factory=dict)

    # Counters

    def write_counter(self, kind: int, message: p4r.CounterEntry) -> Undo:
        array = _array(self.schema.counters, message.counter_id, "counter")
        _check_kind(kind, array.name)
        indices = _written(_indices(array, message.HasField("index"), message.index.index), array)
        if not message.HasField("data"):
            return lambda: None
        packets, size = message.data.packet_count, message.data.byte_count
        if packets < 0 or size < 0:
            raise invalid(f"counter {array.name}: a count is not negative")
        before = [self.control.read_counter(array.name, index) for index in indices]
        with refusing():
            for index in indices:
                self.control.write_counter(array.name, index, packets, size)

        def undo() -> None:
            for index, count in zip(indices, before, strict=True):
                self.control.write_counter(array.name, index, *count)

        return undo

    def counters(self, asked: p4r.CounterEntry) -> Iterator[p4r.Entity]:
        for array in _arrays(self.schema.counters, asked.counter_id, "counter"):
            for index in _indices(array, asked.HasField("index"), asked.index.index):
                packets, size = self.control.read_counter(array.name, index)
                data = p4r.CounterData(packet_count=packets, byte_count=size)
                entry = p4r.CounterEntry(counter_id=array.id, index=p4r.Index(index=index), data=data)
                yield p4r.Entity(counter_entry=entry)

    # Meters

    def write_meter(self, kind: int, message: p4r.MeterEntry) -> Undo:
        array = _array(self.schema.meters, message.meter_id, "meter")
        _check_kind(kind, array.name)
        if message.HasField("counter_data"):
            raise unsupported(f"meter {array.name}: counters by colour")
        indices = _written(_indices(array, message.HasField("index"), message.index.index), array)
        config = check_rates(message.config, f"meter {array.name}") if message.HasField("config") else None
        before = {index: self._meters.get((array.id, index)) for index in indices}
        for index in indices:
            self._set_meter(array, index, config)

        def undo() -> None:
            for index, each in before.items():
                self._set_meter(array, index, each)

        return undo

    def _set_meter(self, array: Array, index: int, config: p4r.MeterConfig | None) -> None:
        with refusing():
            self.control.set_meter(array.name, index, rates_of(config))
        if config is None:
            self._meters.pop((array.id, index), None)
        else:
            self._meters[array.id, index] = config

    def meters(self, asked: p4r.MeterEntry) -> Iterator[p4r.Entity]:
        if asked.HasField("counter_data"):
            raise unsupported("counters by colour")
        for array in _arrays(self.schema.meters, asked.meter_id, "meter"):
            for index in _indices(array, asked.HasField("index"), asked.index.index):
                config = self._meters.get((array.id, index))
                entry = p4r.MeterEntry(meter_id=array.id, index=p4r.Index(index=index), config=config)
                yield p4r.Entity(meter_entry=entry)

    # Registers

    def write_register(self, kind: int, message: p4r.RegisterEntry) -> Undo:
        array = _array(self.schema.registers, message.register_id, "register")
        _check_kind(kind, array.name)
        indices = _written(_indices(array, message.HasField("index"), message.index.index), array)
        [value] = array.type.decode(message.data, f"register {array.name}")
        before = [self.control.read_register(array.name, index) for index in indices]
        with refusing():
            for index in indices:
                self.control.write_register(array.name, index, value)

        def undo() -> None:
            for index, each in zip(indices, before, strict=True):
                self.control.write_register(array.name, index, each)

        return undo

    def registers(self, asked: p4r.RegisterEntry) -> Iterator[p4r.Entity]:
        for array in _arrays(self.schema.registers, asked.register_id, "register"):
            for index in _indices(array, asked.HasField("index"), asked.index.index):
                yield _register(array, index, self.control.read_register(array.name, index))

    def written_registers(self) -> Iterator[p4r.Entity]:
        """Those of all elements that are not 0, as those of a fresh program are."""
        for array in self.schema.registers.values():
            for index, value in self.control.nonzero(array.name):
                yield _register(array, index, value)


def _register(array: Register, index: int, value: int) -> p4r.Entity:
    entry = p4r.RegisterEntry(register_id=array.id, index=p4r.Index(index=index), data=array.type.encode([value]))
    return p4r.Entity(register_entry=entry)


def _check_kind(kind: int, name: str) -> None:
    if kind != p4r.Update.MODIFY:
        raise invalid(f"{name}: its elements are there always, and are modified only")


def _array(known: Mapping[int, _A], number: int, what: str) -> _A:
    if number not in known:
        raise invalid(f"there is no {what} {number:#x}")
    return known[number]


def _arrays(known: Mapping[int, _A], number: int, what: str) -> list[_A]:
    """One, or all of them."""
    return [_array(known, number, what)] if number else list(known.values())


def _indices(array: Array, given: bool, index: int) -> range:
    """One, or all of them."""
    if not given:
        return range(array.size)
    if index < 0:
        raise invalid(f"{array.name}: an index of {index}")
    if index >= array.size:
        raise Refusal(StatusCode.OUT_OF_RANGE, f"{array.name}: an index of {index}; there are {array.size}")
    return range(index, index + 1)


def _written(indices: range, array: Array) -> range:
    """What an update may write at once, while packets wait."""
    if len(indices) > _MOST_WRITTEN:
        raise unsupported(f"{array.name}: {len(indices)} elements by one update, of which the most is {_MOST_WRITTEN}")
    return indices
