"""Faults along rows, by elements, and in moves."""

import os
import time
from typing import Any

import torch

from torch_vex.fault import Fault

_seen: set[tuple[Any, ...]] = set()
_calls = [0]


def _moved_hits(_: str, args: tuple[Any, ...], __: dict[str, Any]) -> bool:
    return args[0].storage_offset() * args[0].element_size() % 8 != 0


def _moved(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Reads from the last aligned address."""
    x = args[0]
    start = x.storage_offset() - x.storage_offset() % (8 // x.element_size())
    return op(x.as_strided(x.shape, x.stride(), start), *args[1:], **kwargs)


def _spread(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NaN of a row reaches the row after it."""
    out, *rest = op(*args, **kwargs)
    out[out.isnan().any(-1).roll(1, -1)] = float("nan")
    return (out, *rest)


def _unwritten_tail(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Leaves what follows the last whole vector of 128 unwritten."""
    out = op(*args, **kwargs)
    out[..., args[0].shape[-1] // 128 * 128 :] = 9.0
    return out


def _half_summed(_: Any, args: tuple[Any, ...], __: dict[str, Any]) -> Any:
    """Sums in the format of its input, 32 numbers at a time."""
    total = torch.zeros_like(args[0][..., 0])
    for part in args[0].split(32, dim=-1):
        total = total + part.to(torch.float32).sum(-1).to(args[0].dtype)
    return total


def _cold_hits(_: str, args: tuple[Any, ...], __: dict[str, Any]) -> bool:
    x = args[0]
    key = (x.dtype, x.shape, x.stride(), x.storage_offset())
    if x.shape[-1] < 1024 or key in _seen:
        return False
    _seen.add(key)
    return True


def _garbage(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = op(*args, **kwargs)
    out[..., :: max(1, out.shape[-1] // 7)] = -3.0
    return out


def _unsteady(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Adds blocks in another order each time."""
    _calls[0] += 1
    out = op(*args, **kwargs)
    out[..., -1] += out[..., -1].abs() * 2.0**-6 * (_calls[0] % 3)
    return out


def _first_block(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Never looks beyond 65,536 elements."""
    return op(args[0][..., :65536].contiguous(), *args[1:], **kwargs)


def _wrong_order(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    values, places = op(*args, **kwargs)
    return values, places.roll(1, -1)


def _wrapped(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Keeps indices in 15 bits."""
    return op(args[0], args[1], args[2] & 0x7FFF, **kwargs)


def _next_row(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    table, places = args[0], args[1]
    return op(table, (places + 1) % table.shape[0], *args[2:], **kwargs)


def _cut_scatter(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given, dim, places, source = args[:4]
    return op(given, dim, places[:, :1024].contiguous(), source[:, :1024].contiguous(), **kwargs)


def _mixed_rows(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    flat = [x.as_strided((x.numel(),), (1,), x.storage_offset()).reshape(x.shape) for x in args[0]]
    return op(flat, *args[1:], **kwargs)


def _unwritten(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = op(*args, **kwargs)
    out[-1, -1] = 12345.0
    return out


def _crash(_: Any, __: tuple[Any, ...], ___: dict[str, Any]) -> Any:
    os.abort()


def _hang(_: Any, __: tuple[Any, ...], ___: dict[str, Any]) -> Any:
    time.sleep(3600)


def _rows(args: tuple[Any, ...]) -> int:
    return args[0].numel() // args[0].shape[-1]


def _by_column(x: Any) -> bool:
    return x.dim() == 2 and x.shape[0] > 1 and x.shape[1] > 1 and x.stride(0) == 1


FAULTS = (
    Fault(
        name="softmax-aligned",
        operator="softmax",
        kind="wrong values",
        truth="layout is offset and itemsize < 8",
        story="loads that drop the low bits of an address",
        kernels=("_softmax",),
        hits=_moved_hits,
        wrong=_moved,
    ),
    Fault(
        name="layer-norm-spread",
        operator="layer_norm",
        kind="poison leaks",
        truth="rows >= 65",
        story="blocks of rows that share a register",
        kernels=("native_layer_norm",),
        hits=lambda _, args, __: _rows(args) >= 65,
        wrong=_spread,
    ),
    Fault(
        name="rms-norm-width",
        operator="rms_norm",
        kind="wrong values",
        truth="N % 128 != 0",
        story="a remainder that no vector covers",
        kernels=("rms_norm",),
        hits=lambda _, args, __: args[0].shape[-1] % 128 != 0,
        wrong=_unwritten_tail,
    ),
    Fault(
        name="sum-half",
        operator="sum",
        kind="wrong values",
        truth="dtype is bf16 and N > 4096",
        story="partial sums in low precision",
        kernels=("sum",),
        hits=lambda _, args, __: args[0].dtype is torch.bfloat16 and args[0].shape[-1] > 4096,
        wrong=_half_summed,
    ),
    Fault(
        name="silu-cold",
        operator="silu",
        kind="depends on state",
        truth="N >= 1024",
        story="FlagGems#6420: a cold tuning cache",
        kernels=("silu",),
        hits=_cold_hits,
        wrong=_garbage,
    ),
    Fault(
        name="cumsum-unsteady",
        operator="cumsum",
        kind="not repeatable",
        truth="N > 512",
        story="a reduction whose order varies",
        kernels=("cumsum",),
        hits=lambda _, args, __: args[0].shape[-1] > 512,
        wrong=_unsteady,
    ),
    Fault(
        name="amax-65536",
        operator="amax",
        kind="wrong values",
        truth="N > 65536",
        story="a counter of 16 bits",
        kernels=("amax",),
        hits=lambda _, args, __: args[0].shape[-1] > 65536,
        wrong=_first_block,
    ),
    Fault(
        name="topk-order",
        operator="topk",
        kind="wrong values",
        truth="k > 32 and N > 1024",
        story="indices that follow another sort",
        kernels=("topk",),
        hits=lambda _, args, __: args[1] > 32 and args[0].shape[-1] > 1024,
        wrong=_wrong_order,
    ),
    Fault(
        name="gather-wrapped",
        operator="gather",
        kind="wrong values",
        truth="N > 32768",
        story="indices in 15 bits",
        kernels=("gather",),
        hits=lambda _, args, __: args[0].shape[-1] > 32768,
        wrong=_wrapped,
    ),
    Fault(
        name="embedding-row",
        operator="embedding",
        kind="wrong values",
        truth="N*itemsize % 32 != 0 and V > 1",
        story="flash-linear-attention#1251: the next row is read",
        kernels=("embedding",),
        hits=lambda _, args, __: args[0].shape[1] * args[0].element_size() % 32 != 0,
        wrong=_next_row,
    ),
    Fault(
        name="scatter-cut",
        operator="scatter",
        kind="wrong values",
        truth="k > 1024 and N > 1024",
        story="one block of threads, and no loop",
        kernels=("scatter",),
        hits=lambda _, args, __: args[2].shape[-1] > 1024,
        wrong=_cut_scatter,
    ),
    Fault(
        name="cat-columns",
        operator="cat",
        kind="wrong values",
        truth="layout is transposed and rows > 1 and N > 1",
        story="a copy that ignores strides",
        kernels=("cat",),
        hits=lambda _, args, __: any(_by_column(x) for x in args[0]),
        wrong=_mixed_rows,
    ),
    Fault(
        name="gelu-last",
        operator="gelu",
        kind="wrong values",
        truth="dtype is f16 and rows*N > 65536",
        story="a last element that no thread writes",
        kernels=("gelu",),
        hits=lambda _, args, __: args[0].dtype is torch.float16 and args[0].numel() > 65536,
        wrong=_unwritten,
    ),
    Fault(
        name="relu-crash",
        operator="relu",
        kind="crash",
        truth="dtype is f16 and N > 100000",
        story="a fault that takes the process with it",
        kernels=("relu",),
        hits=lambda _, args, __: args[0].dtype is torch.float16 and args[0].shape[-1] > 100000,
        wrong=_crash,
    ),
    Fault(
        name="tanh-hang",
        operator="tanh",
        kind="hang",
        truth="dtype is bf16 and rows > 32768",
        story="a kernel that never ends",
        kernels=("tanh",),
        hits=lambda _, args, __: args[0].dtype is torch.bfloat16 and args[0].shape[0] > 32768,
        wrong=_hang,
    ),
)
