"""The plan's routes on switches that no controller tells them: also the alternates while cables are down.

The rule is the controller's own (`controller/routes.py`), so that both come to the same entries.
"""

from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Protocol

from testbed.dataplane.forwarding import Forwarding
from testbed.resources import shared_folder
from testbed.routing.model import Entry


class Routes(Protocol):
    """`controller/routes.py`: what each switch should have installed."""

    names: Mapping[int, str]  # by datapath id
    salts: Mapping[str, int]

    def foresaw(self, down: set[int]) -> bool: ...

    def entries(self, switch: str, down: set[int]) -> Mapping[str, Any]: ...


def read_routes(plan: Path) -> Routes:
    """The controller's reading of a `plan.json`; it keeps the code, as it also runs where Testbed is not installed."""
    spec = spec_from_file_location("testbed_controller_routes", shared_folder("controller") / "routes.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    routes: Routes = module.Routes.read(plan)
    return routes


def follow(routes: Routes, down: set[int], switches: Mapping[str, Forwarding]) -> None:
    """Have on every switch what should be there while the cables `down` are."""
    for name, forwarding in switches.items():
        wanted = routes.entries(name, down).values()
        forwarding.replace(Entry(each.prefix, each.kind, each.ports) for each in wanted)
