"""`testbed schedule` prints what the schedule is and that it is proved."""

import json
from pathlib import Path

import pytest

from testbed.cli import execute


def test_show_prints_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["schedule", "show", "ring", "-n", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "allreduce by ring: 2 ranks, 2 chunks, 2 steps, 4 transfers",
        "T = 2 α + 1 S β step by step for a buffer of S bytes; a rank sends 1 S",
        "+ adds to what is there, = replaces it",
        "step 0: 0→1 +[1]  1→0 +[0]",
        "step 1: 0→1 =[0]  1→0 =[1]",
    ]


def test_show_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["schedule", "show", "pairwise", "-n", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["alpha_beta"] == {"steps": 1, "share": 0.5}
    assert shown["transfers"][0] == {
        "step": 0, "source": 0, "destination": 1, "chunk": 1, "count": 1, "at": 0, "op": 1, "lane": 0
    }  # fmt: skip


def test_an_algorithm_s_parameters_and_what_is_pooled(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["schedule", "show", "tar-2d", "-n", "4", "-P", "groups=4"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "allreduce by tar-2d: 4 ranks, 1 chunks, 3 steps, 12 transfers",
        "T = 3 α + 3 S β step by step for a buffer of S bytes; a rank sends 3 S",
        "+ adds to what is there, = replaces it, & is held until all of its place are there and adds by rank",
        "step 0: 0→3 &[0]  1→0 &[0]  2→1 &[0]  3→2 &[0]",
        "step 1: 0→2 &[0]  1→3 &[0]  2→0 &[0]  3→1 &[0]",
        "step 2: 0→1 &[0]  1→2 &[0]  2→3 &[0]  3→0 &[0]",
    ]
    assert (
        execute(["schedule", "check", "tar", "-n", "4", "--parameter", "incast=2", "--collective", "all-gather"]) == 0
    )
    assert "2 steps" in capsys.readouterr().out
    assert execute(["schedule", "show", "tar", "-n", "4", "-P", "incast"]) == 2
    assert "not KEY=VALUE" in capsys.readouterr().err
    assert execute(["schedule", "show", "tar", "-n", "4", "-P", "incast=many"]) == 2
    assert "not a whole number" in capsys.readouterr().err


def test_check_says_that_it_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["schedule", "check", "halving-doubling", "-n", "6", "--collective", "all-gather"]) == 0
    assert "proved" in capsys.readouterr().out
    assert execute(["schedule", "check", "parameter-server", "-n", "6", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["proved"] is True


def test_check_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from testbed.collective.schedule import *\n"
        "def lazy(c, n, root): return Schedule(c, 'lazy', n, 1, transfers(0, 0, 1, 0, REDUCE))\n"
    )
    assert execute(["schedule", "check", f"{file}:lazy", "-n", "2"]) == 2
    assert "rank 0 ends with chunk 0 lacking the contribution of rank 1" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["export", "import"])
def test_mscclxml_is_refused_by_name(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["schedule", verb, "ring", "-n", "4", "-o", "x.xml"]) == 2
    assert "not supported yet" in capsys.readouterr().err
