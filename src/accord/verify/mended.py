"""A device behind a way round: every call is changed on its way in, and its outputs on their way out.

In: a device, an `Attempt`. Out: a `Device`. Invariant: the device itself computes, save for cutting, padding, joining
and casting; an operator that has no such way is unsupported, never computed the usual way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accord.terms.quirk import Way
from accord.verify.attempts import Attempt
from accord.verify.call_sides import CallSide, call_side
from accord.verify.ports import Answer, Call, Description, Device, Option, Outcome, State, Unsupported
from accord.verify.tensor import ROUNDOFF, Dtype, Tensor, of_bits, plain

WIDE = {"f32": Dtype.F32, "f64": Dtype.F64}
Outputs = tuple[Tensor, ...]
Join = Callable[[Sequence[Outputs]], Outputs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detour:
    """Calls in place of one, and how their outputs become its own. `warm_ups`: runs whose outputs don't count."""

    calls: tuple[Call, ...]
    join: Join
    warm_ups: int = 0


class MendedDevice:
    """`device` with `attempt` before it; `cpu` computes where the way leads away from the device."""

    def __init__(self, device: Device, attempt: Attempt, *, cpu: Device | None = None) -> None:
        self._device = device
        self._attempt = attempt
        self._cpu = cpu

    def describe(self) -> Description:
        """The device's own."""
        return self._device.describe()

    def run(self, call: Call) -> Outcome:
        """The call's detour; the first part that is no answer decides."""
        if self._attempt.way is Way.CPU:
            return Unsupported(reason="there is no other device") if self._cpu is None else self._cpu.run(call)
        made = detour(call, self._attempt)
        if made is None:
            return Unsupported(reason=f"{call.operator}: {self._attempt.way} {self._attempt.detail}: no such way")
        runs: list[tuple[Outputs, ...]] = []
        for part in made.calls:
            outcome = self._device.run(part)
            if not isinstance(outcome, Answer):
                return outcome
            runs.append(outcome.runs[made.warm_ups :])
        return Answer(runs=tuple(made.join(parts) for parts in zip(*runs, strict=True)))

    def close(self) -> None:
        """The device is its owner's."""


class ColdDevice:
    """`device` that forgets what it compiled or tuned before calls of another kind than the last one."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._last = ""

    def describe(self) -> Description:
        """The device's own."""
        return self._device.describe()

    def run(self, call: Call) -> Outcome:
        """The first run of calls with these shapes and formats is cold."""
        kind = f"{call.operator} {[(one.dtype, one.shape, one.strides, one.offset) for one in call.operands]}"
        state, self._last = State.WARM if kind == self._last else State.COLD, kind
        return self._device.run(replace(call, state=state))

    def close(self) -> None:
        """The device is its owner's."""


def detour(call: Call, attempt: Attempt) -> Detour | None:
    """What is called instead; None if the call has no such way."""
    name, _, number = attempt.detail.rpartition(" ")
    match attempt.way:
        case Way.PAD:
            side = call_side(call, name.removesuffix(" to"))
            return None if side is None or not side.pads else _padded(call, side, int(number))
        case Way.SPLIT if call.operator == "matmul_nbits" and name == "block by":
            return _blocks(call, int(number))
        case Way.SPLIT:
            side = call_side(call, name.removesuffix(" by"))
            return None if side is None else _split(call, side, int(number))
        case Way.UPCAST:
            return _upcast(call, attempt.detail)
        case Way.CONTIGUOUS:
            dense = tuple(of_bits(tensor.bits(), tensor.dtype) for tensor in call.operands)
            return Detour(calls=(replace(call, operands=dense),), join=_first)
        case Way.OVERLOAD:
            return None if call.overload == attempt.detail else _worded(replace(call, overload=attempt.detail))
        case Way.BACKEND:
            return None if call.mode == attempt.detail else _worded(replace(call, mode=attempt.detail))
        case Way.REPEAT:
            return Detour(calls=(replace(call, repeat=call.repeat + 1),), join=_first, warm_ups=1)
        case _:
            return None


def _worded(call: Call) -> Detour:
    return Detour(calls=(call,), join=_first)


