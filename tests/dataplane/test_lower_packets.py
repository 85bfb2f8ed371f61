"""What we compile forwards as the language (or, where they differ without saying so, the reference pair) has it."""

import json
from pathlib import Path

import pytest

from testbed.dataplane.compile import compile_p4
from testbed.dataplane.stf import read_stf
from testbed.dataplane.stf_runner import Report, run_stf

HERE = Path(__file__).parent
ORACLE = sorted((HERE / "oracle").glob("[0-9]*.p4"))
FEATURES = sorted((HERE / "features").glob("*.stf"))
# Of the oracle's expectations that have a `spec-expect` these come out as the reference pair has them, not as defined:
# p4c drops stores that are overwritten in one parser state, simple_switch resets a copy's ingress_port, and a table
# with a profile has no default action.
AS_REFERENCE = {"15_parser_dead_store": 2, "58_copies_metadata": 1, "73_action_profile": 4}


def report_of(program: Path, directory: Path) -> Report:
    compiled = directory / f"{program.stem}.json"
    compiled.write_text(json.dumps(compile_p4(program).json))
    return run_stf(compiled, read_stf(program.with_suffix(".stf")))


@pytest.mark.slow
@pytest.mark.parametrize("program", ORACLE, ids=lambda path: path.stem)
def test_oracle(program: Path, tmp_path: Path) -> None:
    report = report_of(program, tmp_path)
    assert report.failures == ()
    assert report.as_reference == AS_REFERENCE.get(program.stem, 0)


@pytest.mark.slow
@pytest.mark.parametrize("stf", FEATURES, ids=lambda path: path.stem)
def test_feature(stf: Path, tmp_path: Path) -> None:
    """Expected packets are worked out by hand from the language specification."""
    assert report_of(stf.with_suffix(".p4"), tmp_path).failures == ()


def test_no_program_is_left_out() -> None:
    assert len(ORACLE) == 54
    assert {path.stem for path in FEATURES} == {path.stem for path in (HERE / "features").glob("*.p4")}
