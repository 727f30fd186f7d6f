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
    decode, context = np.asarray(step.decode, dtype=float), np.asarray(step.context, dtype=float)
    prompts, new = np.asarray(step.prompts, dtype=float), np.asarray(step.new, dtype=float)
    batches, contexts = np.array(grid.batches)[:, None], np.array(grid.contexts)[None, :]
    decoding = np.log(np.array(grid.decode_s) / formula(Step(decode=batches * groups, context=contexts)))
    reading = np.log(np.array(grid.prefill_s) / formula(Step(prompts=1.0 * groups, new=np.array(grid.prompts))))
    rows = _places(np.array(grid.batches), decode / groups)
    columns = _places(np.array(grid.contexts), context)
    one = np.exp(_bilinear(decoding, rows, columns))
    other = np.exp(
        np.interp(_places(np.array(grid.prompts), prompts * new / groups), range(len(grid.prompts)), reading)
    )
    decode_s = np.where(decode > 0, formula(Step(decode=decode, context=context)), 0.0)
    read_s = np.where(prompts > 0, formula(Step(prompts=prompts, new=new, before=step.before)), 0.0)
    whole = decode_s + read_s
    return np.asarray(np.where(whole > 0, (decode_s * one + read_s * other) / np.where(whole > 0, whole, 1.0), 1.0))


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
