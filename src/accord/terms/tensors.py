"""Weights as shapes: enough to count bytes in any format, and each rank's share of them.

In: nothing. Out: `Tensor`, `Format`, `FORMATS`. Invariant: a tensor says how it may be divided; nothing here
divides it (estimate/weights.py does).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Dtype(StrEnum):
    """Number formats of plain tensors and caches."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    FP8 = "fp8"


DTYPE_BYTES: Mapping[Dtype, int] = {Dtype.F32: 4, Dtype.F16: 2, Dtype.BF16: 2, Dtype.FP8: 1}


class Math(StrEnum):
    """Number formats that devices multiply in."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"


class Quantization(StrEnum):
    """How matrices that allow it are stored."""

    NONE = "none"
    FP8 = "fp8"
    FP8_CHANNEL = "fp8-channel"
    FP8_BLOCK = "fp8-block"
    INT8 = "int8"
    INT4_GROUP = "int4-group"
    MXFP4 = "mxfp4"
    MXFP8 = "mxfp8"
    NVFP4 = "nvfp4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`bits` a value, and one scale of `scale_bits` for each block of rows x columns (0: the whole side).

    `tensor_bits` are paid once a matrix. `pads`: where a rank's share isn't whole blocks, engines fill it up (mxfp4
    experts) instead of refusing.
    """

    bits: int
    block_rows: int
    block_columns: int
    scale_bits: int
    tensor_bits: int = 0
    pads: bool = False


# fp8: one float32 scale a matrix (static, per tensor). fp8-block: DeepSeek-V3 (arXiv 2412.19437, 3.3), 128 x 128
# with float32 scales. fp8-channel, int8: a bf16 scale for each output row. int4-group: 32 values share a bf16 scale
# (compressed-tensors, as in Kimi-K2's int4 release) unless a card says otherwise. mxfp4, mxfp8: OCP Microscaling 1.0,
# 32 values share an 8-bit exponent. nvfp4: 16 values share an fp8 scale, and a matrix has one float32.
FORMATS: Mapping[Quantization, Format] = {
    Quantization.FP8: Format(bits=8, block_rows=0, block_columns=0, scale_bits=32),
    Quantization.FP8_CHANNEL: Format(bits=8, block_rows=1, block_columns=0, scale_bits=16),
    Quantization.FP8_BLOCK: Format(bits=8, block_rows=128, block_columns=128, scale_bits=32),
    Quantization.INT8: Format(bits=8, block_rows=1, block_columns=0, scale_bits=16),
    Quantization.INT4_GROUP: Format(bits=4, block_rows=1, block_columns=32, scale_bits=16),
    Quantization.MXFP4: Format(bits=4, block_rows=1, block_columns=32, scale_bits=8, pads=True),
    Quantization.MXFP8: Format(bits=8, block_rows=1, block_columns=32, scale_bits=8),
    Quantization.NVFP4: Format(bits=4, block_rows=1, block_columns=16, scale_bits=8, tensor_bits=32),
}


class Part(StrEnum):
    """What a tensor belongs to; embeddings stand on the first pipeline rank, heads on the last."""

    EMBEDDING = "embedding"
    LAYER = "layer"
    EXPERT = "expert"
    ROUTER = "router"
    NORM = "norm"
    HEAD = "head"


class Split(StrEnum):
    """How tensor parallelism divides a tensor."""

    NONE = "none"  # every rank holds all of it
    ROWS = "rows"  # outputs: each rank holds `pieces / ranks` whole pieces
    COLUMNS = "columns"  # inputs: likewise
    KV_ROWS = "kv-rows"  # like rows, but with fewer pieces than ranks each piece is held by several ranks
    VOCABULARY = "vocabulary"  # rows, padded up to whole ones a rank
    EXPERTS = "experts"  # copies are dealt out by expert parallelism; without it, as `inner` says


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One kind of weight: `rows` outputs x `columns` inputs, `copies` in each of `layers`.

    A vector has one column. `layers` is empty for what stands outside the layers (then there are `copies`).
    `pieces` is how many indivisible parts the divided side has (heads, KV heads, features). `inner` is how one
    expert is divided where experts aren't dealt out. `quantizable`: quantized releases store it in their format.
    `buffer`: stored with the weights and counted in bytes, but not a parameter (balancing scores, routing tables).
    `idle`: loaded, but no step reads it (an autoencoder's encoder, a head for another kind of output).
    """

    name: str
    part: Part
    rows: int
    columns: int = 1
    copies: int = 1
    layers: tuple[int, ...] = ()
    split: Split = Split.NONE
    inner: Split = Split.NONE
    pieces: int = 1
    quantizable: bool = False
    buffer: bool = False
    idle: bool = False
    dtype: Dtype = Dtype.BF16

    @property
    def parameters(self) -> int:
        """All values, over all copies and layers."""
        return self.rows * self.columns * self.copies * max(1, len(self.layers))
