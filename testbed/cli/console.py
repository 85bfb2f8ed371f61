"""Where verbs print tables: as wide as the terminal; where nobody looks at one, so wide that few lines break."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 160


def console() -> "Console":
    """Text goes out as it is: no markup, no colours of numbers."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width)
