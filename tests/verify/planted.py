"""Faults planted in this machine's own PyTorch: a wrong kernel over the right one, for tests of reroutes.

R1 (oneDNN#5717) needs a CPU with AMX. Its outward behaviour can be had anywhere: where the published rule holds, the
row before a row with NaN becomes NaN, too.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from accord.terms.quirk import (
    Atom,
    Evidence,
    FaultKind,
    Is,
    Modulo,
    Quirk,
    Range,
    Region,
    Version,
    Way,
    Workaround,
)  # fmt: skip

EVERYWHERE = Region(cases=((),))
EVIDENCE = Evidence(
    points=1, failing=1, fresh=1, missed=0, over_cover=0.0, worst="", probes=("poison",), witnesses=("numpy", "jax")
)
R1_RULE = (
    Is(trait="dtype", words=("bf16",)),
    Range(factors=("M",), low=17),
    Modulo(factors=("K",), modulus=32, remainders=tuple(range(1, 32))),
    Range(factors=("M", "N", "K"), low=4097),
)


def quirk(
    operator: str,
    *atoms: Atom,
    ways: tuple[tuple[Way, str] | Workaround, ...] = (),
    device: str = "torch:cpu",
    versions: tuple[Version, ...] = (),
) -> Quirk:
    """A quirk with these workarounds, each for the whole region unless it says otherwise."""
    made = [item if isinstance(item, Workaround) else workaround(*item) for item in ways]
    return Quirk(
        name=f"{operator}-planted", device=device, operator=operator, fault=FaultKind.LEAK,
        region=Region(cases=(atoms,)), evidence=EVIDENCE, reproducer="", found="2026-12-01", versions=versions,
        workarounds=tuple(made),
    )  # fmt: skip


def workaround(way: Way, detail: str, *, region: Region = EVERYWHERE, cost_ratio: float = 1.0) -> Workaround:
    """One way round."""
    return Workaround(way=way, detail=detail, region=region, cost_ratio=cost_ratio, verified=1)


def r1(operator: str, *ways: tuple[Way, str] | Workaround) -> Quirk:
    """R1's quirk for one operator."""
    return quirk(operator, *R1_RULE, ways=ways or ((Way.PAD, "K to 32"),))


def _hit(a: Any, b: Any) -> bool:
    m, k = a.shape[-2:]
    return a.dtype is torch.bfloat16 and m > 16 and k % 32 != 0 and m * k * b.shape[-1] > 4096


def _leak(out: Any) -> Any:
    """NaN rows spoil the row before them."""
    bad = out.isnan().any(-1)
    out[bad.roll(-1, -1)] = float("nan")
    return out


@contextlib.contextmanager
def planted(*names: str) -> Iterator[dict[str, int]]:
    """R1 in these overloads (of mm, addmm and bmm). Yields how often each was called, right or wrong."""
    calls = dict.fromkeys(names, 0)
    with overridden() as put:
        for name in names:
            put(name, _faulty(name, calls))
        yield calls


def _faulty(name: str, calls: dict[str, int]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    first = 1 if name.startswith("addmm") else 0

    def make(native: Callable[..., Any]) -> Callable[..., Any]:
        def faulty(*operands: Any, **words: Any) -> Any:
            calls[name] += 1
            made = native(*operands, **words)
            return _leak(made) if _hit(operands[first], operands[first + 1]) else made

        return faulty

    return make


@contextlib.contextmanager
def overridden() -> Iterator[Callable[[str, Callable[[Callable[..., Any]], Callable[..., Any]]], None]]:
    """Yields a function that puts `make(native)` in the place of a CPU kernel until the end."""
    library = torch.library.Library("aten", "IMPL")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def put(name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        native = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.impl(name, make(lambda *a, **w: native(keys, *a, **w)), "CPU", allow_override=True)

    try:
        yield put
    finally:
        library._destroy()


def watching(seen: list[str], name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A kernel that is right, and notes its name and the dtype of its first operand."""

    def make(native: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*operands: Any) -> Any:
            seen.append(f"{name} {operands[0].dtype}")
            return native(*operands)

        return watched

    return make
