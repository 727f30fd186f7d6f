"""What the table of operators has in each row, and what a row makes of a point.

In: a `Point`, randomness, a `Fill`. Out: `Case`. Invariant: the answer wanted is computed in float64 from the operands'
very bits, so that rounding the operands is nobody's error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from accord.terms.quirk import Point
from accord.verify.ports import Call
from accord.verify.space import Space
from accord.verify.tensor import ROUNDOFF, Dtype, Floats


class Fill(StrEnum):
    """What operands are filled with."""

    INTEGERS = "integers"  # small ones, whose sums are exact in every order
    NORMAL = "normal"
    POISON = "poison"  # normal, with NaN or infinity in what must matter to one row of the answer alone


Consistent = Callable[[tuple[Floats, ...]], str | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A call, and for each output the value wanted and what errors are proportional to.

    An element may be off by `roundoff(out) * rounded + 4 * roundoff(accumulator) * sqrt(terms) * scale` (lambda 4, see
    docs/verify.md); where `exact`, by nothing. `window`: how many products each element really sums, where that
    isn't `terms` for all. `consistent` judges outputs that may differ rightly (indices of equal values): it says in
    words what is wrong, or None.
    """

    call: Call
    wanted: tuple[Floats, ...]
    scale: tuple[Floats, ...]
    rounded: tuple[Floats, ...]
    terms: float = 1.0
    window: Floats | None = None
    exact: bool = False
    consistent: Consistent | None = None


Build = Callable[[Point, np.random.Generator, Fill], Case | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """One operator. `build` answers None for a fill that doesn't suit it. `sides`: facts whose product is its size.

    `sums_wide`: healthy libraries sum it in more bits than f16 or bf16 operands have. `low`: roundoff of
    what drifts in precision alone.
    """

    name: str
    group: str
    space: Space
    build: Build
    sides: tuple[str, ...]
    usual: tuple[tuple[tuple[str, int], ...], ...] = ()
    sums_wide: bool = True
    low: float = ROUNDOFF[Dtype.BF16]
