"""Ctrl-C and SIGTERM: the first ends the run in good order, later ones must not cut its clean-up short."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from testbed.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, the first signal raises `Interrupted`, and all further ones are ignored until the block has ended."""

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's form
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(f"interrupted by {signal.Signals(number).name}")

    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[list[int]]:
    """Within, signals end nothing: for clean-up, which has limits of its own. Gives those that came, as they come."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in SIGNALS}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
