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
