"""What the machine lacks is found by trying, part by part, and told with a line that mends it."""

import pytest

from testbed.cli import execute
from testbed.doctor import facts


@pytest.mark.root
@pytest.mark.beside
def test_each_part_of_the_kernel_is_tried_by_itself() -> None:
    parts = {
        "loopback": "ip link set lo up",
        "nonsense": "tc qdisc add dev lo root nonsense",
        "again": "ip link show lo",
    }
    assert facts._lacking(parts) == ["nonsense"]


def test_where_nothing_can_be_tried_everything_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "environment", lambda: {"PATH": ""})
    assert facts._lacking({"a": "true", "b": "true"}) == ["a", "b"]
    assert not facts.netem()


def test_tools_are_found_where_users_paths_do_not_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = {fact.name: fact for fact in facts.look()}
    assert found["ip"].found


def test_a_mend_line_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lack = facts.Fact("x[bold]", False, "not installed", "cost", "pip install 'a[b]'", needed=True)
    monkeypatch.setattr(facts, "look", lambda: [lack])
    assert execute(["doctor"]) == 3
    printed = capsys.readouterr().out
    assert "x[bold]" in printed
    assert "pip install 'a[b]'" in printed
