"""A collective's schedule as data: which rank sends which chunks to which rank in which step, and what becomes of them.

The buffer of every rank is cut into `chunks` equal pieces (the last ones may be shorter or empty, see `chunk_ranges`).
A transfer moves a contiguous range of chunks; at its destination they are added to what is there (`REDUCE`) or replace
it (`COPY`). Steps order the transfers of one rank's data; there is no barrier between them unless `barrier` is set.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

REDUCE = 0
COPY = 1

TRANSFER = np.dtype(
    [
        ("step", np.int32),
        ("source", np.int32),
        ("destination", np.int32),
        ("chunk", np.int32),  # the first
        ("count", np.int32),  # how many
        ("op", np.int8),  # REDUCE or COPY
        ("lane", np.int16),  # channel or wavelength; 0 where there is one
    ]
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """`transfers` is a structured array of dtype `TRANSFER`, sorted by (step, source, destination, chunk)."""

    collective: str
    algorithm: str
    ranks: int
    chunks: int
    transfers: npt.NDArray[np.void]
    barrier: bool = False

    @property
    def steps(self) -> int:
        return int(self.transfers["step"].max()) + 1 if len(self.transfers) else 0


def chunk_ranges(elements: int, chunks: int) -> list[tuple[int, int]]:
    """Cut `elements` into `chunks` ranges [first, last) as evenly as possible, longer ones first."""
    base, extra = divmod(elements, chunks)
    ranges, first = [], 0
    for index in range(chunks):
        last = first + base + (1 if index < extra else 0)
        ranges.append((first, last))
        first = last
    return ranges
