"""Mutated packets at full count: every program of `p4/` and of the oracle, under the sanitizers, one process a program.

python -m tests.dataplane.fuzz [--mutants N] [PROGRAM ...]
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from testbed.dataplane.programs import document_of, shipped
from tests.dataplane.sanitized import assert_clean

ORACLE = Path(__file__).with_name("oracle")
LIMIT_S = 7200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1_000_000)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    options = parser.parse_args()
    programs = [*shipped().values(), *sorted(ORACLE.glob("*.json"))]
    for path in programs:
        if options.programs and path.stem not in options.programs:
            continue
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, f"{path.stem}.json").write_text(json.dumps(document_of(path)))
            Path(folder, f"{path.stem}.stf").write_bytes(path.with_suffix(".stf").read_bytes())
            start = time.monotonic()
            assert_clean([path.stem], Path(folder), options.mutants, LIMIT_S)
        print(f"{path.stem}: {options.mutants} mutants, clean, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
