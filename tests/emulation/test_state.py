"""The registry: who is alive, what survives, and that a record is there from the first instant."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.emulation.state import ProcessKey, RunState, person, runs, unborn
from testbed.errors import MachineLacks, RunFailed


def a_process(*argv: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(argv or ("sleep", "60"))


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    state = RunState.create("run", "tour", tmp_path / "out", root=tmp_path)
    state.add_namespaces(("tb-abc123", "tb-abc123-h0"))
    state.add_child("fabric", os.getpid())
    again = RunState.load(state.directory)
    assert again.record == state.record
    assert again.record.namespaces == ("tb-abc123", "tb-abc123-h0")
    assert again.record.children == {"fabric": ProcessKey.of(os.getpid())}
    assert again.alive


def test_runs_are_listed_oldest_first_and_foreign_entries_passed_over(tmp_path: Path) -> None:
    ids = [RunState.create("up", f"n{i}", tmp_path, root=tmp_path).run_id for i in range(3)]
    (tmp_path / "abcdef").mkdir()  # looks like a run, holds no record
    (tmp_path / "notes.txt").write_text("mine")
    assert [state.run_id for state in runs(tmp_path)] == ids


def test_an_ended_owner_is_dead_even_as_a_zombie() -> None:
    child = a_process("true")
    key = ProcessKey.of(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet reaped
    assert not key.alive
    child.wait()
    assert not key.alive


def test_another_process_under_the_same_number_is_not_the_owner() -> None:
    key = ProcessKey.of(os.getpid())
    assert key.alive
    assert not ProcessKey(key.pid, key.start_ticks - 1).alive


def test_a_process_name_with_blanks_and_brackets_does_not_confuse(tmp_path: Path) -> None:
    program = tmp_path / "a ) b"
    program.symlink_to("/bin/sleep")
    child = a_process(str(program), "60")
    try:
        assert ProcessKey.of(child.pid).alive
    finally:
        child.kill()
        child.wait()


def test_an_owner_killed_while_registering_leaves_something_to_find(tmp_path: Path) -> None:
    child = a_process()
    key = ProcessKey.of(child.pid)
    half_made = tmp_path / f".zzzzzz.{key.pid}.{key.start_ticks}"
    half_made.mkdir()
    assert list(unborn(tmp_path)) == []
    child.kill()
    child.wait()
    assert list(unborn(tmp_path)) == [half_made]
    assert list(runs(tmp_path)) == []


def test_a_broken_record_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunFailed, match=str(tmp_path)):
        RunState.load(tmp_path)


def test_progress_is_for_others_to_read(tmp_path: Path) -> None:
    state = RunState.create("run", "tour", tmp_path, root=tmp_path)
    assert state.progress == ""
    state.set_progress("iteration 3 of 10")
    assert RunState.load(state.directory).progress == "iteration 3 of 10"


def test_removal_leaves_nothing(tmp_path: Path) -> None:
    root = tmp_path / "registry"
    first, second = (RunState.create("run", "tour", tmp_path, root=root) for _ in range(2))
    (first.directory / "ovs").mkdir()
    (first.directory / "ovs" / "conf.db").write_text("x")
    first.remove()
    assert [state.run_id for state in runs(root)] == [second.run_id]
    second.remove()
    assert list(tmp_path.iterdir()) == []


def test_under_sudo_the_person_is_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "1234")
    assert person() == 1234
    monkeypatch.setattr(os, "getuid", lambda: 77)
    assert person() == 77


def test_without_the_right_to_write_the_machine_lacks_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(MachineLacks) as caught:
        RunState.create("run", "tour", tmp_path, root=tmp_path / "run")
    assert caught.value.exit_status == 3
    assert "sudo" in caught.value.hint


def test_the_record_is_there_before_the_directory_has_its_name(tmp_path: Path) -> None:
    """Whoever sees the run's directory can read its record, at any instant."""
    script = (
        "import sys; from pathlib import Path; from testbed.emulation.state import RunState\n"
        "root = Path(sys.argv[1])\n"
        "for _ in range(200): RunState.create('run', 'x', root, root=root)"
    )
    child = a_process(sys.executable, "-c", script, str(tmp_path))
    while child.poll() is None:
        for directory in tmp_path.glob("[a-z0-9]*"):
            RunState.load(directory)
    assert child.returncode == 0
    assert len(list(runs(tmp_path))) == 200
