"""Network namespaces by name: made and deleted in batches, entered by a thread, and never anybody else's.

A run has one outer namespace `tb-<run_id>` and one `tb-<run_id>-<host>` a host. Whatever makes or deletes one checks
the name against that pattern first, so that no mistake elsewhere can delete a stranger's.
"""

import ctypes
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from testbed.emulation.commands import in_parallel, ip_batch, output_of
from testbed.errors import RunFailed

DIRECTORY = Path("/run/netns")
_OURS = re.compile(r"tb-[a-z0-9]{6}(-[A-Za-z0-9_.]+)?")
_CLONE_NEWNET = 0x40000000  # sched.h
_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


def outer_name(run_id: str) -> str:
    """The namespace that holds the switches, the controller and the fabric."""
    return f"tb-{run_id}"


def host_name(run_id: str, host: str) -> str:
    """The namespace of one host."""
    return f"tb-{run_id}-{host}"


def path(name: str) -> Path:
    """Where the namespace can be opened."""
    return DIRECTORY / name


def entering(name: str, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` inside a namespace (by exec, so its pid and exit status are argv's own)."""
    return ["nsenter", f"--net={path(name)}", "--", *argv]


def create(names: Sequence[str]) -> None:
    """Make namespaces, quiet ones: loopback up, and no IPv6, which would talk unasked on every link."""
    # It must not go on making them when this process is killed and its leftovers are being removed.
    script = "".join(f"netns add {_ours(name)}\n" for name in names)
    output_of(["setpriv", "--pdeathsig", "KILL", "ip", "-batch", "-"], stdin=script)

    def settle(name: str) -> None:
        inside(name, _refuse_ipv6)
        ip_batch(["link set dev lo up"], name)

    in_parallel(settle, names)


def delete(names: Iterable[str]) -> list[str]:
    """Delete those namespaces that exist; returns what went wrong."""
    try:
        ip_batch((f"netns delete {name}" for name in names if path(_ours(name)).exists()), keep_going=True)
    except RunFailed as error:
        return [error.message]
    return []


def pids_inside(names: Iterable[str]) -> dict[int, str]:
    """The processes inside some namespaces, this one aside, each with its namespace; by one look through /proc."""
    namespaces: dict[int, str] = {}
    for name in names:
        try:
            namespaces[path(name).stat().st_ino] = name
        except OSError:
            continue  # never made, or gone
    found: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*") if namespaces else ():
        try:
            inode = (entry / "ns" / "net").stat().st_ino
        except OSError:
            continue  # it has just ended
        if inode in namespaces and entry.name != str(os.getpid()):
            found[int(entry.name)] = namespaces[inode]
    return found


def inside(name: str, work: Callable[[], T]) -> T:
    """Call `work` in a thread that has entered the namespace; this process itself stays where it is."""

    def enter_and_work() -> T:
        with path(name).open() as handle:
            if _libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
                raise RunFailed(f"cannot enter namespace {name}: {os.strerror(ctypes.get_errno())}")
        return work()

    with ThreadPoolExecutor(1) as thread:  # of its own, as it never returns to where it came from
        return thread.submit(enter_and_work).result()


def _ours(name: str) -> str:
    if not _OURS.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a namespace of Testbed's")
    return name


def _refuse_ipv6() -> None:
    for scope in ("all", "default"):
        setting = Path("/proc/sys/net/ipv6/conf") / scope / "disable_ipv6"
        if setting.exists():  # not in a kernel without IPv6
            setting.write_text("1")
