"""Least squares for a handful of parameters, without a library that the base installation lacks.

In: a function from parameters to residuals, some starts. Out: the parameters. Invariant: every step taken lowers the
loss, so the answer is never worse than any start.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_STEPS = 200
_TINY = 1e-6
_DAMPED = 1e9


def least_squares(residuals: Callable[[Array], Array], starts: Sequence[Array], *, near: float) -> Array:
    """The best that is found from any start; residuals beyond `near` weigh as their absolute value (soft L1)."""
    ends = [_descended(residuals, start, near) for start in starts]
    return min(ends, key=lambda values: _loss(residuals(values), near))


def _descended(residuals: Callable[[Array], Array], start: Array, near: float) -> Array:
    """Levenberg and Marquardt's method."""
    values, damping = start.astype(float), 1e-2
    here = residuals(values)
    best = _loss(here, near)
    for _ in range(_STEPS):
        slopes = _slopes(residuals, values, here)
        weights = 1.0 / np.sqrt(1.0 + (here / near) ** 2)
        normal = slopes.T @ (slopes * weights[:, None])
        downhill = slopes.T @ (weights * here)
        before = best
        while damping < _DAMPED:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + _TINY), -downhill)
            there = values + np.clip(step, -2.0, 2.0)
            tried = residuals(there)
            loss = _loss(tried, near)
            if loss < best:
                values, here, best, damping = there, tried, loss, damping / 3
                break
            damping *= 4
        if before - best <= _TINY * _TINY * before:
            break
    return values


def _slopes(residuals: Callable[[Array], Array], values: Array, here: Array) -> Array:
    columns = []
    for number in range(len(values)):
        aside = values.copy()
        aside[number] += _TINY
        columns.append((residuals(aside) - here) / _TINY)
    return np.stack(columns, axis=1)


def _loss(residuals: Array, near: float) -> float:
    return float(np.sum(2 * near**2 * (np.sqrt(1 + (residuals / near) ** 2) - 1)))
