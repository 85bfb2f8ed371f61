"""What a switch is told of a packet: how far in front its layer is, and whether its gradients are large.

Front layers are needed first in the next iteration and bear more loss; small gradients bear more loss than large ones
(DLCP's observations). So packets of the front half of the layers have one DSCP and those of the half behind another;
small ones have that of the same class with a higher drop precedence (RFC 2597), and are not ECN-capable: a queue that
marks large ones drops small ones instead. A packet is small if the mean magnitude of its values is below the quantile
`small` of those of its tensor's packets.

Source: DLCP; our readings: the two halves, the mean against a quantile of means ("the tensor median (or top quantile)"
in our notes), the message as the tensor where a collective cuts it, and the code points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.transport.bounded import Treatment
from testbed.transport.endpoint import ECN_ECT0, ECN_NOT_ECT, Message, Operation
from testbed.wire.dlcp import LARGE, SMALL

_DROP_MORE = 4  # from AFx1 to AFx3


@dataclass(frozen=True, slots=True)
class CodePoints:
    """The DSCPs of large gradients. Those of small ones are theirs plus 4."""

    front: int
    behind: int


class Classes:
    """How messages of the present operation go. Without one all are of the layer behind, and bytes are the values."""

    def __init__(self, code_points: CodePoints, small: float, chunk_bytes: int) -> None:
        self._code_points = code_points
        self._small = small
        self._chunk_bytes = chunk_bytes
        self._messages: Mapping[int, Message] = {}
        self._layers: Sequence[int] = (0,)
        self._dtype = np.dtype(np.uint8)

    def begin(self, operation: Operation) -> None:
        self._messages = {message.id: message for message in operation.messages}
        self._layers = operation.layers or (0,)
        self._dtype = np.dtype(operation.dtype)

    def copies(self, id: int) -> bool:
        """Whether a message is copied where it is received, not added."""
        message = self._messages.get(id)
        return message is not None and not message.reduce

    def treatment(self, id: int, view: memoryview) -> Treatment:
        """Of a message to be sent. The last layer of the model is the first to be sent."""
        message = self._messages.get(id)
        layer = 0 if message is None else int(np.searchsorted(self._layers, message.first_byte, "right")) - 1
        front = 2 * layer >= len(self._layers)
        dscp = self._code_points.front if front else self._code_points.behind
        return Treatment(
            priority=-layer,
            classes=self._magnitudes(view),
            tos=((dscp, ECN_ECT0), (dscp + _DROP_MORE, ECN_NOT_ECT)),
            layer=layer,
        )

    def _magnitudes(self, view: memoryview) -> list[int] | None:
        """The class of each chunk; None: all are large."""
        size = self._dtype.itemsize
        if not self._small or view.nbytes % size or self._chunk_bytes % size:
            return None
        values = np.abs(np.frombuffer(view, self._dtype).astype(np.float64))
        if len(values) == 0:
            return None
        means = _means(values, self._chunk_bytes // size)
        classes = np.where(means < np.quantile(means, self._small), SMALL, LARGE)
        return [int(kind) for kind in classes]


def _means(values: npt.NDArray[np.float64], each: int) -> npt.NDArray[np.float64]:
    """Of every `each` values, and of what is left."""
    starts = np.arange(0, len(values), each)
    counts = np.diff(starts, append=len(values))
    return np.asarray(np.add.reduceat(values, starts) / counts, np.float64)
