"""Bytes of weights, whole and on one rank.

In: tensors, a format, a parallel layout. Out: bytes and parameters. Invariant: the shares of all ranks add up to the
whole, plus what is held more than once and padding, each of which is counted exactly.
"""

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from accord.terms.architecture import Stored
from accord.terms.tensors import DTYPE_BYTES, FORMATS, Format, Quantization, Tensor


def stored_bytes(tensors: Iterable[Tensor], stored: Stored) -> int:
    """Bytes of these tensors as they are stored."""
    return sum(tensor_bytes(tensor, stored) for tensor in tensors)


def tensor_bytes(tensor: Tensor, stored: Stored) -> int:
    """Bytes of one tensor, all copies and layers."""
    forms = Counter(format_of(tensor, stored, layer) for layer in tensor.layers or (None,))
    each = {form: matrix_bytes(tensor, form, rows=tensor.rows, columns=tensor.columns) for form in forms}
    return tensor.copies * sum(count * each[form] for form, count in forms.items())


def matrix_bytes(tensor: Tensor, form: Format | None, *, rows: int, columns: int) -> int:
    """Bytes of a part of one copy: `rows` x `columns` of it."""
    if form is None:
        return rows * columns * DTYPE_BYTES[tensor.dtype]
    values = -(-rows * columns * form.bits // 8)
    blocks = -(-rows // (form.block_rows or rows)) * -(-columns // (form.block_columns or columns))
    return values + -(-blocks * form.scale_bits // 8) + -(-form.tensor_bits // 8)


def format_of(tensor: Tensor, stored: Stored, layer: int | None) -> Format | None:
    """The format in which a tensor is stored in one layer; None for its plain dtype."""
    for item in stored.exceptions:
        if item.tensor == tensor.name and (not item.layers or layer in item.layers):
            return _format(item.quantization, item.group, stored.scale_bits)
    return _format(stored.quantization, stored.group, stored.scale_bits) if tensor.quantizable else None


@functools.cache
def _format(quantization: Quantization, group: int | None, scale_bits: int | None) -> Format | None:
    if quantization is Quantization.NONE:
        return None
    form = FORMATS[quantization]
    columns = group if group is not None and form.block_columns else form.block_columns
    return replace(form, block_columns=columns, scale_bits=scale_bits or form.scale_bits)
