"""Entries that a spec gives its switches besides the plan's routes: checked without a switch, carried out on one.

The plan owns `routes`, `members` and `salts`, so that lines on these are refused; so are packets, which are for tests.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from testbed.dataplane.bmv2model import Program
from testbed.dataplane.declared import MEMBERS, ROUTES, SALTS
from testbed.dataplane.native.configurable import check_number
from testbed.dataplane.native.control import ActionCall, Control, ControlError, FieldMatch, element
from testbed.dataplane.native.loader import ProgramTable, Rates
from testbed.dataplane.stf import OF_TESTS, Add, Command, SetDefault, Statement, StfError, read_stf
from testbed.dataplane.stf_runner import Configurable, Configuration
from testbed.netcore import CPU_PORT
from testbed.resources import own_or_shipped, shared_folder

FILES = (".stf",)
_SHIPPED = ".entries.stf"
_PLANNED = (ROUTES, MEMBERS, SALTS)


def shipped() -> Mapping[str, Path]:
    """The entries of `p4/` by name, which is their program's."""
    return {path.name.removesuffix(_SHIPPED): path for path in sorted(shared_folder("p4").glob(f"*{_SHIPPED}"))}


def path_of(name: str) -> Path:
    """Where entries are: the path of a .stf file, or a name of `shipped`. Raises UsageError."""
    return own_or_shipped(name, FILES, shipped(), "there are no entries")


def mistakes(program: Program, path: Path, ports: int) -> Iterator[StfError]:
    """What a switch with so many ports that runs the program would refuse of a file, each with its line."""
    try:
        statements = read_stf(path)
    except StfError as error:
        yield error
        return
    configuration = Configuration(_Unbuilt(program, ports), str(path))
    for statement in statements:
        try:
            if misplaced := _misplaced(program, statement):
                raise StfError(f"{path}:{statement.line}:1: {misplaced}")
            configuration.apply(statement)
        except StfError as error:
            yield error


def carry_out(path: Path, switch: Configurable) -> Configuration:
    """Give a switch the entries of a file, which are right. Raises StfError if they are not."""
    configuration = Configuration(switch, str(path))
    for statement in read_stf(path):
        configuration.apply(statement)
    return configuration


def _misplaced(program: Program, statement: Statement) -> str:
    """Why a line has no place among entries, whatever it says; nothing if it has."""
    if isinstance(statement, Add | SetDefault):
        names = [t.name for t in program.tables if t.name.rpartition(".")[2] in _PLANNED]
        if any(name == statement.table or name.endswith(f".{statement.table}") for name in names):
            return f"`{statement.table}` is filled from the plan's routes"
    elif not isinstance(statement, Command) or statement.word in OF_TESTS:
        return "is for packet tests: here are entries only (add, setdefault, register_write, mirroring_add, mc_…)"
    return ""


class _Rehearsal(Control):
    """The tables of a switch that is not there: it refuses what an instance would, without a C compiler too."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, ProgramTable(), 0)
        self._entries: dict[str, set[tuple[object, ...]]] = {t.name: set() for t in program.tables}

    def insert(self, name: str, fields: Sequence[FieldMatch | None], call: ActionCall, priority: int = 0) -> int:
        table = self.table(name)
        self._match(table, fields, priority)
        self._call(table.actions, call, table.name)
        if table.entries is not None:
            raise ControlError(f"the entries of {table.name} are fixed by the program")
        if table.profile:
            raise ControlError(f"{table.name} has an action profile, whose members STF cannot name")
        entries = self._entries[table.name]
        ordered = any(key.match in ("ternary", "optional", "range") for key in table.keys)
        entry = (*fields, priority if ordered else 0)
        if entry in entries:
            raise ControlError(f"{table.name} has an entry for that already")
        if len(entries) >= table.max_size:
            raise ControlError(f"{table.name} is full: it has room for {table.max_size}")
        entries.add(entry)
        return len(entries) - 1

    def set_default(self, name: str, call: ActionCall | None) -> None:
        table = self.table(name)
        assert call is not None
        place = self._call(table.actions, call, table.name).number
        fixed = table.default_fixed and (table.default is None or table.actions[place] != table.default[0])
        if fixed or table.default_data_fixed:
            raise ControlError(f"the default action of {table.name} is fixed by the program")

    def write_register(self, name: str, index: int, value: int) -> None:
        array = element("register", self._program.registers, name, index)
        if value >> array.bits:
            raise ControlError(f"{array.name}[{index}]: {value:#x} does not fit {array.bits} bits")

    def set_meter(self, name: str, index: int, rates: Rates) -> None:  # noqa: ARG002 - any rates will do
        element("meter", self._program.meters, name, index)


class _Unbuilt:
    """A switch that is not there."""

    def __init__(self, program: Program, ports: int) -> None:
        self.control = _Rehearsal(program)
        self._ports = {*range(1, ports + 1), CPU_PORT}

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        check_number("multicast group", group)
        for port, rid in replicas:
            check_number("replication id", rid)
            self._check_port(port)

    def set_session(self, session: int, *, port: int | None = None, group: int | None = None) -> None:
        check_number("clone session", session)
        if port is not None:
            self._check_port(port)
        check_number("multicast group", group or 0)

    def set_queue_depth(self, depth: int) -> None:
        raise ControlError(f"a queue is as deep as it is: {depth} can be told to packet tests only")

    def _check_port(self, port: int) -> None:
        if port not in self._ports:
            most = len(self._ports) - 1
            raise ControlError(f"there is no port {port}: they are 1 to {most}, and {CPU_PORT} of the control plane")
