"""`testbed p4`: its exit statuses and what it prints."""

import json
import os
import signal
from pathlib import Path

import pytest

from testbed.cli import execute
from testbed.dataplane import corpus
from testbed.errors import UsageError
from tests.dataplane.programs import program

ORACLE = Path(__file__).parent / "oracle"


def test_a_test_that_passes(capsys: pytest.CaptureFixture[str]) -> None:
    program = str(ORACLE / "32_set_valid.json")
    assert execute(["p4", "test", program, str(ORACLE / "32_set_valid.stf")]) == 0
    assert capsys.readouterr().out.endswith("11 held\n")


def test_a_test_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stf = tmp_path / "wrong.stf"
    stf.write_text("packet 0 00 00 11 99\nexpect 1 00 01 11 98 $\n")
    assert execute(["p4", "test", str(ORACLE / "32_set_valid.json"), str(stf)]) == 1
    assert "line 2: port 1: expected 00011198 $, got 00011199" in capsys.readouterr().out


def test_build_writes_json_and_its_errors_have_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["p4", "build", str(ORACLE / "32_set_valid.p4"), "-o", str(tmp_path)]) == 0
    assert "pipelines" in json.loads((tmp_path / "32_set_valid.json").read_text())
    assert "pkg_info" in (tmp_path / "32_set_valid.p4info.txt").read_text()
    assert execute(["p4", "build", str(ORACLE / "neg_03_width.p4"), "-o", str(tmp_path)]) == 2
    assert "neg_03_width.p4:" in capsys.readouterr().err


def test_a_shipped_program_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["p4", "build", "spray", "-o", str(tmp_path)]) == 0
    assert "pipelines" in json.loads((tmp_path / "spray.json").read_text())
    capsys.readouterr()
    assert execute(["p4", "test", "spray"]) == 0, "by the test beside it"
    assert capsys.readouterr().out.endswith(" held\n")
    for verb in ("build", "test"):
        assert execute(["p4", verb, "spry"]) == 2
        said = capsys.readouterr().err
        assert "there is no switch program 'spry'" in said
        assert "spray" in said


def test_a_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["p4", "build", "l3_ecmp", "-o", "/dev/null/x"]) == 2
    assert "cannot be written: Not a directory" in capsys.readouterr().err


def test_an_unknown_target_and_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    program, stf = str(ORACLE / "32_set_valid.json"), str(ORACLE / "32_set_valid.stf")
    assert execute(["p4", "test", program, stf, "--target", "tofino"]) == 2
    assert "there are: native, bmv2" in capsys.readouterr().err
    assert execute(["p4", "test", program, "none.stf"]) == 2


FOLDER = {  # what is in a program after the first line, and its test
    "good": ("", "packet 0 01\nexpect 1 01 $\n"),
    "wrong": ("", "packet 0 01\nexpect 1 02 $\n"),
    "broken": ("oops", "packet 0 01\n"),
    "odd": ("", "sit\n"),
}


def _folder(directory: Path) -> Path:
    text = program(apply="sm.egress_spec = 1;", states="state start { transition accept; }")
    for name, (rest, stf) in FOLDER.items():
        (directory / f"{name}.p4").write_text(text + rest)
        (directory / f"{name}.stf").write_text(stf)
    (directory / "other.p4").write_text("#include <psa.p4>\n")
    (directory / "other.stf").write_text("")
    (directory / "untested.p4").write_text(text)
    return directory


@pytest.mark.slow
def test_a_folder_of_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["p4", "test", str(_folder(tmp_path))]) == 1
    captured = capsys.readouterr()
    assert "wrong.p4: failed: line 2: port 1: expected 02 $, got 01" in captured.out
    assert "broken.p4: refused: " in captured.out
    assert "odd.stf:1:1: unknown statement" in captured.out
    assert "4 programs: 1 passed, 1 failed, 2 refused (1 for other architectures left out)" in captured.err


@pytest.mark.slow
def test_a_folder_of_tests_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["p4", "test", str(_folder(tmp_path)), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["passed"], said["failed"], said["refused"], said["other_architectures"]) == (1, 1, 2, 1)
    assert [(one["program"], one["outcome"]) for one in said["programs"]] == [
        ("broken.p4", "refused"),
        ("good.p4", "passed"),
        ("odd.p4", "refused"),
        ("wrong.p4", "failed"),
    ]


def test_a_folder_without_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["p4", "test", str(tmp_path)]) == 2
    assert "no v1model program" in capsys.readouterr().err


def test_programs_that_crash_or_do_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs its own verdict only."""

    def compile_or_not(path: Path, *_: object) -> object:
        if path.stem == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if path.stem == "endless":
            signal.pause()
        raise UsageError("nothing to see")

    monkeypatch.setattr(corpus, "compile_p4", compile_or_not)
    programs = [tmp_path / f"{name}.p4" for name in ("crash", "endless", "other")]
    verdicts = {one.program.stem: one for one in corpus.run_corpus(programs, limit_s=0.5)}
    assert verdicts["crash"] == corpus.Verdict(programs[0], "failed", ("its process ended with status -9",))
    assert verdicts["endless"] == corpus.Verdict(programs[1], "failed", ("did not end within 0.5 s",))
    assert verdicts["other"] == corpus.Verdict(programs[2], "refused", ("nothing to see",))
