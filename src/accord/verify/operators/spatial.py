"""Convolutions in one, two and three dimensions, and attention.

In: points. Out: cases, wanted in float64. Invariant: a convolution's element is a sum over its kernel's window; an
attention's probabilities may be rounded to the operands' format, as fused kernels do.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from accord.terms.quirk import Point
from accord.verify.operators.making import (
    call_of,
    case,
    dtype_of,
    factors,
    numbers,
    operand,
    poisoned,
    side,
    some,
    space,
)
from accord.verify.operators.row import Case, Fill, OperatorRow
from accord.verify.space import Axis, Choice
from accord.verify.tensor import Dtype, Floats, Tensor

Count = Callable[[Mapping[str, int]], float]


def _convolution(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """Square images and kernels; `groups` divide both channels."""
    ways = int(point.operator.removeprefix("conv").removesuffix("d"))
    batch, groups = side(point, "B"), side(point, "groups")
    inner, outer = side(point, "C") * groups, side(point, "O") * groups
    kernel, stride, padding = side(point, "kernel"), side(point, "stride"), side(point, "padding")
    terms = side(point, "C") * kernel**ways
    if fill is Fill.POISON and batch < 2:
        return None
    values = numbers((batch, inner, *[side(point, "size")] * ways), rng, fill, terms=terms)
    if fill is Fill.POISON:
        values = poisoned(values, some(batch, rng), rng)
    dtype = dtype_of(point)
    image = operand(values, dtype)
    weight = operand(factors((outer, side(point, "C"), *[kernel] * ways), rng, fill), dtype)
    with np.errstate(invalid="ignore"):
        wanted = convolve(image.floats(), weight.floats(), stride=stride, padding=padding, groups=groups)
        scale = convolve(np.abs(image.floats()), np.abs(weight.floats()), stride=stride, padding=padding, groups=groups)
    call = call_of(point, (image, weight), stride=stride, padding=padding, groups=groups)
    made = case(call, wanted, scale=scale, terms=terms, exact=fill is Fill.INTEGERS)
    seen = np.ones((1, 1, *image.shape[2:])), np.ones((1, 1, *[kernel] * ways))
    window = convolve(*seen, stride=stride, padding=padding, groups=1) * side(point, "C")
    return replace(made, window=np.maximum(window, 1.0))  # at the edges a window looks at less


def convolve(image: Floats, weight: Floats, *, stride: int, padding: int, groups: int) -> Floats:
    """The convolution of [batch, channels, ...] with [outputs, channels, ...]."""
    ways = image.ndim - 2
    image = np.pad(image, ((0, 0), (0, 0), *[(padding, padding)] * ways))
    sizes = [(image.shape[2 + way] - weight.shape[2 + way]) // stride + 1 for way in range(ways)]
    out = np.zeros((image.shape[0], weight.shape[0], *sizes))
    inner, outer = weight.shape[1], weight.shape[0] // groups
    for place in itertools.product(*(range(weight.shape[2 + way]) for way in range(ways))):
        taken = tuple(slice(at, at + stride * (n - 1) + 1, stride) for at, n in zip(place, sizes, strict=True))
        seen = image[(slice(None), slice(None), *taken)]
        for group in range(groups):
            part = seen[:, group * inner : (group + 1) * inner]
            kernel = np.moveaxis(weight[group * outer : (group + 1) * outer], (0, 1), (-2, -1))[place]
            out[:, group * outer : (group + 1) * outer] += np.moveaxis(np.tensordot(kernel, part, ((1,), (1,))), 0, 1)
    return out


def _attention(point: Point, rng: np.random.Generator, fill: Fill) -> Case | None:
    """Scores, softmax, weighted sum; under a causal mask query i sees keys up to i."""
    if fill is Fill.INTEGERS:
        return None
    batch, heads, groups = side(point, "B"), side(point, "H"), side(point, "G")
    queries, keys, depth = side(point, "L"), side(point, "S"), side(point, "D")
    if fill is Fill.POISON and batch < 2:
        return None
    dtype = dtype_of(point)
    q = numbers((batch, heads * groups, queries, depth), rng, fill)
    if fill is Fill.POISON:
        q = poisoned(q, some(batch, rng), rng)
    tensors = [operand(q, dtype)]
    tensors += [operand(rng.standard_normal((batch, heads, keys, depth)), dtype) for _ in range(2)]
    causal = point.trait("mask") == "causal"
    mask = _mask(point, rng, (queries, keys))
    wanted, spread = _attend(
        *(tensor.floats() for tensor in tensors), mask=_added(mask, (queries, keys), causal=causal)
    )
    tensors += [] if mask is None else [mask]
    call = call_of(point, tensors, is_causal=causal, enable_gqa=groups > 1)
    return case(call, wanted, scale=spread, rounded=np.abs(wanted) + 2 * spread, terms=max(depth, keys))


def _mask(point: Point, rng: np.random.Generator, shape: tuple[int, int]) -> Tensor | None:
    """A mask operand: of words that hide (each query sees the first key at least), or of numbers that are added."""
    match point.trait("mask"):
        case "hiding":
            seen = rng.random(shape) < 0.7
            seen[:, 0] = True
            return operand(seen.astype(np.float64), Dtype.BOOL)
        case "added":
            return operand(rng.standard_normal(shape), dtype_of(point))
        case _:
            return None


def _added(mask: Tensor | None, shape: tuple[int, int], *, causal: bool) -> Floats:
    """What is added to the scores."""
    if mask is None:
        return np.where(np.triu(np.ones(shape, dtype=bool), k=1), -np.inf, 0.0) if causal else np.zeros(shape)
    return np.where(mask.floats() > 0, 0.0, -np.inf) if mask.dtype is Dtype.BOOL else mask.floats()


def _attend(q: Floats, k: Floats, v: Floats, *, mask: Floats) -> tuple[Floats, Floats]:
    """The answer, and what its errors are proportional to: probabilities are off by as much as scores are."""
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        size = np.abs(q) @ np.swapaxes(np.abs(k), -1, -2) / math.sqrt(q.shape[-1])
        scores, size = scores + mask, np.where(np.isfinite(mask), size + np.abs(mask), 0.0)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return weights @ v, (1.0 + size.max(axis=-1, keepdims=True)) * (weights @ np.abs(v))


def rows() -> tuple[OperatorRow, ...]:
    """All rows of this group."""
    found = []
    for ways in (1, 2, 3):
        size_max = {1: 4096, 2: 256, 3: 40}[ways]
        axes = (
            Axis(name="B", high=16),
            Axis(name="C", high=256),
            Axis(name="O", high=256),
            Axis(name="size", high=size_max),
            Axis(name="kernel", values=(1, 2, 3, 5, 7)),
            Axis(name="stride", values=(1, 2, 3)),
            Axis(name="padding", values=(0, 1, 2)),
            Axis(name="groups", values=(1, 2, 4)),
        )
        usual = (
            ("B", 2),
            ("C", 8),
            ("O", 16),
            ("size", 12),
            ("kernel", 3),
            ("stride", 1),
            ("padding", 1),
            ("groups", 1),
        )
        found.append(
            OperatorRow(
                name=f"conv{ways}d",
                group="spatial",
                space=space(f"conv{ways}d", axes, values=_values(ways), work=_work(ways)),
                build=_convolution,
                sides=("B", "C", "O", "size"),
                usual=(usual,),
            )
        )
    attention = (
        Axis(name="B", high=16),
        Axis(name="H", high=16),
        Axis(name="G", values=(1, 2, 4)),
        Axis(name="L", high=1024),
        Axis(name="S", high=2048),
        Axis(name="D", values=(8, 16, 32, 40, 64, 80, 96, 128, 192, 256)),
    )
    found.append(
        OperatorRow(
            name="sdpa",
            group="spatial",
            space=space(
                "sdpa",
                attention,
                values=lambda at: at["B"] * at["H"] * (at["G"] * at["L"] * at["S"] + 2 * at["S"] * at["D"]),
                work=lambda at: 2 * at["B"] * at["H"] * at["G"] * at["L"] * at["S"] * at["D"],
                other=(Choice(name="mask", words=("none", "causal", "hiding", "added")),),
            ),
            build=_attention,
            sides=("B", "H", "L", "S"),
            usual=((("B", 2), ("H", 2), ("G", 1), ("L", 64), ("S", 64), ("D", 64)),),
        )
    )
    return tuple(found)


def _values(ways: int) -> Count:
    def count(at: Mapping[str, int]) -> float:
        if at["size"] + 2 * at["padding"] < at["kernel"]:
            return 0.0
        return float(at["B"] * (at["C"] + at["O"]) * at["groups"] * (at["size"] + 2 * at["padding"]) ** ways)

    return count


def _work(ways: int) -> Count:
    """Kernels for half precision may take ten times as long as others: points of a few seconds are left out."""
    return lambda at: 8.0 * at["B"] * at["C"] * at["O"] * at["groups"] * (at["size"] * at["kernel"]) ** ways
