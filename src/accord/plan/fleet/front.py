"""Which rows of a table no other row beats.

In: rows of figures, of which less is better. Out: numbers of rows. Invariant: for every row that is left out there is
one kept that is at most as large in all columns; of equal rows the first is kept.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BLOCK = 256  # rows compared at once: what lies in between stays in a cache
_FRONT = 1024  # rows of the front that a block meets at once


def front(rows: Floats) -> Ints:
    """Numbers of the rows that no other row beats, in ascending order.

    Rows are met in the order of their sums, so that a row can only be beaten by those before it (or by an equal one).
    """
    if len(rows) < 2:
        return np.arange(len(rows))
    columns = np.ascontiguousarray(rows[:, np.ptp(rows, axis=0) > 0])
    if not columns.shape[1]:
        return np.zeros(1, dtype=np.int64)
    scaled = (columns - columns.min(axis=0)) / np.ptp(columns, axis=0)
    order = np.lexsort((np.arange(len(rows)), *columns.T[::-1], scaled.sum(axis=1)))
    kept: list[Ints] = []
    best = np.empty((0, columns.shape[1]))
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        block = block[~_beaten(columns[block], best)]
        block = block[~_beaten_within(columns[block])]
        kept.append(block)
        best = np.concatenate([best, columns[block]])
    return np.sort(np.concatenate(kept))


def _beaten(block: Floats, best: Floats) -> Flags:
    """Which rows of a block one of the front is at most as large as."""
    found = np.zeros(len(block), dtype=bool)
    for start in range(0, len(best), _FRONT):
        left = np.flatnonzero(~found)
        if not len(left):
            break
        found[left] = _at_most(best[start : start + _FRONT], block[left]).any(axis=0)
    return found


def _beaten_within(block: Floats) -> Flags:
    """Which rows an earlier row of the same block beats. Rounded sums can tie, so both directions are looked at."""
    less = _at_most(block, block)
    earlier = np.triu(np.ones(less.shape, dtype=bool), k=1)
    strictly = less & ~less.T
    return np.asarray((strictly | (less & earlier)).any(axis=0))


def _at_most(some: Floats, others: Floats) -> Flags:
    """[i, j]: row i of `some` is at most row j of `others`, in every column."""
    found = some[:, None, 0] <= others[None, :, 0]
    for column in range(1, some.shape[1]):
        found &= some[:, None, column] <= others[None, :, column]
    return np.asarray(found)
