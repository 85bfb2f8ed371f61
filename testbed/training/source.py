"""The seam between what a rank computes and the collective that carries it: one flat array a layer, each iteration."""

from typing import Any, Protocol

import numpy.typing as npt

Layer = npt.NDArray[Any]


class GradientSource(Protocol):
    """One rank's side of the computation. Every method is deterministic: ranks that apply the same bits stay equal."""

    @property
    def size_bytes(self) -> int:
        """All layers together."""

    def layers(self, iteration: int) -> list[Layer]:
        """What this rank contributes: 1-D arrays in the order in which backpropagation yields them, last layer first.

        The caller must not write to them. Iterations count from 0, warm-up included.
        """

    def apply(self, iteration: int, reduced: list[Layer]) -> None:
        """Take in the sum over all ranks, in the same order."""

    def digest(self) -> str:
        """A hash of what this rank has learnt: equal on all ranks if all went well, empty if nothing is learnt."""

    def metrics(self) -> dict[str, float]:
        """How well it does by now: loss and accuracy, or nothing."""
