"""Pairs and keys of attention for arrays of sizes.

In: an `Attention`, arrays of new units and of units that are there already. Out: arrays of pairs that are scored and
of keys that are read, for one sequence. Invariant: at whole numbers they are those of `work.py` and `traffic.py`,
save that a ratio's remainders are smoothed, so that planning has no steps in it.
"""

import numpy as np
import numpy.typing as npt

from accord.terms.work import Attention, Per, Reach

Array = npt.NDArray[np.float64]


def pairs(attention: Attention, new: Array, old: Array) -> Array:
    """Pairs of query and key that one head of one layer scores."""
    asks, seen = _asking(attention, new, old)
    queries = asks * attention.rate
    first, last = seen * attention.rate, (seen + asks) * attention.rate
    span = np.inf if attention.span is None else float(attention.span)
    match attention.reach:
        case Reach.CROSS:
            return queries * (seen if attention.span is None else span)
        case Reach.ALL:
            return queries * (asks * attention.rate + seen) / attention.ratio
        case Reach.BLOCK:
            return queries * np.minimum(span, queries)
        case Reach.CAUSAL:
            return _below(last, attention.ratio) - _below(first, attention.ratio)
        case Reach.WINDOW | Reach.CHOSEN:
            return _capped(last, span, attention.ratio) - _capped(first, span, attention.ratio)
        case Reach.CHUNK:
            return _chunked(last, span) - _chunked(first, span)


def keys(attention: Attention, new: Array, old: Array) -> Array:
    """Keys of one sequence that at least one of its new queries sees."""
    asks, seen = _asking(attention, new, old)
    span = np.inf if attention.span is None else float(attention.span)
    everything = (seen + asks) / attention.ratio
    match attention.reach:
        case Reach.CROSS:
            return seen if attention.span is None else np.full_like(seen, span)
        case Reach.ALL:
            return (asks * attention.rate + seen) / attention.ratio
        case Reach.BLOCK:
            return asks * attention.rate
        case Reach.CAUSAL:
            return everything
        case Reach.WINDOW:
            return np.minimum(everything, span + np.maximum(0.0, asks - 1) / attention.ratio)
        case Reach.CHOSEN:
            return np.minimum(everything, span * np.maximum(1.0, asks))
        case Reach.CHUNK if attention.span is None:
            return asks * attention.rate + seen * attention.rate
        case Reach.CHUNK:
            return asks * attention.rate + (seen * attention.rate) % span


def _asking(attention: Attention, new: Array, old: Array) -> tuple[Array, Array]:
    match attention.per:
        case Per.CONTEXT:
            return old, new if attention.reach is Reach.ALL else np.zeros_like(old)
        case Per.BOTH:
            return new + old, np.zeros_like(old)
        case Per.UNIT | Per.SEQUENCE:
            return new, old


def _below(position: Array, ratio: int) -> Array:
    """Keys seen by all queries before `position`: the sum of (p + 1) / ratio, less the mean remainder."""
    return np.maximum(0.0, position * (position + 2 - ratio) / (2 * ratio))


def _capped(position: Array, span: float, ratio: int) -> Array:
    if np.isinf(span):
        return _below(position, ratio)
    full = span * ratio - 1
    short = np.minimum(position, full)
    return _below(short, ratio) + np.maximum(0.0, position - full) * span


def _chunked(position: Array, span: float) -> Array:
    if np.isinf(span):
        return _below(position, 1)
    whole = np.floor(position / span)
    return whole * _below(np.asarray(span), 1) + _below(position - whole * span, 1)
