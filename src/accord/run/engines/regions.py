"""Connected regions of a map, as upright boxes.

In: a 2-D map and a threshold. Out: the bounding box of each region above it, with the region's mean.
Invariant: every point at or above the threshold lies in exactly one region (eight neighbours count).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Pixels `left` to `right` and `top` to `bottom`; the last two are not inside."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Pixels across."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Pixels down."""
        return self.bottom - self.top

    def widened(self, ratio: float) -> "Box":
        """Moves each side out by ratio * area / perimeter."""
        by = round(ratio * self.width * self.height / (2 * (self.width + self.height)))
        return Box(left=self.left - by, top=self.top - by, right=self.right + by, bottom=self.bottom + by)

    def scaled(self, x: float, y: float) -> "Box":
        """The same box in a map that is larger by these factors."""
        left, right = round(self.left * x), round(self.right * x)
        return Box(left=left, right=right, top=round(self.top * y), bottom=round(self.bottom * y))

    def inside(self, *, width: int, height: int) -> "Box":
        """What of the box lies in a picture of this size; at least one pixel."""
        left, top = min(max(0, self.left), width - 1), min(max(0, self.top), height - 1)
        right, bottom = min(max(left + 1, self.right), width), min(max(top + 1, self.bottom), height)
        return Box(left=left, top=top, right=right, bottom=bottom)


def boxes_of_regions(chances: npt.NDArray[np.float32], *, at_least: float) -> Iterator[tuple[Box, float]]:
    """(height, width) -> each region's box and mean."""
    rows, starts, stops = _runs(chances >= at_least)
    if not rows.size:
        return
    roots = _roots(rows.tolist(), starts.tolist(), stops.tolist())
    _, region = np.unique(roots, return_inverse=True)
    count = int(region.max()) + 1
    sums = np.concatenate((np.zeros((len(chances), 1)), np.cumsum(chances, axis=1, dtype=np.float64)), axis=1)
    total = np.bincount(region, weights=sums[rows, stops] - sums[rows, starts], minlength=count)
    points = np.bincount(region, weights=stops - starts, minlength=count)
    left, top = np.full(count, chances.shape[1]), np.full(count, chances.shape[0])
    right, bottom = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.minimum.at(left, region, starts)
    np.maximum.at(right, region, stops)
    np.minimum.at(top, region, rows)
    np.maximum.at(bottom, region, rows + 1)
    for index, mean in enumerate((total / points).tolist()):
        yield Box(left=int(left[index]), top=int(top[index]), right=int(right[index]), bottom=int(bottom[index])), mean


_Counts = npt.NDArray[np.int64]


def _runs(mask: npt.NDArray[np.bool_]) -> tuple[_Counts, _Counts, _Counts]:
    """Row, start and stop of each horizontal run, from top to bottom and left to right."""
    framed = np.zeros((mask.shape[0], mask.shape[1] + 2), np.int8)
    framed[:, 1:-1] = mask
    steps = np.diff(framed, axis=1)
    rows, starts = np.nonzero(steps == 1)
    return rows, starts, np.nonzero(steps == -1)[1]


def _roots(rows: list[int], starts: list[int], stops: list[int]) -> list[int]:
    """The number of the first run of each run's region: union-find over runs that touch in the row above."""
    parents = list(range(len(rows)))

    def root(run: int) -> int:
        while parents[run] != run:
            parents[run] = parents[parents[run]]
            run = parents[run]
        return run

    above = 0
    for run, row in enumerate(rows):
        while rows[above] < row - 1 or (rows[above] == row - 1 and stops[above] < starts[run]):
            above += 1
        other = above
        while rows[other] == row - 1 and starts[other] <= stops[run]:
            parents[max(root(other), root(run))] = min(root(other), root(run))
            other += 1
    return [root(run) for run in range(len(rows))]
