"""Where the machine's measured capabilities are kept between runs, and when they are no longer this machine's.

One small file in the user's cache folder. It is believed only for the same kernel, processor, number of cores and
Testbed version; after a change of any, `doctor` (or the next run) measures again.
"""

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

from testbed import __version__
from testbed.caches import keep, user_cache
from testbed.doctor.facts import bmv2_grpc, bmv2_lacks
from testbed.plan.model import Capabilities, Carried

_METHOD = 6  # of measuring; raise it when the figures mean something else


def cache_file() -> Path:
    """`$XDG_CACHE_HOME/testbed/capabilities.json`, by default below `~/.cache`."""
    return user_cache("capabilities.json")


def fingerprint() -> dict[str, str | int]:
    """What the measurement is valid for."""
    return {
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "testbed": __version__,
        "method": _METHOD,
        "bmv2": not bmv2_lacks(),
        "bmv2_grpc": bmv2_grpc(),
    }


def load_capabilities() -> Capabilities | None:
    """The capabilities of this very machine, or None if they were never measured (or for another)."""
    try:
        kept = json.loads(cache_file().read_text())
        if kept["fingerprint"] == fingerprint():
            native, bmv2 = (kept["capabilities"].pop(kind) for kind in ("native", "bmv2"))
            return Capabilities(
                **kept["capabilities"], native=native and Carried(**native), bmv2=bmv2 and Carried(**bmv2)
            )
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def save_capabilities(capabilities: Capabilities) -> None:
    """Keep them; a cache that cannot be written is no error, they are measured again next time."""
    kept = {"fingerprint": fingerprint(), "capabilities": asdict(capabilities)}
    keep(cache_file(), json.dumps(kept, indent=1))


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
