"""What a transport is to the plan and both engines: its constants, its endpoints, and what they promise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.transport.endpoint import Endpoint, Fill, Path, Peer
from testbed.transport.framing import ROCE, Framing
from testbed.transport.parameters import Parameter
from testbed.transport.settings import Settings

if TYPE_CHECKING:
    from testbed.transport.aggregation.seam import MakeReduce

Make = Callable[[Path, int, Sequence[Peer], Settings, int], Endpoint]


@dataclass(frozen=True, slots=True)
class Transport:
    """A registered transport. `make(path, rank, peers, settings, seed)`: `peers` has all ranks, this one too, and all
    ranks have the same `seed`. `reduce(path, member, settings)`: switches add up what members send. Neither: kernel
    sockets, for which `model`, made as by `make`, stands in simulation.

    early: `Sent` may come before the peer has the bytes, as soon as all bursts of it were given out, and the buffer be
    written again while packets fly. lossy: what is received may be partial; then `nmse` and `missing_bytes` tell of it,
    and values count neither as wrong nor do they end a run, though ranks come to differ. fill: what missing bytes of a
    message that is copied leave in a rank's buffer, zeros or what was there; one that is added adds zeros there. An
    element of which a byte is missing is missing. framing: how packets of `make` or `model` lie in UDP. clock: what it
    does in place of a congestion control, in words; empty: it takes one. congestion: which, where the spec names none.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    make: Make | None = None
    reduce: "MakeReduce | None" = None
    model: Make | None = None
    early: bool = False
    lossy: bool = False
    fill: Fill = "zero"
    framing: Framing = ROCE
    clock: str = ""
    congestion: str = "none"

    @property
    def own_control(self) -> str:
        """What it has in place of a congestion control of the spec; empty if it takes one."""
        if self.make:
            return self.clock
        return "is clocked by its slots" if self.reduce else "has the kernel's congestion control"
