"""Updates that can be taken back."""

from collections.abc import Callable

Undo = Callable[[], None]  # what an update returns: has everything as it was before; the last update first
