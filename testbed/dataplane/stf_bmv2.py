"""The bmv2 target of packet tests: `simple_switch` on capture files, without network interfaces and without root.

With `--use-files` the switch reads PREFIX_in.pcap of each port. It takes packets in the order of their times, and after
a packet it reads that port's next one (or its end) before it takes another. So where the files are FIFOs, a packet is
held back until what follows it on the port of the one before is written: the test's packets go in one by one, each
finished before the next, with configuration between them as the test has it.
"""

import os
import re
import shutil
import socket
import struct
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.dataplane.bmv2json import Program, Table, read_json
from testbed.dataplane.cache import work_folder
from testbed.dataplane.native.control import ControlError, by_suffix
from testbed.dataplane.stf import Add, Call, CheckCounter, Command, Packet, SetDefault, Statement
from testbed.dataplane.stf_runner import Outcome, blamed, ports_of
from testbed.errors import MachineLacks, RunFailed

START_LIMIT_S = 30
SETTLE_LIMIT_S = 30  # for what one packet causes
CLI_LIMIT_S = 30
_POLL_S = 0.005
_QUIET_POLLS = 4  # in a row
_TOP_PRIORITY = 10_000  # bmv2: the smaller number wins
_PCAP = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_MAGIC, _ETHERNET = 0xA1B2C3D4, 1


def run_bmv2(json: Path, statements: Sequence[Statement], file: str = "") -> Outcome:
    """Carry out a test on the real simple_switch. Raises `MachineLacks` where it is not installed."""
    switch, cli = (_tool(name) for name in ("simple_switch", "simple_switch_CLI"))
    commands = _Commands(read_json(json), file)
    packets = [s for s in statements if isinstance(s, Packet)]
    checks = [s for s in statements if isinstance(s, CheckCounter)]
    ports = ports_of(statements)
    with work_folder() as folder:
        gate = _Gate(folder, ports, packets)
        thrift = _free_port()
        command = [switch, "--use-files", "0", "--thrift-port", str(thrift)]
        command += ["--notifications-addr", "ipc://notifications.ipc"]
        command += [word for port in ports for word in ("-i", f"{port}@pcap{port}")]
        with (folder / "switch.log").open("w") as log:
            process = subprocess.Popen([*command, str(json.resolve())], cwd=folder, stdout=log, stderr=log)
        try:
            _await(process, thrift, folder / "switch.log")
            for statement in statements:
                if isinstance(statement, Packet):
                    _cli(cli, thrift, commands.taken())
                    gate.release()
                    _settle(process, folder / "switch.log")
                else:
                    commands.take(statement)
            _cli(cli, thrift, commands.taken())
            counters = {c.line: commands.counter(c, _cli(cli, thrift, [commands.read(c)])) for c in checks}
        finally:
            gate.close()
            process.terminate()
            process.wait(timeout=10)
        sent = {port: _read_pcap(folder / f"pcap{port}_out.pcap") for port in ports}
    return Outcome(sent, counters)


class _Gate:
    """The files that the switch reads, and which packet may pass."""

    def __init__(self, folder: Path, ports: Sequence[int], packets: Sequence[Packet]) -> None:
        self._order = [packet.port for packet in packets]
        self._passed = 0
        self._waiting: dict[int, list[bytes]] = defaultdict(list)
        self._fifos: dict[int, int] = {}
        for place, packet in enumerate(packets):
            size = len(packet.frame)
            self._waiting[packet.port].append(_RECORD.pack(place, 0, size, size) + packet.frame)
        header = _PCAP.pack(_MAGIC, 2, 4, 0, 0, 65535, _ETHERNET)
        for port in ports:
            path = folder / f"pcap{port}_in.pcap"
            if port not in self._waiting:
                path.write_bytes(header)
                continue
            os.mkfifo(path)
            self._fifos[port] = os.open(path, os.O_RDWR)  # which waits for no reader
            os.write(self._fifos[port], header)
            if port != self._order[0]:
                self._go_on(port)

    def release(self) -> None:
        """Let the next packet pass."""
        self._go_on(self._order[max(0, self._passed - 1)])
        self._passed += 1

    def _go_on(self, port: int) -> None:
        """Write the port's next packet, or its end."""
        if self._waiting[port]:
            os.write(self._fifos[port], self._waiting[port].pop(0))
        else:
            os.close(self._fifos.pop(port))

    def close(self) -> None:
        for fifo in self._fifos.values():
            os.close(fifo)


