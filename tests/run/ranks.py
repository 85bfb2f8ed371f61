"""Ranks that are threads: real control streams, and a script in place of the work."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from testbed.run.channel import Channel, ChannelClosed, Hub, Message
from testbed.run.conductor import Conductor

LIMIT_S = 20.0
DIE: Message = {"die": True}  # in a script: the rank goes without a word
Script = Callable[[int, Message], Iterable[Message]]


def ready(rank: int, order: Message) -> Message:
    return {"event": "ready", "rank": rank, "iteration": order["iteration"]}


def done(rank: int, order: Message, *, start_ns: int = 0, end_ns: int = 1000, **changes: Any) -> Message:
    """What a rank reports; `start_ns` and `end_ns` (real) count from the release."""
    return {
        "event": "done",
        "rank": rank,
        "iteration": order["iteration"],
        "start_ns": order["at_ns"] + start_ns,
        "end_ns": order["at_ns"] + end_ns,
        "start_late_ns": 0,
        "received_bytes": 64,
        "missing_bytes": 0,
        "gaps": [],
        "wrong": 0,
        "nmse": 0.0,
        "retransmitted": 0,
        "timeouts": 0,
        "cpu_ns": 50,
        "late_p99_ns": None,
        "digest": "same",
        "metrics": {},
        "rows": [],
        **changes,
    }


def obedient(rank: int, order: Message) -> Iterable[Message]:
    """Does what it is told, at once."""
    if order["op"] == "prepare":
        yield ready(rank, order)
    elif order["op"] == "release":
        yield done(rank, order)
    elif order["op"] == "counters":
        yield {"id": order["id"], "counters": {"sent_packets": 10 * rank}}
    elif order["op"] == "progress":
        yield {"id": order["id"], "waiting": f"rank {1 - rank}"}


class FakeRanks:
    """`count` ranks and the conductor that has taken them in."""

    def __init__(self, folder: Path, count: int, script: Script = obedient, *, wall_limit_s: float = LIMIT_S) -> None:
        self.hub = Hub(folder / "c")
        self.conductor = Conductor(self.hub, wall_limit_s=wall_limit_s)
        self.history: list[tuple[str, int, Message]] = []  # (who spoke: "run" or "rank", the rank, what), in order
        self._script = script
        self._lock = Lock()
        self._threads = [Thread(target=self._be, args=(rank,)) for rank in range(count)]

    def __enter__(self) -> "FakeRanks":
        for thread in self._threads:
            thread.start()
        self.conductor.welcome_ranks(len(self._threads), LIMIT_S, lambda: None)
        return self

    def __exit__(self, *_: object) -> None:
        self.hub.close()
        for thread in self._threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive()

    def _be(self, rank: int) -> None:
        channel = Channel.connect(self.hub.path, "rank", rank=rank, name=f"rank {rank} on h{rank}")
        try:
            while True:
                order = channel.receive(LIMIT_S)
                self._note("run", rank, order)
                for message in self._script(rank, order):
                    if message is DIE:
                        return
                    self._note("rank", rank, message)
                    channel.send(message)
        except ChannelClosed:
            return
        finally:
            channel.close()

    def _note(self, who: str, rank: int, message: Message) -> None:
        with self._lock:
            self.history.append((who, rank, message))
