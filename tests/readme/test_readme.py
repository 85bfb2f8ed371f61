"""The README says what the code does: its specs are right, its commands are there, its tables name all there is."""

import re
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest

from testbed.cli import NOT_BUILT, VERBS
from testbed.collective import ALGORITHMS, DEFAULTS
from testbed.results.samples import IterationRow, LinkRow, SwitchRow
from testbed.results.verdict import SENTENCES
from testbed.spec.model import LimitsSpec, Section, Spec, TrafficSpec, WorkloadSpec
from testbed.spec.network_checks import FAULTS
from testbed.spec.reader import read_experiment
from testbed.spec.traffic_checks import TRAFFIC
from testbed.spec.unbuilt import UNBUILT_KEYS, UNBUILT_VALUES
from testbed.spec.words import entries_of, fields, section_of
from testbed.topology import DEFAULT_LINK, TOPOLOGIES
from testbed.training import GRADIENTS
from testbed.transport import TRANSPORTS
from testbed.transport.congestion import CONGESTIONS
from testbed.units import format_bytes, format_duration, format_rate

ROOT = Path(__file__).parents[2]
OWN = ROOT / "experiments" / "own"
README = (ROOT / "README.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
BUILT, _, NOT_YET = README.partition("\n## Not yet\n")
NOT_YET = NOT_YET.partition("\n## ")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def quoted(text: str) -> str:
    """All that stands in backticks, `{`- and comma-separated words apart."""
    return " ".join(re.findall(r"`([^`\n]+)`", text))


def row(key: str) -> str:
    """The row of a table whose first cell names `key`."""
    return next(line for line in README.splitlines() if re.match(rf"\| (?:· )?[^|]*`{re.escape(key)}`[^|]*\|", line))


@pytest.mark.parametrize("text", blocks("yaml"), ids=lambda text: text.split()[1])
def test_specs_are_right(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    spec = tmp_path / "spec.yaml"
    spec.write_text(text)
    assert read_experiment(spec).points


def test_the_tour_is_what_it_says(tmp_path: Path) -> None:
    spec = tmp_path / "tour.yaml"
    spec.write_text(blocks("yaml")[0])
    points = read_experiment(spec).points
    assert len(points) == 2 * 2 * 3, "two congestion controls, two losses, three repeats"


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda path: path.stem)
def test_experiments_are_right(path: Path) -> None:
    assert read_experiment(path).points


@pytest.mark.parametrize("name", ["topology.py", "algorithm.py", "pinned.py"])
def test_code_shown_is_the_file(name: str) -> None:
    shown = next(text for text in blocks("python") if text.startswith(f"# experiments/own/{name}\n"))
    code = (OWN / name).read_text().partition('"""\n\n')[2]
    assert shown == f"# experiments/own/{name}\n{code}"


def test_program_shown_is_the_file() -> None:
    code = (OWN / "cnp_first.p4").read_text()
    assert blocks("p4") == [f"// experiments/own/cnp_first.p4\n{code[code.index('#include') :]}"]


def test_commands_are_there() -> None:
    named = set(re.findall(r"`testbed ([a-z0-9]+)", README)) | set(re.findall(r"^testbed (\w+)", README, re.MULTILINE))
    verbs = {verb.name for verb in VERBS}
    assert named == verbs | set(NOT_BUILT)
    assert not [verb for verb in NOT_BUILT if f"`testbed {verb}`" not in NOT_YET]
    assert not [verb.name for verb in VERBS if util.find_spec(f"testbed.cli.{verb.module}") is None]


def test_files_and_targets_are_there() -> None:
    for path in re.findall(r"(?:experiments|testbed|controller|docs)/[\w/]+\.(?:yaml|py|svg)", README):
        assert (ROOT / path).is_file(), path
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def _keys(section: type[Section]) -> Iterator[str]:
    for key, annotation in fields(section).items():
        yield key
        inner = section_of(annotation) or section_of(entries_of(annotation))
        if inner:
            yield from _keys(inner)


def test_every_key_is_told() -> None:
    words = set(re.findall(r"[\w-]+", quoted(BUILT)))
    assert not set(_keys(Spec)) - words


def test_every_name_is_told() -> None:
    unbuilt = {name for names in UNBUILT_VALUES.values() for name in names}
    built = {*TOPOLOGIES, *DEFAULTS, *ALGORITHMS, *TRANSPORTS, *CONGESTIONS, *GRADIENTS, *FAULTS, *TRAFFIC} - unbuilt
    built |= {name for topology in TOPOLOGIES.values() for name in topology.parameters}
    words = set(re.findall(r"[\w-]+", quoted(BUILT)))
    assert not built - words


def test_what_is_not_yet() -> None:
    names = {name for names in UNBUILT_VALUES.values() for name in names} | {k.split(".")[-1] for k in UNBUILT_KEYS}
    names |= {f"testbed {verb}" for verb in NOT_BUILT}
    assert set(re.findall(r"`([^`]+)`", NOT_YET)) - {"sweep", "testbed run"} == names


def test_defaults() -> None:
    link = DEFAULT_LINK
    values = format_rate(link.rate_bps), format_duration(link.delay_ns), format_bytes(link.queue_bytes), link.mtu_bytes
    assert f"| {', '.join(map(str, values))} |" in row("rate")
    limits, work = LimitsSpec(), WorkloadSpec()
    assert f"| {format_duration(limits.wall_ns)}, {format_duration(limits.stall_ns)} |" in row("limits")
    assert f"| {work.iterations}, {work.warmup}, {work.compute_ns} |" in row("iterations")
    assert f"| required, `{work.dtype}`, {work.root} |" in row("size")
    packet = TrafficSpec.model_validate({"kind": "constant", "from": "h0", "to": "h1", "rate": "1Gbps"}).packet_bytes
    assert f"{packet}B" in row("traffic")
    assert f"| {Spec.model_fields['seed'].default} |" in row("seed")


def test_verdict_reasons() -> None:
    told = {name for line in README.splitlines() if line.startswith("| `") for name in re.findall(r"`([a-z-]+)`", line)}
    assert set(SENTENCES) <= told


def test_run_directory() -> None:
    for file in ("result.json", "iterations.csv", "links.csv", "switches.csv", "spec.yaml", "plan.json", "sweep.csv"):
        assert f"`{file}`" in README
    assert "wrong" in IterationRow.__slots__
    assert "max_queue_bytes" in LinkRow.__slots__
    assert "dropped" in SwitchRow.__slots__


def test_messages_are_the_code_s() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "testbed").rglob("*.py"))
    table = README.partition("\n## When something is wrong\n")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert messages
    for message in messages:
        for part in message.split(" … "):
            assert part.removesuffix(" ID") in sources, message


def test_links_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", README, re.M)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", README)) <= headings


@pytest.mark.parametrize("path", ["README.md", "CHANGELOG.md", *(f"experiments/own/{p.name}" for p in OWN.glob("*.*"))])
def test_no_place_of_ours(path: str) -> None:
    text = (ROOT / path).read_text()
    assert not re.findall(r"(?:^|[\s`\"'(])/[\w.-]+/", text), "an absolute path"
    assert "://" not in text


def test_changelog() -> None:
    assert CHANGELOG.startswith("# Changelog\n")
    assert re.search(r"^## \[0\.1\.0\] - unreleased$", CHANGELOG, re.MULTILINE)
    assert re.search(r"^### Added$", CHANGELOG, re.MULTILINE)
