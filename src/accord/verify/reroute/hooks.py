"""Hooks in PyTorch's dispatcher: for each overload that a quirk hits, a function that looks and then goes on.

In: quirks, a row, a dispatch key. Out: `Hook`s to be registered. Invariant: a call outside all regions goes to the
kernel that was there before, with the arguments as they came; one inside goes round, or raises, but never through.
"""

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accord.terms.errors import BrokenEdge
from accord.terms.quirk import Is, Quirk, Region
from accord.verify.reroute.alternatives import alternatives
from accord.verify.reroute.overloads import Overload
from accord.verify.reroute.rows import Row
from accord.verify.reroute.rule import CPP, FALSE, TRUE, Argument, Sight, condition, with_shapes
from accord.verify.reroute.ways import Kernel, Target, way

# Words of quirks -> PyTorch's dtypes.
DTYPES: Mapping[str, str] = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8",
    "bool": "bool",
}  # fmt: skip

CPP_DTYPES: Mapping[str, str] = {
    "f64": "kDouble", "f32": "kFloat", "f16": "kHalf", "bf16": "kBFloat16", "f8e4m3": "kFloat8_e4m3fn",
    "f8e5m2": "kFloat8_e5m2", "i64": "kLong", "i32": "kInt", "i16": "kShort", "i8": "kChar", "u8": "kByte",
    "bool": "kBool",
}  # fmt: skip


class Unrouted(BrokenEdge):
    """A call lies in a quirk's region, and no workaround was verified for it. Its native result would be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One test of a hook and where it leads; `go` None: nowhere, so the call raises."""

    quirk: Quirk
    test: str
    go: Kernel | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A function for one overload. `text` is its source, for people who want to read it."""

    row: Row
    overload: Overload
    quirks: tuple[Quirk, ...]
    function: Callable[..., Any]
    text: str


def hook(quirks: Sequence[Quirk], row: Row, overload: Overload, key: str) -> Hook | None:
    """The hook of one overload; None where no quirk can hit it. ValueError if a workaround isn't known here."""
    import torch

    native = torch.library.get_kernel(f"aten::{overload.name}", key).call_boxed
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    dtypes = _asked_dtypes(quirks)
    gate = "" if dtypes is None else " or ".join(_dtype_test(row, word) for word in dtypes)
    known = dtypes[0] if dtypes is not None and len(dtypes) == 1 else None
    branches = _branches(quirks, _target(row, overload, key), known)
    if not branches:
        return None
    text, names = _text(branches, gate, overload)
    names |= {"native": native, "keys": keys, "unrouted": _unrouted}
    names |= {f"dtype_{word}": getattr(torch, name) for word, name in DTYPES.items()}
    space: dict[str, Any] = dict(names)
    exec(compile(text, f"<accord reroute of {overload.name}>", "exec"), space)  # made of our own texts and integers
    return Hook(row=row, overload=overload, quirks=tuple(quirks), function=space["hook"], text=text)


def native_test(hook: Hook) -> tuple[tuple[Argument, ...], str]:
    """The arguments that must be read, and whether a call may lie in any quirk's region, in C++."""
    row, overload = hook.row, hook.overload
    types = {word: f"{row.first}.scalar_type() == at::{name}" for word, name in CPP_DTYPES.items()}
    tests = []
    for quirk in hook.quirks:
        seen = sight(row, overload, quirk.operator)
        facts = {name: text.replace("//", "/") for name, text in seen.facts.items()}  # both cut off the rest
        tests.append(condition(quirk.region, Sight(facts=facts, words={**seen.words, "dtype": types}), CPP))
    text = CPP.true if CPP.true in tests else CPP.either.join(f"({test})" for test in tests if test != CPP.false)
    if sized := _sized(text):
        text = CPP.both.join([*sized, f"({text})"])
    count = len(overload.positional) + len(overload.words)
    read = [
        Argument(name=name, position=position, count=count, tensor=name in overload.tensors)
        for position, name in enumerate(overload.positional)
        if re.search(rf"\b{name}\b", text)
    ]
    return tuple(read), text


def sight(row: Row, overload: Overload, operator: str, *, dtype: str | None = None) -> Sight:
    """What a hook of this overload sees of a quirk's points; `dtype` where that is known already.

    Layouts are those of the operands of the quirk's own operator: where another one calls it (linear calls mm), they
    aren't known. A plain layout is no reason to let a call pass.
    """
    dtypes = {word: _dtype_test(row, word) for word in DTYPES}
    if dtype is not None:
        dtypes = {word: TRUE if word == dtype else FALSE for word in DTYPES}
    kinds = dict.fromkeys(("default", "out", "inplace"), FALSE) | {overload.kind: TRUE}
    words = {"dtype": dtypes, "overload": kinds}
    if operator in row.serves:
        loose = " or ".join(f"not {name}.is_contiguous()" for name in row.operands)
        moved = " or ".join(f"{name}.storage_offset() != 0" for name in row.operands)
        words["layout"] = {"plain": TRUE, "transposed": loose, "strided": loose, "offset": moved}
    return Sight(facts=dict(row.facts) | {"itemsize": f"{row.first}.element_size()"}, words=words)


def _dtype_test(row: Row, word: str) -> str:
    return f"{row.first}.dtype is dtype_{word}"


def _sized(text: str) -> list[str]:
    """Tests that tensors have a last side where a condition asks for it: a scalar has none."""
    names = dict.fromkeys(re.findall(r"\b(\w+)\.size\(-1\)", text))
    return [f"{name}.dim() > 0" for name in names]


