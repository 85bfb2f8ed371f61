"""`testbed p4`: its exit statuses and what it prints."""

import json
from pathlib import Path

import pytest

from testbed.cli import run

ORACLE = Path(__file__).parent / "oracle"


def test_a_test_that_passes(capsys: pytest.CaptureFixture[str]) -> None:
    program = str(ORACLE / "32_set_valid.json")
    assert run(["p4", "test", program, str(ORACLE / "32_set_valid.stf")]) == 0
    assert capsys.readouterr().out.endswith("11 held\n")


def test_a_test_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stf = tmp_path / "wrong.stf"
    stf.write_text("packet 0 00 00 11 99\nexpect 1 00 01 11 98 $\n")
    assert run(["p4", "test", str(ORACLE / "32_set_valid.json"), str(stf)]) == 1
    assert "line 2: port 1: expected 00011198 $, got 00011199" in capsys.readouterr().out


def test_build_writes_json_and_its_errors_have_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["p4", "build", str(ORACLE / "32_set_valid.p4"), "-o", str(tmp_path)]) == 0
    assert "pipelines" in json.loads((tmp_path / "32_set_valid.json").read_text())
    assert "pkg_info" in (tmp_path / "32_set_valid.p4info.txt").read_text()
    assert run(["p4", "build", str(ORACLE / "neg_03_width.p4"), "-o", str(tmp_path)]) == 2
    assert "neg_03_width.p4:" in capsys.readouterr().err


def test_an_unknown_target_and_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    program, stf = str(ORACLE / "32_set_valid.json"), str(ORACLE / "32_set_valid.stf")
    assert run(["p4", "test", program, stf, "--target", "tofino"]) == 2
    assert "there are: native, bmv2" in capsys.readouterr().err
    assert run(["p4", "test", program, "none.stf"]) == 2
