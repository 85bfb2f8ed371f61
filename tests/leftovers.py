"""What a run has left on the machine."""

import os
from pathlib import Path


def left_of(run_id: str) -> list[str]:
    """Namespaces, registration and processes of a run that are still there."""
    found = [str(path) for path in (*Path("/run/netns").glob(f"tb-{run_id}*"), *Path("/run/testbed").glob(run_id))]
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name != str(os.getpid()) and run_id in command_of(entry):
            found.append(f"process {entry.name}: {command_of(entry)[:80]}")
    return found


def command_of(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
