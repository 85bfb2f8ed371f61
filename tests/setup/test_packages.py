"""Installing packages keeps services from starting, by a file that is gone afterwards, however the script ends."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("packages")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script with its policy file in a folder of the test's, and with tools that install nothing."""
    for tool, does in (
        ("dpkg-query", "exit 1"),
        ("id", "echo 0"),
        ("apt-get", f"echo started; exec cat {tmp_path}/wait"),
    ):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / tool).chmod(0o755)
    os.mkfifo(tmp_path / "wait")
    copy = tmp_path / "packages"
    copy.write_text(SCRIPT.read_text().replace("/usr/sbin/policy-rc.d", str(tmp_path / "policy")))
    copy.chmod(0o755)
    return copy


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_policy_behind(script: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}"}
    # What started the tests may ignore signals (nohup, a shell's `&`), which a shell could then not trap.
    heeded = ["env", "--default-signal", str(script), "anything"]
    with subprocess.Popen(heeded, stdout=subprocess.PIPE, text=True, env=environment, process_group=0) as process:
        assert process.stdout is not None
        while "started" not in process.stdout.readline():
            assert process.poll() is None
        assert (script.parent / "policy").exists()
        os.killpg(process.pid, number)
        assert process.wait(10) == 128 + number
    assert not (script.parent / "policy").exists()
