"""`testbed p4 run PROG --port N=INTERFACE`: a native switch on interfaces that are there."""

import json
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.errors import MachineLacks, RunFailed, UsageError

if TYPE_CHECKING:
    from testbed.dataplane.live import Counts

_GLANCE_S = 0.2  # how often the program's messages are fetched


def run_switch(
    program: Annotated[str, typer.Argument(metavar="PROG", help="A .p4 or BMv2 .json file, or a name in p4/.")],
    ports: Annotated[
        list[str], typer.Option("--port", metavar="N=INTERFACE", help="Port N is that interface; may be repeated.")
    ],
    entries: Annotated[
        Path | None,
        typer.Option(metavar="FILE.stf", help="Its add, setdefault, mirroring, multicast and register lines."),
    ] = None,
    capture: Annotated[Path | None, typer.Option(metavar="DIR", help="Write INTERFACE.pcapng of each port.")] = None,
    p4runtime: Annotated[
        str | None, typer.Option("--p4runtime", metavar="ADDR:PORT", help="Let P4Runtime clients drive it there.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="How long (default: until Ctrl-C).")] = None,
    defines: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME[=VALUE]", help="Define a macro; may be repeated.")
    ] = None,
    includes: Annotated[list[Path] | None, typer.Option("-I", metavar="DIR", help="Where included files are.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counters as JSON.")] = False,
) -> None:
    """Run a program as a switch between interfaces, until Ctrl-C; then print what it counted. Needs root."""
    import os

    from testbed.dataplane.bmv2json import program_of
    from testbed.dataplane.compile import compile_p4
    from testbed.dataplane.live import P4RUNTIME_DEVICE, LiveSwitch
    from testbed.dataplane.native.build import prepare
    from testbed.dataplane.programs import document_of, path_of
    from testbed.dataplane.stf import read_stf

    address = _address(p4runtime) if p4runtime else None
    if address and entries:
        raise UsageError(
            "--entries and --p4runtime: entries are a file's or a client's, which would not see the file's"
        )
    if address:
        import testbed.dataplane.p4runtime  # noqa: F401 - raises MachineLacks before anything is made
    path = path_of(program)
    p4info = None
    if path.suffix == ".json":
        document = document_of(path)
    else:
        macros = {name: value or "1" for name, _, value in (d.partition("=") for d in defines or ())}
        compiled = compile_p4(path, macros, includes or (), begin=prepare)
        for warning in compiled.warnings:
            typer.echo(str(warning), err=True)
        document, p4info = compiled.json, compiled.p4info.binary
    interfaces = _interfaces(ports)
    statements = read_stf(entries) if entries else ()
    if os.geteuid() != 0:
        raise MachineLacks("a switch on interfaces needs root", hint="sudo testbed p4 run …")
    switch = LiveSwitch(program_of(document, path.stem), interfaces, str(entries or ""))
    switch.configure(statements)
    if capture:
        switch.capture(capture)
    gone: list[str] = []
    if address:
        listens = switch.serve(address, document, p4info)
        typer.echo(f"{path.stem} listens for P4Runtime at {listens}, as device {P4RUNTIME_DEVICE}", err=True)
    with _until_told() as told:
        started, left_s = time.monotonic(), seconds
        switch.start()
        typer.echo(f"{path.stem} runs on {', '.join(interfaces.values())}", err=True)
        while (
            not (told or gone) and (left_s is None or left_s > 0) and switch.wait(min(_GLANCE_S, left_s or _GLANCE_S))
        ):
            for message in switch.messages():
                typer.echo(message, err=True)
            gone = switch.vanished()
            left_s = None if seconds is None else started + seconds - time.monotonic()
    try:
        counts = switch.stop()
    except OSError as error:
        raise RunFailed(f"{path.stem}: {error}") from error
    for message in switch.messages():
        typer.echo(message, err=True)
    typer.echo(json.dumps(counts.to_json(), indent=1) if as_json else _text(counts))
    if gone:
        raise RunFailed(f"{path.stem} ended: {' and '.join(gone)} vanished")


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise UsageError(f"--p4runtime {text}: an address is written ADDR:PORT", hint="as --p4runtime 127.0.0.1:9559")
    return text


def _interfaces(ports: list[str]) -> Mapping[int, str]:
    interfaces: dict[int, str] = {}
    for port in ports:
        number, equals, interface = port.partition("=")
        if not equals or not number.isdecimal() or not interface:
            raise UsageError(f"--port {port}: a port is written N=INTERFACE", hint="as --port 1=eth1")
        if int(number) in interfaces or interface in interfaces.values():
            raise UsageError(f"--port {port}: a port has one interface, and an interface one port")
        interfaces[int(number)] = interface
    return interfaces


@contextmanager
def _until_told() -> Iterator[list[int]]:
    """What signals came that end the switch: Ctrl-C and SIGTERM."""
    told: list[int] = []
    before = {of: signal.signal(of, lambda number, _: told.append(number)) for of in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for of, handler in before.items():
            signal.signal(of, handler)


def _text(counts: "Counts") -> str:
    lines = []
    for port in counts.ports:
        lost = ", ".join(
            f"{value} {name}" for name in ("missed", "malformed", "refused") if (value := getattr(port, name))
        )
        lines.append(
            f"port {port.port} ({port.interface}): received {port.received} packets, {port.received_bytes} bytes;"
            f" sent {port.sent} packets, {port.sent_bytes} bytes{'; ' + lost if lost else ''}"
        )
    known = ", ".join(f"{name} {value}" for name, value in counts.switch.items() if value and "job_" not in name)
    lines.append(f"switch: {known or 'no packets'}")
    lines += [f"{e.table}, line {e.line}: {e.packets} packets, {e.bytes} bytes" for e in counts.entries]
    lines += [f"{c.counter}[{c.index}]: {c.packets} packets, {c.bytes} bytes" for c in counts.counters]
    return "\n".join(lines)
