"""The device `vex` for PyTorch: tensors that stand for CPU tensors, and kernels that run there.

In: planted faults. Out: the PrivateUse1 backend under the name `vex`. Invariant: a vex tensor has the shape, strides
and offset of the CPU tensor behind it, and views share memory as they do on the CPU.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from torch_vex.fault import Fault

# Operators that PyTorch would take apart before a backend sees them; this vendor has kernels of its own for these.
_WHOLE = (
    "detach",
    "alias",
    "mm",
    "addmm",
    "bmm",
    "linear",
    "baddbmm",
    "convolution",
    "scaled_dot_product_attention",
    "native_layer_norm",
    "native_group_norm",
    "rms_norm",
    "embedding",
    "_grouped_mm",
    "view",
    "_unsafe_view",
    "_reshape_alias",
)
_libraries: list[Any] = []


def start(faults: Sequence[Fault]) -> None:
    """Registers the device. Kept until the process ends, as a vendor's plug-in is."""
    _setup_privateuseone_for_python_backend("vex")
    anything = torch.library.Library("_", "IMPL")
    anything.fallback(lambda op, *args, **kwargs: _call(op, args, kwargs, faults), "PrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    for name in _WHOLE:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            aten.impl(op, _kernel(op, faults), "PrivateUse1")
    aten.impl("_copy_from", _copier(faults), "PrivateUse1")
    _libraries.extend((anything, aten))


def _kernel(op: Any, faults: Sequence[Fault]) -> Callable[..., Any]:
    return lambda *args, **kwargs: _call(op, args, kwargs, faults)


def _call(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], faults: Sequence[Fault]) -> Any:
    wrappers: dict[int, torch.Tensor] = {}

    def lower(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not isinstance(value, torch.Tensor) or value.device.type != "vex":
            return value
        wrapper: Any = value
        wrappers[id(wrapper.raw)] = wrapper
        return wrapper.raw

    def lift(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        wrapper = wrappers.get(id(value))
        return _wrap(value) if wrapper is None else _follow(wrapper, value)

    args, kwargs = pytree.tree_map(lower, (_with_tensors(op, args), kwargs))
    return pytree.tree_map(lift, _compute(op, args, kwargs, faults))


def _with_tensors(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """PyTorch hands a fallback plain numbers where an operator has tensors: `x & 15`."""
    wanted = [str(argument.type) == "Tensor" for argument in op._schema.arguments]
    return tuple(
        torch.tensor(arg) if tensor and isinstance(arg, int | float) else arg
        for arg, tensor in zip(args, wanted, strict=False)
    )


def _compute(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], faults: Sequence[Fault]) -> Any:
    packet, _, overload = op.name().removeprefix("aten::").partition(".")
    for fault in faults:
        if packet in fault.kernels and fault.hits(overload, args, kwargs):
            return _written(op, fault.wrong(op, args, kwargs), kwargs)
    return op(*args, **kwargs)


def _written(op: Any, results: Any, kwargs: dict[str, Any]) -> Any:
    """The results, in the tensors that the caller gave for them: PyTorch asks many operators for their `out` only."""
    outs = [kwargs[argument.name] for argument in op._schema.arguments if argument.is_out]
    for out, result in zip(outs, results if isinstance(results, tuple) else (results,), strict=False):
        if result is not out:
            out.copy_(result)
    return (outs[0] if len(outs) == 1 else tuple(outs)) if outs else results


def _copier(faults: Sequence[Fault]) -> Callable[..., Any]:
    """Copies to, from and on the device; only the last is a kernel of the vendor's."""

    def copy(source: Any, target: Any, _: bool = False) -> Any:
        on_device = source.device.type == target.device.type == "vex"
        raw_source = source.raw if source.device.type == "vex" else source
        raw_target = target.raw if target.device.type == "vex" else target
        _compute(torch.ops.aten.copy_.default, (raw_target, raw_source), {}, faults if on_device else ())
        return target

    return copy


def _wrap(raw: torch.Tensor) -> torch.Tensor:
    wrapper: Any = torch._C._acc.create_empty_tensor((0,), raw.dtype)
    wrapper.raw = raw
    return _follow(wrapper, raw)


# The kernels of the CPU that set a tensor's shape: on a vex tensor, which holds no memory, they set just that.
_resize = torch.library.get_kernel("aten::resize_", "CPU")
_as_strided = torch.library.get_kernel("aten::as_strided_", "CPU")


def _follow(wrapper: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
    """Gives the wrapper the shape, strides and offset of the tensor behind it."""
    keys = torch._C._dispatch_keys(wrapper)
    sides, strides, offset = list(raw.shape), list(raw.stride()), raw.storage_offset()
    if (list(wrapper.shape), list(wrapper.stride()), wrapper.storage_offset()) == (sides, strides, offset):
        return wrapper
    reach = sum((side - 1) * stride for side, stride in zip(sides, strides, strict=True)) + 1 if all(sides) else 0
    _resize.call_boxed(keys, wrapper, [offset + reach])
    _as_strided.call_boxed(keys, wrapper, sides, strides, offset)
    return wrapper
