"""Divides one copy of one tensor by tensor parallelism.

In: a tensor, the way to split it, ranks, its format. Out: `Cut`, or a `Misfit` that says what is in the way.
Invariant: all ranks get parts of one size; what the whole lacks for that is padding.
"""

import math
from dataclasses import dataclass

from accord.terms.tensors import Format, Split, Tensor

VOCABULARY_MULTIPLE = 64  # vLLM pads vocabularies to it (vllm/model_executor/layers/vocab_parallel_embedding.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """`parts` different parts of `rows` x `columns`; together, padding included, `full_rows` x `full_columns`."""

    rows: int
    columns: int
    parts: int
    full_rows: int
    full_columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why ranks can't divide a tensor."""

    limit: str
    words: str


def cut(tensor: Tensor, split: Split, ranks: int, form: Format | None) -> Cut | Misfit:
    """One rank's part."""
    match split:
        case Split.NONE | Split.EXPERTS:
            return _rows(tensor, tensor.rows, 1)
        case Split.VOCABULARY:
            multiple = math.lcm(VOCABULARY_MULTIPLE, ranks)
            return _rows(tensor, -(-tensor.rows // multiple) * multiple // ranks, ranks)
        case Split.KV_ROWS if ranks > tensor.pieces and ranks % tensor.pieces == 0:
            return _rows(tensor, tensor.rows // tensor.pieces, tensor.pieces)
        case Split.ROWS | Split.KV_ROWS:
            part = _part(tensor, tensor.rows, ranks, block=form.block_rows if form else 0, form=form)
            return part if isinstance(part, Misfit) else _rows(tensor, part, ranks)
        case Split.COLUMNS:
            part = _part(tensor, tensor.columns, ranks, block=form.block_columns if form else 0, form=form)
            return part if isinstance(part, Misfit) else _columns(tensor, part, ranks)


def _rows(tensor: Tensor, rows: int, parts: int) -> Cut:
    return Cut(rows=rows, columns=tensor.columns, parts=parts, full_rows=rows * parts, full_columns=tensor.columns)


def _columns(tensor: Tensor, columns: int, parts: int) -> Cut:
    return Cut(rows=tensor.rows, columns=columns, parts=parts, full_rows=tensor.rows, full_columns=columns * parts)


def _part(tensor: Tensor, side: int, ranks: int, *, block: int, form: Format | None) -> int | Misfit:
    """Length of a part of `side`: whole pieces, and whole blocks of scales.

    A head that straddles two blocks is no obstacle: loaders quantize such a rank's heads anew, in blocks of their own
    (vLLM does for MiMo-V2). Features that do are refused, as engines refuse them.
    """
    if ranks == 1:
        return side
    if form is not None and form.pads and tensor.pieces >= side:
        unit = max(1, form.block_columns)  # both sides of an expert are filled up alike: one's outputs enter the other
        return math.ceil(math.ceil(side / unit) / ranks) * unit
    if tensor.pieces % ranks or side % tensor.pieces:
        words = f"{tensor.name}'s {tensor.pieces} pieces can't be divided by {ranks} ranks"
        return Misfit(limit=f"{tensor.pieces} pieces of {tensor.name}", words=words)
    part = side // ranks
    features = tensor.pieces >= side > block
    if block > 1 and part % block and features:
        words = f"{tensor.name}: {side} / {ranks} = {part} isn't a multiple of its blocks of {block}"
        return Misfit(limit=f"blocks of {block} in {tensor.name}", words=words)
    return part
