"""Judges a device by the operators' own cases, as plainly as can be: wanted values, and the bound of each element."""

import numpy as np

from accord.terms.quirk import Fact, Point, Trait
from accord.verify.operators.row import Case, Fill, OperatorRow
from accord.verify.operators.table import operators
from accord.verify.ports import Answer, Call, Device, Unsupported
from accord.verify.tensor import ROUNDOFF, Dtype


def point_of(operator: str, words: dict[str, str] | None = None, **sides: int) -> Point:
    """A complete point; its other words are the plainest."""
    space = operators()[operator].space
    made = space.point(sides, {choice.name: choice.words[0] for choice in space.choices} | (words or {}))
    assert made is not None, sides
    return made


def bare(operator: str, traits: dict[str, str], **sides: int) -> Point:
    facts = tuple(Fact(name=name, value=value) for name, value in sides.items())
    return Point(operator=operator, facts=facts, traits=tuple(Trait(name=n, word=w) for n, w in traits.items()))


def call_of(point: Point) -> Call:
    """Operands for timing."""
    row = operators()[point.operator]
    found = (row.build(point, np.random.default_rng(0), fill) for fill in (Fill.NORMAL, Fill.INTEGERS))
    return next(case.call for case in found if case is not None)


def judged(device: Device, point: Point) -> bool | None:
    """Whether all fills come out right; None where none can be run."""
    row = operators()[point.operator]
    found = [verdict for fill in Fill if (verdict := _one(device, row, point, fill)) is not None]
    return all(found) if found else None


def _one(device: Device, row: OperatorRow, point: Point, fill: Fill) -> bool | None:
    case = row.build(point, np.random.default_rng(5), fill)
    if case is None:
        return None
    outcome = device.run(case.call)
    if not isinstance(outcome, Answer):
        return None if isinstance(outcome, Unsupported) else False
    return all(right(case, tuple(tensor.floats() for tensor in run), run[0].dtype) for run in outcome.runs)


def right(case: Case, outputs: tuple[np.ndarray, ...], dtype: Dtype) -> bool:
    """Within |e| <= u_out |rounded| + 4 u sqrt(terms) scale wherever a finite value is wanted."""
    if case.consistent is not None and case.consistent(outputs) is not None:
        return False
    unit = ROUNDOFF.get(dtype, 0.0)
    for found, wanted, scale, rounded in zip(outputs, case.wanted, case.scale, case.rounded, strict=False):
        if case.consistent is not None and found is outputs[-1]:
            continue
        shaped = found.reshape(wanted.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            bound = 0.0 if case.exact else unit * rounded + 4 * max(unit, 2.0**-24) * case.terms**0.5 * scale
            close = np.abs(shaped - wanted) <= bound + 1e-30
        poisoned = ~np.isfinite(wanted)  # libraries differ in what they make of it; what matters is that it stays there
        if not (close | poisoned).all():
            return False
    return True
