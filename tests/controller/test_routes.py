"""What should be installed now: the plan's base, the entries it foresaw for failures, and the base again."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controller.parts import entry, module, plan_json

THERE, HOST = "10.0.1.0/24", "10.0.0.9/32"


@pytest.fixture
def routes() -> Any:
    return module("routes").Routes(plan_json())


def test_it_reads_a_plan_s_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_json()))
    routes = module("routes").Routes.read(path)
    assert (routes.names, routes.salts) == ({1: "s0", 2: "s1"}, {"s0": 77, "s1": 78})


def test_the_base(routes: Any) -> None:
    assert routes.entries("s0", set()) == {
        THERE: entry(THERE, "ecmp", 1, 2, 3, 4),
        HOST: entry(HOST, "single", 9),
    }
    assert routes.foresaw(set())


def test_the_longest_prefix_wins(routes: Any) -> None:
    entries = routes.entries("s0", set())
    assert entries[HOST].priority > entries[THERE].priority > entry("10.0.0.0/8", "single", 1).priority > 0


def test_only_cables_between_switches_count(routes: Any) -> None:
    assert [routes.cable("s0", port) for port in (1, 4)] == [0, 3]
    assert [routes.cable("s1", port) for port in (1, 4)] == [0, 3]
    assert routes.cable("s1", 5) is None, "a host's"
    assert routes.cable("s0", 0xFFFFFFFE) is None, "the switch's own"
    assert routes.cable("s7", 1) is None


def test_what_was_foreseen_takes_the_base_s_place(routes: Any) -> None:
    assert routes.foresaw({2})
    assert routes.entries("s0", {2}) == {**routes.entries("s0", set()), THERE: entry(THERE, "ecmp", 1, 2, 4)}
    assert routes.entries("s1", {2}) == routes.entries("s1", set())


def test_two_failures_that_were_foreseen_together(routes: Any) -> None:
    assert routes.foresaw({1, 0})
    assert routes.entries("s0", {1, 0}) == {
        THERE: entry(THERE, "ecmp", 3),  # not what each cable alone would leave
        HOST: entry(HOST, "single", 9),
        "10.0.2.0/24": entry("10.0.2.0/24", "single"),
    }


def test_two_that_were_not_leave_what_both_leave(routes: Any) -> None:
    assert not routes.foresaw({1, 3})
    assert routes.entries("s0", {1, 3})[THERE] == entry(THERE, "ecmp", 1, 3)
    assert routes.entries("s0", {1, 2, 3})[THERE] == entry(THERE, "ecmp", 1)
    assert routes.entries("s0", {0, 1, 2, 3})[THERE] == entry(THERE, "ecmp"), "nothing is left: drop"


def test_a_failure_nobody_knows_changes_nothing(routes: Any) -> None:
    assert not routes.foresaw({17})
    assert routes.entries("s0", {17}) == routes.entries("s0", set())


def test_after_a_failure_all_is_as_before(routes: Any) -> None:
    before = routes.entries("s0", set())
    for down in ({0}, {0, 1}, {1, 3}):
        routes.entries("s0", down)
    assert routes.entries("s0", set()) == before
