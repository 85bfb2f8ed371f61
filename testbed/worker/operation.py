"""Tells an endpoint that wants to know of it what the collective about to begin is made of."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from testbed.collective.program import Program
from testbed.collective.schedule import COPY
from testbed.transport.endpoint import Guarded, Informed, Learning, Message, Operation
from testbed.worker.iteration import id_stride

Metrics = Callable[[], Mapping[str, float]]


class Announcer:
    """Of a rank's `programs`, one a layer, whose iterations are counted through, the `warmup` ones first. metrics: how
    well its model does at an instant; asked only for an endpoint that wants to know.
    """

    def __init__(self, endpoint: object, programs: Sequence[Program], warmup: int, metrics: Metrics = dict) -> None:
        self._endpoint = endpoint if isinstance(endpoint, Informed) else None
        self._programs = programs
        self._warmup = warmup
        self._metrics = metrics

    def of(self, number: int, first_tag: int, dtype: npt.DTypeLike) -> "Announced | None":
        """What tells of iteration `number`; ids and tags are those of `Iteration`. None: the endpoint does not ask."""
        if self._endpoint is None:
            return None
        told = partial(operation, self._programs, number, number < self._warmup, first_tag, dtype)
        return Announced(self._endpoint, told, self._metrics)


class Announced:
    """Tells of one iteration. Instants are model nanoseconds."""

    def __init__(self, endpoint: Informed, operation: Callable[[], Operation], metrics: Metrics) -> None:
        self._endpoint = endpoint
        self._operation = operation
        self._metrics = metrics

    def begin(self, now: int) -> None:
        """Nothing of it is posted yet."""
        if isinstance(self._endpoint, Learning):
            self._endpoint.learned(self._metrics())
        self._endpoint.begin(self._operation(), now)

    def start(self, now: int) -> None:
        """The rank is released, and has computed."""
        self._endpoint.start(now)

    def skips(self) -> bool:
        """Whether, now that it is over, its result is not to be used."""
        return self._endpoint.skips() if isinstance(self._endpoint, Guarded) else False


def operation(
    programs: Sequence[Program], number: int, warmup: bool, first_tag: int, dtype: npt.DTypeLike
) -> Operation:
    """The collective of iteration `number` over layers of `dtype`, for the rank of `programs`."""
    kind = np.dtype(dtype)
    size, stride = kind.itemsize, id_stride(programs)
    layers = tuple(accumulate((program.elements * size for program in programs[:-1]), initial=0))
    messages: list[Message] = []
    for layer, (program, offset) in enumerate(zip(programs, layers, strict=True)):
        columns = (
            program.send.tolist(),
            (program.op != COPY).tolist(),
            program.peer.tolist(),
            (program.tag.astype(np.int64) + first_tag).tolist(),
            program.step.tolist(),
            (program.first * size + offset).tolist(),
            ((program.last - program.first) * size).tolist(),
        )
        messages += map(Message, range(layer * stride, layer * stride + len(program)), *columns)
        first_tag += program.tags
    return Operation(number, warmup, messages, size, kind.name, layers)
