"""`testbed p4 run PROG --p4runtime ADDR:PORT`: any client drives a switch between real interfaces."""

import os
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from testbed.cli import execute
from testbed.dataplane.p4runtime.server import P4RuntimeServer
from testbed.errors import RunFailed
from tests.netcore.rig import run
from tests.netcore.veths import veths
from tests.p4runtime.rig import EVERYTHING

LIMIT_S = 60
NOTHING: Any = None  # a datapath that is not asked


@pytest.mark.root
@pytest.mark.beside
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces and packet sockets")
def test_a_client_fills_tables_and_talks_by_packets() -> None:
    with veths(2) as (middle, leaves):
        run("ip", "-n", middle, "link", "set", "lo", "up")
        inside = ["nsenter", f"--net=/run/netns/{middle}", sys.executable, "-m"]
        ports = [word for leaf in leaves for word in ("--port", f"{leaf.number + 1}={leaf.interface}")]
        options = [str(EVERYTHING), *ports, "--p4runtime", "127.0.0.1:0", "--json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([*inside, "testbed", "p4", "run", *options], **pipes)
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert "listens for P4Runtime at 127.0.0.1:" in said, said + process.stderr.read()
            assert "runs on" in process.stderr.readline()
            address, hosts = said.split(" at ")[1].split(",")[0], [leaf.netns for leaf in leaves]
            driver = subprocess.run(
                [*inside, "tests.p4runtime.drives", address, *hosts], **pipes, timeout=2 * LIMIT_S, check=False
            )
            assert (driver.returncode, driver.stdout) == (0, "driven\n"), driver.stderr
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
            process.wait(LIMIT_S)
    assert (process.returncode, errors) == (0, "")
    assert '"punted": 1' in out


@pytest.mark.parametrize("address", ["9559", "host", ":9559", "host:port", "host:70000"])
def test_an_address_is_a_host_and_a_port(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["p4", "run", str(EVERYTHING), "--port", "1=x", "--p4runtime", address]) == 2
    assert "an address is written ADDR:PORT" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = P4RuntimeServer([], NOTHING, f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(
            RunFailed, match=r"cannot listen at 127\.0\.0\.1:\d+: another process listens there"
        ) as error:
            server.start()
    assert error.value.hint == "name another port, or 0 for one that is free"
    assert capfd.readouterr().err == "", "gRPC logs nothing of its own"


@pytest.mark.parametrize("address", ["192.0.2.1:0", "no.such.host.invalid:0"])
def test_an_address_of_another_machine_is_told(address: str) -> None:
    with pytest.raises(RunFailed, match=f"P4Runtime cannot listen at {address}: [A-Z]"):
        P4RuntimeServer([], NOTHING, address).start()


def test_entries_are_a_files_or_a_clients(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["p4", "run", "l3_ecmp", "--port", "1=x", "--p4runtime", "127.0.0.1:0", "--entries", "x.stf"]
    assert execute(words) == 2
    assert "--entries and --p4runtime" in capsys.readouterr().err


def test_without_its_packages_it_is_said_which(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("testbed.dataplane.p4runtime")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "finsy.proto", None)
    assert execute(["p4", "run", "l3_ecmp", "--port", "1=x", "--p4runtime", "127.0.0.1:0"]) == 3
    said = capsys.readouterr().err
    assert "P4Runtime needs the Python packages finsy and grpcio" in said
    assert "pip install 'testbed[p4runtime]'" in said
