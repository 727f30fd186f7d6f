"""`accord.verify.apply(quirks)`: reroutes the affected operators of PyTorch in this process, until it is removed.

In: quirks, the device whose quirks count. Out: `Applied`. Invariant: all or nothing: what can't be covered is refused
before anything is changed; after `remove` every operator has the kernel that it had before.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.quirk import Is, Quirk
from accord.verify.reroute.guard import Guard
from accord.verify.reroute.hooks import Hook, hook
from accord.verify.reroute.native import Compiled, install
from accord.verify.reroute.overloads import Overload, overloads
from accord.verify.reroute.rows import ROWS, Row

COMPILED = "compile"  # the word of the trait `mode` for torch.compile


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A quirk that doesn't count here, and why."""

    quirk: str
    reason: str


class Registered:
    """Hooks in Python in force, as long as their library object lives."""

    def __init__(self, hooks: Sequence[Hook], key: str) -> None:
        import torch

        library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():
            # PyTorch warns of every override; overriding is what was asked for.
            warnings.filterwarnings("ignore", message="Warning only once for all operators")
            for item in hooks:
                library.impl(item.overload.name, item.function, key, allow_override=True)
        self._library = library

    def remove(self) -> None:
        """Takes the hooks out of the dispatcher."""
        self._library._destroy()


class Applied:
    """A reroute in force. A context manager; `remove` may be called twice. `overloads`: what is hooked."""

    def __init__(self, hooks: Sequence[Hook], key: str, skipped: Iterable[Skipped], compiled: Path | None) -> None:
        self.overloads = tuple(item.overload.name for item in hooks)
        self.skipped = tuple(skipped)
        self.texts = tuple(item.text for item in hooks)
        self._guard = Guard()
        self._held: Compiled | Registered | None = None
        if hooks:
            self._guard.install()
            try:
                self._held = Registered(hooks, key)
                if compiled is not None:
                    # PyTorch has said now, and was silenced, what it says once of overrides; C++ would print it.
                    self._held.remove()
                    self._held = install(hooks, key, compiled)
            except BaseException:
                self._held = None
                self._guard.remove()
                raise

    def remove(self) -> None:
        """Every operator has its former kernel again."""
        if self._held is not None:
            self._held.remove()
            self._held = None
            self._guard.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def apply(
    quirks: Iterable[Quirk], *, device: str = "cpu", kind: str | None = None, compiled: Path | None = None
) -> Applied:
    """Reroutes the quirks of PyTorch's `device` type (`cpu`, `cuda`, `mlu`), and of its `kind`, such as `mlu590`.

    Quirks of other devices, and of versions that this PyTorch has left behind, are skipped. BadInput where a quirk
    can't be covered: without workarounds, in an operator without a hook, in code that torch.compile writes itself, or
    while a setting is on under which compiled code passes by the dispatcher.

    `compiled`: a folder for the rule as a C++ extension, made at the first time if a compiler is there; calls that the
    quirks don't concern then cost next to nothing, instead of about two microseconds.
    """
    if find_spec("torch") is None:
        raise BrokenEdge("PyTorch isn't installed, and quirks are applied to it: pip install 'accord-ai[verify]'")
    key = dispatch_key(device)
    counting, skipped = _sorted_out(tuple(quirks), device, kind)
    return Applied(hooks_of(counting, key), key, skipped, compiled)


def hooks_of(quirks: Sequence[Quirk], key: str) -> list[Hook]:
    """One hook for each overload that a quirk can hit; nothing is changed yet."""
    places: dict[str, tuple[Row, Overload]] = {}
    wanted: dict[str, list[Quirk]] = {}
    for quirk in quirks:
        for row in _rows(quirk, key):
            for overload in overloads(row, key):
                places[overload.name] = (row, overload)
                wanted.setdefault(overload.name, []).append(quirk)
    hooks = (_hook(met, *places[name], key) for name, met in wanted.items())
    return [item for item in hooks if item is not None]


def hookable(operator: str, device: str) -> bool:
    """Whether a quirk of this operator could be rerouted on this type of device."""
    return bool(_ends(operator, dispatch_key(device)))


def dispatch_key(device: str) -> str:
    """The dispatcher's name of a device type."""
    import torch

    if device == torch._C._get_privateuse1_backend_name():
        return "PrivateUse1"
    known = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "hpu": "HPU", "privateuseone": "PrivateUse1"}
    if device not in known:
        raise BadInput(
            field="device",
            value=device,
            problem="PyTorch in this process knows no such device",
            fix=f"load the vendor's package first, or say one of {', '.join(known)}",
        )
    return known[device]


def _sorted_out(quirks: Sequence[Quirk], device: str, kind: str | None) -> tuple[list[Quirk], list[Skipped]]:
    names = {device, "torch", f"torch:{device}", "*"} | ({kind} if kind else set())
    counting, skipped = [], []
    for quirk in quirks:
        if quirk.device not in names:
            skipped.append(Skipped(quirk=quirk.name, reason=f"it is about {quirk.device}"))
        elif (since := _left_behind(quirk)) is not None:
            skipped.append(Skipped(quirk=quirk.name, reason=f"right since torch {since}"))
        else:
            counting.append(quirk)
    return counting, skipped


def _left_behind(quirk: Quirk) -> str | None:
    """The version that put it right, if this PyTorch has it."""
    from torch.torch_version import TorchVersion
    from torch.version import __version__ as running

    fixes = [item.fixed_in for item in quirk.versions if item.library == "torch" and item.fixed_in is not None]
    return next((fix for fix in fixes if TorchVersion(running) >= fix), None)


def _ends(operator: str, key: str) -> list[Row]:
    """Where an operator ends: in its own kernel, or in those that the device composes it of."""
    own = [row for row in ROWS if operator in row.serves and overloads(row, key)]
    return own or [row for row in ROWS if operator in row.under and overloads(row, key)]


def _rows(quirk: Quirk, key: str) -> list[Row]:
    """The rows that this quirk is hooked at. BadInput where it can't be covered."""
    found = _ends(quirk.operator, key)
    if not found:
        known = sorted({name for row in ROWS for name in (*row.serves, *row.under)})
        raise _uncovered(quirk, "no hook is known for this operator", f"leave it out; known are {', '.join(known)}")
    if not quirk.workarounds:
        raise _uncovered(quirk, "it has no workaround", "run `accord verify` again with more budget, or leave it out")
    if _compiled_only(quirk) and not any(row.inductor for row in found):
        raise _uncovered(
            quirk,
            "torch.compile writes its own code for this operator, past the dispatcher",
            "run it outside of torch.compile (torch.compiler.disable), and leave it out",
        )
    return found


def _compiled_only(quirk: Quirk) -> bool:
    modes = [
        [atom.words for atom in case if isinstance(atom, Is) and atom.trait == "mode"] for case in quirk.region.cases
    ]
    return bool(modes) and all(words == [(COMPILED,)] for words in modes)


def _hook(quirks: Sequence[Quirk], row: Row, overload: Overload, key: str) -> Hook | None:
    try:
        return hook(quirks, row, overload, key)
    except ValueError as error:
        raise _uncovered(quirks[0], str(error), "leave its quirk out, or remove that workaround") from error


def _uncovered(quirk: Quirk, problem: str, fix: str) -> BadInput:
    return BadInput(field=f"quirks.{quirk.name}", value=quirk.operator, problem=problem, fix=fix)
