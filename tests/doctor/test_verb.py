"""`testbed doctor`: what is found and what it costs where it is not; it measures once, and again when asked."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import execute
from testbed.doctor import capacity, facts, store
from testbed.doctor.facts import Fact
from testbed.emulation.state import runs
from testbed.errors import MachineLacks, RunFailed
from testbed.plan.model import Carried
from testbed.plan.planner import DEFAULT_CAPABILITIES

FINE = Fact("root", True, "uid 0", "no emulation", "run it with sudo", needed=True)
NICE = Fact("tshark", False, "not installed", "captures cannot be cross-checked", "apt-get install tshark")
LACKS = Fact("htb", False, "refused by this kernel", "hosts cannot be held back", "another kernel", needed=True)
MEASURED = replace(
    DEFAULT_CAPABILITIES,
    packet_hops_per_s=123_456.0,
    native=Carried(654_321.0, 12_000),
    bmv2=Carried(7_890.0, 300_000, 2_000_000),
)


@pytest.fixture
def measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each measurement, which is none."""
    made: list[str] = []

    def measure() -> object:
        made.append("measured")
        return MEASURED

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(capacity, "measure", measure)
    return made


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what is found."""
    return lambda *found: monkeypatch.setattr(facts, "look", lambda: list(found))


def test_it_measures_once_and_again_when_asked(
    measurements: list[str], machine: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(FINE, NICE)
    for arguments, so_far in ((["doctor"], 1), (["doctor"], 1), (["doctor", "--again"], 2)):
        assert execute(arguments) == 0
        assert len(measurements) == so_far
    out = capsys.readouterr().out
    assert "123,456" in out
    assert "cross-checked" in out
    assert "run it with sudo" not in out, "what is there needs no mending"


def test_it_tells_what_each_kind_of_switch_carries(
    measurements: list[str],
    machine: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine(FINE)
    assert execute(["doctor"]) == 0
    *_, ovs, native, bmv2 = (line.split() for line in capsys.readouterr().out.splitlines())
    assert ovs == ["ovs,", "user", "datapath", "123,456", "250", "us", "1,000", "us", "the", "fabric"]
    assert native == ["native", "654,321", "12", "us", "no", "time", "the", "fabric"]
    assert bmv2 == ["bmv2", "7,890", "300", "us", "2,000", "us", "the", "fabric"]
    monkeypatch.setattr(capacity, "measure", lambda: replace(MEASURED, native=None, bmv2=None))
    assert execute(["doctor", "--again"]) == 0
    *_, native, bmv2 = (line.split() for line in capsys.readouterr().out.splitlines())
    assert native == ["native", "no", "C", "compiler"]
    assert bmv2 == ["bmv2", "not", "installed"]
    assert len(measurements) == 1


@pytest.mark.parametrize("compiler", ["/usr/bin/cc", None])
def test_native_switches_are_measured_where_there_is_a_compiler(
    compiler: str | None, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[str] = []

    def carried(_unknown: object, kind: Any) -> Carried:
        kinds.append(kind.kind)
        return Carried(1000.0 * len(kinds), 7, 8)

    machine(FINE)
    monkeypatch.setattr(capacity, "_carried", carried)
    monkeypatch.setattr(facts, "compiler", lambda: compiler)
    for look in ("kernel_datapath", "netem", "tun_segmentation"):
        monkeypatch.setattr(facts, look, lambda: False)
    measured = capacity.measure()
    assert (measured.packet_hops_per_s, measured.path_excess_ns, measured.switch_ns) == (1000, 7, 8)
    assert measured.native == (Carried(2000, 7, 8) if compiler else None)
    assert kinds == (["ovs", "native"] if compiler else ["ovs"])


def test_as_json(measurements: list[str], machine: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    machine(FINE, NICE)
    assert execute(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "facts": [asdict(FINE), asdict(NICE)],
        "capabilities": asdict(MEASURED),
    }
    assert len(measurements) == 1


def test_what_is_needed_and_lacking_ends_with_3_and_nothing_is_measured(
    measurements: list[str], machine: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(FINE, LACKS)
    assert execute(["doctor"]) == 3
    out = capsys.readouterr().out
    assert "NEEDED" in out
    assert "another kernel" in out
    assert execute(["doctor", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["capabilities"] is None
    assert measurements == []


def test_every_lack_has_a_cost_and_a_mend() -> None:
    found = facts.look()
    assert len({fact.name for fact in found}) == len(found)
    for fact in found:
        assert fact.detail
        assert fact.found or (fact.cost and fact.mend), fact


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root (network namespaces)")
def test_looking_leaves_nothing() -> None:
    def interfaces() -> str:
        return subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, timeout=10, check=True).stdout

    before = interfaces()
    facts.look()
    assert "testbed-probe" not in before + interfaces()


def test_a_machine_that_was_measured_is_not_measured_for_a_run(
    measurements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert [capacity.capabilities(said.append) for _ in range(2)] == [MEASURED, MEASURED]
    assert (len(measurements), len(said)) == (1, 1)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineLacks, match="emulation needs root"):
        capacity.capabilities(said.append)
    assert store.load_capabilities() == MEASURED


def test_a_lack_ends_the_measurement_before_it_begins(machine: Callable[..., None]) -> None:
    machine(FINE, LACKS)
    with pytest.raises(MachineLacks, match=r"htb: refused by this kernel \(hosts cannot be held back\)") as caught:
        capacity.measure()
    assert caught.value.hint == "another kernel"


@pytest.mark.root
@pytest.mark.beside
@pytest.mark.slow
def test_a_measurement_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RunFailed("ranks [0] did not start")

    monkeypatch.setattr("testbed.run.conductor.Conductor.welcome_ranks", fail)
    with pytest.raises(RunFailed, match="did not start"):
        capacity.measure()
    assert [state for state in runs() if state.record.owner.pid == os.getpid()] == []
