"""Parts that run at another pace than their stage's unit.

In: parts of one application each. Out: the same parts, at a rate, or once a sequence. Invariant: tensors and caches
are untouched; only how often operators run changes.
"""

from collections.abc import Mapping
from dataclasses import replace

from accord.models.parts.parts import Parts
from accord.terms.tensors import Tensor
from accord.terms.work import Attention, Lookup, MatMul, Operator, Per, Phase


def paced(parts: Parts, rate: float, *, phase: Phase | None = None) -> Parts:
    """Runs each operator `rate` times a unit; `phase` says when, where it isn't always."""
    return replace(parts, operators=tuple(_paced(item, rate, phase) for item in parts.operators))


def once(parts: Parts, units: float) -> Parts:
    """Runs matrices on `units` rows once a request, with the first step (an encoder's output, a speaker)."""
    return replace(parts, operators=tuple(_once(item, units) for item in parts.operators))


def repeated(parts: Parts, copies: int) -> Parts:
    """The same weights `copies` times, each of which runs."""
    tensors = {tensor: replace(tensor, copies=tensor.copies * copies) for tensor in parts.tensors}
    operators = tuple(_with(item, tensors) for item in parts.operators)
    return replace(parts, tensors=tuple(tensors.values()), operators=operators)


def idle(parts: Parts) -> Parts:
    """What is stored, but takes no part in the stage's usual work."""
    return replace(parts, operators=())


def _paced(item: Operator, rate: float, phase: Phase | None) -> Operator:
    match item:
        case MatMul() | Attention():
            return replace(item, rate=item.rate * rate, phase=phase or item.phase)
        case _:
            return item


def _once(item: Operator, units: float) -> Operator:
    match item:
        case MatMul():
            return replace(item, per=Per.SEQUENCE, rate=item.rate * units, phase=Phase.PREFILL)
        case _:
            return item


def _with(item: Operator, tensors: Mapping[Tensor, Tensor]) -> Operator:
    match item:
        case MatMul() | Lookup():
            return replace(item, weight=tensors[item.weight])
        case _:
            return item
