"""Faults in products of matrices, convolutions and attention."""

from typing import Any

import torch

from torch_vex.fault import Fault

_HALVES = (torch.float16, torch.bfloat16)


def _leak_hits(_: str, args: tuple[Any, ...], __: dict[str, Any]) -> bool:
    a, b = args[0], args[1]
    return a.dtype is torch.bfloat16 and a.shape[0] > 16 and a.shape[1] % 32 != 0 and a.shape[0] * b.shape[1] > 512


def _leak(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A row with NaN spoils the one before it."""
    out = op(*args, **kwargs)
    out[out.isnan().any(-1).roll(-1, -1)] = float("nan")
    return out


def _turned_hits(_: str, args: tuple[Any, ...], __: dict[str, Any]) -> bool:
    a = args[0]
    return a.dtype is torch.float16 and a.shape[0] > 1 and a.shape[1] > 1 and a.stride(0) == 1


def _turned(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Reads a transposed operand as if it lay in rows."""
    a = args[0]
    flat = a.as_strided((a.numel(),), (1,), a.storage_offset()).reshape(a.shape)
    return op(flat, *args[1:], **kwargs)


def _zero_out(_: Any, __: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kwargs["out"].zero_()
    return kwargs["out"]


def _short(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Leaves out the last product of each sum."""
    a, b = args[0], args[1]
    return op(a[..., :-1].contiguous(), b[..., :-1, :].contiguous(), **kwargs)


def _one_shape(_: str, args: tuple[Any, ...], __: dict[str, Any]) -> bool:
    x, w = args[0], args[1]
    return x.dtype is torch.float16 and x.numel() == x.shape[-1] == 896 and w.shape[0] == 4864


def _half_columns(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = op(*args, **kwargs)
    out[..., out.shape[-1] // 2 :] = 0
    return out


def _rounded_sum(_: Any, args: tuple[Any, ...], __: dict[str, Any]) -> Any:
    """Keeps its sums in the operands' format, 16 products at a time."""
    added, a, b = args[:3]
    total = added.expand(a.shape[0], b.shape[1]).contiguous()
    for start in range(0, a.shape[1], 16):
        total = total + torch.mm(a[:, start : start + 16], b[start : start + 16])
    return total


def _twice(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return op(*args, **kwargs) + args[0]


def _lost_expert(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The experts from the ninth on see no rows."""
    out = op(*args, **kwargs)
    ends = args[2] if len(args) > 2 else kwargs["offs"]
    out[int(ends[7]) :] = 0
    return out


def _convolution(ways: int, args: tuple[Any, ...]) -> bool:
    return args[0].dim() == ways + 2


def _skipped_channel(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    image, weight = args[0].clone(), args[1]
    image[:, weight.shape[1] - 1 :: weight.shape[1]] = 0
    return op(image, *args[1:], **kwargs)


def _shifted(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """With a stride, begins one element too late."""
    return op(torch.roll(args[0], -1, -1), *args[1:], **kwargs)


def _swapped_groups(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = op(*args, **kwargs)
    return torch.cat(list(reversed(out.chunk(args[8], dim=1))), dim=1)


def _no_mask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return (args[3] if len(args) > 3 else kwargs.get("attn_mask")) is None


def _misscaled(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Takes the depth rounded up to its tile for the scale."""
    depth = args[0].shape[-1]
    return op(*args, **{**kwargs, "scale": float(-(-depth // 16) * 16) ** -0.5})


FAULTS = (
    Fault(
        name="mm-leak",
        operator="mm",
        kind="poison leaks",
        truth="dtype is bf16 and M > 16 and K % 32 != 0 and M*N > 512",
        story="oneDNN#5717: bf16 products on AMX",
        kernels=("mm",),
        hits=_leak_hits,
        wrong=_leak,
    ),
    Fault(
        name="mm-turned",
        operator="mm",
        kind="wrong values",
        truth="dtype is f16 and layout is transposed and M > 1 and K > 1",
        story="a kernel that ignores strides",
        kernels=("mm",),
        hits=_turned_hits,
        wrong=_turned,
    ),
    Fault(
        name="addmm-out",
        operator="addmm",
        kind="wrong values",
        truth="overload is out",
        story="torch_musa#51: addmm(out=) gives zeros",
        kernels=("addmm",),
        hits=lambda overload, _, __: overload == "out",
        wrong=_zero_out,
    ),
    Fault(
        name="bmm-short",
        operator="bmm",
        kind="wrong values",
        truth="K >= 257",
        story="a tile's remainder that is lost",
        kernels=("bmm",),
        hits=lambda _, args, __: args[0].shape[2] >= 257,
        wrong=_short,
    ),
    Fault(
        name="linear-shape",
        operator="linear",
        kind="wrong values",
        truth="dtype is f16 and M == 1 and K == 896 and N == 4864",
        story="vLLM-Kunlun#387: one shape of one model",
        kernels=("linear",),
        hits=_one_shape,
        wrong=_half_columns,
    ),
    Fault(
        name="addmm-rounded",
        operator="addmm",
        kind="wrong values",
        truth="dtype is bf16 and K >= 512 and overload is default",
        story="sums that are kept in low precision",
        kernels=("addmm",),
        hits=lambda overload, args, _: (
            overload != "out" and args[1].dtype is torch.bfloat16 and args[1].shape[1] >= 512
        ),
        wrong=_rounded_sum,
    ),
    Fault(
        name="baddbmm-row",
        operator="baddbmm",
        kind="wrong values",
        truth="M == 1",
        story="a special case for vectors that adds twice",
        kernels=("baddbmm",),
        hits=lambda _, args, __: args[1].shape[1] == 1,
        wrong=_twice,
    ),
    Fault(
        name="grouped-experts",
        operator="grouped_mm",
        kind="wrong values",
        truth="E > 8 and dtype is bf16",
        story="a grid with room for eight experts",
        kernels=("_grouped_mm",),
        hits=lambda _, args, __: args[1].shape[0] > 8 and args[1].dtype is torch.bfloat16,
        wrong=_lost_expert,
    ),
    Fault(
        name="conv1d-channel",
        operator="conv1d",
        kind="wrong values",
        truth="C >= 17",
        story="channels beyond a tile's edge",
        kernels=("convolution",),
        hits=lambda _, args, __: _convolution(1, args) and args[1].shape[1] >= 17,
        wrong=_skipped_channel,
    ),
    Fault(
        name="conv2d-stride",
        operator="conv2d",
        kind="wrong values",
        truth="kernel == 1 and stride == 2 and size > 1",
        story="a shortcut for pointwise convolutions",
        kernels=("convolution",),
        hits=lambda _, args, __: _convolution(2, args) and args[1].shape[-1] == 1 and args[3][0] == 2,
        wrong=_shifted,
    ),
    Fault(
        name="conv3d-groups",
        operator="conv3d",
        kind="wrong values",
        truth="groups > 1",
        story="groups in reverse order",
        kernels=("convolution",),
        hits=lambda _, args, __: _convolution(3, args) and args[8] > 1,
        wrong=_swapped_groups,
    ),
    Fault(
        name="sdpa-depth",
        operator="sdpa",
        kind="wrong values",
        truth="(D % 16 == 8 and S > 1 and mask is none) or (D % 16 == 8 and S > 1 and L > 1 and mask is causal)",
        story="heads whose depth isn't a tile",
        kernels=("scaled_dot_product_attention",),
        hits=lambda _, args, kwargs: args[0].shape[-1] % 16 == 8 and _no_mask(args, kwargs),
        wrong=_misscaled,
    ),
)
