"""A network that stays: up, exec, status, down, and clean when its keeper was killed."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testbed.emulation import keeper
from testbed.emulation.network import CONTROL
from testbed.emulation.state import RunState
from testbed.errors import RunFailed
from testbed.run.channel import Channel

from .builders import small_plan
from .traces import everything_of

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow]


def verb(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "testbed", *arguments]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def a_network() -> Iterator[RunState]:
    state, times = keeper.bring_up(small_plan("star", hosts=2, driver="netcore"))
    assert times.total_s > 0
    yield state
    if state.alive:
        keeper.bring_down(state)
    assert everything_of(state) == []


@pytest.fixture
def standing() -> Iterator[RunState]:
    with a_network() as state:
        yield state


@pytest.fixture(scope="module")
def lasting() -> Iterator[RunState]:
    """One that several tests use, and leave up."""
    with a_network() as state:
        yield state
        assert state.alive


def test_a_program_runs_on_a_host_as_if_it_were_started_there(lasting: RunState) -> None:
    run = lasting.run_id
    assert verb("exec", "--run", run, "h0", "--", "ping", "-c", "2", "-i", "0.1", "10.0.0.2").returncode == 0
    assert verb("exec", "--run", run, "h1", "--", "sh", "-c", "exit 7").returncode == 7
    echoed = verb("exec", "--run", run, "h1", "--", "cat", stdin="through and through")
    assert echoed.stdout == "through and through"
    addresses = verb("exec", "--run", run, "h1", "--", "ip", "-br", "address")
    assert "h1-eth0" in addresses.stdout
    assert "10.0.0.2/8" in addresses.stdout


def test_a_host_that_is_not_there_is_a_usage_error(lasting: RunState) -> None:
    done = verb("exec", "--run", lasting.run_id, "h7", "--", "true")
    assert done.returncode == 2
    assert "no host 'h7'" in done.stderr
    assert "one of: h0, h1" in done.stderr


@pytest.mark.usefixtures("one_cleans")
def test_status_lists_it_and_down_ends_it(standing: RunState) -> None:
    (row,) = [row for row in json.loads(verb("status", "--json").stdout) if row["run_id"] == standing.run_id]
    assert (row["kind"], row["name"], row["state"]) == ("up", "small", "live")
    left = verb("clean")
    assert left.returncode == 0
    assert f"left {standing.run_id} (small): it runs" in left.stdout
    down = verb("down", "--run", standing.run_id)
    assert (down.returncode, down.stderr) == (0, "")
    assert not standing.directory.exists()
    assert verb("down", "--run", standing.run_id).returncode == 2


def test_who_asks_and_goes_away_leaves_the_network_up(lasting: RunState) -> None:
    control = lasting.directory / CONTROL
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(control))
    channel = Channel.connect(control, role="operator")
    channel.send({"op": "swap", "id": 1, "switch": "s0", "program": "spray", "entries": None, "keep": False})
    channel.close()
    done = verb("p4", "swap", "--run", lasting.run_id, "s0", "spray")
    assert done.returncode == 2
    assert "s0 is a switch of kind ovs" in done.stderr
    assert lasting.alive


def test_nonsense_on_its_socket_is_answered_and_leaves_the_network_up(lasting: RunState) -> None:
    control = lasting.directory / CONTROL
    for first in (b"swap s0\n", b"[]\n", b"{}\n"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(control))
            stranger.sendall(first)
            assert "error" in json.loads(stranger.recv(1000))
    channel = Channel.connect(control, role="operator")
    for asked in ({"op": "swap"}, {"op": "swap", "switch": 5, "program": None, "entries": [], "keep": 1}):
        answer = channel.request(asked)["refused"]
        assert (answer["status"], "a request to swap has id, switch, program" in answer["error"]) == (2, True)
    channel.close()
    assert lasting.alive


@pytest.mark.parametrize("child", ["fabric", "ovs-vswitchd"])
def test_a_network_of_which_a_process_died_is_broken(child: str, standing: RunState) -> None:
    run, key = standing.run_id, standing.record.children[child]
    os.kill(key.pid, signal.SIGKILL)
    while key.alive:
        pass
    (row,) = [row for row in json.loads(verb("status", "--json").stdout) if row["run_id"] == run]
    assert (row["state"], row["died"]) == ("broken", [child])
    assert f"broken: {child} died; `testbed down`" in verb("status").stdout
    done = verb("exec", "--run", run, "h0", "--", "true")
    assert done.returncode == 1
    assert f"network {run} is broken: {child} died" in done.stderr
    assert verb("down", "--run", run).returncode == 0


@pytest.mark.usefixtures("one_cleans")
def test_a_killed_keeper_takes_its_children_along_and_clean_does_the_rest(standing: RunState) -> None:
    os.kill(standing.record.owner.pid, signal.SIGKILL)
    while standing.alive:
        pass
    would = verb("clean", "--dry-run")
    assert f"would remove {standing.run_id} (small)" in would.stdout
    assert standing.directory.exists()
    assert f"removing {standing.run_id} (small)" in verb("clean").stdout
    assert not standing.directory.exists()


def test_a_network_that_cannot_come_up_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise RunFailed("no room", hint="make some")

    monkeypatch.setattr("testbed.emulation.interfaces.make_veths", fail)
    with pytest.raises(RunFailed, match="no room") as caught:
        keeper.bring_up(small_plan("star", hosts=2, driver="netcore"))
    assert caught.value.hint == "make some"
