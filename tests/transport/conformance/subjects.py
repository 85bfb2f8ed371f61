"""The transports under test: all registered ones that carry messages, and the example of one's own."""

from collections.abc import Callable
from pathlib import Path as File

import pytest

from testbed.spec.model import TransportSpec
from testbed.transport import TRANSPORTS, Endpoint, Path, Transport, find, queue_pairs, settle
from tests.transport.pump import PATH

_OWN = f"{File(__file__).parents[3] / 'experiments/own/transport.py'}:SCATTER"
_SUITED: dict[tuple[str, str], object] = {  # by name and unit
    ("mtu", "MTU bytes"): 256,  # so that short messages are of many packets
    ("bound", "fraction"): 0,  # of those that are content with a part, by design: nothing is missing then
}
_VARIANTS = {"ubt": {"bound": "1ms"}}  # without it the first collective is reliable, to measure it by


class Subject:
    """A transport with constants that suit short messages. gives_up: it ends with a peer that it hears nothing of."""

    def __init__(self, transport: Transport, kind: str, gives_up: bool = True, **given: object) -> None:
        self.transport = transport
        self.gives_up = gives_up
        suited = {
            each.name: _SUITED[each.name, each.unit]
            for each in transport.parameters
            if (each.name, each.unit) in _SUITED
        }
        self._spec = TransportSpec.model_validate({"kind": kind, **suited, **given})
        self._name = "-".join((transport.name, *given))

    @property
    def reliable(self) -> bool:
        return not self.transport.lossy

    def ends(self, ranks: int = 2, path: Path = PATH, seed: int = 1) -> list[Endpoint]:
        """Endpoints of all ranks."""
        make = self.transport.make or self.transport.model
        assert make
        settings, peers = settle(self._spec, path), queue_pairs(ranks)
        return [make(path, rank, peers, settings, seed) for rank in range(ranks)]

    def __repr__(self) -> str:
        return self._name


SUBJECTS = [Subject(each, name) for name, each in TRANSPORTS.items() if each.make or each.model]
SUBJECTS += [Subject(TRANSPORTS[name], name, **given) for name, given in _VARIANTS.items() if name in TRANSPORTS]
SUBJECTS.append(Subject(find(_OWN), _OWN, gives_up=False))  # as it says of itself

every: Callable[..., pytest.MarkDecorator] = pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
reliable = pytest.mark.parametrize("subject", [each for each in SUBJECTS if each.reliable], ids=repr)