def _branches(quirks: Sequence[Quirk], target: Target, dtype: str | None) -> list[Branch]:
    """Each quirk's workarounds from the fastest on, then the alarm for what none of them covers."""
    made: list[Branch] = []
    overload = target.overload
    for quirk in quirks:
        seen = sight(target.row, overload, quirk.operator, dtype=dtype)
        whole = condition(quirk.region, seen)
        if whole == FALSE:
            continue
        for workaround in sorted(quirk.workarounds, key=lambda item: item.cost_ratio):
            found = way(workaround, target)
            if found is None:
                raise ValueError(f"{workaround.way} {workaround.detail!r} isn't known for {overload.name}")
            test = _both(quirk.region, workaround.region, seen)
            if test != FALSE:
                made.append(Branch(quirk=quirk, test=test, go=_landing(found, overload)))
        if not any(branch.quirk is quirk and branch.test == whole for branch in made):
            made.append(Branch(quirk=quirk, test=whole, go=None))
    return made


def _both(one: Region, other: Region, seen: Sight) -> str:
    found = [condition(one, seen), condition(other, seen)]
    if FALSE in found:
        return FALSE
    kept = [item for item in dict.fromkeys(found) if item != TRUE]
    return kept[0] if len(kept) == 1 else " and ".join(f"({item})" for item in kept) or TRUE


def _target(row: Row, overload: Overload, key: str) -> Target:
    """Ways work on the functional form, whatever overload was called."""
    import torch

    base = row.name.removesuffix("_")
    whole = base if overload.written else overload.name
    native = torch.library.get_kernel(f"aten::{whole}", key).call_boxed
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    return Target(row=row, overload=overload, native=native, keys=keys, alternatives=alternatives(base, key))


def _landing(found: Kernel, overload: Overload) -> Kernel:
    """Puts a functional result where the overload wants it."""
    match overload.kind:
        case "out":
            written = overload.written

            def landed(*arguments: Any, **words: Any) -> Any:
                targets = [words.pop(name) for name in written]
                made = found(*arguments, **words)
                for target, value in zip(targets, made if isinstance(made, tuple) else (made,), strict=True):
                    _put(target, value)
                return targets[0] if len(targets) == 1 else tuple(targets)

            return landed
        case "inplace":

            def changed(*arguments: Any, **words: Any) -> Any:
                _put(arguments[0], found(*arguments, **words))
                return arguments[0]

            return changed
        case _:
            return found


def _put(target: Any, value: Any) -> None:
    if target.shape != value.shape:
        target.resize_(value.shape)
    target.copy_(value)


def _text(branches: Sequence[Branch], gate: str, overload: Overload) -> tuple[str, dict[str, Any]]:
    """The hook's source: a cheap look at the dtype (the gate), then shapes, then the tests in order.

    Words that the caller left at their defaults aren't handed on: parsing them would cost as much as the rule.
    """
    names: dict[str, Any] = {"unset": object()} | {f"default_{name}": value for name, value in overload.defaults}
    given = [f"{name}_" if keyword.iskeyword(name) else name for name in overload.positional]
    taken = [f"{name}=default_{name}" if f"default_{name}" in names else name for name in given]
    written = [name for name in overload.words if name in overload.written]
    optional = [name for name in overload.words if name not in overload.written]
    star = ["*"] if overload.words else []
    declared = ", ".join([*taken, *star, *written, *(f"{name}=unset" for name in optional)])
    passed = ", ".join([*given, *(f"{name}={name}" for name in written)])
    words = ", ".join(f"'{name}': {name}" for name in optional)
    some = f"{passed}, **{{name: value for name, value in {{{words}}}.items() if value is not unset}}"
    lines = []
    for number, branch in enumerate(branches):
        names[f"way_{number}"], names[f"quirk_{number}"] = branch.go, branch.quirk
        call = f"way_{number}(" if branch.go else f"unrouted(quirk_{number}, "
        lines.append(f"if {branch.test}:\n    return {call}{some if optional else passed})")
    sized = _sized("\n".join(lines))
    if sized:
        gate = " and ".join([*([f"({gate})"] if gate else []), *sized])
    body = _shaped(lines, lazily=len(branches) == 1 and " or " not in branches[0].test)
    if gate:
        body = f"if {gate}:\n" + _indented(body)
    ends = [f"return native(keys, {passed})"]
    if optional:
        ends.insert(0, f"if {' or '.join(f'{name} is not unset' for name in optional)}:")
        ends.insert(1, f"    return native(keys, {some})")
    return f"def hook({declared}):\n{_indented(body)}\n{_indented(chr(10).join(ends))}\n", names


def _shaped(lines: Sequence[str], *, lazily: bool) -> str:
    """The tests with each shape read once: at the first test that needs it where the order is sure, else before all."""
    names, text = with_shapes("\n".join(lines))
    if not lazily:
        return "\n".join([*(f"{name}_shape = {name}.shape" for name in names), text])
    for name in names:
        text = text.replace(f"{name}_shape[", f"({name}_shape := {name}.shape)[", 1)
    return text


def _asked_dtypes(quirks: Sequence[Quirk]) -> tuple[str, ...] | None:
    """The dtypes that any quirk is about; None where one is about all."""
    words: dict[str, None] = {}
    for case in (case for quirk in quirks for case in quirk.region.cases):
        named = [atom.words for atom in case if isinstance(atom, Is) and atom.trait == "dtype"]
        if not named:
            return None
        words.update(dict.fromkeys(named[0]))
    return tuple(word for word in words if word in DTYPES)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _unrouted(quirk: Quirk, *arguments: Any, **_: Any) -> Any:
    shapes = ", ".join(str(tuple(item.shape)) for item in arguments if hasattr(item, "shape"))
    raise Unrouted(
        f"{quirk.operator} {shapes}: quirk {quirk.name!r} says that {quirk.device} computes this wrong, and no "
        f"workaround was verified for it; run `accord verify retest` on the quirk file, or compute it elsewhere"
    )
