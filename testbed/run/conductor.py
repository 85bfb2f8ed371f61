"""Listens to everyone who takes part in a run, knows who must be alive, and waits for things with a limit and a reason.

A rank or the fabric that goes away ends the run with its name; the controller may go (switches keep their flows), which
is remembered. Whoever waits says what for, so that a limit that is reached can be explained. Ranks have numbers through
all jobs; what several jobs do side by side is written as procedures, generators that yield what they wait for.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Container, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from testbed.errors import RunFailed
from testbed.run.channel import Channel, Hub, Message

_LOGS = {"rank": "worker", "server": "worker"}  # of roles whose name is not their log's
_TICK_S = 0.2
_PROGRESS_ANSWER_S = 2.0
_PROGRESS_LIMIT_S = 10.0


class LimitReached(RunFailed):
    """What was waited for did not come in time."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a procedure waits for: `what()` tells of it should it not come until `deadline` (of time.monotonic()), or
    once `vain()` says why it will never come.
    """

    done: Callable[[], bool]
    what: Callable[[], str]
    timeout_s: float
    deadline: float
    vain: Callable[[], str]

    @classmethod
    def during(
        cls, done: Callable[[], bool], what: Callable[[], str], timeout_s: float, vain: Callable[[], str] = str
    ) -> "Wait":
        """From now on for `timeout_s`."""
        return cls(done, what, timeout_s, time.monotonic() + timeout_s, vain)


_T = TypeVar("_T")
Procedure = Generator[Wait, None, _T]


class Conductor:
    """Pumps all control channels of one run."""

    def __init__(self, hub: Hub, *, wall_limit_s: float, began: float | None = None) -> None:
        """`began`: time.monotonic() when the run began; now if it is not given."""
        self.hub = hub
        self.ranks: dict[int, Channel] = {}
        self.lost: list[str] = []  # who died though the run went on
        self.notices: dict[str, deque[tuple[Channel, Message]]] = defaultdict(deque)
        self.planned_deaths: set[int] = set()  # ranks that a fault of the spec kills
        self.due: Callable[[], float] = lambda: float("inf")  # seconds until `on_due` has something to do
        self.on_due: Callable[[], None] = lambda: None
        self._lost_causes: list[tuple[Container[int], float, str]] = []  # whose, from when on, and why
        self._wall_limit_s = wall_limit_s
        self.notes: list[str] = []
        self.check: Callable[[], None] = lambda: None  # raises RunFailed if a process without a channel has died
        self._answers: dict[tuple[Channel, int], Message] = {}
        self._asked = 0
        self._wall_deadline = (time.monotonic() if began is None else began) + wall_limit_s

    def welcome_ranks(self, count: int, timeout_s: float, alive: Callable[[], None]) -> None:
        """Take in the ranks' connections; `alive` raises if their parent died."""
        deadline = time.monotonic() + timeout_s
        while len(self.ranks) < count:
            alive()
            if time.monotonic() > deadline:
                missing = sorted(set(range(count)) - set(self.ranks))
                raise RunFailed(f"ranks {missing} did not start within {timeout_s:g} s", hint="see logs/worker.log")
            channel = self.hub.accept(_TICK_S)
            if channel is not None and channel.hello["hello"] == "rank":
                self.ranks[channel.hello["rank"]] = channel
            self.pump()
        self.ranks = dict(sorted(self.ranks.items()))  # as people look for them in what is said

    def welcome(self, role: str, timeout_s: float, alive: Callable[[], None]) -> Channel:
        """Take in the one connection of `role`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            alive()
            channel = self.hub.accept(_TICK_S)
            if channel is not None and channel.hello["hello"] == role:
                return channel
            self.pump()
        raise RunFailed(f"the {role} did not start within {timeout_s:g} s", hint=f"see logs/{role}.log")

    def tell_ranks(self, message: Message, among: Container[int] | None = None) -> None:
        """Send a message to every living rank (`among` some)."""
        for rank, channel in self.living(among):
            if not channel.closed:
                channel.send({**message})
            elif rank not in self.planned_deaths:
                self._gone(channel)

    def living(self, among: Container[int] | None = None) -> Sequence[tuple[int, Channel]]:
        return [
            (rank, channel)
            for rank, channel in self.ranks.items()
            if rank not in self.planned_deaths and (among is None or rank in among)
        ]

    def lose(self, ranks: Container[int], why: str, after_s: float) -> None:
        """Whoever waits for any of `ranks` does so in vain once `after_s` have passed, in which they may end yet."""
        self._lost_causes.append((ranks, time.monotonic() + after_s, why))

    def gather(self, event: str, what: str, timeout_s: float, **match: Any) -> dict[int, Message]:
        """Wait until every living rank has sent the notice `event` (with these fields); rank -> notice."""
        return self.together([self.gathering(event, what, timeout_s, None, **match)])[0]

    def gathering(
        self, event: str, what: str, timeout_s: float, among: Container[int] | None, **match: Any
    ) -> Procedure[dict[int, Message]]:
        """The same of the ranks `among` all, as a procedure."""
        found: dict[int, Message] = {}

        def complete() -> bool:
            queue = self.notices[event]
            for _ in range(len(queue)):
                channel, message = queue.popleft()
                rank = channel.hello["rank"]
                if among is not None and rank not in among:
                    queue.append((channel, message))
                elif all(message.get(key) == value for key, value in match.items()):
                    found[rank] = message
            return all(rank in found for rank, _ in self.living(among))

        def vain() -> str:
            for ranks, at, why in self._lost_causes:
                if at <= time.monotonic() and any(r in ranks and r not in found for r, _ in self.living(among)):
                    return why
            return ""

        yield Wait.during(complete, lambda: f"{what}: {self._missing(found, among)}", timeout_s, vain)
        return found

    def until(self, done: Callable[[], bool], what: Callable[[], str], timeout_s: float) -> None:
        """Pump until `done()`; at the limit (or the run's wall limit) fail, saying `what()` was waited for."""

        def wait() -> Procedure[None]:
            yield Wait.during(done, what, timeout_s)

        self.together([wait()])

    def together(self, procedures: Sequence[Procedure[_T]]) -> list[_T]:
        """Carry procedures on side by side, each as soon as what it waits for is there; what each returns.

        At the limit of one's wait, when it is in vain, or at the run's wall limit, LimitReached is raised in it, and so
        ends all.
        """
        results: dict[int, _T] = {}
        waits: dict[int, Wait] = {}

        def go_on(index: int) -> None:
            try:
                waits[index] = next(procedures[index])
            except StopIteration as end:
                waits.pop(index, None)
                results[index] = end.value

        for index in range(len(procedures)):
            go_on(index)
        while waits:
            ready = [index for index, wait in waits.items() if wait.done()]
            for index in ready:
                go_on(index)
            if not ready:
                index, first = min(waits.items(), key=lambda item: item[1].deadline)
                now = time.monotonic()
                for lost, wait in waits.items():
                    if why := wait.vain():
                        procedures[lost].throw(LimitReached(f"{why}: {wait.what()}"))
                if limit := self._limit_reached(first, now):
                    procedures[index].throw(limit)
                self.pump(min(first.deadline, self._wall_deadline) - now)
        return [results[index] for index in range(len(procedures))]

    def _limit_reached(self, wait: Wait, now: float) -> LimitReached | None:
        if now >= self._wall_deadline:
            return LimitReached(
                f"the run's limit of {self._wall_limit_s:g} s of real time was reached: {wait.what()}",
                hint="raise limits.wall or lower workload.iterations; `testbed plan` tells the time to expect",
            )
        if now >= wait.deadline:
            return LimitReached(f"nothing came within {wait.timeout_s:g} s: {wait.what()}")
        return None

    def ask(self, channel: Channel, message: Message, timeout_s: float) -> Message:
        """A request and its answer, with an ear on everybody else; raises RunFailed also for an answered error."""
        self._asked -= 1  # below the channel's own numbers
        key = channel, self._asked
        channel.send({**message, "id": self._asked})
        self.until(lambda: key in self._answers, lambda: f"{channel.name} to answer {message['op']!r}", timeout_s)
        answer = self._answers.pop(key)
        if "error" in answer:
            raise RunFailed(f"{channel.name}: {answer['error']}")
        return answer

    def pump(self, timeout_s: float = 0.0) -> None:
        """Take in what the channels say, and let what is due happen."""
        self.check()
        if self.due() <= 0:
            self.on_due()
        for channel, messages in self.hub.wait(max(0.0, min(timeout_s, self.due(), _TICK_S))):
            for message in messages:
                self._take(channel, message)
            if channel.closed:
                self._gone(channel)

    def waiting_for(self, among: Container[int] | None = None) -> str:
        """What each living rank (`among` some) says it waits for, in one line each."""
        lines: list[str] = []
        deadline = time.monotonic() + _PROGRESS_LIMIT_S
        for _, channel in self.living(among):
            if time.monotonic() > deadline:
                return "; ".join([*lines, "the others were not asked any more"])
            try:
                answer = channel.request({"op": "progress"}, _PROGRESS_ANSWER_S)
                lines.append(f"{channel.name}: {answer.get('waiting') or 'nothing'}")
            except RunFailed as error:
                lines.append(f"{channel.name}: {error.message}")
        return "; ".join(lines)

    def _take(self, channel: Channel, message: Message) -> None:
        event = message.get("event")
        role = channel.hello["hello"]
        if event == "failed" and role in ("rank", "fabric"):
            raise RunFailed(f"{channel.name} failed: {message.get('reason')}", hint=_see_log(role))
        if event is None and "id" in message:
            self._answers[channel, message["id"]] = message
        elif role in ("controller", "fabric"):
            self._heed_switches(event, message)
        elif event is not None:
            self.notices[event].append((channel, message))

    def _heed_switches(self, event: str | None, message: Message) -> None:
        """What is said of the network by whoever sets the routes goes into the verdict or beside it."""
        if event == "switch-lost":
            self.lost.append(f"switch {message['switch']} (the controller lost it)")
        elif event == "refused":
            self.lost.append(f"a flow that switch {message['switch']} refused")
        elif event == "failed":
            self.lost.append(f"the controller's {message['handler']} ({message['reason']}; logs/controller.log)")
        elif event == "links" and not message["foreseen"]:
            self.notes.append(f"no route was planned for cables {message['down']} being down together")

    def _gone(self, channel: Channel) -> None:
        role = channel.hello["hello"]
        if role == "rank":
            if channel.hello["rank"] in self.planned_deaths:
                return
            raise RunFailed(f"{channel.name} is gone (it died or was killed)", hint="see logs/worker.log")
        if role == "controller":
            self.lost.append("controller")
            return
        raise RunFailed(f"the {role} is gone (it died or was killed)", hint=_see_log(role))

    def _missing(self, found: dict[int, Message], among: Container[int] | None) -> str:
        return ", ".join(channel.name for rank, channel in self.living(among) if rank not in found)


def _see_log(role: str) -> str:
    return f"see logs/{_LOGS.get(role, role)}.log"
