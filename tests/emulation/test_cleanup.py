"""After `kill -9` at any moment, one clean-up leaves nothing of the run, and everything else as it was."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.emulation import cleanup, namespaces
from testbed.emulation.state import ProcessKey, RunState, runs

from .traces import everything_of

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("one_cleans")]

OWNER = """
import sys, time
from pathlib import Path
from tests.emulation.builders import small_plan
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState

out = Path(sys.argv[1])
plan = small_plan("leaf-spine", spines=2, leaves=2, hosts=2, driver="netcore")
state = RunState.create("run", "victim", out)
network = EmulatedNetwork(plan, state, out)
network.start()
network.net.get("h0").cmd("sleep 1000 &")
(state.directory / "up").touch()
time.sleep(1000)
"""
LIMIT_S = 30.0


def directory_of(owner: int) -> Path | None:
    return next((state.directory for state in runs() if state.record.owner.pid == owner), None)


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.001)


def leftover_of(run_id: str) -> cleanup.Leftover:
    return next(each for each in cleanup.survey(everyone=True).leftovers if each.state.run_id == run_id)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that brings a network up and stays."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], env=environment)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def strangers() -> Iterator[Callable[[], bool]]:
    """Things of somebody else's that look like ours; the function says whether all are still there."""
    subprocess.run(["ip", "-batch", "-"], input="netns add tb-server\nnetns add lab-h0\n", text=True, check=True)
    pair = "link add name tbx-eth1 netns tb-server type veth peer name h0-eth0 netns lab-h0\n"
    subprocess.run(["ip", "-batch", "-"], input=pair, text=True, check=True)
    program = subprocess.Popen(namespaces.entering("tb-server", ["sleep", "1000"]))
    key = ProcessKey.of(program.pid)

    def intact() -> bool:
        links = subprocess.run(["ip", "-n", "lab-h0", "link"], capture_output=True, text=True, check=True).stdout
        return key.alive and "h0-eth0" in links and namespaces.path("tb-server").exists()

    yield intact
    program.kill()
    program.wait()
    subprocess.run(["ip", "-batch", "-"], input="netns del tb-server\nnetns del lab-h0\n", text=True, check=True)


MOMENTS: dict[str, Callable[[Path], object]] = {
    "registered": lambda directory: directory.exists(),
    "namespaces": lambda directory: namespaces.path(f"tb-{directory.name}-h0").exists(),
    "children": lambda directory: (directory / "fabric.json").exists(),
    "database": lambda directory: (directory / "ovs" / "db.sock").exists(),
    "bridges": lambda directory: (directory / "ovs" / "leaf1.mgmt").exists(),
    "up": lambda directory: (directory / "up").exists(),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_leaves_nothing_after_one_clean_up(
    moment: str, owner: "subprocess.Popen[bytes]", strangers: Callable[[], bool]
) -> None:
    wait_for(lambda: directory_of(owner.pid))
    directory = directory_of(owner.pid)
    assert directory is not None
    wait_for(lambda: MOMENTS[moment](directory))
    owner.kill()
    owner.wait()
    state = RunState.load(directory)
    leftover = leftover_of(state.run_id)
    assert cleanup.remove(leftover) == []
    assert everything_of(state) == []
    assert not state.directory.exists()
    assert strangers()


def test_a_live_run_is_left_alone(owner: "subprocess.Popen[bytes]") -> None:
    wait_for(lambda: directory_of(owner.pid))
    directory = directory_of(owner.pid)
    assert directory is not None
    wait_for(lambda: MOMENTS["up"](directory))
    survey = cleanup.survey(everyone=True)
    assert directory.name in {state.run_id for state in survey.live}
    assert directory.name not in {leftover.state.run_id for leftover in survey.leftovers}
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert cleanup.remove(leftover_of(directory.name)) == []


def test_other_peoples_leftovers_need_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "4242")
    state = RunState.create("run", "theirs", tmp_path, root=tmp_path)
    monkeypatch.setattr(ProcessKey, "alive", False)
    monkeypatch.setenv("SUDO_UID", "4243")
    assert [other.run_id for other in cleanup.survey(root=tmp_path).others] == [state.run_id]
    assert cleanup.survey(root=tmp_path).leftovers == ()
    assert len(cleanup.survey(everyone=True, root=tmp_path).leftovers) == 1


def test_a_record_cannot_make_clean_up_delete_a_strangers_namespace(
    tmp_path: Path, strangers: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = RunState.create("run", "forged", tmp_path, root=tmp_path)
    state.add_namespaces(("tb-server", "lab-h0"))
    monkeypatch.setattr(ProcessKey, "alive", False)
    (leftover,) = cleanup.survey(root=tmp_path).leftovers
    assert (leftover.pids, leftover.namespaces) == ((), ())
    monkeypatch.undo()
    assert cleanup.remove(leftover) == []
    assert strangers()
    with pytest.raises(ValueError, match="lab-h0"):
        namespaces.delete(["lab-h0"])


def test_owners_killed_while_registering_are_swept_up(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    key = ProcessKey.of(child.pid)
    child.kill()
    child.wait()
    half_made = tmp_path / f".zzzzzz.{key.pid}.{key.start_ticks}"
    half_made.mkdir()
    (half_made / "run.json").write_text("{")
    cleanup.remove_unborn(tmp_path)
    assert list(tmp_path.iterdir()) == []
