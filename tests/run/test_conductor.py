"""Who must be alive, who may go, and how a wait that has a limit says what it waited for."""

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from testbed.errors import RunFailed
from testbed.run.channel import Channel, Hub, Message
from testbed.run.conductor import Conductor, LimitReached
from tests.run.ranks import DIE, LIMIT_S, FakeRanks, Script, obedient, ready

SHORT_S = 0.05


def killed(victim: int, reports_first: bool = False) -> Script:
    """A script in which one rank dies when it is told to prepare."""

    def script(rank: int, order: Message) -> Iterable[Message]:
        if rank == victim and order["op"] == "prepare":
            return [ready(rank, order), DIE] if reports_first else [DIE]
        return obedient(rank, order)

    return script


def prepare(conductor: Conductor, iteration: int = 0) -> dict[int, Message]:
    conductor.tell_ranks({"op": "prepare", "iteration": iteration})
    return conductor.gather("ready", "ranks that are not ready", LIMIT_S, iteration=iteration)


def test_notices_of_all_ranks_and_of_the_right_iteration(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 3) as ranks:
        ranks.conductor.tell_ranks({"op": "prepare", "iteration": 8})  # nobody waits for this one
        assert prepare(ranks.conductor, 9) == {r: {"event": "ready", "rank": r, "iteration": 9} for r in range(3)}


def test_a_lost_rank_is_named_at_once(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 3, killed(1)) as ranks:
        began = time.monotonic()
        with pytest.raises(RunFailed, match=r"rank 1 on h1 is gone \(it died or was killed\)") as caught:
            prepare(ranks.conductor)
        assert caught.value.hint == "see logs/worker.log"
        assert time.monotonic() - began < 5


def test_a_rank_that_goes_after_its_last_word_is_lost_too(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 2, killed(1, reports_first=True)) as ranks:
        ranks.conductor.tell_ranks({"op": "prepare", "iteration": 0})
        with pytest.raises(RunFailed, match="rank 1 on h1 is gone"):
            ranks.conductor.until(lambda: False, lambda: "anything", LIMIT_S)
        assert ranks.conductor.notices["ready"][-1][1]["iteration"] == 0


def test_a_rank_that_cannot_go_on_says_why(tmp_path: Path) -> None:
    def script(rank: int, order: Message) -> Iterable[Message]:
        return [{"event": "failed", "reason": "no buffers"}] if rank else obedient(rank, order)

    with FakeRanks(tmp_path, 2, script) as ranks, pytest.raises(RunFailed, match="rank 1 on h1 failed: no buffers"):
        prepare(ranks.conductor)


def test_a_planned_death_is_no_loss(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 3, killed(1)) as ranks:
        ranks.conductor.planned_deaths.add(1)
        ranks.conductor.ranks[1].send({"op": "prepare", "iteration": 0})
        assert set(prepare(ranks.conductor)) == {0, 2}
        ranks.conductor.until(lambda: ranks.conductor.ranks[1].closed, lambda: "rank 1's end", LIMIT_S)
        assert set(prepare(ranks.conductor, 1)) == {0, 2}


def test_who_waits_in_vain_is_told_why_long_before_the_limit(tmp_path: Path) -> None:
    def script(rank: int, order: Message) -> Iterable[Message]:
        return () if rank else obedient(rank, order)

    with FakeRanks(tmp_path, 2, script) as ranks:
        conductor = ranks.conductor
        conductor.lose(range(5, 8), "others were cut off", 0)
        conductor.lose(range(2), "the cable was cut", 0.05)
        conductor.tell_ranks({"op": "prepare", "iteration": 0})
        began = time.monotonic()
        with pytest.raises(LimitReached) as caught:
            conductor.gather("ready", "ranks that are not ready", LIMIT_S, iteration=0)
        assert caught.value.message == "the cable was cut: ranks that are not ready: rank 1 on h1"
        assert 0.05 <= time.monotonic() - began < LIMIT_S / 2


