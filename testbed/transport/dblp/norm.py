"""The norm of the whole gradient of an operation, from the messages that carry its sums.

Wherever an algorithm spreads what was added up, a rank sends it or receives it, or both: each place of the gradient is
counted once. What is missing counts as zeros. Our reading: the repository's server has the mean before it.
"""

import math
from collections.abc import Sequence

import numpy as np

from testbed.transport.endpoint import Operation


class Norm:
    """Of one operation."""

    def __init__(self, operation: Operation) -> None:
        self._messages = {message.id: message for message in operation.messages if not message.reduce}
        self._dtype = np.dtype(operation.dtype)
        self._counted: set[int] = set()  # first bytes
        self._squares = 0.0

    @property
    def value(self) -> float:
        return math.sqrt(self._squares)

    def add(self, id: int, view: memoryview, missing: Sequence[tuple[int, int]] = ()) -> None:
        """A message is sent, or has come; of no sums it changes nothing."""
        message, size = self._messages.get(id), self._dtype.itemsize
        if message is None or message.first_byte in self._counted or view.nbytes % size:
            return
        self._counted.add(message.first_byte)
        values = np.frombuffer(view, self._dtype).astype(np.float64)
        for first, last in missing:
            values[first // size : -(-last // size)] = 0
        self._squares += float(values @ values)
