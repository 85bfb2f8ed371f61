"""A controller of one's own: of several ports that lead on it takes the first. In a spec: `controller: pinned.py`.

It runs beside the shipped app's files (`ecmp`, `routes`, `flows`, `ryu_api`), which it may import.
"""

import os

from ecmp import Ecmp
from routes import Routes


class FirstPort(Routes):
    """The plan's routes without their choices."""

    def entries(self, switch, down):
        entries = super().entries(switch, down)
        return {prefix: entry._replace(ports=entry.ports[:1]) for prefix, entry in entries.items()}


class Pinned(Ecmp):
    """Installs, confirms, counts and repairs as `Ecmp` does."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.routes = FirstPort.read(os.environ["TESTBED_PLAN"])
