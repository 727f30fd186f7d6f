"""Bytes of weights, whole and on one rank.

In: tensors, a format, a parallel layout. Out: bytes and parameters. Invariant: the shares of all ranks add up to the
whole, plus what is held more than once and padding, each of which is counted exactly.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from accord.terms.architecture import Stored
from accord.terms.tensors import DTYPE_BYTES, FORMATS, Format, Quantization, Tensor


def stored_bytes(tensors: Iterable[Tensor], stored: Stored) -> int:
    """Bytes of these tensors as they are stored."""
    return sum(tensor_bytes(tensor, stored) for tensor in tensors)


def tensor_bytes(tensor: Tensor, stored: Stored) -> int:
    """Bytes of one tensor, all copies and layers."""
    copies = tensor.copies * max(1, len(tensor.layers))
    return copies * matrix_bytes(tensor, stored, rows=tensor.rows, columns=tensor.columns)


def matrix_bytes(tensor: Tensor, stored: Stored, *, rows: int, columns: int) -> int:
    """Bytes of a part of one copy: `rows` x `columns` of it."""
    form = format_of(tensor, stored)
    if form is None:
        return rows * columns * DTYPE_BYTES[tensor.dtype]
    values = -(-rows * columns * form.bits // 8)
    blocks = -(-rows // (form.block_rows or rows)) * -(-columns // (form.block_columns or columns))
    return values + -(-blocks * form.scale_bits // 8) + -(-form.tensor_bits // 8)


def format_of(tensor: Tensor, stored: Stored) -> Format | None:
    """The format in which a tensor is stored; None for its plain dtype."""
    if stored.quantization is Quantization.NONE or not tensor.quantizable:
        return None
    if any(fnmatchcase(tensor.name, pattern) for pattern in stored.plain):
        return None
    form = FORMATS[stored.quantization]
    if stored.group is None or form.block_columns in (0, stored.group):
        return form
    return Format(
        bits=form.bits,
        block_rows=form.block_rows,
        block_columns=stored.group,
        scale_bits=form.scale_bits,
        tensor_bits=form.tensor_bits,
    )
