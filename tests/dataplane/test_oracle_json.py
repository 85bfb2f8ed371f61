"""The oracle's programs from p4c's JSON on the native target: every packet as the reference pair has it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.dataplane.stf import Expect, Packet, read_stf
from testbed.dataplane.stf_runner import judge, run_native, run_stf
from testbed.errors import MachineLacks

ORACLE = Path(__file__).parent / "oracle"
PROGRAMS = sorted(path.stem for path in ORACLE.glob("*.stf"))
SANITIZED = ("10_header_union", "43_range_optional", "71_recirculate")
MUTANTS = 5000


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_packets(name: str) -> None:
    report = run_stf(ORACLE / f"{name}.json", read_stf(ORACLE / f"{name}.stf"))
    assert report.failures == ()
    assert report.as_specified == 0, "from p4c's JSON the reference's own form is expected"


def test_the_pack_is_whole() -> None:
    assert len(PROGRAMS) == 54


@pytest.mark.slow
def test_a_wrong_expectation_fails() -> None:
    path = ORACLE / "68_clone_i2e"
    statements = read_stf(path.with_suffix(".stf"))
    outcome = run_native(path.with_suffix(".json"), statements)
    for i, statement in enumerate(statements):
        if isinstance(statement, Expect):
            assert judge([s for k, s in enumerate(statements) if k != i], outcome).failures
    first = next(s for s in statements if isinstance(s, Packet))
    without = [s for s in statements if s is not first]
    assert judge(statements, run_native(path.with_suffix(".json"), without)).failures


_SANITIZED_RUN = """
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


@pytest.mark.slow
def test_mutated_packets_are_clean_under_sanitizers() -> None:
    """A sample; all programs with a million mutants each are run by hand."""
    done = subprocess.run(
        [sys.executable, "-c", _SANITIZED_RUN, json.dumps(SANITIZED), str(ORACLE), str(MUTANTS)],
        env={**os.environ, "LD_PRELOAD": _address_sanitizer(), "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout == "clean\n", done.stderr[-3000:]


def _address_sanitizer() -> str:
    compiler = os.environ.get("CC") or "cc"
    command = [compiler, "-print-file-name=libasan.so"]
    path = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip(f"{compiler} has no shared address sanitizer")
    return path


def test_without_bmv2_its_target_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineLacks, match="simple_switch is not on the PATH"):
        run_stf(ORACLE / "01_select_exact.json", (), "bmv2")
