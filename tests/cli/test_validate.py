"""The command line: one message an error, the contract's exit statuses, and no traceback for anyone's bad input."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from testbed.cli import NOT_BUILT, VERBS, execute, with_verbosity
from testbed.plugins import load

SMALL = """\
name: small
topology: {kind: star, hosts: 4}
workers: {count: 4}
workload: {size: 4KiB}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_a_right_spec_is_ok(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["validate", str(spec)]) == 0
    assert capsys.readouterr() == (f"{spec}: ok\n", "")


def test_mistakes_go_to_stderr_with_status_2_and_the_other_specs_are_still_read(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(SMALL.replace("star", "stra"))
    assert execute(["validate", str(wrong), str(tmp_path / "none.yaml"), str(spec)]) == 2
    out, err = capsys.readouterr()
    assert out == f"{spec}: ok\n"
    first, second, *_ = err.splitlines()
    assert first.startswith(f"{wrong}:2:18: topology.kind: no topology is called 'stra'")
    assert first.endswith("(did you mean star?)")
    assert second.startswith(f"{tmp_path / 'none.yaml'}: cannot be read")


def test_overrides_and_the_engine_are_checked_too(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["validate", str(spec), "-S", "workers.count=5", "-S", "seed=2"]) == 2
    assert "-S workers.count=5: workers.count: 5 workers on 4 hosts" in capsys.readouterr().err
    assert execute(["validate", "--engine", "simulator", str(spec)]) == 2
    assert "did you mean simulation?" in capsys.readouterr().err


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["validate", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "A Testbed spec"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["valdate"], "did you mean `testbed validate`?"),
        (["validate"], "which spec?"),
        (["validate", "--nonsense"], "No such option"),
        (["--nonsense"], "No such option"),
        (["list", "transport"], "did you mean transports?"),
        *[([name, "x"], "not supported yet") for name in NOT_BUILT],
    ],
)
def test_a_misused_command_line_ends_with_2_and_a_way_out(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_help_names_every_verb(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(arguments) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {verb.name}  " in out for verb in VERBS)


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_is_there_and_says_how_it_is_used(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: testbed {verb}")


def test_quiet_and_verbose_may_stand_anywhere(spec: Path) -> None:
    assert execute(["-q", "validate", str(spec)]) == 0
    assert execute(["validate", str(spec), "-v"]) == 0


def test_a_verb_that_has_its_own_quiet_is_told_too() -> None:
    app = typer.Typer()

    @app.command("hush")
    def hush(quiet: bool = False) -> None: ...

    assert with_verbosity(app, ["-q"], "hush", ["x", "-v", "--", "-q"]) == ["-q", "-v", "hush", "-q", "x", "--", "-q"]
    assert with_verbosity(app, [], "exec", ["h0", "ls", "-v"]) == ["exec", "h0", "ls", "-v"]


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["--version"]) == 0
    assert capsys.readouterr().out.startswith("testbed ")


def test_an_interrupt_is_130(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("testbed.spec.reader.read_spec", interrupted)
    assert execute(["validate", str(spec)]) == 130


def test_a_defect_is_one_line_and_a_log(
    spec: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("testbed.spec.reader.read_spec", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert execute(["validate", str(spec)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("testbed: unexpected ZeroDivisionError: oh\n")
    assert "Traceback" not in err
    (log,) = tmp_path.glob("testbed-*.log")
    assert "Traceback" in log.read_text()
    monkeypatch.setenv("TESTBED_DEBUG", "1")
    assert execute(["validate", str(spec)]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_error_in_one_s_own_file_is_no_defect_of_testbed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "mine.py"
    own.write_text("def build(*_):\n    raise ValueError('mine')\n")
    monkeypatch.setattr("testbed.spec.reader.read_spec", load(f"{own}:build"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert execute(["validate", "x.yaml"]) == 1
    err = capsys.readouterr().err
    assert f"it comes from {own}, line 2, in build" in err
    assert "defect" not in err


def test_what_one_s_own_class_lacks_is_no_defect_of_testbed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "mine.py"
    own.write_text("class Mine: pass\n")
    mine: Any = load(f"{own}:Mine")
    monkeypatch.setattr("testbed.spec.reader.read_spec", lambda *_: mine().deadline())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert execute(["validate", "x.yaml"]) == 1
    assert "Mine is in mine.py" in capsys.readouterr().err


def test_lists_have_a_line_each_and_constants_with_their_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["list", "topologies"]) == 0
    assert any(line.startswith("fat-tree ") for line in capsys.readouterr().out.splitlines())
    assert execute(["list", "transports,congestion", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    mtu = next(p for p in found["transports"][0]["parameters"] if p["name"] == "mtu")
    assert mtu["default"] == 1024
    assert {"default", "unit", "source"} <= mtu.keys()
    assert {"none", "dcqcn"} <= {one["name"] for one in found["congestion"]}


def test_the_help_imports_no_heavy_library() -> None:
    code = "import sys; from testbed.cli import execute; execute(['--help'])"
    code += "; print({'numpy', 'pydantic', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.rstrip().endswith("set()")


def test_the_module_is_the_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "testbed", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("testbed ")
