"""Measures how long l3_ecmp takes to compile, beside an interpreter's start, and how long the command line takes.

    python -m tests.bench.compile [--repeats N]

Each is a process of its own, by turns with an interpreter that does nothing; medians. Cold: the cache is empty. To
compile is to have all that a fabric needs: BMv2 JSON, P4Info, what the program can do, and a shared object.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

COMPILE = """
import sys
from pathlib import Path
from testbed.fabric.programs import compile_programs
compile_programs(["l3_ecmp"], Path(sys.argv[1]), native=True)
"""
REPEATS = 20


def took_ms(command: Sequence[str], environment: Mapping[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=120)
    return (time.perf_counter() - begun) * 1e3


def measure(name: str, command: Sequence[str], repeats: int, folder: Path, *, cold: bool = False) -> None:
    """Print the medians of a command and of a bare start, by turns; Python has its modules' bytecode."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    bare, whole = [], []
    for repeat in range(-1, repeats):  # the first is not counted: it fills the caches
        environment["XDG_CACHE_HOME"] = str(folder / (f"{name}-{repeat}" if cold else "cache"))
        bare.append(took_ms([sys.executable, "-c", ""], environment))
        whole.append(took_ms(command, environment))
    start, total = statistics.median(bare[1:]), statistics.median(whole[1:])
    beside = total - start
    print(f"{name:34} {beside:7.1f} ms beside a start of {start:4.1f} ms: {beside / start:5.2f} of it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        compiling = [sys.executable, "-c", COMPILE, str(folder / "out")]
        testbed = [sys.executable, "-m", "testbed"]
        measure("cached", compiling, repeats, folder)
        measure("cold", compiling, repeats, folder, cold=True)
        measure("testbed p4 build, cached", [*testbed, "p4", "build", "l3_ecmp", "-o", made], repeats, folder)
        for arguments in ("--help", "list", "validate experiments/quickstart.yaml", "plan experiments/quickstart.yaml"):
            measure(f"testbed {arguments}", [*testbed, *arguments.split()], repeats, folder)


if __name__ == "__main__":
    main()
