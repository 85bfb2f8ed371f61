"""What a child process asks of the kernel for itself: another network namespace, death with its parent and such."""

import ctypes
import os
import signal
from pathlib import Path

from testbed.errors import RunFailed

NETWORK_NAMESPACES = Path("/run/netns")

_CLONE_NEWNET = 0x40000000  # sched.h
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # prctl.h

_libc = ctypes.CDLL(None, use_errno=True)


def enter_network(name: str) -> None:
    """Move this process (it must have one thread) into the network namespace `name`; raises RunFailed."""
    try:
        descriptor = os.open(NETWORK_NAMESPACES / name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RunFailed(f"network namespace {name!r} cannot be opened ({error.strerror})") from error
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET):
            reason = os.strerror(ctypes.get_errno())
            raise RunFailed(f"cannot enter network namespace {name!r} ({reason})", hint="emulation needs root")
    finally:
        os.close(descriptor)


def die_with_parent(parent: int, sig: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process as soon as `parent` ends, also if it has ended already."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), sig)


def name_process(name: str) -> None:
    """Show `name` (its first 15 characters) in ps and top."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
