"""A planted fault: which kernel is wrong, when, and how; and where that is, so that a learned region can be judged.

In: nothing. Out: `Fault`. Invariant: `hits` sees what a kernel sees (CPU tensors, options), never a point; `truth`
speaks of points, and is never read by the device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Hits = Callable[[str, tuple[Any, ...], dict[str, Any]], bool]
Wrong = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`hits(overload, args, kwargs)` says whether a call is wrong; `wrong(op, args, kwargs)` computes the wrong answer.

    `operator`, `kind` and `truth` (a region in words) are what a sweep ought to find. `story` is the public report, or
    the habit of hardware, that the fault is made after.
    """

    name: str
    operator: str
    kind: str
    truth: str
    story: str
    kernels: tuple[str, ...]
    hits: Hits
    wrong: Wrong
