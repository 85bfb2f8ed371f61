"""Flow sizes as distributions: published ones by name, one's own from a file, or one size alone.

A distribution is a list of points (bytes, share of flows of at most so many), between which the share grows linearly,
from none at 0 bytes: so the generators that come with the published files read them.

Sources of the points: web-search is DCTCP's (Alizadeh et al., SIGCOMM 2010), data-mining VL2's (Greenberg et al.,
SIGCOMM 2009), hadoop Facebook's (Roy et al., SIGCOMM 2015), ali-storage Alibaba's of 2019 (Li et al., HPCC, SIGCOMM
2019), as the public files of HPCC's simulator and of HKUST-SING/TrafficGenerator have them. The means are those files'
by linear interpolation: 1.71 MB, 12.7 MB, 120 KB.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import UsageError
from testbed.units import QuantityError, parse_bytes

FILES = (".txt", ".csv", ".cdf")
_MOST_BYTES = 1 << 40
_SEPARATOR = re.compile(r"[\s,;]+")
_WHOLE = (1.0, 100.0)  # what the last point has: a share, or percent

Points = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of flows, in bytes. One point alone: all flows are of that size."""

    points: Points

    @property
    def mean_bytes(self) -> float:
        """The mean, by linear interpolation."""
        if len(self.points) == 1:
            return float(self.points[0][0])
        total, before, share_before = 0.0, 0, 0.0
        for size, share in self.points:
            total += (share - share_before) * (before + size) / 2
            before, share_before = size, share
        return total

    def at(self, share: float) -> float:
        """The size that `share` of the flows (of 0 to 1) do not exceed."""
        if len(self.points) == 1:
            return float(self.points[0][0])
        index = bisect_left(self.points, share, key=lambda point: point[1])
        above, upper = self.points[min(index, len(self.points) - 1)]
        below, lower = self.points[index - 1] if index else (0, 0.0)
        if upper <= lower:
            return float(above)
        return below + (above - below) * min(1.0, (share - lower) / (upper - lower))


def _thousands(*points: tuple[float, float]) -> Sizes:
    return Sizes(tuple((round(size * 1000), share) for size, share in points))


SIZES: Mapping[str, tuple[str, Sizes]] = {
    "web-search": (
        "queries and background of a search engine (DCTCP); mean 1.71 MB",
        _thousands(
            (10, 0.15), (20, 0.20), (30, 0.30), (50, 0.40), (80, 0.53), (200, 0.60), (1_000, 0.70), (2_000, 0.80),
            (5_000, 0.90), (10_000, 0.97), (30_000, 1),
        ),
    ),
    "data-mining": (
        "a large cluster's map-reduce (VL2); mean 12.7 MB, nearly all of it in few flows",
        _thousands(
            (0.18, 0.1), (0.216, 0.2), (0.56, 0.3), (0.9, 0.4), (1.1, 0.5), (1.87, 0.6), (3.16, 0.7), (10, 0.8),
            (400, 0.9), (3_160, 0.95), (100_000, 0.98), (1_000_000, 1),
        ),
    ),
    "hadoop": (
        "Facebook's Hadoop cluster; mean 120 KB",
        _thousands(
            (0.1, 0.01), (0.2, 0.02), (0.3, 0.05), (0.35, 0.15), (0.4, 0.20), (0.5, 0.30), (0.6, 0.40), (0.7, 0.50),
            (1, 0.60), (2, 0.67), (7, 0.70), (30, 0.72), (50, 0.82), (80, 0.87), (120, 0.90), (300, 0.95),
            (1_000, 0.975), (2_000, 0.99), (10_000, 1),
        ),
    ),
    "ali-storage": (
        "Alibaba's block storage, 2019",
        _thousands(
            (4, 0.2293), (8, 0.6921), (16, 0.8061), (32, 0.9047), (64, 0.9353), (128, 0.9677), (256, 0.9753),
            (2_000, 1),
        ),
    ),
}  # fmt: skip


def sizes_of(text: str) -> Sizes:
    """What `sizes` of the spec means: a name, a file, or a size such as `64KiB`; raises UsageError."""
    if text in SIZES:
        return SIZES[text][1]
    if text.endswith(FILES):
        return _read(Path(text))
    try:
        size = parse_bytes(text)
    except QuantityError as error:
        names = ", ".join(SIZES)
        raise UsageError(
            f"{text!r} is neither one of {names} nor a file ({', '.join(FILES)}) nor a size",
            hint=error.suggestion or "e.g. 64KiB",
        ) from None
    if not 0 < size <= _MOST_BYTES:
        raise UsageError(f"a flow of {size} bytes is not from 1 to {_MOST_BYTES}")
    return Sizes(((size, 1.0),))


def _read(path: Path) -> Sizes:
    """A file of lines `BYTES SHARE`, shares growing to 1, or to 100 percent; `#` begins a comment."""
    points: list[tuple[int, float]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        words = [word for word in _SEPARATOR.split(line.partition("#")[0]) if word]
        if not words:
            continue
        try:
            size, share = (float(word) for word in words)
        except ValueError:
            raise UsageError(f"{path}:{number}: {line.strip()[:40]!r} is not a size in bytes and a share") from None
        before = points[-1] if points else (0, 0.0)
        if not (before[0] <= size <= _MOST_BYTES and before[1] <= share):
            raise UsageError(f"{path}:{number}: sizes and shares must grow from line to line, up to {_MOST_BYTES}")
        points.append((round(size), share))
    whole = points[-1][1] if points else 0.0
    if whole not in _WHOLE or points[-1][0] < 1:
        raise UsageError(f"{path}: ends at a share of {whole:g}, which must be 1 (or 100 percent) of the flows")
    return Sizes(tuple((size, share / whole) for size, share in points))
