"""Which shapes PyTorch's own samples of operators (OpInfo) reach, beside ours.

In: the operators of both. Out: largest dimensions, counts. Invariant: PyTorch's samples are made by PyTorch, in f32 on
the CPU, without gradients; ours are what the sweep would ask first.
"""

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from accord.terms.quirk import Point
from accord.verify.operators.table import operators
from accord.verify.points import series

_OURS = 400  # points of each operator: about what a sweep of ten minutes asks
# OpInfo's name for each of our operators that it has.
NAMES: Mapping[str, str] = {
    "mm": "mm",
    "matmul": "matmul",
    "addmm": "addmm",
    "bmm": "bmm",
    "baddbmm": "baddbmm",
    "linear": "nn.functional.linear",
    "conv1d": "nn.functional.conv1d",
    "conv2d": "nn.functional.conv2d",
    "conv3d": "nn.functional.conv3d",
    "sdpa": "nn.functional.scaled_dot_product_attention",
    "softmax": "softmax",
    "log_softmax": "log_softmax",
    "layer_norm": "nn.functional.layer_norm",
    "rms_norm": "nn.functional.rms_norm",
    "gelu": "nn.functional.gelu",
    "silu": "nn.functional.silu",
    "relu": "nn.functional.relu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "exp": "exp",
    "add": "add",
    "mul": "mul",
    "sum": "sum",
    "mean": "mean",
    "cumsum": "cumsum",
    "amax": "amax",
    "amin": "amin",
    "argmax": "argmax",
    "topk": "topk",
    "gather": "gather",
    "index_select": "index_select",
    "scatter": "scatter",
    "scatter_add": "scatter_add",
    "index_add": "index_add",
    "embedding": "nn.functional.embedding",
    "cat": "cat",
    "reshape": "reshape",
    "permute": "permute",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """One operator: how many samples each has, and the largest dimension of each sample (median and largest)."""

    operator: str
    ours: int
    ours_median: float
    ours_largest: int
    theirs: int
    theirs_median: float
    theirs_largest: int


def reach() -> list[Reach]:
    """For each operator that both have."""
    import expecttest  # noqa: F401 - the next module asks for it, and says so worse
    from torch.testing._internal.common_methods_invocations import op_db

    known = {row.name: row for row in reversed(op_db)}
    found = []
    for name, row in operators().items():
        if name not in NAMES or NAMES[name] not in known:
            continue
        theirs = [size for size in _samples(known[NAMES[name]]) if size]
        ours = [_largest(point) for point in itertools.islice(series(row, (), random.Random(0)), _OURS)]
        found.append(
            Reach(
                operator=name,
                ours=len(ours),
                ours_median=float(np.median(ours)),
                ours_largest=max(ours),
                theirs=len(theirs),
                theirs_median=float(np.median(theirs)),
                theirs_largest=max(theirs),
            )
        )
    return found


def _largest(point: Point) -> int:
    """The largest dimension of a call: the largest of its sides, save those that are no dimensions."""
    sides = [fact.value for fact in point.facts if fact.name not in ("itemsize", "stride", "padding", "groups")]
    return max(sides)


def _samples(row: Any) -> Iterator[int]:
    import torch

    for sample in row.sample_inputs("cpu", torch.float32, requires_grad=False):
        tensors = [one for one in (sample.input, *sample.args) if isinstance(one, torch.Tensor)]
        if isinstance(sample.input, list | tuple):
            tensors += [one for one in sample.input if isinstance(one, torch.Tensor)]
        yield max((max(one.shape, default=0) for one in tensors), default=0)
