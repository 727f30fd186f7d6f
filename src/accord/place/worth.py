"""What a gap on a device is worth: shadow prices of the best packing of what usually comes.

In: a `Mix`. Out: `Worth`, a value for each gap. Invariant: a gap's worth never shrinks as it grows, and no more than
its size; fractions that complement each other leave worth behind, others waste it.

The packing is the cutting-stock linear program of Gilmore and Gomory (1961) with demand as a bound: fill as much of
the devices as the mix allows when it asks for exactly all of them. A size that wastes little is worth its size less
its scarcity (the dual of its supply); a gap is worth the best knapsack of such sizes.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from accord.place.board import WHOLE
from accord.place.mix import Beside, Mix, Size

if TYPE_CHECKING:
    import highspy

Floats = NDArray[np.float64]
_ROUNDS_MAX = 200
_GAIN = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """For each device kind, the worth of gaps of 0 to 1,000 thousandths; and what comes with a thousandth."""

    gaps: Floats  # [kind, 0..1000]
    cores: Beside
    memory: Beside


def worth_of(mix: Mix, card_memory_bytes: tuple[int, ...]) -> Worth:
    """The worth of gaps on kinds of devices with this much memory each."""
    known: dict[tuple[Size, ...], Floats] = {}
    rows = []
    for memory in card_memory_bytes:
        sizes = mix.sizes(memory)
        if sizes not in known:
            known[sizes] = gap_worth(sizes)
        rows.append(known[sizes])
    gaps = np.array(rows) if rows else np.zeros((0, WHOLE + 1))
    return Worth(gaps=gaps, cores=mix.cores(), memory=mix.host_memory())


def gap_worth(sizes: tuple[Size, ...]) -> Floats:
    """The worth of gaps of 0 to 1,000 thousandths where these sizes come; their sizes where nothing is known."""
    if not sizes:
        return np.arange(WHOLE + 1, dtype=np.float64)
    demand = sum(size.milli * size.weight for size in sizes)
    supply = np.array([WHOLE * size.weight / demand for size in sizes])  # a device's worth of demand a device
    items = np.array([size.milli for size in sizes])
    patterns = [np.where(np.arange(len(sizes)) == number, WHOLE // size, 0) for number, size in enumerate(items)]
    for _ in range(_ROUNDS_MAX):
        scarcity, device = _duals(np.array(patterns).T, items, supply)
        worth, chosen = _knapsack(items, items - scarcity)
        if worth[WHOLE] <= device + _GAIN:
            break
        patterns.append(_pattern(chosen, items))
    return worth


def _duals(patterns: NDArray[np.int64], items: NDArray[np.int64], supply: Floats) -> tuple[Floats, float]:
    """Scarcity of each size and the price of a device: duals of the best mix of patterns, for one device."""
    import highspy

    # The class below `Highs`, which prints a banner before it can be silenced.
    solver = highspy._Highs()  # type: ignore[attr-defined]
    solver.setOptionValue("output_flag", False)
    solver.passModel(_program(patterns, items, supply))
    solver.run()
    duals = np.abs(np.array(solver.getSolution().row_dual))
    return duals[:-1], float(duals[-1])


def _program(patterns: NDArray[np.int64], items: NDArray[np.int64], supply: Floats) -> "highspy.HighsLp":
    """Fill as much as can be: one column a pattern, one row a size's supply, one row for the device."""
    import highspy

    rows = np.vstack([patterns, np.ones(patterns.shape[1], np.int64)])
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = rows.shape
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = (items @ patterns).astype(np.float64)
    program.col_lower_ = np.zeros(rows.shape[1])
    program.col_upper_ = np.full(rows.shape[1], np.inf)
    program.row_lower_ = np.full(rows.shape[0], -np.inf)
    program.row_upper_ = np.append(supply, 1.0)
    used_columns, used_rows = np.nonzero(rows.T)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.searchsorted(used_columns, np.arange(rows.shape[1] + 1))
    program.a_matrix_.index_ = used_rows
    program.a_matrix_.value_ = rows.T[used_columns, used_rows].astype(np.float64)
    return program


def _knapsack(items: NDArray[np.int64], values: Floats) -> tuple[Floats, list[int]]:
    """The best value of each gap, and the item with which it begins (-1: one thousandth left empty)."""
    useful = np.flatnonzero(values > _GAIN)
    sizes, gains = items[useful], values[useful]
    worth = np.zeros(WHOLE + 1)
    chosen = [-1] * (WHOLE + 1)
    for gap in range(1, WHOLE + 1):
        worth[gap] = worth[gap - 1]
        fitting = sizes <= gap
        if fitting.any():
            totals = np.where(fitting, worth[np.maximum(gap - sizes, 0)] + gains, 0.0)
            best = int(totals.argmax())
            if totals[best] > worth[gap] + _GAIN:
                worth[gap], chosen[gap] = totals[best], int(useful[best])
    return worth, chosen


def _pattern(chosen: list[int], items: NDArray[np.int64]) -> NDArray[np.int64]:
    counts = np.zeros(len(items), np.int64)
    gap = WHOLE
    while gap > 0:
        if chosen[gap] < 0:
            gap -= 1
        else:
            counts[chosen[gap]] += 1
            gap -= int(items[chosen[gap]])
    return counts
