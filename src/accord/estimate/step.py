"""Seconds of one step of one replica.

In: a `Form`, a `Performance`, a `Step` of arrays. Out: `Times`, arrays of seconds by class. Invariant: each class is
bounded by its FLOPs and by its bytes (joined by a p-norm), collectives by bytes and hops; more work is never faster.
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from accord.estimate.form import Form
from accord.estimate.known_steps import correction, grid_of
from accord.estimate.performance import Performance, Tuning
from accord.estimate.roof import ZERO, Bound, Grouped, Roof, Step, roof

__all__ = ["Step", "Times", "step_times", "timed"]

Array = npt.NDArray[np.float64]
_TILES = 2.0  # how sharply a kernel's tile bounds the units that an expert is charged with


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of a step by what they are spent on."""

    gemm: Array
    convolution: Array
    experts: Array
    attention: Array
    scan: Array
    collectives: Array
    overhead: Array

    @property
    def total(self) -> Array:
        """Seconds of the whole step."""
        return sum((getattr(self, item.name) for item in fields(self)), start=ZERO)


def step_times(form: Form, performance: Performance, step: Step) -> Times:
    """Seconds of one step. With pipeline ranks: of one micro-batch's way through all of them.

    Where whole steps of this model on this layout are known, the formulas only fill in between them.
    """
    found = timed(roof(form, performance, step), performance.tuning)
    grid = grid_of(form, performance.steps)
    if grid is None:
        return found

    def formula(asked: Step) -> Array:
        return timed(roof(form, performance, asked), performance.tuning).total

    factor = correction(grid, step, formula, groups=form.data)
    return Times(**{item.name: factor * getattr(found, item.name) for item in fields(Times)})


def timed(work: Roof, tuning: Tuning) -> Times:
    """The work at the speeds that are reached. `whole` is an engine's version as a factor on all of it."""
    sharp, slow = tuning.sharpness, tuning.whole
    experts = sum((_experts(item, tuning) for item in work.experts), start=ZERO)
    cached = _sum(work.attention, tuning.attention, tuning.cache, sharp)
    return Times(
        gemm=slow * _sum(work.gemm, tuning.gemm, tuning.memory, sharp),
        convolution=slow * _sum(work.convolution, tuning.convolution, tuning.memory, sharp),
        experts=slow * experts,
        attention=slow * (cached + work.moved_s / tuning.cache),
        scan=slow * _sum(work.scan, tuning.attention, tuning.cache, sharp),
        collectives=slow * (work.fixed_s + work.hops * tuning.collective_s + work.sent_s / tuning.link),
        overhead=slow * _overhead(work, tuning),
    )


def _overhead(work: Roof, tuning: Tuning) -> Array:
    """What a step costs besides its work; a step that reads prompts is launched kernel by kernel."""
    each = work.launches * tuning.launch_s + work.narrow * tuning.quantize_s + work.layers * tuning.layer_s
    each = each + work.routings * tuning.experts_s + work.scans * tuning.scan_s + tuning.step_s
    kernels = work.launches + work.layers + 4.0 * (work.routings + work.scans)
    return work.busy * each + work.reads * kernels * tuning.eager_s + work.sequences * tuning.sequence_s


def _experts(work: Grouped, tuning: Tuning) -> Array:
    """An expert with fewer units than a tile has is charged for the tile; the fullest rank is waited for."""
    rows = work.touched * (work.rows**_TILES + (work.tile * tuning.expert_tile) ** _TILES) ** (1.0 / _TILES)
    longer = 1.0 + tuning.imbalance * work.dealt
    compute = work.row_s * rows * longer / tuning.experts
    return _joined(compute, work.memory_s * longer / tuning.experts_memory, tuning.sharpness)


def _sum(bounds: tuple[Bound, ...], compute: float, memory: float, sharpness: float) -> Array:
    return sum((_joined(item.compute_s / compute, item.memory_s / memory, sharpness) for item in bounds), start=ZERO)


def _joined(compute_s: Array, memory_s: Array, sharpness: float) -> Array:
    longer, shorter = np.maximum(compute_s, memory_s), np.minimum(compute_s, memory_s)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(longer > 0, shorter / longer, 0.0)
    return longer * (1.0 + ratio**sharpness) ** (1.0 / sharpness)
