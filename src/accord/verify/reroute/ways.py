"""Workarounds on PyTorch's tensors: a kernel and a way go in, a function with the kernel's arguments comes out.

In: the functional kernel of an operator, its row, a `Workaround`. Out: a callable. Invariant: a way calls the kernel
itself, so that it can't run into its own reroute; the result has the native one's shape and dtype.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accord.terms.quirk import Way, Workaround
from accord.verify.reroute.overloads import Overload
from accord.verify.reroute.rows import Row, Side
from accord.verify.reroute.straight import WIDE, pad_text, side_and_number, upcast_text

Kernel = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a way works on: the functional kernel as `native(keys, ...)`, and what else computes the same."""

    row: Row
    overload: Overload
    native: Kernel
    keys: Any
    alternatives: Mapping[str, Kernel]

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments that go by position."""
        return self.overload.positional

    @property
    def kernel(self) -> Kernel:
        """The functional kernel, without its keys."""
        native, keys = self.native, self.keys
        return lambda *arguments, **words: native(keys, *arguments, **words)


def way(workaround: Workaround, target: Target) -> Kernel | None:
    """A function that computes what the kernel should; None where this operator has no such way."""
    detail = workaround.detail
    if (found := straight(workaround, target)) is not None:
        return found
    match workaround.way:
        case Way.PAD:
            return _pad(*side_and_number(detail, "to", target.row), target)
        case Way.SPLIT:
            return _split(*side_and_number(detail, "by", target.row), target)
        case Way.UPCAST:
            return _upcast(detail, target)
        case Way.CONTIGUOUS:
            return _contiguous(target)
        case Way.OVERLOAD | Way.BACKEND:
            return target.alternatives.get(detail)
        case Way.ALGORITHM:
            return _without_onednn(target) if detail == "oneDNN off" else target.alternatives.get(detail)
        case Way.REPEAT:
            return _warmed(target)
        case Way.CPU:
            return _on_cpu(target)


def straight(workaround: Workaround, target: Target) -> Kernel | None:
    """The commonest ways of matrix products, without a loop: small products take as long as the loop would."""
    if not target.row.product:
        return None
    import torch

    match workaround.way:
        case Way.UPCAST if workaround.detail in WIDE:
            text = upcast_text(target.row, target.overload, workaround.detail)
        case Way.PAD:
            side, multiple = side_and_number(workaround.detail, "to", target.row)
            if side is None:
                return None
            text = pad_text(target.row, target.overload, side, multiple)
        case _:
            return None
    space: dict[str, Any] = {"native": target.native, "keys": target.keys, "has": _has, "pad": torch.constant_pad_nd}
    exec(compile(text, f"<accord {workaround.way} of {target.overload.name}>", "exec"), space)  # our own texts
    made: Kernel = space["way"]
    return made


def _places(side: Side, target: Target) -> tuple[tuple[int, int], ...]:
    """(position among the arguments, dimension)."""
    return tuple((target.names.index(name), dim) for name, dim in side.arguments if name in target.names)


def _worded(side: Side, target: Target) -> tuple[tuple[str, int], ...]:
    """(name, dimension) of those that go by their name."""
    return tuple((name, dim) for name, dim in side.arguments if name not in target.names)


def _pad(side: Side | None, multiple: int, target: Target) -> Kernel | None:
    """Zeros at the end of a side, up to the next multiple; what they add to the output is cut off."""
    if side is None or not side.pads or _worded(side, target):
        return None
    import torch

    pad, kernel, out_dim = torch.nn.functional.pad, target.kernel, side.output
    places = _places(side, target)
    (lead, lead_dim), *_ = places

    def padded(*arguments: Any, **words: Any) -> Any:
        size = arguments[lead].size(lead_dim)
        lacks = -size % multiple
        given = list(arguments)
        for at, dim in places:
            value = given[at]
            if _has(value, dim, size):
                behind = (value.dim() - 1 - dim) if dim >= 0 else -1 - dim
                given[at] = pad(value, (0, 0) * behind + (0, lacks))
        made = kernel(*given, **words)
        return made if out_dim is None else _each(made, lambda one: one.narrow(out_dim, 0, size))

    return padded


def _split(side: Side | None, length: int, target: Target) -> Kernel | None:
    """Parts of at most `length`, one after the other: joined, or added up where the side is summed over."""
    if side is None:
        return None
    places, worded = _places(side, target), _worded(side, target)
    once = tuple(target.names.index(name) for name in side.once)
    (lead, lead_dim), *_ = places
    kernel, out_dim = target.kernel, side.output

    def split(*arguments: Any, **words: Any) -> Any:
        size = arguments[lead].size(lead_dim)
        parts = []
        for start in range(0, size, length):
            given = list(arguments)
            for at, dim in places:
                if _has(given[at], dim, size):
                    given[at] = given[at].narrow(dim, start, min(length, size - start))
            if start and out_dim is None:
                for at in once:
                    given[at] = given[at].new_zeros(()).expand(given[at].shape)
            named = {
                name: words[name].narrow(dim, start, min(length, size - start))
                for name, dim in worded
                if _has(words.get(name), dim, size)
            }
            parts.append(kernel(*given, **{**words, **named}))
        return _sum(parts) if out_dim is None else _joined(parts, out_dim)

    return split


def _upcast(detail: str, target: Target) -> Kernel | None:
    import torch

    if detail not in WIDE:
        return None
    wide = getattr(torch, WIDE[detail])
    first, kernel = target.names.index(target.row.first), target.kernel

    def upcast(*arguments: Any, **words: Any) -> Any:
        narrow = arguments[first].dtype
        given, named = _changed(arguments, words, lambda item: item.to(wide) if item.is_floating_point() else item)
        return _each(kernel(*given, **named), lambda one: one.to(narrow) if one.dtype is wide else one)

    return upcast


def _contiguous(target: Target) -> Kernel:
    """Fresh, dense copies: a plain `contiguous` would keep a tensor whose start is badly aligned."""
    import torch

    kernel, dense = target.kernel, torch.contiguous_format

    def contiguous(*arguments: Any, **words: Any) -> Any:
        given, named = _changed(arguments, words, lambda item: item.clone(memory_format=dense))
        return kernel(*given, **named)

    return contiguous


def _without_onednn(target: Target) -> Kernel:
    """ATen's own code in place of oneDNN's. The switch is a global of the process, so other threads feel it, too."""
    import torch

    kernel, switch = target.kernel, torch._C._set_mkldnn_enabled

    def plain(*arguments: Any, **words: Any) -> Any:
        before = torch._C._get_mkldnn_enabled()
        switch(False)
        try:
            return kernel(*arguments, **words)
        finally:
            switch(before)

    return plain


def _warmed(target: Target) -> Kernel:
    """The first call of each kind of operands is made twice, and only the second counts."""
    kernel, seen = target.kernel, set[object]()

    def warmed(*arguments: Any, **words: Any) -> Any:
        key = tuple((item.shape, item.stride(), item.dtype) for item in arguments if hasattr(item, "stride"))
        if key not in seen:
            kernel(*arguments, **words)
            seen.add(key)
        return kernel(*arguments, **words)

    return warmed


def _on_cpu(target: Target) -> Kernel:
    import torch

    name, first = target.row.name.removesuffix("_"), target.names.index(target.row.first)
    native = getattr(torch.ops.aten, name)

    def on_cpu(*arguments: Any, **words: Any) -> Any:
        device = arguments[first].device
        given, named = _changed(arguments, words, lambda item: item.cpu())
        return _each(native(*given, **named), lambda one: one.to(device))

    return on_cpu


def _has(value: Any, dim: int, size: int) -> bool:
    """Whether an argument is there and isn't broadcast along this dimension."""
    if value is None:
        return False
    inside: bool = -value.dim() <= dim < value.dim() and value.size(dim) == size
    return inside


def _changed(
    arguments: tuple[Any, ...], words: Mapping[str, Any], change: Callable[[Any], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """All tensors among them changed."""
    given = [change(item) if hasattr(item, "is_floating_point") else item for item in arguments]
    return given, {name: change(item) if hasattr(item, "is_floating_point") else item for name, item in words.items()}


def _each(made: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(made, tuple | list):
        return tuple(change(one) if hasattr(one, "dtype") else one for one in made)
    return change(made)


def _joined(parts: list[Any], dim: int) -> Any:
    import torch

    if isinstance(parts[0], tuple | list):
        return tuple(torch.cat(list(part), dim) for part in zip(*parts, strict=True))
    return torch.cat(parts, dim)


def _sum(parts: list[Any]) -> Any:
    """Added up in float32 at least, so that the parts cost one rounding and not one each."""
    import torch

    wide = torch.promote_types(parts[0].dtype, torch.float32)
    return sum((part.to(wide) for part in parts[1:]), parts[0].to(wide)).to(parts[0].dtype)
