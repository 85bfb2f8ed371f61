"""How much of a gradient may be missing, by the phase that the training is in: one policy a class.

    static      always the same, as MLT has it
    accuracy    begin, middle and end of training by the accuracy A and what it gained, dA, since the last check; never
                back: A > 50 % and dA < 3 %: the end; A > 50 % and dA <= 7 %: at least the middle
    critical    critical learning regimes (of ACCORDION): where the norm of the whole gradient changed by a share of
                `eta` or more since the last check, as at the first one, nothing may be missing until the next

Checks come every `every` operations. Source: the repository of DBLP's authors, `accuracy` of its main branch and
`critical` of branch jinyan-gradnorm, where the receiver still compares with the static bound, which its own notes call
a bug: here it is the present one. Our reading: an operation stands for a round, and a check for an epoch's end.
"""

from dataclasses import dataclass
from typing import Protocol


class Phases(Protocol):
    """Of one rank. Both kinds of news come in the order of operations."""

    bound: float
    """The share that may be missing of what is received from now on."""

    wants_norm: bool
    """Whether `normed` is to be called after the present operation."""

    wants_accuracy: bool
    """Whether `learned` is to be called before each operation."""

    def begin(self) -> None:
        """An operation begins."""

    def normed(self, norm: float) -> None:
        """The norm of the gradient that came of it."""

    def learned(self, accuracy: float) -> None:
        """How accurate the model is before an operation."""


class Static:
    """Always the same bound."""

    wants_norm = False
    wants_accuracy = False

    def __init__(self, bound: float) -> None:
        self.bound = bound

    def begin(self) -> None:
        pass

    def normed(self, norm: float) -> None:
        pass

    def learned(self, accuracy: float) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Turns:
    """Where one phase of the accuracy policy ends and the next begins."""

    accuracy: float
    slow_gain: float
    fast_gain: float


class Accuracy(Static):
    """`bounds`: of begin, middle and end."""

    wants_accuracy = True

    def __init__(self, bounds: tuple[float, float, float], turns: Turns, every: int) -> None:
        super().__init__(bounds[0])
        self._bounds = bounds
        self._turns = turns
        self._every = every
        self._phase = self._operations = 0
        self._before = 0.0

    def learned(self, accuracy: float) -> None:
        self._operations += 1
        if self._operations % self._every:
            return
        gain, self._before = accuracy - self._before, accuracy
        turns = self._turns
        if accuracy > turns.accuracy and gain <= turns.fast_gain:
            self._phase = max(self._phase, 2 if gain < turns.slow_gain else 1)
        self.bound = self._bounds[self._phase]


class Critical(Static):
    """`normal` and `critical`: the bounds of either regime. It begins in the critical one."""

    def __init__(self, normal: float, critical: float, eta: float, every: int) -> None:
        super().__init__(critical)
        self._normal = normal
        self._critical = critical
        self._eta = eta
        self._every = every
        self._operations = 0
        self._before: float | None = None

    def begin(self) -> None:
        self.wants_norm = self._operations % self._every == 0
        self._operations += 1

    def normed(self, norm: float) -> None:
        before, self._before = self._before, norm
        changes = before is None or not before or abs(norm - before) / before >= self._eta
        self.bound = self._critical if changes else self._normal
