"""Bytes of weights, as they are stored.

In: tensors, how they are stored. Out: bytes; portions that people think in. Invariant: the portions add up to the
whole; what each rank of a parallel layout holds is in `shares.py`.
"""

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from accord.terms.architecture import Stored
from accord.terms.tensors import DTYPE_BYTES, FORMATS, Format, Part, Quantization, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """`count` things that weigh the same each: layers, experts, the embeddings, the head."""

    name: str
    count: int
    parameters: int
    stored_bytes: int


def portions(tensors: Iterable[Tensor], stored: Stored) -> tuple[Portion, ...]:
    """The weights in the portions that people think in; count times the bytes of each add up to the whole.

    A layer is counted without its routed experts; `expert` is one expert of one layer. Layers that weigh the same
    are one portion.
    """
    tensors = tuple(tensors)
    experts = [tensor for tensor in tensors if tensor.part is Part.EXPERT]
    others = [tensor for tensor in tensors if tensor.part is not Part.EXPERT]
    made = [_outside("embeddings", others, stored, (Part.EMBEDDING,))]
    made += _layers(others, stored)
    made += _experts(experts, stored)
    made.append(_outside("head", others, stored, (Part.HEAD,)))
    made.append(_outside("outside layers", others, stored, (Part.LAYER, Part.NORM, Part.ROUTER)))
    return tuple(item for item in made if item.stored_bytes)


def stored_bytes(tensors: Iterable[Tensor], stored: Stored) -> int:
    """Bytes of these tensors as they are stored."""
    return sum(tensor_bytes(tensor, stored) for tensor in tensors)


def tensor_bytes(tensor: Tensor, stored: Stored) -> int:
    """Bytes of one tensor, all copies and layers."""
    forms = Counter(format_of(tensor, stored, layer) for layer in tensor.layers or (None,))
    each = {form: matrix_bytes(tensor, form, rows=tensor.rows, columns=tensor.columns) for form in forms}
    return tensor.copies * sum(count * each[form] for form, count in forms.items())


def matrix_bytes(tensor: Tensor, form: Format | None, *, rows: int, columns: int) -> int:
    """Bytes of a part of one copy: `rows` x `columns` of it, with the scales."""
    return value_bytes(tensor, form, rows * columns) + scale_bytes(form, rows=rows, columns=columns)


def value_bytes(tensor: Tensor, form: Format | None, values: int) -> int:
    """Bytes of so many values, without scales."""
    return values * DTYPE_BYTES[tensor.dtype] if form is None else -(-values * form.bits // 8)


def scale_bytes(form: Format | None, *, rows: int, columns: int) -> int:
    """Bytes of the scales of a part of `rows` x `columns`."""
    if form is None:
        return 0
    blocks = -(-rows // (form.block_rows or rows)) * -(-columns // (form.block_columns or columns))
    return -(-blocks * form.scale_bits // 8) + -(-form.tensor_bits // 8)


def format_of(tensor: Tensor, stored: Stored, layer: int | None) -> Format | None:
    """The format in which a tensor is stored in one layer; None for its plain dtype."""
    return _format(*_kind(tensor, stored, layer), stored.scale_bits)


def quantizations(tensors: Iterable[Tensor], stored: Stored) -> tuple[Quantization, ...]:
    """What the matrices of these tensors are stored in, the commonest first."""
    values: Counter[Quantization] = Counter()
    for tensor in tensors:
        for layer in tensor.layers or (None,):
            if tensor.columns > 1:
                values[_kind(tensor, stored, layer)[0]] += tensor.rows * tensor.columns * tensor.copies
    return tuple(kind for kind, _ in values.most_common())


def _kind(tensor: Tensor, stored: Stored, layer: int | None) -> tuple[Quantization, int | None]:
    for item in stored.exceptions:
        if item.tensor == tensor.name and (not item.layers or layer in item.layers):
            return item.quantization, item.group
    return (stored.quantization, stored.group) if tensor.quantizable else (Quantization.NONE, None)


@functools.cache
def _format(quantization: Quantization, group: int | None, scale_bits: int | None) -> Format | None:
    if quantization is Quantization.NONE:
        return None
    form = FORMATS[quantization]
    columns = form.block_columns if group is None else group
    return replace(form, block_columns=columns, scale_bits=scale_bits or form.scale_bits)


def _outside(name: str, tensors: Iterable[Tensor], stored: Stored, parts: tuple[Part, ...]) -> Portion:
    held = [tensor for tensor in tensors if not tensor.layers and tensor.part in parts]
    parameters = sum(tensor.parameters for tensor in held if not tensor.buffer)
    return Portion(name=name, count=1, parameters=parameters, stored_bytes=stored_bytes(held, stored))


def _layers(tensors: Iterable[Tensor], stored: Stored) -> list[Portion]:
    parameters: Counter[int] = Counter()
    held: Counter[int] = Counter()
    for tensor in tensors:
        for layer in tensor.layers:
            parameters[layer] += 0 if tensor.buffer else tensor.rows * tensor.columns * tensor.copies
            held[layer] += _layer_bytes(tensor, stored, layer) * tensor.copies
    return _alike("layer", (((parameters[layer], held[layer]), 1) for layer in sorted(held)))


def _experts(tensors: Iterable[Tensor], stored: Stored) -> list[Portion]:
    parameters: Counter[tuple[int | None, int]] = Counter()
    held: Counter[tuple[int | None, int]] = Counter()
    for tensor in tensors:
        for layer in tensor.layers or (None,):
            parameters[layer, tensor.copies] += 0 if tensor.buffer else tensor.rows * tensor.columns
            held[layer, tensor.copies] += _layer_bytes(tensor, stored, layer)
    return _alike("expert", (((parameters[key], held[key]), key[1]) for key in held))


def _layer_bytes(tensor: Tensor, stored: Stored, layer: int | None) -> int:
    return matrix_bytes(tensor, format_of(tensor, stored, layer), rows=tensor.rows, columns=tensor.columns)


def _alike(name: str, items: Iterable[tuple[tuple[int, int], int]]) -> list[Portion]:
    counts: Counter[tuple[int, int]] = Counter()
    for weight, count in items:
        counts[weight] += count
    return [
        Portion(name=name, count=count, parameters=parameters, stored_bytes=held)
        for (parameters, held), count in counts.items()
    ]
