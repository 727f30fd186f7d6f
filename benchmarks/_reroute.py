"""What a reroute adds to a call, in microseconds: outside its region and inside, in Python and as compiled C++.

Best of many short rounds, native and rerouted by turns, in one thread's own time: other programs can only lengthen it.
"""

import tempfile
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from accord import verify
from accord.terms.errors import BadInput
from accord.terms.quirk import (
    Evidence,
    FaultKind,
    Is,
    Modulo,
    Quirk,
    Range,
    Region,
    Way,
    Workaround,
)  # fmt: skip

ROUNDS, CALLS = 200, 500
# R1, as oneDNN#5717 and our measurements state it.
REGION = Region(
    cases=(
        (
            Is(trait="dtype", words=("bf16",)),
            Range(factors=("M",), low=17),
            Modulo(factors=("K",), modulus=32, remainders=tuple(range(1, 32))),
            Range(factors=("M", "N", "K"), low=4097),
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Microseconds, by what was called. `inside`: besides the same workaround written by hand."""

    outside: Mapping[str, float]
    unaffected: float
    inside: Mapping[str, float]
    compiled: Mapping[str, float] | None  # None without a compiler


def added() -> Added:
    """Takes about a minute."""
    torch.set_num_threads(1)
    calls = _outside()
    with tempfile.TemporaryDirectory() as folder:
        compiled = _compiled(calls, Path(folder))
    pad, upcast = _quirk(Way.PAD, "K to 32"), _quirk(Way.UPCAST, "f32")
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    a, b = torch.randn(17, 33).bfloat16(), torch.randn(33, 64).bfloat16()
    pads = torch.nn.functional.pad
    return Added(
        outside={name: _added(call, pad) for name, call in calls.items()},
        unaffected=_added(lambda: torch.add(x, y), pad),
        inside={
            "pad": _added(lambda: a @ b, pad, by_hand=lambda: pads(a, (0, 31)) @ pads(b, (0, 0, 0, 31))),
            "upcast": _added(lambda: a @ b, upcast, by_hand=lambda: _in_float32(a, b)),
        },
        compiled=compiled,
    )


def _in_float32(a: Any, b: Any) -> Any:
    return (a.float() @ b.float()).bfloat16()


def _outside() -> Mapping[str, Callable[[], Any]]:
    """4 x 4 products in the region's dtype, so that shapes are looked at, too."""
    a, b, bias = torch.randn(4, 4).bfloat16(), torch.randn(4, 4).bfloat16(), torch.randn(4).bfloat16()
    out = torch.empty(4, 4).bfloat16()
    return {
        "mm": lambda: torch.mm(a, b),
        "mm out": lambda: torch.mm(a, b, out=out),
        "addmm": lambda: torch.addmm(bias, a, b),
        "addmm out": lambda: torch.addmm(bias, a, b, out=out),
        "linear": lambda: torch.nn.functional.linear(a, b, bias),
    }


def _compiled(calls: Mapping[str, Callable[[], Any]], folder: Path) -> Mapping[str, float] | None:
    quirk = _quirk(Way.PAD, "K to 32")
    try:
        return {name: _added(call, quirk, compiled=folder) for name, call in calls.items()}
    except BadInput:
        return None


def _added(
    call: Callable[[], Any],
    quirk: Quirk,
    *,
    by_hand: Callable[[], Any] | None = None,
    compiled: Path | None = None,
) -> float:
    native_s = _best(by_hand or call)
    with verify.apply([quirk], compiled=compiled):
        rerouted_s = _best(call)
    return (rerouted_s - min(native_s, _best(by_hand or call))) * 1e6


def _best(call: Callable[[], Any]) -> float:
    call()
    return min(timeit.repeat(call, number=CALLS, repeat=ROUNDS, timer=time.thread_time)) / CALLS


def _quirk(way: Way, detail: str) -> Quirk:
    everywhere = Region(cases=((),))
    return Quirk(
        name="r1",
        device="torch:cpu",
        operator="linear",
        fault=FaultKind.LEAK,
        region=REGION,
        evidence=Evidence(points=0, failing=0, fresh=0, missed=0, over_cover=0.0, worst="", probes=(), witnesses=()),
        reproducer="",
        found="2026-12-01",
        workarounds=(Workaround(way=way, detail=detail, region=everywhere, cost_ratio=1.0, verified=0),),
    )
