"""Parts that run at another pace than their stage's unit.

In: parts of one application each. Out: the same parts, at a rate, or once a sequence. Invariant: what is stored and
cached stays what it is, but for its copies and its dtype.
"""

from collections.abc import Callable
from dataclasses import replace

from accord.models.parts.parts import Parts
from accord.terms.tensors import Dtype, Tensor
from accord.terms.work import Attention, Experts, Lookup, MatMul, Operator, Per, Phase, Reach


def paced(parts: Parts, rate: float, *, phase: Phase | None = None) -> Parts:
    """Runs each operator `rate` times a unit; `phase` says when, where it isn't always."""
    return replace(parts, operators=tuple(_paced(item, rate, phase) for item in parts.operators))


def once(parts: Parts, units: float) -> Parts:
    """Runs matrices on `units` rows once a request, with the first step (an encoder's output, a speaker)."""
    return replace(parts, operators=tuple(_once(item, units) for item in parts.operators))


def repeated(parts: Parts, copies: int) -> Parts:
    """The same weights `copies` times, each of which runs."""
    return _changed(parts, lambda tensor: replace(tensor, copies=tensor.copies * copies))


def stored_as(parts: Parts, dtype: Dtype) -> Parts:
    """The same weights in another plain dtype."""
    return _changed(parts, lambda tensor: replace(tensor, dtype=dtype))


def renamed(parts: Parts, old: str, new: str) -> Parts:
    """The same parts where names begin with `new` instead of `old`, so that two towers can stand side by side."""
    made = _changed(parts, lambda tensor: replace(tensor, name=_renamed(tensor.name, old, new)))
    operators = tuple(
        replace(item, name=_renamed(item.name, old, new)) if isinstance(item, Attention) else item
        for item in made.operators
    )
    return replace(made, operators=operators)


def all_see_all(parts: Parts) -> Parts:
    """A decoder's layers without their mask, and without logits: a prefix that is read as a whole."""
    operators = tuple(
        replace(item, reach=Reach.ALL) if isinstance(item, Attention) else item
        for item in parts.operators
        if not (isinstance(item, MatMul) and item.per is Per.SEQUENCE)
    )
    return replace(parts, operators=operators)


def idle(parts: Parts) -> Parts:
    """What is stored, but takes no part in the stage's usual work."""
    return replace(parts, operators=())


def _renamed(name: str, old: str, new: str) -> str:
    return new + name.removeprefix(old) if name.startswith(old) else name


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


def _changed(parts: Parts, change: Callable[[Tensor], Tensor]) -> Parts:
    tensors = tuple(change(tensor) for tensor in parts.tensors)
    return replace(parts, tensors=tensors, operators=tuple(_with(item, change) for item in parts.operators))


def _with(item: Operator, change: Callable[[Tensor], Tensor]) -> Operator:
    match item:
        case MatMul() | Lookup():
            return replace(item, weight=change(item.weight))
        case Experts():
            return replace(item, weights=tuple(change(weight) for weight in item.weights))
        case _:
            return item
