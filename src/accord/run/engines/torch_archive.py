"""Tensors out of a PyTorch archive, without PyTorch and without running anything that it holds.

In: the path of a `.pth` file in the format that torch.save wrote before version 1.6: five pickles, then raw
storages (torch/serialization.py, `_legacy_save`). Out: arrays by name. Invariant: the pickles may look up the
four names of `_ALLOWED` and no others; what else they ask for, and any size that doesn't add up, is refused.
"""

import math
import pickle
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from accord.terms.errors import BrokenEdge

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001

Floats = npt.NDArray[np.float32]


class _Kind(Enum):
    """What a storage's elements are; the value is their size in bytes."""

    FLOAT = 4
    LONG = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Storage:
    key: str
    kind: _Kind
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch_archive(path: Path) -> Mapping[str, Floats]:
    """The float32 tensors by name, contiguous; integers (counters of training steps) are left out.

    BrokenEdge if the file isn't such an archive, FileNotFoundError if there is none.
    """
    try:
        with path.open("rb") as file:
            return _read(file)
    except (EOFError, ValueError, TypeError, IndexError, pickle.UnpicklingError) as error:
        raise BrokenEdge(f"{path}: can't be read as weights: {error}; delete it and fetch the weights again") from error


def _read(file: BinaryIO) -> Mapping[str, Floats]:
    magic, protocol, system = (_Unpickler(file).load() for _ in range(3))
    if magic != _MAGIC or protocol != _PROTOCOL or not (isinstance(system, dict) and system.get("little_endian")):
        raise ValueError("it doesn't begin as a little-endian torch archive of protocol 1001")
    tensors = _Unpickler(file).load()
    keys = _Unpickler(file).load()
    if not isinstance(tensors, OrderedDict) or not isinstance(keys, list):
        raise ValueError("it holds something else than named tensors")
    known = {item.storage.key: item.storage for item in tensors.values() if isinstance(item, _Tensor)}
    storages = {key: _read_storage(file, known, key) for key in keys}
    if file.read(1):
        raise ValueError("bytes follow the last tensor")
    named = {name: _tensor(name, item, storages) for name, item in tensors.items()}
    return {name: array for name, array in named.items() if array is not None}


class _Unpickler(pickle.Unpickler):
    """Knows the names of `_ALLOWED`, and no others."""

    def find_class(self, module: str, name: str) -> object:
        """The stand-in for one allowed name."""
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which weights have no need of") from None

    def persistent_load(self, pid: object) -> _Storage:
        """A storage that follows the pickles."""
        match pid:
            case ("storage", _Kind() as kind, str() as key, "cpu", int() as elements, None) if elements >= 0:
                return _Storage(key=key, kind=kind, elements=elements)
        raise pickle.UnpicklingError(f"it refers to something else than a storage: {pid!r:.80}")


def _rebuild_tensor(storage: object, offset: object, shape: object, strides: object, *_gradient: object) -> _Tensor:
    match (storage, offset, shape, strides):
        case (_Storage(), int(), tuple(), tuple()) if _counts((offset, *shape, *strides)):
            return _Tensor(storage=storage, offset=offset, shape=shape, strides=strides)
        case _:
            raise pickle.UnpicklingError("a tensor has no storage, or a size that is no count")


def _counts(values: Sequence[object]) -> bool:
    return all(isinstance(value, int) and value >= 0 for value in values)


_ALLOWED: Mapping[tuple[str, str], object] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch", "FloatStorage"): _Kind.FLOAT,
    ("torch", "LongStorage"): _Kind.LONG,
}


def _read_storage(file: BinaryIO, known: Mapping[str, _Storage], key: object) -> bytes:
    if not isinstance(key, str) or key not in known:
        raise ValueError(f"storage {key!r:.80} belongs to no tensor")
    storage = known[key]
    size_bytes = storage.elements * storage.kind.value
    if int.from_bytes(file.read(8), "little") != storage.elements:
        raise ValueError(f"storage {key} hasn't the {storage.elements} elements that its tensor has")
    data = file.read(size_bytes)
    if len(data) != size_bytes:
        raise ValueError(f"it ends inside storage {key}")
    return data


def _tensor(name: object, item: object, storages: Mapping[str, bytes]) -> Floats | None:
    if not isinstance(item, _Tensor) or item.storage.key not in storages or len(item.shape) != len(item.strides):
        raise ValueError(f"{name!r:.80} is no tensor of this archive")
    if item.storage.kind is not _Kind.FLOAT:
        return None
    flat = np.frombuffer(storages[item.storage.key], np.float32)
    reach = item.offset + sum((extent - 1) * stride for extent, stride in zip(item.shape, item.strides, strict=True))
    if math.prod(item.shape) and reach >= flat.size:
        raise ValueError(f"tensor {name} reaches past its storage")
    strides_bytes = [stride * flat.itemsize for stride in item.strides]
    view = np.lib.stride_tricks.as_strided(flat[item.offset :], item.shape, strides_bytes, writeable=False)
    return np.ascontiguousarray(view)
