"""How each operator of the table is called in PyTorch.

In: a `Call`, its operands as tensors of PyTorch. Out: the outputs. Invariant: one line an operator, and nothing is
computed beside it, so a wrong answer is the operator's own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accord.verify.ports import Call

Made = Callable[[Call, Sequence[Any]], Any]


def functions() -> Mapping[str, Made]:
    """By operator. Imports torch."""
    import torch
    from torch.nn import functional as nn

    return {**_products(torch, nn), **_spatial(nn), **_rowwise(torch, nn), **_moving(torch, nn)}


def _products(torch: Any, nn: Any) -> Mapping[str, Made]:
    return {
        "mm": lambda _, x: torch.mm(*x),
        "matmul": lambda _, x: torch.matmul(*x),
        "addmm": lambda _, x: torch.addmm(*x),
        "bmm": lambda _, x: torch.bmm(*x),
        "baddbmm": lambda _, x: torch.baddbmm(*x),
        "linear": lambda _, x: nn.linear(*x),
        "int_mm": lambda _, x: torch._int_mm(*x),
        "grouped_mm": lambda _, x: nn.grouped_mm(x[0], x[1], offs=x[2].to(torch.int32)),
        "matmul_nbits": _nbits,
        "scaled_mm": lambda _, x: torch._scaled_mm(x[0], x[1], scale_a=x[2], scale_b=x[3], out_dtype=torch.bfloat16),
        "turned_square": lambda _, x: torch.vmap(lambda row: ((x[1] @ row) ** 2).sum())(x[0]),
    }


def _nbits(_: Call, given: Sequence[Any]) -> Any:
    """PyTorch has no such operator for every block size: two halves of a byte, less 8, times the block's scale."""
    import torch

    x, packed, scales = given
    codes = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)
    weight = ((codes.to(x.dtype) - 8) * scales[..., None].to(x.dtype)).flatten(1)
    return x @ weight[:, : x.shape[1]].t()


def _spatial(nn: Any) -> Mapping[str, Made]:
    def convolution(name: str) -> Made:
        made = getattr(nn, name)
        return lambda call, x: made(
            *x,
            stride=call.option("stride"),
            padding=call.option("padding"),
            groups=call.option("groups"),
        )

    return {
        **{name: convolution(name) for name in ("conv1d", "conv2d", "conv3d")},
        "sdpa": lambda call, x: nn.scaled_dot_product_attention(
            *x[:3],
            attn_mask=x[3] if len(x) > 3 else None,
            is_causal=bool(call.option("is_causal")),
            enable_gqa=bool(call.option("enable_gqa")),
        ),
    }


def _rowwise(torch: Any, nn: Any) -> Mapping[str, Made]:
    return {
        "softmax": lambda _, x: torch.softmax(x[0], -1),
        "log_softmax": lambda _, x: torch.log_softmax(x[0], -1),
        "layer_norm": lambda call, x: nn.layer_norm(x[0], x[0].shape[-1:], *x[1:], eps=call.option("eps")),
        "rms_norm": lambda call, x: nn.rms_norm(x[0], x[0].shape[-1:], *x[1:], eps=call.option("eps")),
        "group_norm": lambda call, x: nn.group_norm(x[0], call.option("groups"), *x[1:], eps=call.option("eps")),
        "sum": lambda _, x: x[0].sum(-1),
        "mean": lambda _, x: x[0].mean(-1),
        "amax": lambda _, x: x[0].amax(-1),
        "amin": lambda _, x: x[0].amin(-1),
        "prod": lambda _, x: x[0].prod(-1),
        "cumsum": lambda _, x: x[0].cumsum(-1),
        "sum_rows": lambda _, x: x[0].sum(0),
        "relu": lambda _, x: torch.relu(x[0]),
        "gelu": lambda _, x: nn.gelu(x[0]),
        "gelu_tanh": lambda _, x: nn.gelu(x[0], approximate="tanh"),
        "silu": lambda _, x: nn.silu(x[0]),
        "sigmoid": lambda _, x: torch.sigmoid(x[0]),
        "tanh": lambda _, x: torch.tanh(x[0]),
        "exp": lambda _, x: torch.exp(x[0]),
        "add": lambda _, x: torch.add(*x),
        "mul": lambda _, x: torch.mul(*x),
        "cast": lambda call, x: x[0].to(dtypes()[str(call.option("to"))]),
        "rope": _rope,
    }


def _rope(_: Call, given: Sequence[Any]) -> Any:
    """x cos + rotate_half(x) sin, as Llama's published code has it."""
    import torch

    x, cos, sin = given
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def _moving(torch: Any, nn: Any) -> Mapping[str, Made]:
    return {
        "topk": lambda call, x: torch.topk(x[0], call.option("k"), dim=-1),
        "argmax": lambda _, x: torch.argmax(x[0], -1),
        "sort": lambda _, x: torch.sort(x[0], dim=-1),
        "gather": lambda _, x: torch.gather(x[0], 1, x[1]),
        "index_select": lambda _, x: torch.index_select(x[0], 1, x[1]),
        "scatter": lambda _, x: torch.scatter(x[0], 1, x[1], x[2]),
        "scatter_add": lambda _, x: torch.scatter_add(x[0], 1, x[1], x[2]),
        "index_add": lambda _, x: torch.index_add(x[0], 0, x[1], x[2]),
        "embedding": lambda _, x: nn.embedding(x[1], x[0]),
        "cat": lambda _, x: torch.cat(list(x), 1),
        "reshape": lambda _, x: x[0].reshape(-1),
        "permute": lambda _, x: x[0].t().contiguous(),
        "where": lambda _, x: torch.where(*x),
    }


def dtypes() -> Mapping[str, Any]:
    """PyTorch's dtypes by our names."""
    import torch

    return {
        "bool": torch.bool,
        "u8": torch.uint8,
        "i8": torch.int8,
        "i16": torch.int16,
        "i32": torch.int32,
        "i64": torch.int64,
        "f8e4m3": torch.float8_e4m3fn,
        "f8e5m2": torch.float8_e5m2,
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "f32": torch.float32,
        "f64": torch.float64,
    }
