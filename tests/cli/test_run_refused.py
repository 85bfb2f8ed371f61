"""`testbed run` where it must not begin: a wrong spec, a directory that is taken, and no root."""

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.runs import Run


def test_a_wrong_spec_ends_with_2_before_anything_is_touched(tmp_path: Path) -> None:
    with Run(tmp_path, topology={"kind": "star", "hosts": 2}) as run:
        assert run.end() == 2
    assert "workers.count: 3 workers on 2 hosts" in run.stderr
    assert not run.directory.exists()


def test_a_directory_that_holds_something_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("precious")
    with Run(tmp_path) as run:
        status = run.end()
    if os.geteuid() == 0:
        assert status == 2
        assert "is not an empty directory, and nothing is ever overwritten" in run.stderr
    assert [path.name for path in run.directory.iterdir()] == ["mine"]


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare (util-linux)")
def test_without_root_it_says_so_and_ends_with_3(tmp_path: Path) -> None:
    prefix = ("unshare", "--user") if os.geteuid() == 0 else ()  # root of nothing is nobody
    with Run(tmp_path, prefix=prefix) as run:
        assert run.end() == 3
    assert run.stderr == "testbed: emulation needs root\n  run it with sudo\n"
    assert not run.directory.exists()