def _settle(process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until no thread of the switch runs or wants to."""
    before, quiet = None, 0
    for _ in range(int(SETTLE_LIMIT_S / _POLL_S)):
        time.sleep(_POLL_S)
        if process.poll() is not None:
            raise RunFailed(f"simple_switch ended: {log.read_text()[-500:].strip()}")
        now = _activity(process.pid)
        quiet = quiet + 1 if now == before else 0
        if quiet == _QUIET_POLLS:
            return
        before = now
    raise RunFailed(f"simple_switch is still at work {SETTLE_LIMIT_S} s after a packet")


def _activity(pid: int) -> object:
    """What differs from call to call while threads run; never the same where one is not asleep or ends."""
    states, switches = [], []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            said = (task / "status").read_text()
            states += re.findall(r"^State:\s+(\w)", said, re.MULTILINE)
            switches.append(re.findall(r"ctxt_switches:\s+(\d+)", said))
    except OSError:
        return object()
    return switches if set(states) <= {"S"} else object()


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MachineLacks(f"{name} is not on the PATH", hint="install bmv2, or leave out `--target bmv2`")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Wait until the switch answers at its Thrift port."""
    for _ in range(START_LIMIT_S * 10):
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RunFailed(f"simple_switch did not come up: {log.read_text()[-500:].strip()}")


def _cli(cli: str, port: int, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    done = subprocess.run(
        [cli, "--thrift-port", str(port)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=CLI_LIMIT_S,
        check=False,
    )
    wrong = [line for line in done.stdout.splitlines() if re.search(r"\bError\b|Invalid|Unknown", line)]
    if done.returncode or wrong:
        raise RunFailed(f"simple_switch_CLI: {'; '.join(wrong) or done.stderr.strip()[-300:]}")
    return done.stdout


def _read_pcap(path: Path) -> list[bytes]:
    data = path.read_bytes() if path.exists() else b""
    frames, at = [], _PCAP.size
    while at + _RECORD.size <= len(data):
        _, _, length, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        frames.append(data[at : at + length])
        at += length
    return frames


class _Commands:
    """The test's configuration in the language of simple_switch_CLI."""

    def __init__(self, program: Program, file: str) -> None:
        self._program = program
        self._file = file
        self._tables = {t.name: t for t in program.tables}
        self._entries: dict[str, int] = {}
        self._labels: dict[str, tuple[str, int]] = {}
        self._lines: list[str] = []

    def taken(self) -> list[str]:
        """The commands since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def take(self, statement: Statement) -> None:
        """Add the commands of a statement. Raises `StfError`."""
        with self._blaming(statement):
            self._take(statement)

    @contextmanager
    def _blaming(self, statement: Statement) -> Iterator[None]:
        """Tell what is wrong with the place of the statement."""
        try:
            yield
        except (ControlError, ValueError) as error:
            raise blamed(self._file, statement, error) from error

    def _take(self, statement: Statement) -> None:
        if isinstance(statement, Add):
            self._add(statement)
        elif isinstance(statement, SetDefault):
            table = self._table(statement.table)
            self._lines.append(" ".join(["table_set_default", table.name, *self._call(table, statement.call)]))
        elif isinstance(statement, Command) and statement.word == "queue_depth":
            raise ValueError("the queues of simple_switch cannot be given a depth")
        elif isinstance(statement, Command) and statement.word != "wait":
            self._lines.append(" ".join((statement.word, *self._full(statement))))

    def _full(self, statement: Command) -> Sequence[str]:
        """The arguments, the name of a register or meter in full."""
        arguments = list(statement.arguments)
        arrays = {"register_write": self._program.registers, "meter_set_rates": self._program.meters}
        known = arrays.get(statement.word)
        if known is not None:
            arguments[0] = by_suffix(arguments[0], [a.name for a in known], "array")
        return arguments

    def _table(self, name: str) -> Table:
        return self._tables[by_suffix(name, self._tables, "table")]

    def _call(self, table: Table, call: Call) -> list[str]:
        names = [self._program.actions[a].name for a in table.actions]
        full = by_suffix(call.action, names, "action")
        action = self._program.actions[table.actions[names.index(full)]]
        return [full, *(hex(call.arguments[name]) for name, _ in action.parameters)]

    def _add(self, statement: Add) -> None:
        table = self._table(statement.table)
        given = {
            by_suffix(name, [k.name for k in table.keys], "key"): (digits, prefix)
            for name, digits, prefix in statement.keys
        }
        keys = []
        for key in table.keys:
            bits = self._bits(key.target.value)
            digits, prefix = given.get(key.name, (None, None))
            value, mask = digits.widened(bits) if digits else (0, 0)
            match key.match:
                case "ternary" | "optional":
                    keys.append(f"{value:#x}&&&{mask:#x}")
                case "lpm":
                    keys.append(f"{value:#x}/{mask.bit_count() if prefix is None else prefix}")
                case "range":
                    raise ValueError("a range key cannot be written")
                case _:
                    keys.append(f"{value:#x}")
        call = self._call(table, statement.call)
        words = ["table_add", table.name, call[0], *keys, "=>", *call[1:]]
        if table.match in ("ternary", "range"):
            words.append(str(_TOP_PRIORITY - (statement.priority or 0)))
        handle = self._entries.get(table.name, 0)
        self._entries[table.name] = handle + 1
        if statement.label:
            self._labels[statement.label] = (table.name, handle)
        self._lines.append(" ".join(words))

    def _bits(self, target: tuple[str, str]) -> int:
        header, name = target
        return 1 if name == "$valid$" else self._program.headers[header].type.field(name).bits

    def read(self, check: CheckCounter) -> str:
        """The command that reads the counter of a check. Raises `StfError`."""
        with self._blaming(check):
            return self._read(check)

    def _read(self, check: CheckCounter) -> str:
        if isinstance(check.index, int):
            name = by_suffix(check.name, [c.name for c in self._program.counters], "counter")
            return f"counter_read {name} {check.index}"
        if check.index not in self._labels:
            raise ValueError(f"there is no entry labelled {check.index!r}")
        table, handle = self._labels[check.index]
        counter = next((c.name for c in self._program.counters if c.binding == table), None)
        if counter is None:
            raise ValueError(f"the table {table} has no direct counter")
        return f"counter_read {counter} {handle}"

    @staticmethod
    def counter(check: CheckCounter, said: str) -> int:
        """The number in the answer to that command."""
        found: Mapping[str, str] = {m[2]: m[1] for m in re.finditer(r"(\d+) (bytes|packets)", said)}
        if check.unit not in found:
            raise RunFailed(f"simple_switch_CLI: no {check.unit} in {said.strip()!r}")
        return int(found[check.unit])