def _padded(call: Call, side: CallSide, multiple: int) -> Detour | None:
    size = side.size(call)
    lacks = -size % multiple
    operands = list(call.operands)
    for at, dim in side.present(call):
        bits = operands[at].bits()
        widths = [(0, 0)] * bits.ndim
        widths[dim] = (0, lacks)
        operands[at] = of_bits(np.pad(bits, widths), operands[at].dtype)
    padded = _with_option(replace(call, operands=tuple(operands)), side, size + lacks)

    def join(parts: Sequence[Outputs]) -> Outputs:
        (outputs,) = parts
        return outputs if side.output is None else tuple(_cut(one, side.output, 0, size) for one in outputs)

    return Detour(calls=(padded,), join=join)


def _split(call: Call, side: CallSide, length: int) -> Detour | None:
    size = side.size(call)
    calls = []
    for start in range(0, size, length):
        operands = list(call.operands)
        for at, dim in side.present(call):
            operands[at] = _cut(operands[at], dim, start, min(length, size - start))
        if start and side.output is None:
            for at in side.once:
                if at < len(operands):
                    operands[at] = of_bits(np.zeros_like(operands[at].bits()), operands[at].dtype)
        part = replace(call, operands=tuple(operands))
        calls.append(_with_option(part, side, min(length, size - start)))

    def join(parts: Sequence[Outputs]) -> Outputs:
        outputs = zip(*parts, strict=True)
        return tuple(_sum(one) if side.output is None else _joined(one, side.output) for one in outputs)

    return Detour(calls=tuple(calls), join=join)


def _blocks(call: Call, length: int) -> Detour | None:
    """Blocks of 4-bit weights cut into smaller ones, which share the scale of the block that they were."""
    block = call.option("block_size")
    if not isinstance(block, int) or block <= length or block % length:
        return None
    x, packed, scales, *rest = call.operands
    rows, count, _ = packed.shape
    parts = block // length
    cut = of_bits(packed.bits().reshape(rows, count * parts, length // 2), packed.dtype)
    repeated = of_bits(np.repeat(scales.bits(), parts, axis=1), scales.dtype)
    made = replace(call, operands=(x, cut, repeated, *rest), options=_options(call, "block_size", length))
    return Detour(calls=(made,), join=_first)


def _upcast(call: Call, word: str) -> Detour | None:
    wide = WIDE.get(word)
    narrow = next((tensor.dtype for tensor in call.operands if tensor.dtype in ROUNDOFF), None)
    if wide is None or narrow is None or ROUNDOFF[narrow] <= ROUNDOFF[wide]:
        return None
    operands = tuple(plain(tensor.floats(), wide) if tensor.dtype in ROUNDOFF else tensor for tensor in call.operands)

    def join(parts: Sequence[Outputs]) -> Outputs:
        (outputs,) = parts
        return tuple(plain(one.floats(), narrow) if one.dtype is wide else one for one in outputs)

    return Detour(calls=(replace(call, operands=operands),), join=join)


def _first(parts: Sequence[Outputs]) -> Outputs:
    (outputs,) = parts
    return outputs


def _with_option(call: Call, side: CallSide, value: int) -> Call:
    return call if side.option is None else replace(call, options=_options(call, side.option, value))


def _options(call: Call, name: str, value: int) -> tuple[Option, ...]:
    return tuple(replace(option, value=value) if option.name == name else option for option in call.options)


def _cut(tensor: Tensor, dim: int, start: int, length: int) -> Tensor:
    bits = np.moveaxis(tensor.bits(), dim, 0)[start : start + length]
    return of_bits(np.ascontiguousarray(np.moveaxis(bits, 0, dim)), tensor.dtype)


def _joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    return of_bits(np.concatenate([part.bits() for part in parts], axis=dim), parts[0].dtype)


def _sum(parts: Sequence[Tensor]) -> Tensor:
    """Added up in float64, and rounded once."""
    with np.errstate(invalid="ignore", over="ignore"):
        return plain(np.sum([part.floats() for part in parts], axis=0), parts[0].dtype)
