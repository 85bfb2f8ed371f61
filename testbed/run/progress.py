"""Who is told what a run is doing."""

from typing import Protocol


class Progress(Protocol):
    """For people and for `testbed status`."""

    def stage(self, what: str) -> None: ...

    def iterations(self, done: int, of: int) -> None: ...
