"""Other operators of PyTorch that compute the same: candidates for a way round, by name.

In: an operator, a dispatch key. Out: functions with the operator's arguments. Invariant: none of them calls the
operator that it stands in for; whether it is right where the operator is wrong, a search has to show.
"""

from collections.abc import Callable, Mapping
from typing import Any

Kernel = Callable[..., Any]
Kernels = Callable[[str], Kernel | None]


def alternatives(name: str, key: str) -> Mapping[str, Kernel]:
    """Those of one operator that the device has kernels for. To be asked before anything is rerouted."""
    made = {
        "mm": _of_mm, "addmm": _of_addmm, "bmm": _of_bmm, "linear": _of_linear,
        "_scaled_dot_product_flash_attention_for_cpu": _of_attention,
    }  # fmt: skip
    if name not in made:
        return {}
    found = made[name](lambda other: _kernel(other, key))
    return {word: kernel for word, kernel in found.items() if kernel is not None}


def _kernel(name: str, key: str) -> Kernel | None:
    import torch

    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"aten::{name}", key):
        return None
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    native = torch.library.get_kernel(f"aten::{name}", key).call_boxed
    return lambda *arguments, **words: native(keys, *arguments, **words)


def _of_mm(kernel: Kernels) -> Mapping[str, Kernel | None]:
    mm, bmm, addmm = kernel("mm"), kernel("bmm"), kernel("addmm")
    return {
        "bmm": bmm and (lambda a, b: bmm(a.unsqueeze(0), b.unsqueeze(0)).squeeze(0)),
        "addmm": addmm and (lambda a, b: addmm(a.new_zeros(()).expand(a.size(0), b.size(1)), a, b)),
        "transposed": mm and (lambda a, b: mm(b.t(), a.t()).t()),
    }


def _of_addmm(kernel: Kernels) -> Mapping[str, Kernel | None]:
    mm, addmm = kernel("mm"), kernel("addmm")
    return {"mm": mm and _added(mm), "transposed": addmm and _transposed(addmm)}


def _added(mm: Kernel) -> Kernel:
    def added(bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        product = mm(a, b)
        product = product if alpha == 1 else product * alpha
        return product if beta == 0 else product + (bias if beta == 1 else bias * beta)

    return added


def _transposed(addmm: Kernel) -> Kernel:
    def transposed(bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        return addmm(bias.expand(a.size(0), b.size(1)).t(), b.t(), a.t(), beta=beta, alpha=alpha).t()

    return transposed


def _of_bmm(kernel: Kernels) -> Mapping[str, Kernel | None]:
    import torch

    mm, bmm = kernel("mm"), kernel("bmm")
    return {
        "mm": mm and (lambda a, b: torch.stack([mm(one, other) for one, other in zip(a, b, strict=True)])),
        "transposed": bmm and (lambda a, b: bmm(b.mT, a.mT).mT),
    }


def _of_linear(kernel: Kernels) -> Mapping[str, Kernel | None]:
    mm = kernel("mm")
    return {"mm": mm and _flattened(mm)}


def _flattened(mm: Kernel) -> Kernel:
    def product(given: Any, weight: Any, bias: Any = None) -> Any:
        flat = mm(given.reshape(-1, given.size(-1)), weight.t()).reshape(*given.shape[:-1], weight.size(0))
        return flat if bias is None else flat + bias

    return product


def _of_attention(_: Kernels) -> Mapping[str, Kernel | None]:
    """Softmax written out; the second output (the logarithms of sums) is computed as the fused kernel's."""
    import torch

    def written_out(query: Any, key: Any, value: Any, *rest: Any, attn_mask: Any = None, scale: Any = None) -> Any:
        causal = bool(rest[1]) if len(rest) > 1 else False
        scores = (query @ key.mT).float() * (query.size(-1) ** -0.5 if scale is None else scale)
        if causal:
            ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
            scores = scores.masked_fill(~ones.tril(), float("-inf"))
        scores = scores if attn_mask is None else scores + attn_mask
        return (scores.softmax(-1).to(value.dtype) @ value), scores.logsumexp(-1)

    return {"math": written_out}
