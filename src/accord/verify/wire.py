"""Calls and outcomes as bytes between a device's child process and its parent.

In: `Call`, `Outcome`, `Description`, or a stream. Out: one frame each: a JSON head with its length, then the stores of
its tensors. Invariant: bits arrive as they were sent; a frame from a broken child is an error, never a wrong tensor.
"""

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accord.terms.errors import BrokenEdge
from accord.terms.quirk import Version
from accord.verify.ports import Answer, Call, Death, Description, Died, Option, Outcome, State, Unsupported, Value
from accord.verify.tensor import STORED, Bits, Dtype, Tensor

Plain = bool | int | float | str | None | list["Plain"] | dict[str, "Plain"]
_HEAD = struct.Struct("<IQ")
_HEAD_MAX = 16 << 20
_BODY_MAX = 8 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What crosses: a head of plain values, and stores."""

    head: Plain
    stores: tuple[Bits, ...] = ()


def to_bytes(frame: Frame) -> bytes:
    """The frame as it crosses."""
    head = json.dumps(frame.head).encode()
    body = b"".join(store.tobytes() for store in frame.stores)
    return _HEAD.pack(len(head), len(body)) + head + body


def read_frame(read: Callable[[int], bytes]) -> tuple[Plain, bytes]:
    """One frame by a function that gives exactly so many bytes. BrokenEdge if it can't be one."""
    head_bytes, body_bytes = _HEAD.unpack(read(_HEAD.size))
    if head_bytes > _HEAD_MAX or body_bytes > _BODY_MAX:
        raise BrokenEdge("the device's process sent something that is no frame")
    try:
        head = json.loads(read(head_bytes))
    except ValueError as error:
        raise BrokenEdge("the device's process sent something that is no frame") from error
    return head, read(body_bytes)


def call_frame(call: Call) -> Frame:
    """A call as a frame. A store that several operands share crosses once for each."""
    return Frame(
        head={
            "operator": call.operator,
            "operands": [_tensor_head(tensor) for tensor in call.operands],
            "options": [[option.name, _plain_value(option.value)] for option in call.options],
            "overload": call.overload,
            "mode": call.mode,
            "state": call.state.value,
            "repeat": call.repeat,
        },
        stores=tuple(tensor.store for tensor in call.operands),
    )


def call_of(head: Plain, body: bytes) -> Call:
    """The call of a frame."""
    told = _table(head)
    return Call(
        operator=str(told["operator"]),
        operands=_tensors(_items(told["operands"]), body)[0],
        options=tuple(
            Option(name=str(name), value=_value(value)) for name, value in map(_items, _items(told["options"]))
        ),
        overload=str(told["overload"]),
        mode=str(told["mode"]),
        state=State(str(told["state"])),
        repeat=_int(told["repeat"]),
    )


def outcome_frame(outcome: Outcome) -> Frame:
    """An outcome as a frame."""
    match outcome:
        case Unsupported(reason=reason):
            return Frame(head={"unsupported": reason})
        case Died(death=death, detail=detail):
            return Frame(head={"died": death.value, "detail": detail})
        case Answer(runs=runs):
            heads: list[Plain] = [[_tensor_head(tensor) for tensor in run] for run in runs]
            return Frame(head={"runs": heads}, stores=tuple(tensor.store for run in runs for tensor in run))


def outcome_of(head: Plain, body: bytes) -> Outcome:
    """The outcome of a frame."""
    told = _table(head)
    if "unsupported" in told:
        return Unsupported(reason=str(told["unsupported"]))
    if "died" in told:
        return Died(death=Death(str(told["died"])), detail=str(told["detail"]))
    runs, left = [], body
    for run in _items(told["runs"]):
        tensors, left = _tensors(_items(run), left)
        runs.append(tensors)
    return Answer(runs=tuple(runs))


def description_frame(described: Description) -> Frame:
    """A description as a frame."""
    return Frame(
        head={
            "name": described.name,
            "families": list(described.families),
            "versions": [[version.library, version.version] for version in described.versions],
            "features": list(described.features),
            "modes": list(described.modes),
        }
    )


def description_of(head: Plain) -> Description:
    """The description of a frame."""
    told = _table(head)
    return Description(
        name=str(told["name"]),
        families=tuple(map(str, _items(told["families"]))),
        versions=tuple(
            Version(library=str(library), version=str(version))
            for library, version in map(_items, _items(told["versions"]))
        ),
        features=tuple(map(str, _items(told["features"]))),
        modes=tuple(map(str, _items(told["modes"]))),
    )


def _tensor_head(tensor: Tensor) -> Plain:
    return [tensor.dtype.value, list(tensor.shape), list(tensor.strides), tensor.store.nbytes, tensor.offset]


def _tensors(heads: Sequence[Plain], body: bytes) -> tuple[tuple[Tensor, ...], bytes]:
    found, at = [], 0
    for head in heads:
        dtype, shape, strides, size, offset = _items(head)
        stored = STORED[Dtype(str(dtype))]
        store = aligned(_int(size) // np.dtype(stored).itemsize, stored)
        store.view(np.uint8)[:] = np.frombuffer(body, dtype=np.uint8, count=_int(size), offset=at)
        at += _int(size)
        found.append(
            Tensor(
                dtype=Dtype(str(dtype)),
                shape=tuple(map(_int, _items(shape))),
                strides=tuple(map(_int, _items(strides))),
                store=store,
                offset=_int(offset),
            )
        )
    return tuple(found), body[at:]


def aligned(items: int, stored: str) -> Bits:
    """An empty store of so many elements whose first byte is aligned to 64."""
    size = items * np.dtype(stored).itemsize
    raw = np.empty(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(stored)


def _plain_value(value: Value) -> Plain:
    return list(value) if isinstance(value, tuple) else value


def _value(value: Plain) -> Value:
    match value:
        case list():
            return tuple(map(_int, value))
        case bool() | int() | float() | str():
            return value
        case _:
            raise _broken()


def _table(value: Plain) -> dict[str, Plain]:
    if not isinstance(value, dict):
        raise _broken()
    return value


def _items(value: Plain) -> list[Plain]:
    if not isinstance(value, list):
        raise _broken()
    return value


def _int(value: Plain) -> int:
    if not isinstance(value, int):
        raise _broken()
    return value


def _broken() -> BrokenEdge:
    return BrokenEdge("the device's process sent a frame that lacks something")
