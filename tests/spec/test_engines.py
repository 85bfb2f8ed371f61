"""What a simulation cannot do is refused by name, where it is written; and what its hosts' CPUs take."""

from pathlib import Path

import pytest

from testbed.spec.errors import SpecErrors
from testbed.spec.reader import read_experiment, read_spec
from testbed.spec.resolved import resolved_text

SPEC = """\
name: small
engine: simulation
topology: {kind: star, hosts: 4}
workers: {count: 4}
transport: {kind: roce}
workload: {size: 64KiB}
switches: {kind: ovs}
"""


def refused(tmp_path: Path, old: str, new: str) -> list[tuple[str, int, int, str]]:
    """The key, line, column and message of each mistake, once a part of the spec is another."""
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC.replace(old, new))
    with pytest.raises(SpecErrors) as caught:
        read_spec(file)
    return [(error.key, error.line, error.column, error.message) for error in caught.value.errors]


@pytest.mark.parametrize(
    ("old", "new", "key", "line", "column", "told"),
    [
        ("kind: ovs", "kind: bmv2", "switches.kind", 7, 18, "is bmv2, which knows real time alone"),
        ("kind: ovs", "controller: own.py", "switches.controller", 7, 24, "own.py is not simulated"),
        (
            "kind: ovs",
            "kind: native, controller: p4runtime",
            "switches.controller",
            7,
            38,
            "p4runtime is not simulated",
        ),
        (
            "size: 64KiB",
            "kind: command, command: ls",
            "workload.kind",
            6,
            18,
            "a program of one's own needs a real host",
        ),
        ("hosts: 4", "hosts: 600", "topology", 3, 11, "gives s0 600 ports"),
    ],
)
def test_what_is_not_simulated_is_told_at_its_place(
    tmp_path: Path, old: str, new: str, key: str, line: int, column: int, told: str
) -> None:
    (tmp_path / "own.py").write_text("")
    found = refused(tmp_path, old, new)
    assert [mistake[:3] for mistake in found] == [(key, line, column)]
    assert told in found[0][3]


def test_of_jobs_each_is_looked_at(tmp_path: Path) -> None:
    jobs = "jobs: {a: {workers: {count: 2}, workload: {kind: command, command: ls}}}\n"
    head = "name: small\nengine: simulation\ntopology: {kind: star, hosts: 4}\n"
    (tmp_path / "spec.yaml").write_text(head + jobs)
    with pytest.raises(SpecErrors, match=r"spec.yaml:4:50: jobs.a.workload.kind: is command"):
        read_spec(tmp_path / "spec.yaml")


def test_the_engine_may_be_swept(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC + "sweep: {engine: [emulation, simulation]}\n")
    assert sorted(point.spec.engine for point in read_experiment(file).points) == ["emulation", "simulation"]


def test_a_byte_may_take_less_than_a_nanosecond(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC + "host: {per_packet: 1.5us, per_byte: 0.08ns}\n")
    spec = read_spec(file)
    assert spec.host is not None
    assert (spec.host.per_packet_ns, spec.host.per_byte_ps) == (1500, 80)
    file.write_text(resolved_text(spec))
    assert read_spec(file).host == spec.host
