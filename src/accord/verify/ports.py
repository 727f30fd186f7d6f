"""The device port: one call of one operator goes in, its outputs come back, or the way in which the device died.

In: `Call`. Out: `Answer`, `Unsupported` or `Died`. Invariant: whatever a device does (crash and hang included) is an
`Outcome`; a `Call` is data, so it can cross to a child process and be repeated bit for bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from accord.terms.quirk import Version
from accord.verify.tensor import Tensor

USUAL_MODE = "usual"  # the first of the device's modes
Value = bool | int | float | str | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An argument that isn't a tensor: `dim`, `eps`, `is_causal`, `block_size`."""

    name: str
    value: Value


class State(StrEnum):
    """What the device may remember. COLD: it forgets what it compiled, tuned or cached before the call."""

    WARM = "warm"
    COLD = "cold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`operator` is a row of `verify.operators`, `overload` a word of its; `mode` is the device's, or `USUAL_MODE`.

    `repeat` runs follow one another on the same operands, so the first may be told from the later ones.
    """

    operator: str
    operands: tuple[Tensor, ...]
    options: tuple[Option, ...] = ()
    overload: str = "default"
    mode: str = USUAL_MODE
    state: State = State.WARM
    repeat: int = 1

    def option(self, name: str) -> Value | None:
        """The value of this option; None if the call has none."""
        return next((option.value for option in self.options if option.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Outputs of each run, in order."""

    runs: tuple[tuple[Tensor, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """The device has no such operator, dtype, overload or mode, and said so. Not a fault."""

    reason: str


class Death(StrEnum):
    """How a device died under a call."""

    CRASH = "crash"
    HANG = "hang"


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The device's process ended, or didn't answer by the deadline. It has been started anew since."""

    death: Death
    detail: str


Outcome = Answer | Unsupported | Died


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """`families` are the kernel libraries that it computes with; devices that share none are independent witnesses.

    `modes` are the words that `Call.mode` may have; the first is the usual one. `features`: what the CPU or card has
    and the libraries look at (avx512f, amx_bf16).
    """

    name: str
    families: tuple[str, ...]
    versions: tuple[Version, ...]
    features: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("eager",)


class Device(Protocol):
    """Something that computes. Not thread-safe; one call at a time."""

    def describe(self) -> Description:
        """What it is. Costs nothing after the first time."""
        ...

    def run(self, call: Call) -> Outcome:
        """Runs the call. BrokenEdge if the device can't be used at all."""
        ...

    def close(self) -> None:
        """Gives back what it holds; may be called twice."""
        ...


class FakeDevice:
    """A device made of a function, for tests: `compute` answers every call, and what it was asked is kept."""

    def __init__(self, compute: Callable[[Call], Outcome], *, families: tuple[str, ...] = ("fake",)) -> None:
        self._compute = compute
        self._families = families
        self.calls: list[Call] = []

    def describe(self) -> Description:
        """Says `fake`, of the families it was given."""
        return Description(name="fake", families=self._families, versions=(Version(library="fake", version="1"),))

    def run(self, call: Call) -> Outcome:
        """What `compute` says."""
        self.calls.append(call)
        return self._compute(call)

    def close(self) -> None:
        """Nothing is held."""
