"""Tensors of a GGUF as int8 blocks, written page-aligned into one file that can be mapped.

In: a `gguf.GGUFReader` and an open file. Out: ONNX initializers that point into the file, and `Place`s.
Invariant: Q8_0 keeps its exact values; every other type is requantized from its dequantized values, one scale
for each 32 weights, which for 4-bit types loses far less than computing with int8 activations does anyway.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from accord.terms.errors import BrokenEdge

if TYPE_CHECKING:
    from gguf import GGUFReader
    from onnx import TensorProto

BLOCK = 32
WEIGHTS = "weights.bin"
_ALIGN_BYTES = 4096
_ZERO = 128

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an array lies in the weights file: bytes from its start, and shape."""

    offset: int
    shape: tuple[int, ...]


class Weights:
    """The weights file under construction."""

    def __init__(self, reader: "GGUFReader", file: BinaryIO) -> None:
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._file = file
        self.initializers: list[TensorProto] = []

    def has(self, name: str) -> bool:
        """Whether the GGUF has this tensor."""
        return name in self._tensors

    def vector(self, name: str) -> Floats:
        """A tensor dequantized to float32, rows first."""
        from gguf import dequantize

        if name not in self._tensors:
            raise BrokenEdge(f"GGUF: tensor {name} is missing; fetch the weights again")
        tensor = self._tensors[name]
        return np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)

    def blocks(self, names: Sequence[str]) -> tuple[Bytes, Floats]:
        """The named matrices stacked by rows: (rows, blocks, 32) uint8 with zero at 128, (rows, blocks) scales."""
        parts = [self._block(name) for name in names]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def put(self, name: str, array: npt.NDArray[np.generic]) -> Place:
        """Writes the array and declares it as the initializer `name`."""
        import onnx

        data = np.ascontiguousarray(array)
        self._file.write(bytes(-self._file.tell() % _ALIGN_BYTES))
        place = Place(offset=self._file.tell(), shape=data.shape)
        self._file.write(data.tobytes())
        tensor = onnx.TensorProto(name=name, dims=data.shape, data_location=onnx.TensorProto.EXTERNAL)
        tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(data.dtype)
        for key, value in (("location", WEIGHTS), ("offset", place.offset), ("length", data.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self.initializers.append(tensor)
        return place

    def constant(self, name: str, array: npt.NDArray[np.generic]) -> None:
        """Declares a small initializer inside the graph, where shape inference can read it."""
        import onnx

        self.initializers.append(onnx.numpy_helper.from_array(array, name))

    def _block(self, name: str) -> tuple[Bytes, Floats]:
        from gguf import GGMLQuantizationType

        tensor = self._tensors.get(name)
        if tensor is not None and tensor.tensor_type == GGMLQuantizationType.Q8_0:
            return _exact(np.asarray(tensor.data))
        return _requantized(self.vector(name))


def restore(blocks: Bytes, scales: Floats) -> Floats:
    """The values that int8 blocks stand for: (rows, blocks, 32) and (rows, blocks) -> (rows, blocks * 32)."""
    values = (blocks.astype(np.float32) - _ZERO) * scales[..., None]
    return values.reshape(len(blocks), -1)


def _exact(raw: Bytes) -> tuple[Bytes, Floats]:
    """Q8_0: each block is a float16 scale and 32 signed bytes (ggml's block_q8_0)."""
    blocks = raw.reshape(len(raw), -1, 2 + BLOCK)
    scales = blocks[:, :, :2].copy().view(np.float16)[..., 0].astype(np.float32)
    signed = blocks[:, :, 2:].copy().view(np.int8).astype(np.int16)
    return (signed + _ZERO).astype(np.uint8), scales


def _requantized(values: Floats) -> tuple[Bytes, Floats]:
    blocks = values.reshape(len(values), -1, BLOCK)
    scales = np.abs(blocks).max(axis=2) / 127.0
    scales[scales == 0.0] = 1.0
    return (np.rint(blocks / scales[..., None]) + _ZERO).astype(np.uint8), scales.astype(np.float32)
