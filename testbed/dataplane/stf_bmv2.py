"""The bmv2 target of packet tests: `simple_switch` on capture files, without network interfaces and without root.

With `--use-files N` the switch waits N seconds before it reads PREFIX_in.pcap of each port, when the
configuration goes in through `simple_switch_CLI`. It keeps the time between packets, so that each is finished before
the next.
"""

import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.dataplane.bmv2json import Program, Table, read_json
from testbed.dataplane.native.control import by_suffix
from testbed.dataplane.stf import Add, Call, CheckCounter, Command, Packet, SetDefault, Statement, StfError
from testbed.dataplane.stf_runner import PORTS, Outcome
from testbed.errors import MachineLacks, RunFailed

CONFIGURE_S = 4  # between the start and the first packet
PACKET_GAP_US = 20_000
CLI_LIMIT_S = 30
_TOP_PRIORITY = 10_000  # bmv2: the smaller number wins
_PCAP = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_MAGIC, _ETHERNET = 0xA1B2C3D4, 1


def run_bmv2(json: Path, statements: Sequence[Statement]) -> Outcome:
    """Carry out a test on the real simple_switch. Raises `MachineLacks` where it is not installed."""
    switch, cli = (_tool(name) for name in ("simple_switch", "simple_switch_CLI"))
    program = read_json(json)
    commands = _Commands(program)
    for statement in statements:
        commands.take(statement)
    packets = [s for s in statements if isinstance(s, Packet)]
    checks = [s for s in statements if isinstance(s, CheckCounter)]
    with tempfile.TemporaryDirectory(prefix="testbed-bmv2-") as work:
        folder = Path(work)
        for port in PORTS:
            _write_pcap(folder / f"pcap{port}_in.pcap", [(i, p.frame) for i, p in enumerate(packets) if p.port == port])
        thrift = _free_port()
        interfaces = [word for port in PORTS for word in ("-i", f"{port}@pcap{port}")]
        command = [switch, "--use-files", str(CONFIGURE_S), "--thrift-port", str(thrift), *interfaces]
        with (folder / "switch.log").open("w") as log:
            process = subprocess.Popen([*command, str(json.resolve())], cwd=folder, stdout=log, stderr=log)
        try:
            _await(process, thrift, folder / "switch.log")
            _cli(cli, thrift, commands.lines)
            time.sleep(CONFIGURE_S + len(packets) * PACKET_GAP_US / 1e6 + 1)
            counters = {c.line: commands.counter(c, _cli(cli, thrift, [commands.read(c)])) for c in checks}
        finally:
            process.terminate()
            process.wait(timeout=10)
        sent = {port: _read_pcap(folder / f"pcap{port}_out.pcap") for port in PORTS}
    return Outcome(sent, counters)


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
    for _ in range(CONFIGURE_S * 10):
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RunFailed(f"simple_switch did not come up: {log.read_text()[-500:].strip()}")


def _cli(cli: str, port: int, lines: Sequence[str]) -> str:
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


def _write_pcap(path: Path, frames: Sequence[tuple[int, bytes]]) -> None:
    """Frames with their place in the order of all ports."""
    body = [_PCAP.pack(_MAGIC, 2, 4, 0, 0, 65535, _ETHERNET)]
    for place, frame in frames:
        at = place * PACKET_GAP_US
        body.append(_RECORD.pack(at // 1_000_000, at % 1_000_000, len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(body))


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

    def __init__(self, program: Program) -> None:
        self._program = program
        self._tables = {t.name: t for t in program.tables}
        self._entries: dict[str, int] = {}
        self._labels: dict[str, tuple[str, int]] = {}
        self.lines: list[str] = []

    def take(self, statement: Statement) -> None:
        if isinstance(statement, Add):
            self._add(statement)
        elif isinstance(statement, SetDefault):
            table = self._table(statement.table)
            self.lines.append(" ".join(["table_set_default", table.name, *self._call(table, statement.call)]))
        elif isinstance(statement, Command) and statement.word == "queue_depth":
            raise StfError(f"line {statement.line}: the queues of simple_switch cannot be given a depth")
        elif isinstance(statement, Command) and statement.word != "wait":
            self.lines.append(" ".join((statement.word, *self._full(statement))))

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
                    raise StfError(f"line {statement.line}: a range key cannot be written")
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
        self.lines.append(" ".join(words))

    def _bits(self, target: tuple[str, str]) -> int:
        header, name = target
        return 1 if name == "$valid$" else self._program.headers[header].type.field(name).bits

    def read(self, check: CheckCounter) -> str:
        """The command that reads the counter of a check."""
        name = by_suffix(check.name, [c.name for c in self._program.counters], "counter")
        index = self._labels[check.index][1] if isinstance(check.index, str) else check.index
        return f"counter_read {name} {index}"

    @staticmethod
    def counter(check: CheckCounter, said: str) -> int:
        """The number in the answer to that command."""
        found: Mapping[str, str] = {m[1]: m[2] for m in re.finditer(r"(packets|bytes)=(\d+)", said)}
        if check.unit not in found:
            raise RunFailed(f"simple_switch_CLI: no {check.unit} in {said.strip()!r}")
        return int(found[check.unit])