def test_a_lost_controller_is_remembered_and_the_run_goes_on(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 2) as ranks:
        controller = Channel.connect(ranks.hub.path, "controller", name="controller")
        ranks.conductor.welcome("controller", LIMIT_S, lambda: None)
        controller.close()
        ranks.conductor.until(lambda: ranks.conductor.lost != [], lambda: "the loss", LIMIT_S)
        assert set(prepare(ranks.conductor)) == {0, 1}
        assert ranks.conductor.lost == ["controller"]


@pytest.mark.parametrize(
    ("said", "lost", "notes"),
    [
        ({"event": "installed", "switches": 4, "down": []}, [], []),
        ({"event": "links", "down": [3], "foreseen": True}, [], []),
        (
            {"event": "links", "down": [3, 4], "foreseen": False},
            [],
            ["no route was planned for cables [3, 4] being down together"],
        ),
        ({"event": "switch-lost", "switch": "s0"}, ["switch s0 (the controller lost it)"], []),
        ({"event": "refused", "switch": "s0", "type": 4, "code": 1}, ["a flow that switch s0 refused"], []),
        (
            {"event": "failed", "handler": "port_changed", "reason": "own.py:7: KeyError: 3"},
            ["the controller's port_changed (own.py:7: KeyError: 3; logs/controller.log)"],
            [],
        ),
    ],
)
def test_what_the_controller_says_is_held_against_the_run_or_told(
    said: Message, lost: list[str], notes: list[str], tmp_path: Path
) -> None:
    with FakeRanks(tmp_path, 1) as ranks:
        controller = Channel.connect(ranks.hub.path, "controller", name="controller")
        ranks.conductor.welcome("controller", LIMIT_S, lambda: None)
        controller.send(said)
        controller.send({"event": "installed"})
        controller.close()
        ranks.conductor.until(lambda: ranks.conductor.lost[-1:] == ["controller"], lambda: "its end", LIMIT_S)
        assert (ranks.conductor.lost[:-1], ranks.conductor.notes) == (lost, notes)


def test_a_fabric_that_fails_says_why(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 1) as ranks:
        fabric = Channel.connect(ranks.hub.path, "fabric")
        ranks.conductor.welcome("fabric", LIMIT_S, lambda: None)
        fabric.send({"event": "failed", "reason": "a thread held it"})
        fabric.close()
        with pytest.raises(RunFailed, match="fabric failed: a thread held it"):
            ranks.conductor.until(lambda: False, lambda: "its end", LIMIT_S)


def test_others_are_heard_while_one_is_asked(tmp_path: Path) -> None:
    def script(rank: int, order: Message) -> Iterable[Message]:
        if order["op"] == "counters":
            yield {"event": "ready", "rank": rank, "iteration": 5}
            yield {"id": order["id"], "counters": {"sent_packets": 7}}
        elif order["op"] == "progress":
            yield {"id": order["id"], "error": "what a question"}

    with FakeRanks(tmp_path, 2, script) as ranks:
        conductor = ranks.conductor
        assert conductor.ask(conductor.ranks[1], {"op": "counters"}, LIMIT_S)["counters"] == {"sent_packets": 7}
        assert conductor.notices["ready"].pop()[1] == {"event": "ready", "rank": 1, "iteration": 5}
        with pytest.raises(RunFailed, match="rank 0 on h0: what a question"):
            conductor.ask(conductor.ranks[0], {"op": "progress"}, LIMIT_S)
        with pytest.raises(LimitReached, match="rank 0 on h0 to answer 'nothing'"):
            conductor.ask(conductor.ranks[0], {"op": "nothing"}, SHORT_S)
        conductor.check = lambda: (_ for _ in ()).throw(RunFailed("ovs-vswitchd was killed by SIGKILL"))
        with pytest.raises(RunFailed, match="ovs-vswitchd was killed"):
            conductor.ask(conductor.ranks[0], {"op": "counters"}, LIMIT_S)


