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
from collections.abc import Sequence
from pathlib import Path

from testbed.dataplane.bmv2.runtime import Runtime
from testbed.dataplane.bmv2.switch import Bmv2Switch
from testbed.dataplane.bmv2json import read_json
from testbed.dataplane.cache import work_folder
from testbed.dataplane.stf import CheckCounter, Packet, Statement
from testbed.dataplane.stf_runner import Configuration, Outcome, ports_of
from testbed.errors import MachineLacks, RunFailed

START_LIMIT_S = 30
SETTLE_LIMIT_S = 30  # for what one packet causes
END_LIMIT_S = 10  # once it is told to
_POLL_S = 0.005
_QUIET_POLLS = 4  # in a row
_PCAP = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_MAGIC, _ETHERNET = 0xA1B2C3D4, 1


def run_bmv2(json: Path, statements: Sequence[Statement], file: str = "") -> Outcome:
    """Carry out a test on the real simple_switch. Raises `MachineLacks` where it is not installed."""
    switch = _tool("simple_switch")
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
            with Runtime(_connected(process, thrift, folder / "switch.log")) as runtime:
                configuration = Configuration(Bmv2Switch(read_json(json), runtime), file)
                for statement in statements:
                    if isinstance(statement, Packet):
                        gate.release()
                        _settle(process, folder / "switch.log")
                    else:
                        configuration.apply(statement)
                counters = {check.line: configuration.count(check) for check in checks}
        finally:
            gate.close()
            process.terminate()
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
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


def _connected(process: "subprocess.Popen[bytes]", port: int, log: Path) -> socket.socket:
    """A connection to the switch's Thrift port, once it answers there."""
    for _ in range(START_LIMIT_S * 10):
        if process.poll() is not None:
            break
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.1)
    raise RunFailed(f"simple_switch did not come up: {log.read_text()[-500:].strip()}")


def _read_pcap(path: Path) -> list[bytes]:
    data = path.read_bytes() if path.exists() else b""
    frames, at = [], _PCAP.size
    while at + _RECORD.size <= len(data):
        _, _, length, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        frames.append(data[at : at + length])
        at += length
    return frames
