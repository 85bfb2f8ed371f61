"""`environment.json`: the machine, its kernel, the versions and the code's git revision that a result was made with.

Of environment variables only the few that can change a result are taken, by name, so that no secret is ever written.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from testbed import __version__, compiled

VARIABLES = ("LANG", "LC_ALL", "TZ", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PACKAGES = ("mininet", "numpy", "os-ken", "pydantic", "PyYAML", "scikit-learn")
TOOLS: Mapping[str, Sequence[str]] = {
    "ovs-vswitchd": ("--version",),
    "tc": ("-V",),
    "gcc": ("--version",),
}
_PATIENCE_S = 5.0


def describe_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Everything of `environment.json`; what cannot be found out is null. `variables` is the process's environment."""
    cpu = _field(Path("/proc/cpuinfo"), "model name")
    memory = _field(Path("/proc/meminfo"), "MemTotal")
    return {
        "testbed": __version__,
        "compiled_endpoints": compiled.running(),
        "git_revision": _git_revision(Path(__file__).parent),
        "command": sys.argv,
        "machine": {
            "name": platform.node(),
            "architecture": platform.machine(),
            "cpu": cpu,
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": int(memory.split()[0]) * 1024 if memory else None,
        },
        "kernel": {"release": platform.release(), "version": platform.version()},
        "system": _field(Path("/etc/os-release"), "PRETTY_NAME", "="),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "tools": {name: _first_line([name, *arguments]) for name, arguments in TOOLS.items()},
        "variables": {name: variables[name] for name in VARIABLES if name in variables},
    }


def _git_revision(folder: Path) -> str | None:
    """The revision of the checkout that runs, `-dirty` if changed; None for an installed wheel.

    The checkout may be another user's (run by root), which git refuses unless told that it is meant.
    """
    root = next((p for p in folder.parents if (p / ".git").exists()), None)
    if root is None:
        return None
    git = ["git", "-c", f"safe.directory={root}", "-c", "core.fsmonitor=false", "-C", str(root)]
    return _first_line([*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])


def _first_line(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.partition("\n")[0] or None if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _field(path: Path, name: str, separator: str = ":") -> str | None:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return None
    values = (value for key, _, value in (line.partition(separator) for line in lines) if key.strip() == name)
    return next(values, "").strip().strip('"') or None