@pytest.mark.parametrize("role", ["fabric", "generator"])
def test_without_these_there_is_no_run(role: str, tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 1) as ranks:
        child = Channel.connect(ranks.hub.path, role)
        ranks.conductor.welcome(role, LIMIT_S, lambda: None)
        child.close()
        with pytest.raises(RunFailed, match=f"the {role} is gone") as caught:
            ranks.conductor.until(lambda: False, lambda: "anything", LIMIT_S)
        assert caught.value.hint == f"see logs/{role}.log"


def test_a_limit_says_who_is_missing(tmp_path: Path) -> None:
    def script(rank: int, order: Message) -> Iterable[Message]:
        return [] if order["op"] == "prepare" and rank in (1, 2) else obedient(rank, order)

    with FakeRanks(tmp_path, 4, script) as ranks:
        ranks.conductor.tell_ranks({"op": "prepare", "iteration": 0})
        ranks.conductor.until(lambda: len(ranks.conductor.notices["ready"]) == 2, lambda: "the others", LIMIT_S)
        with pytest.raises(LimitReached) as caught:
            ranks.conductor.gather("ready", "ranks that are not ready", SHORT_S, iteration=0)
        assert caught.value.message == (
            "nothing came within 0.05 s: ranks that are not ready: rank 1 on h1, rank 2 on h2"
        )
        assert ranks.conductor.waiting_for() == "; ".join(f"rank {r} on h{r}: rank {1 - r}" for r in range(4))


def test_the_wall_limit_ends_a_run_that_would_have_gone_on(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 1, wall_limit_s=SHORT_S) as ranks:
        with pytest.raises(LimitReached, match=r"limit of 0\.05 s of real time was reached: a miracle") as caught:
            ranks.conductor.until(lambda: False, lambda: "a miracle", LIMIT_S)
        assert "limits.wall" in caught.value.hint


def test_what_is_due_happens_while_it_waits(tmp_path: Path) -> None:
    instants = [time.monotonic() + wait for wait in (0.0, 0.02, 0.04)]
    happened = []
    with FakeRanks(tmp_path, 1) as ranks:
        conductor = ranks.conductor
        conductor.due = lambda: instants[0] - time.monotonic() if instants else float("inf")
        conductor.on_due = lambda: happened.append(time.monotonic() - instants.pop(0))
        conductor.until(lambda: len(happened) == 3, lambda: "what is due", LIMIT_S)
    assert min(happened) >= 0


def test_ranks_that_do_not_start_are_named(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "c")
    child = Channel.connect(hub.path, "rank", rank=1, name="rank 1 on h1")
    with pytest.raises(RunFailed, match=r"ranks \[0, 2\] did not start within 0\.05 s"):
        Conductor(hub, wall_limit_s=LIMIT_S).welcome_ranks(3, SHORT_S, lambda: None)
    child.close()
    hub.close()


def test_a_rank_that_dies_while_the_others_start_is_named(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "c")
    Channel.connect(hub.path, "rank", rank=1, name="rank 1 on h1").close()
    with pytest.raises(RunFailed, match="rank 1 on h1 is gone"):
        Conductor(hub, wall_limit_s=LIMIT_S).welcome_ranks(2, LIMIT_S, lambda: None)
    hub.close()


def test_their_parent_s_end_ends_the_wait_for_them(tmp_path: Path) -> None:
    def dead() -> None:
        raise RunFailed("worker ended with status 1")

    hub = Hub(tmp_path / "c")
    with pytest.raises(RunFailed, match="worker ended with status 1"):
        Conductor(hub, wall_limit_s=LIMIT_S).welcome_ranks(2, LIMIT_S, dead)
    with pytest.raises(RunFailed, match="the generator did not start within 0 s"):
        Conductor(hub, wall_limit_s=LIMIT_S).welcome("generator", 0.0, lambda: None)
    hub.close()
