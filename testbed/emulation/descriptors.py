"""Descriptors of a child, held by this process: to set an option on a socket of the child's, or to close many at once.

The kernel takes 10 to 15 ms to close a packet socket or a TAP (it waits for a grace period), and a process that ends
closes its own one after the other: seconds for a whole network. Held here until the owner is gone, they are closed side
by side, and their waits overlap.
"""

import contextlib
import ctypes
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

_SYS_PIDFD_GETFD = 438  # Linux 5.6; the same number on every architecture
_CLOSERS = 32
_libc = ctypes.CDLL(None, use_errno=True)


def duplicates(pid: int, target: str) -> Iterator[int]:
    """Duplicates of the descriptors of a process whose link in /proc begins with `target`; the caller closes them."""
    process = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if str(entry.readlink()).startswith(target):
                    descriptor = _libc.syscall(_SYS_PIDFD_GETFD, process, int(entry.name), 0)
                    if descriptor >= 0:
                        yield descriptor
    finally:
        os.close(process)


@contextlib.contextmanager
def closing_side_by_side(pid: int, target: str) -> Iterator[None]:
    """Hold such descriptors of a process while it is ended inside the block; close them after."""
    spare = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
    try:
        held = list(islice(duplicates(pid, target), spare))
    except (ProcessLookupError, FileNotFoundError):
        held = []  # it has ended already
    try:
        yield
    finally:
        with ThreadPoolExecutor(_CLOSERS) as closers:
            list(closers.map(os.close, held))
