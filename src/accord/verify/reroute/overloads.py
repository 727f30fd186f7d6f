"""The overloads of PyTorch's operators, as its dispatcher lists them.

In: a row, a dispatch key. Out: `Overload`s. Invariant: an overload that merely calls another one isn't listed, so that
no call is looked at twice.
"""

from dataclasses import dataclass
from typing import Any

from accord.verify.reroute.rows import Row

_COMPOSED = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """One overload: its full name (`mm.out`), its arguments, and which of them it writes to.

    `defaults`: (argument, value) of positional ones; the dispatcher doesn't hand on what has its default.
    """

    name: str
    positional: tuple[str, ...]
    defaults: tuple[tuple[str, Any], ...]
    words: tuple[str, ...]
    written: tuple[str, ...]
    tensors: tuple[str, ...]
    schema: str

    @property
    def kind(self) -> str:
        """What quirks call it."""
        if self.written:
            return "out" if set(self.written) <= set(self.words) else "inplace"
        return self.name.partition(".")[2] or "default"


def overloads(row: Row, key: str) -> tuple[Overload, ...]:
    """Those with a kernel of their own on this key. What merely calls another overload comes by there anyway."""
    import torch

    packet = getattr(torch.ops.aten, row.name, None)
    names = () if packet is None else packet.overloads()
    full = {name: f"aten::{row.name}" + ("" if name == "default" else f".{name}") for name in names}
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found = []
    for name, whole in full.items():
        if not torch._C._dispatch_has_kernel(whole):
            continue  # TorchScript has overloads that the dispatcher knows nothing of
        made = _overload(whole, getattr(packet, name)._schema)
        composed = [kind for kind in _COMPOSED if has(whole, kind)]
        # A device without a kernel may have a fallback for all operators, which is a kernel, too.
        fallback = not composed and torch._C._dispatch_has_computed_kernel_for_dispatch_key(whole, key)
        if has(whole, key) or fallback or (row.composed and not made.written and _COMPOSED[0] in composed):
            found.append(made)
    names = {item.name for item in found}
    # A functional form that is composed of its out= form would run into that one's hook, and so on for ever.
    return tuple(item for item in found if not item.written or row.name.endswith("_") or row.name in names)


def _overload(name: str, schema: Any) -> Overload:
    written = tuple(item.name for item in schema.arguments if item.alias_info is not None and item.alias_info.is_write)
    return Overload(
        name=name.removeprefix("aten::"),
        positional=tuple(item.name for item in schema.arguments if not item.kwarg_only),
        defaults=tuple(
            (item.name, item.default_value)
            for item in schema.arguments
            if not item.kwarg_only and item.has_default_value()
        ),
        words=tuple(item.name for item in schema.arguments if item.kwarg_only),
        written=written,
        tensors=tuple(item.name for item in schema.arguments if str(item.type) == "Tensor"),
        schema=str(schema),
    )
