"""Bytes that one step reads and writes, operator by operator, and arithmetic intensity.

In: a stage's needs, how its weights are stored, a `Load`, dtypes of cache and activations. Out: `Traffic`. Invariant:
each byte counts once a step where a kernel that keeps its tiles on chip would move it once: weights that the step
uses, cache entries that any query sees, what goes into and out of each multiply; scores never leave the chip.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from accord.estimate.cache import entries, group_bytes
from accord.estimate.weights import tensor_bytes
from accord.estimate.work import applications, asking, experts_touched, flops_table, phase_of, runs
from accord.terms.architecture import Needs, Stored
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import DTYPE_BYTES, Dtype, Tensor
from accord.terms.work import Attention, Experts, Load, Lookup, MatMul, Operator, OperatorClass, Phase, Reach, Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTraffic:
    """One operator in one step."""

    name: str
    kind: OperatorClass
    flops: float
    weight_bytes: float
    cache_bytes: float
    activation_bytes: float

    @property
    def moved_bytes(self) -> float:
        """All bytes, read and written."""
        return self.weight_bytes + self.cache_bytes + self.activation_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One step of a stage. `other_bytes` are weights that no operator multiplies by: norms, biases."""

    operators: tuple[OperatorTraffic, ...]
    other_bytes: int
    cache_written_bytes: int
    state_bytes: int

    @property
    def flops(self) -> float:
        """FLOPs of all operators."""
        return sum(row.flops for row in self.operators)

    @property
    def weight_bytes(self) -> float:
        """Weights read."""
        return self.other_bytes + sum(row.weight_bytes for row in self.operators)

    @property
    def moved_bytes(self) -> float:
        """All bytes, read and written."""
        moved = sum(row.moved_bytes for row in self.operators)
        return moved + self.other_bytes + self.cache_written_bytes + self.state_bytes

    @property
    def intensity(self) -> float:
        """FLOPs a byte; 0 for a step that moves nothing."""
        return self.flops / self.moved_bytes if self.moved_bytes else 0.0


def step_traffic(
    needs: Needs, stored: Stored, load: Load, *, cache_dtype: Dtype = Dtype.BF16, activations: Dtype = Dtype.BF16
) -> Traffic:
    """What one step moves. Recurrent states are read and written once a sequence and step."""
    phase = phase_of(load)
    sizes = _Sizes(stored=stored, cache=DTYPE_BYTES[cache_dtype], activation=DTYPE_BYTES[activations])
    return Traffic(
        operators=tuple(_rows(needs, load, phase, sizes)),
        other_bytes=_other_bytes(needs, stored),
        cache_written_bytes=load.batch * sum(_written(group, load, cache_dtype) for group in needs.cache),
        state_bytes=2 * load.batch * sum(_state(group, cache_dtype) for group in needs.cache),
    )


def keys_seen(attention: Attention, load: Load) -> float:
    """Keys of one sequence that at least one of its new queries sees: what a fused kernel must read."""
    new, old = asking(attention, load)
    span = attention.span
    match attention.reach:
        case Reach.CROSS:
            return span if span is not None else old
        case Reach.ALL:
            return (new * attention.rate + old) / attention.ratio
        case Reach.BLOCK:
            return new * attention.rate
        case Reach.CAUSAL:
            return (old + new) // attention.ratio
        case Reach.WINDOW:
            seen = (old + new) // attention.ratio
            return min(seen, (span or seen) + (new - 1) // attention.ratio)
        case Reach.CHOSEN:
            seen = (old + new) // attention.ratio
            return min(seen, (span or seen) * new)
        case Reach.CHUNK:
            whole = round(attention.rate * new)
            return whole + round(attention.rate * old) % span if span else whole + old


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Bytes of one cached value and of one activation, and how weights are stored."""

    stored: Stored
    cache: int
    activation: int

    def weights(self, tensor: Tensor) -> int:
        return _tensor_bytes(tensor, self.stored)


@functools.lru_cache(maxsize=4096)
def _tensor_bytes(tensor: Tensor, stored: Stored) -> int:
    """The planner asks for the same stage many times."""
    return tensor_bytes(tensor, stored)


def _rows(needs: Needs, load: Load, phase: Phase, sizes: _Sizes) -> Iterator[OperatorTraffic]:
    running = [item for item in needs.operators if runs(item, phase)]
    for operator, row in zip(running, flops_table(running, load, phase=phase), strict=True):
        weight, cache, values = _moved(operator, load, sizes)
        yield OperatorTraffic(
            name=row.name,
            kind=row.kind,
            flops=row.flops,
            weight_bytes=weight,
            cache_bytes=cache * sizes.cache,
            activation_bytes=values * sizes.activation,
        )


def _moved(operator: Operator, load: Load, sizes: _Sizes) -> tuple[float, float, float]:
    """Bytes of weights, values of the cache, values of activations."""
    units = load.new * load.batch
    match operator:
        case MatMul():
            times = applications(operator.per, load) * operator.rate
            return sizes.weights(operator.weight) if times else 0, 0, times * _sides(operator)
        case Experts():
            touched = experts_touched(operator.experts, operator.chosen, units)
            held = sum(sizes.weights(weight) / weight.copies for weight in operator.weights)
            sides = sum((weight.rows + weight.columns) * max(1, len(weight.layers)) for weight in operator.weights)
            return touched * held, 0, units * operator.chosen * sides
        case Attention():
            queries = applications(operator.per, load) * operator.rate
            width = operator.heads * (operator.key_dim + operator.value_dim)
            entry = operator.key_dim + (0 if operator.values_in_keys else operator.value_dim)
            read = load.batch * keys_seen(operator, load) * operator.key_heads * entry
            return 0, read * len(operator.layers), queries * width * len(operator.layers)
        case Scan():
            width = 2 * operator.key_heads * operator.key_dim + 2 * operator.heads * operator.value_dim
            return 0, 0, units * width * len(operator.layers)
        case Lookup():
            times = applications(operator.per, load)
            row = operator.weight.columns
            return times * row * DTYPE_BYTES[operator.weight.dtype], 0, times * row


def _sides(operator: MatMul) -> int:
    """Values in and out of one application. A convolution's inputs overlap: as many are counted as outputs."""
    weight = operator.weight
    width = 2 * weight.rows if operator.convolution else weight.rows + weight.columns
    return width * weight.copies * max(1, len(weight.layers))


def _other_bytes(needs: Needs, stored: Stored) -> int:
    used = set()
    for operator in needs.operators:
        match operator:
            case MatMul() | Lookup():
                used.add(operator.weight.name)
            case Experts():
                used.update(weight.name for weight in operator.weights)
            case Attention() | Scan():
                pass
    return sum(_tensor_bytes(tensor, stored) for tensor in needs.tensors if tensor.name not in used and not tensor.idle)


def _written(group: CacheGroup, load: Load, dtype: Dtype) -> int:
    """Bytes that one sequence writes: an entry for each new token, as far as it stays."""
    if group.kind is CacheKind.STATE:
        return 0
    layers = len(group.layers)
    if group.kind is CacheKind.CROSS:  # written once, by the step that begins the sequence
        count = (group.window or 0) if load.context == 0 else 0
    elif group.kind in (CacheKind.WINDOW, CacheKind.CHUNK):
        count = min(load.new, group.window or load.new)
    else:
        count = entries(group, tokens=load.context + load.new) - entries(group, tokens=load.context)
    return layers * count * group.entry_values * DTYPE_BYTES[dtype]


def _state(group: CacheGroup, dtype: Dtype) -> int:
    return group_bytes(group, tokens=0, dtype=dtype) if group.kind is CacheKind.STATE else 0
