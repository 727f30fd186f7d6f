"""A lower bound on what any scheduler leaves of the devices in the FGD protocol.

In: a `Trace`, its arrivals. Out: a percentage that no scheduler gets below if it takes every fraction of a device
among the first arrivals, whatever else it refuses, then or later. Invariant: constraints are left out, never added
(cores, memory, nodes and models are ignored, parts of pods may be taken), so that the bound holds.
"""

import math
from collections import Counter
from collections.abc import Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

from _openb import Trace
from accord.terms.gang import Part

WHOLE = 1000
_FORCE = 10.0 * WHOLE  # what a thousandth costs that was to be taken and isn't: no answer has one if it can do without
_GAIN = 1e-7
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def is_free_fraction(pod: Part) -> bool:
    """A part of a device, of any model."""
    return pod.need.share > 0 and not pod.kinds


def unallocated_least(trace: Trace, order: Sequence[int], *, held: int) -> float:
    """Percent of devices; infinite if nobody can do it. The free fractions among the first `held` arrivals are taken.

    With `held=0` the bound is weak: 30% more is asked for than there is, so that a scheduler that may refuse from the
    first arrival on could pick what fits together. What came and was taken can't be picked any more. The bound is the
    linear program of Gilmore and Gomory (1961) over patterns of one device, by column generation.
    """
    came: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    for number, pick in enumerate(order):
        need = trace.pods[pick].need
        size = WHOLE if need.cards else round(WHOLE * need.share)
        came[size] += max(1, need.cards)
        taken[size] += number < held and is_free_fraction(trace.pods[pick])
    sizes = np.array(sorted(size for size in came if size))
    least, most = (np.array([counts[size] for size in sizes], float) for counts in (taken, came))
    waste = _waste(sizes, least / trace.devices, most / trace.devices)
    return 100 * waste / WHOLE if waste <= WHOLE else math.inf


def _waste(sizes: Ints, least: Floats, most: Floats) -> float:
    """The least free thousandths of one device, where `least` to `most` of each size are taken on it."""
    patterns = [np.where(np.arange(len(sizes)) == row, WHOLE // size, 0) for row, size in enumerate(sizes)]
    while True:
        waste, prices, device = _solve(np.array(patterns).T, sizes, least, most)
        worth, chosen = _knapsack(sizes, sizes + prices)
        if WHOLE - worth >= device - _GAIN:
            # No pattern would lower it: the program over all patterns has this value (less rounding, in our favour).
            return waste
        patterns.append(chosen)


def _solve(patterns: Ints, sizes: Ints, least: Floats, most: Floats) -> tuple[float, Floats, float]:
    """The value over these patterns, the dual of each size's row, and that of the device."""
    count = len(sizes)
    shortage = np.eye(count, dtype=np.int64)
    table = np.vstack([np.hstack([patterns, shortage]), np.append(np.ones(patterns.shape[1]), np.zeros(count))])
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = table.shape
    program.col_cost_ = np.append(WHOLE - sizes @ patterns, _FORCE * sizes).astype(float)
    program.col_lower_ = np.zeros(table.shape[1])
    program.col_upper_ = np.full(table.shape[1], np.inf)
    # The last row is the one device: what no pattern uses is waste, so that it is used up.
    program.row_lower_, program.row_upper_ = np.append(least, 1.0), np.append(most, 1.0)
    columns, rows = np.nonzero(table.T)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.searchsorted(columns, np.arange(table.shape[1] + 1))
    program.a_matrix_.index_ = rows
    program.a_matrix_.value_ = table.T[columns, rows].astype(float)
    solver = highspy._Highs()  # type: ignore[attr-defined]
    solver.setOptionValue("output_flag", False)
    solver.passModel(program)
    solver.run()
    duals = np.array(solver.getSolution().row_dual)
    return float(solver.getInfo().objective_function_value), duals[:-1], float(duals[-1])


def _knapsack(sizes: Ints, values: Floats) -> tuple[float, Ints]:
    """The most valuable pattern of one device."""
    best = np.zeros(WHOLE + 1)
    first = np.full(WHOLE + 1, -1)
    for room in range(1, WHOLE + 1):
        best[room] = best[room - 1]
        fitting = np.flatnonzero(sizes <= room)
        if len(fitting):
            totals = best[room - sizes[fitting]] + values[fitting]
            at = int(totals.argmax())
            if totals[at] > best[room] + _GAIN:
                best[room], first[room] = totals[at], fitting[at]
    pattern = np.zeros(len(sizes), np.int64)
    room = WHOLE
    while room > 0:
        item = int(first[room])
        pattern[item] += item >= 0
        room -= int(sizes[item]) if item >= 0 else 1
    return float(best[WHOLE]), pattern
