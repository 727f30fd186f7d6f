"""Whole steps that are known of a model, and how they correct what the formulas say of its other steps.

In: a `StepGrid`, a `Step`, the formula. Out: a factor on the formula. Invariant: at a point of the grid the corrected
formula is the grid's figure; between points the factor is interpolated, beyond the outermost it stays.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from accord.estimate.form import Form
from accord.estimate.roof import Step
from accord.terms.calibration import StepGrid
from accord.terms.work import OperatorClass, Per, Phase

Array = npt.NDArray[np.float64]
_SAME = 0.01  # how far the FLOPs of a token may be apart where models are counted a little differently


def unit_flops(form: Form) -> float:
    """FLOPs of one token's multiplies on all ranks of a group, without its vocabulary and its attention."""
    rows = [row for row in form.dense if row.per is Per.UNIT and row.phase is Phase.ALWAYS]
    dense = sum(row.flops for row in rows if row.kind is OperatorClass.GEMM) * form.layout.tensor
    return dense + sum(row.flops * row.chosen for row in form.routed)


def grid_of(form: Form, known: tuple[StepGrid, ...]) -> StepGrid | None:
    """The steps that are known of this model on this layout."""
    if not known or form.layout.pipeline:
        return None
    flops = unit_flops(form)
    for grid in known:
        same = (grid.tensor, grid.experts) == (form.layout.tensor, form.layout.experts)
        formats = {row.math for row in form.dense} | {row.math for row in form.routed}
        if same and grid.math in formats and abs(grid.unit_flops - flops) <= _SAME * flops:
            return grid
    return None


def correction(grid: StepGrid, step: Step, formula: Callable[[Step], Array], *, groups: int) -> Array:
    """The factor for a step; where it decodes and reads prompts, both count by the time that they take."""
    writes, reads = bool(np.any(step.decode)), bool(np.any(step.prompts))
    if not reads:
        return _writing(grid, step, formula, groups) if writes else np.ones(())
    if not writes:
        return _reading(grid, step, formula, groups)
    write_s = formula(Step(decode=step.decode, context=step.context))
    read_s = formula(Step(prompts=step.prompts, new=step.new, before=step.before))
    both = write_s * _writing(grid, step, formula, groups) + read_s * _reading(grid, step, formula, groups)
    return np.asarray(both / (write_s + read_s))


def _writing(grid: StepGrid, step: Step, formula: Callable[[Step], Array], groups: int) -> Array:
    batches, contexts = np.array(grid.batches), np.array(grid.contexts)
    said = formula(Step(decode=batches[:, None] * groups, context=contexts[None, :]))
    rows = _places(batches, np.asarray(step.decode, dtype=float) / groups)
    columns = _places(contexts, np.asarray(step.context, dtype=float))
    return np.asarray(np.exp(_bilinear(np.log(np.array(grid.decode_s) / said), rows, columns)))


def _reading(grid: StepGrid, step: Step, formula: Callable[[Step], Array], groups: int) -> Array:
    prompts = np.array(grid.prompts)
    said = np.log(np.array(grid.prefill_s) / formula(Step(prompts=1.0 * groups, new=prompts)))
    places = _places(prompts, np.asarray(step.prompts, dtype=float) * step.new / groups)
    return np.asarray(np.exp(np.interp(places, np.arange(len(said), dtype=float), said)))


def _places(points: Array, values: Array) -> Array:
    """Where values lie between the points, by their logarithms; at the ends for those beyond."""
    logs = np.log(points)
    return np.asarray(np.interp(np.log(np.maximum(values, points[0])), logs, np.arange(len(points), dtype=float)))


def _bilinear(table: Array, rows: Array, columns: Array) -> Array:
    rows, columns = np.broadcast_arrays(rows, columns)
    top = np.minimum(rows.astype(int), table.shape[0] - 2)
    left = np.minimum(columns.astype(int), table.shape[1] - 2)
    down, right = rows - top, columns - left
    upper = table[top, left] * (1 - right) + table[top, left + 1] * right
    lower = table[top + 1, left] * (1 - right) + table[top + 1, left + 1] * right
    return np.asarray(upper * (1 - down) + lower * down)
