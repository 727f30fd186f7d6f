"""Two engines' traces of the same tokens -> where they part, and how far their answers drift.

In: two `Trace`s. Out: `Drift`. Invariant: nothing is averaged over positions but what says so: a fault in one row
shows in the largest error of a layer and in the 99.9th percentile, which a mean would hide.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accord.terms.errors import BadInput

Floats = npt.NDArray[np.float32]

# A layer diverges where a position's error is more than so many times the largest of the layers before plus one
# rounding. Measured on SmolLM2-135M, 572 positions, 30 layers, against fp32: at most 10.9 for bf16, 6.6 for int8, 7.9
# for f16; in bf16 with the output of one MLP wrong at one position 16.5. Smaller faults drown in precision.
JUMP = 15.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """What stands in the residual stream after a layer: (positions, width)."""

    name: str
    values: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """One engine on all prompts, their positions one after the other. `logits`: (positions, vocabulary).

    `roundoff`: of the number format it computes in (half the distance from 1 to the next number).
    """

    engine: str
    roundoff: float
    layers: tuple[Layer, ...]
    logits: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDrift:
    """Errors of one layer, relative to the length of a position's vector: the median and the largest of all.

    `growth`: how many times the error of the layers before (plus one rounding) it is, at the worst position.
    """

    name: str
    median: float
    largest: float
    growth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How two engines differ. KL divergences are of B's next token from A's, in nats.

    `first_divergent`: the layer whose error is out of all proportion to the one before; None: precision explains all.
    """

    a: str
    b: str
    positions: int
    layers: tuple[LayerDrift, ...]
    first_divergent: str | None
    top1: float
    kl_median: float
    kl_p999: float
    kl_largest: float
    kl: tuple[float, ...]  # of each position


def drift(a: Trace, b: Trace) -> Drift:
    """Compares B with A. BadInput if they aren't traces of the same tokens and the same model."""
    _same(a, b)
    layers = _layers(a, b)
    kl = divergences(a.logits, b.logits)
    median, p999 = np.quantile(kl, (0.5, 0.999), method="higher")  # a value that was seen, infinity included
    return Drift(
        a=a.engine,
        b=b.engine,
        positions=len(kl),
        layers=layers,
        first_divergent=next((layer.name for layer in layers if layer.growth > JUMP), None),
        top1=float((a.logits.argmax(-1) == b.logits.argmax(-1)).mean()),
        kl_median=float(median),
        kl_p999=float(p999),
        kl_largest=float(kl.max()),
        kl=tuple(map(float, kl)),
    )


def divergences(logits: Floats, others: Floats) -> npt.NDArray[np.float64]:
    """KL(P || Q) of each position, with P from the first logits; infinite where Q is broken (NaN)."""
    log_p, log_q = _log_softmax(logits), _log_softmax(others)
    found: npt.NDArray[np.float64] = np.sum(np.exp(log_p) * (log_p - log_q), axis=-1)
    return np.where(np.isnan(found), np.inf, np.maximum(found, 0.0))


def _log_softmax(logits: Floats) -> npt.NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    sums: npt.NDArray[np.float64] = np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    return wide - sums


def _layers(a: Trace, b: Trace) -> tuple[LayerDrift, ...]:
    before = np.zeros(len(a.logits))
    roundoff = max(a.roundoff, b.roundoff)
    found = []
    for one, other in zip(a.layers, b.layers, strict=True):
        error = _errors(one.values, other.values)
        with np.errstate(invalid="ignore"):
            growth = np.nan_to_num(error / (before + roundoff), nan=1.0, posinf=np.inf)  # what is lost stays lost
        found.append(
            LayerDrift(
                name=one.name,
                median=float(np.median(error)),
                largest=float(error.max()),
                growth=float(growth.max()),
            )
        )
        before = np.maximum(before, error)
    return tuple(found)


def _errors(exact: Floats, values: Floats) -> npt.NDArray[np.float64]:
    """Relative to each position's length; a vector with NaN or infinities is infinitely far away."""
    wide = exact.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.linalg.norm(values.astype(np.float64) - wide, axis=-1)
    error /= np.maximum(np.linalg.norm(wide, axis=-1), 1e-30)
    return np.where(np.isnan(error), np.inf, error)


def _same(a: Trace, b: Trace) -> None:
    shapes = [[layer.values.shape for layer in trace.layers] for trace in (a, b)]
    if shapes[0] != shapes[1] or a.logits.shape != b.logits.shape:
        raise BadInput(
            field="drift",
            value=f"{a.engine} and {b.engine}",
            problem=f"layers or positions differ: {len(a.layers)} layers, logits {a.logits.shape} and "
            f"{len(b.layers)} layers, logits {b.logits.shape}",
            fix="trace both engines with the same model and the same prompts",
        )
