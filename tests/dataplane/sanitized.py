"""Packet tests and mutated packets under the address and undefined-behaviour sanitizers, in a process of their own."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.sanitizers import environment, prelude

_RUN = """
import json, sys
from pathlib import Path
from testbed.dataplane.bmv2json import read_json
from testbed.dataplane.native.exchange import Exchange
from testbed.dataplane.stf import Packet, read_stf
from testbed.dataplane.stf_runner import carry_out, judge
for name in json.loads(sys.argv[1]):
    path = Path(sys.argv[2], name)
    statements = read_stf(path.with_suffix(".stf"))
    with Exchange(read_json(path.with_suffix(".json")), sanitize=True) as exchange:
        assert judge(statements, carry_out(exchange, statements)).passed, name
        exchange.fuzz([(s.port, s.frame) for s in statements if isinstance(s, Packet)], int(sys.argv[3]), seed=7)
print("clean")
"""


def assert_clean(names: Sequence[str], folder: Path, mutants: int, limit_s: int = 280) -> None:
    """Each `NAME.json` passes `NAME.stf`, and that many mutants of its packets do no harm."""
    done = subprocess.run(
        [sys.executable, "-c", prelude() + _RUN, json.dumps(names), str(folder), str(mutants)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.stdout == "clean\n", done.stderr[-3000:]
