"""The oracle's programs from p4c's JSON on the native target: every packet as the reference pair has it."""

from pathlib import Path

import pytest

from testbed.dataplane.stf import Expect, Packet, read_stf
from testbed.dataplane.stf_runner import judge, run_native, run_stf
from testbed.errors import MachineLacks
from tests.dataplane.sanitized import assert_clean

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


@pytest.mark.slow
def test_mutated_packets_are_clean_under_sanitizers() -> None:
    """A sample; all programs with a million mutants each are run by hand."""
    assert_clean(SANITIZED, ORACLE, MUTANTS)


def test_without_bmv2_its_target_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineLacks, match="simple_switch is not on the PATH"):
        run_stf(ORACLE / "01_select_exact.json", (), "bmv2")
