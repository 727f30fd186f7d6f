"""What might help against a quirk: ways that its region suggests, and those that always might.

In: a quirk, what an operator offers. Out: `Attempt`s. Invariant: a list without doubles, the likeliest first.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accord.terms.quirk import Atom, FaultKind, Modulo, Quirk, Range, Way

_PADS = (16, 32, 64)
_PARTS = (256, 4096)
_PAD_MAX = 4096  # padding a side of less than this up to it can be cheaper than anything else


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A way that might help."""

    way: Way
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What may be tried on an operator: sides that can be padded or cut, and the names of other forms of it."""

    pads: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    overloads: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    casts: tuple[str, ...] = ("f32", "f64")
    cpu: bool = False


def attempts(quirk: Quirk, kit: Kit) -> tuple[Attempt, ...]:
    """All of them."""
    atoms = [atom for case in quirk.region.cases for atom in case]
    return tuple(dict.fromkeys([*_suggested(atoms, kit), *_usual(quirk, kit)]))


def _suggested(atoms: Iterable[Atom], kit: Kit) -> Iterator[Attempt]:
    for atom in atoms:
        match atom:
            case Modulo():
                for side in atom.factors:
                    if side in kit.pads:
                        yield Attempt(way=Way.PAD, detail=f"{side} to {atom.modulus}")
            case Range():
                yield from _across(atom, kit)
            case _:
                pass


def _across(atom: Range, kit: Kit) -> Iterator[Attempt]:
    """Over the bounds of a side, to where the region isn't."""
    if len(atom.factors) == 1:
        (side,) = atom.factors
        if atom.low is not None and atom.low > 1 and side in kit.splits:
            yield Attempt(way=Way.SPLIT, detail=f"{side} by {atom.low - 1}")
            if atom.low > 2:
                yield Attempt(way=Way.SPLIT, detail=f"{side} by {1 << (atom.low - 1).bit_length() - 1}")
        if atom.high is not None and atom.high < _PAD_MAX and side in kit.pads:
            yield Attempt(way=Way.PAD, detail=f"{side} to {atom.high + 1}")
        return
    for side in atom.factors:
        if atom.low is not None and side in kit.splits:
            for part in _PARTS:
                yield Attempt(way=Way.SPLIT, detail=f"{side} by {part}")


def _usual(quirk: Quirk, kit: Kit) -> Iterator[Attempt]:
    if quirk.fault in (FaultKind.STATE, FaultKind.UNSTABLE, FaultKind.WRONG):
        yield Attempt(way=Way.REPEAT)
    yield Attempt(way=Way.CONTIGUOUS)
    for way, names in (
        (Way.OVERLOAD, kit.overloads),
        (Way.ALGORITHM, kit.algorithms),
        (Way.BACKEND, kit.backends),
        (Way.UPCAST, kit.casts),
    ):
        for name in names:
            yield Attempt(way=way, detail=name)
    for side in kit.pads:
        for multiple in _PADS:
            yield Attempt(way=Way.PAD, detail=f"{side} to {multiple}")
    if kit.cpu:
        yield Attempt(way=Way.CPU)
