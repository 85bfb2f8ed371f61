"""As `testbed.dataplane.native.control`, of a running `simple_switch`: by the same names and numbers, over Thrift."""

from collections.abc import Iterator, Sequence
from typing import Any

from testbed.dataplane.bmv2.runtime import CONTEXT, Refused, Runtime, interface
from testbed.dataplane.bmv2model import Program, Table
from testbed.dataplane.native.control import ActionCall, Control, ControlError, FieldMatch, element
from testbed.dataplane.native.loader import ProgramTable, Rates

_TOP_PRIORITY = 1 << 30  # bmv2: the smaller number wins
_REGISTER_BITS = 63  # what Thrift's signed 64 bits carry


class Bmv2Control(Control):
    """The control plane of one `simple_switch`."""

    def __init__(self, program: Program, runtime: Runtime) -> None:
        super().__init__(program, ProgramTable(), 0)
        self._runtime = runtime

    def insert(self, name: str, fields: Sequence[FieldMatch | None], call: ActionCall, priority: int = 0) -> int:
        table = self.table(name)
        action, arguments = self._named(table, call)
        ordered = any(key.match in ("ternary", "optional", "range") for key in table.keys)
        options = interface().EntryOptions(priority=_TOP_PRIORITY - priority if ordered else None)
        key = self._parameters(table, fields)
        return int(self._ask("bm_mt_add_entry", table.name, key, action, arguments, options))

    def modify(self, name: str, handle: int, call: ActionCall) -> None:
        table = self.table(name)
        self._ask("bm_mt_modify_entry", table.name, handle, *self._named(table, call))

    def remove(self, name: str, handle: int) -> None:
        self._ask("bm_mt_delete_entry", self.table(name).name, handle)

    def set_default(self, name: str, call: ActionCall | None) -> None:
        table = self.table(name)
        if call is None:
            self._ask("bm_mt_reset_default_entry", table.name)
        else:
            self._ask("bm_mt_set_default_action", table.name, *self._named(table, call))

    def entry_count(self, name: str, handle: int) -> tuple[int, int]:
        value = self._ask("bm_mt_read_counter", self.table(name).name, handle)
        return value.packets, value.bytes

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        value = self._ask("bm_counter_read", element("counter", self._program.counters, name, index).name, index)
        return value.packets, value.bytes

    def nonzero_counts(self, name: str) -> Iterator[tuple[int, int, int]]:
        for index in range(element("counter", self._program.counters, name, 0).size):
            packets, size = self.read_counter(name, index)
            if packets or size:
                yield index, packets, size

    def set_meter(self, name: str, index: int, rates: Rates) -> None:
        pairs = ((rates.committed_per_us, rates.committed_burst), (rates.peak_per_us, rates.peak_burst))
        both = [interface().MeterRate(units_per_us=rate, burst=burst) for rate, burst in pairs]
        self._ask("bm_meter_set_rates", element("meter", self._program.meters, name, index).name, index, both)

    def read_register(self, name: str, index: int) -> int:
        array = element("register", self._program.registers, name, index)
        return int(self._ask("bm_register_read", array.name, index)) & ((1 << array.bits) - 1)

    def write_register(self, name: str, index: int, value: int) -> None:
        array = element("register", self._program.registers, name, index)
        bits = min(array.bits, _REGISTER_BITS)
        if value >> bits:
            raise ControlError(f"{array.name}[{index}]: {value:#x} does not fit {bits} bits")
        self._ask("bm_register_write", array.name, index, value)

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return self._runtime.call(method, CONTEXT, *arguments)
        except Refused as error:
            raise ControlError(f"{arguments[0]}: {error.message}") from None

    def _named(self, table: Table, call: ActionCall) -> tuple[str, list[bytes]]:
        """An action's full name, and its arguments in order."""
        if call.member is not None or call.group is not None:
            raise ControlError(f"{table.name}: members and groups of action profiles are not set on bmv2")
        place, arguments = self._action(table.actions, call, table.name)
        return self._program.actions[table.actions[place]].name, arguments

    def _parameters(self, table: Table, fields: Sequence[FieldMatch | None]) -> list[Any]:
        types, found = interface(), []
        kinds = types.MatchType
        for key, field, (value, mask) in zip(table.keys, fields, self._parts(table, fields), strict=True):
            match key.match:
                case "exact":
                    parameter = types.MatchParameter(kinds.EXACT, exact=types.Exact(value))
                case "lpm":
                    prefix = int.from_bytes(mask, "big").bit_count()
                    parameter = types.MatchParameter(kinds.LPM, lpm=types.Lpm(value, prefix))
                case "range":
                    parameter = types.MatchParameter(kinds.RANGE, range=types.Range(value, mask))
                case "valid":
                    assert field is not None
                    parameter = types.MatchParameter(kinds.VALID, valid=types.Valid(bool(field.value)))
                case _:  # ternary, and optional, which is ternary to bmv2
                    parameter = types.MatchParameter(kinds.TERNARY, ternary=types.Ternary(value, mask))
            found.append(parameter)
        return found
