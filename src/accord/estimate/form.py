"""A stage on one layout, as the coefficients of one rank's work.

In: a stage's needs, how its weights are stored, a `Layout`, the cache's dtype. Out: `Form`, or a Refusal where the
layout can't divide the weights. Invariant: everything that doesn't depend on the step's sizes is computed here once,
so that `step.py` is a few products of arrays; over all ranks the FLOPs are those of `work.py`.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from accord.estimate.cache import on_rank
from accord.estimate.scan import chunk_flops, recurrent_flops
from accord.estimate.shares import Shares, shares
from accord.estimate.weights import quantizations, tensor_bytes
from accord.terms.architecture import Needs, Stored
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.layout import Layout
from accord.terms.refusal import Refusal
from accord.terms.tensors import DTYPE_BYTES, Dtype, Math, Quantization, Split, Tensor
from accord.terms.work import Attention, Experts, Lookup, MatMul, Operator, OperatorClass, Per, Phase, Scan, ScanKind

ACTIVATION_BYTES = 2

# What a matrix multiply with weights of this format is done in, where the device can; step.py falls back.
MATH = {
    Quantization.FP8: Math.FP8,
    Quantization.FP8_CHANNEL: Math.FP8,
    Quantization.FP8_BLOCK: Math.FP8,
    Quantization.MXFP8: Math.FP8,
    Quantization.INT8: Math.INT8,
    Quantization.NVFP4: Math.FP4,
    Quantization.MXFP4: Math.FP4,
    Quantization.INT4_GROUP: Math.BF16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """Matrix multiplies that run at the same rate and for the same units, added up.

    FLOPs and bytes of activations are for each application; `weight_bytes` are read once a step. `reduced_bytes` are
    what each rank puts into all-reduces for each application, over `reductions` collectives a step.
    """

    kind: OperatorClass
    math: Math
    per: Per
    phase: Phase
    flops: float
    activation_bytes: float
    weight_bytes: float
    launches: int
    reduced_bytes: float
    reductions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """The experts of `layers` layers: FLOPs and activations for each unit and chosen expert; bytes of one expert.

    Figures are of the whole group of `ranks` ranks, which hold an equal part each. `unit_bytes` is one unit's hidden
    state in one layer, which is sent to its experts and back.
    """

    math: Math
    experts: int
    chosen: int
    layers: int
    flops: float
    activation_bytes: float
    expert_bytes: float
    unit_bytes: float
    ranks: int
    dealt: bool  # whole experts to ranks (expert parallel), or a part of each expert to every rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Attending:
    """Attention of some layers: FLOPs for each pair of query and key, bytes for each key that a sequence sees."""

    operator: Attention
    pair_flops: float
    key_bytes: float
    query_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanning:
    """A recurrence: FLOPs of a unit on its own and in a long run, bytes of activations, and of states a sequence."""

    decode_flops: float
    prefill_flops: float
    activation_bytes: float
    layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One rank of one replica. With pipeline ranks, all layers are here: one unit passes all of them.

    `weights_bytes` is what the fullest rank holds. `data` groups of `tensor` ranks have sequences of their own.
    `cache` is what one rank keeps of each of its group's sequences. `peak_unit_bytes` of activations are alive for each
    unit of a step at its widest point.
    """

    stage: str
    layout: Layout
    data: int
    shares: Shares
    layers: int
    launches: int
    dense: tuple[Dense, ...]
    routed: tuple[Routed, ...]
    attending: tuple[Attending, ...]
    scanning: tuple[Scanning, ...]
    cache: tuple[CacheGroup, ...]
    cache_dtype: Dtype
    hidden_bytes: float
    peak_unit_bytes: float

    @property
    def weights_bytes(self) -> int:
        """Bytes of weights on the fullest rank."""
        return self.shares.largest_bytes

    @property
    def state_bytes(self) -> float:
        """Bytes of states that one sequence reads and writes in a step."""
        states = (group for group in self.cache if group.kind is CacheKind.STATE)
        return 2.0 * sum(len(group.layers) * group.state_values * DTYPE_BYTES[group.state_dtype] for group in states)

    @property
    def written_bytes(self) -> float:
        """Bytes of cache that one new unit writes."""
        groups = (group for group in self.cache if group.kind is not CacheKind.STATE)
        return sum(len(group.layers) * group.entry_values / group.ratio for group in groups) * self.cache_item_bytes

    @property
    def cache_item_bytes(self) -> int:
        """Bytes of one cached value."""
        return DTYPE_BYTES[self.cache_dtype]


def form(needs: Needs, stored: Stored, layout: Layout, *, cache_dtype: Dtype = Dtype.BF16) -> Form | Refusal:
    """The coefficients, or why this layout can't divide the weights."""
    held = shares(needs, stored, layout)
    if isinstance(held, Refusal):
        return held
    data = layout.group // layout.tensor
    dense = tuple(_dense(needs.operators, stored, layout))
    layers = max(1, len({layer for tensor in needs.tensors for layer in tensor.layers}))
    return Form(
        stage=needs.stage,
        layout=layout,
        data=data,
        shares=held,
        layers=layers,
        launches=sum(row.launches for row in dense) + _other_launches(needs.operators),
        dense=dense,
        routed=tuple(_routed(item, stored, layout) for item in needs.operators if isinstance(item, Experts)),
        attending=tuple(
            _attending(item, layout.tensor, DTYPE_BYTES[cache_dtype])
            for item in needs.operators
            if isinstance(item, Attention)
        ),
        scanning=tuple(_scanning(item, layout.tensor) for item in needs.operators if isinstance(item, Scan)),
        cache=on_rank(needs.cache, layout.tensor),
        cache_dtype=cache_dtype,
        hidden_bytes=ACTIVATION_BYTES * _hidden(needs.operators),
        peak_unit_bytes=ACTIVATION_BYTES * _peak_values(needs.operators, layout),
    )


def _dense(operators: tuple[Operator, ...], stored: Stored, layout: Layout) -> Iterator[Dense]:
    rows: dict[tuple[OperatorClass, Math, Per, Phase], list[MatMul]] = defaultdict(list)
    for item in operators:
        if isinstance(item, MatMul):
            kind = OperatorClass.CONVOLUTION if item.convolution else OperatorClass.GEMM
            rows[kind, _math(item.weight, stored), item.per, item.phase].append(item)
    for (kind, math, per, phase), items in rows.items():
        ranks = [_ranks(item.weight, layout) for item in items]
        summed = [item for item in items if item.weight.split is Split.COLUMNS and layout.tensor > 1]
        yield Dense(
            kind=kind,
            math=math,
            per=per,
            phase=phase,
            flops=sum(2.0 * item.weight.parameters * item.rate / n for item, n in zip(items, ranks, strict=True)),
            activation_bytes=ACTIVATION_BYTES
            * sum(item.rate * _sides(item) / n for item, n in zip(items, ranks, strict=True)),
            weight_bytes=sum(_read_bytes(item, stored) / n for item, n in zip(items, ranks, strict=True)),
            launches=sum(_times(item.weight) for item in items),
            reduced_bytes=ACTIVATION_BYTES * sum(item.rate * item.weight.rows * _times(item.weight) for item in summed),
            reductions=sum(_times(item.weight) for item in summed),
        )


def _read_bytes(item: MatMul, stored: Stored) -> float:
    """Bytes of weights that a step reads; an inner loop (a code predictor) reads them in each of its own steps."""
    again = item.rate if item.phase is Phase.DECODE and item.rate > 1 and not item.convolution else 1.0
    return tensor_bytes(item.weight, stored) * again


def _routed(item: Experts, stored: Stored, layout: Layout) -> Routed:
    layers = max(1, len(item.weights[0].layers))
    sides = sum(weight.rows + weight.columns for weight in item.weights)
    held = sum(tensor_bytes(weight, stored) / weight.copies for weight in item.weights)
    hidden = max(weight.rows for weight in item.weights if weight.inner is not Split.ROWS)
    return Routed(
        math=_math(item.weights[0], stored),
        experts=item.experts,
        chosen=item.chosen,
        layers=layers,
        flops=sum(2.0 * weight.parameters / weight.copies for weight in item.weights),
        activation_bytes=float(ACTIVATION_BYTES * sides * layers),
        expert_bytes=held,
        unit_bytes=float(ACTIVATION_BYTES * hidden),
        ranks=layout.group,
        dealt=layout.experts > 1,
    )


def _attending(item: Attention, tensor: int, cache_bytes: int) -> Attending:
    layers = len(item.layers)
    heads = max(1.0, item.heads / tensor)
    key_heads = max(1.0, item.key_heads / tensor)
    entry = item.key_dim + (0 if item.values_in_keys else item.value_dim)
    return Attending(
        operator=item,
        pair_flops=2.0 * heads * (item.key_dim + item.value_dim) * layers,
        key_bytes=key_heads * entry * layers * float(cache_bytes),
        query_bytes=float(ACTIVATION_BYTES) * heads * (item.key_dim + item.value_dim) * layers,
    )


def _scanning(item: Scan, tensor: int) -> Scanning:
    layers = len(item.layers)
    width = 2 * item.key_heads * item.key_dim + 2 * item.heads * item.value_dim
    alone = recurrent_flops(item)
    together = alone if item.kind is ScanKind.MAMBA else chunk_flops(item, item.chunk) / item.chunk
    return Scanning(
        decode_flops=alone * layers / tensor,
        prefill_flops=together * layers / tensor,
        activation_bytes=float(ACTIVATION_BYTES * width * layers) / tensor,
        layers=layers,
    )


def _math(weight: Tensor, stored: Stored) -> Math:
    kinds = quantizations((weight,), stored)
    plain = Math.F32 if weight.dtype is Dtype.F32 else Math.BF16
    return MATH.get(kinds[0], plain) if kinds else plain


def _ranks(weight: Tensor, layout: Layout) -> float:
    """By how much a rank's part of a matrix is smaller than the whole."""
    match weight.split:
        case Split.NONE | Split.EXPERTS:
            return 1.0
        case Split.KV_ROWS:
            return float(min(layout.tensor, weight.pieces))
        case Split.ROWS | Split.COLUMNS | Split.VOCABULARY:
            return float(layout.tensor)


def _times(weight: Tensor) -> int:
    return weight.copies * max(1, len(weight.layers))


def _sides(item: MatMul) -> float:
    weight = item.weight
    width = 2 * weight.rows if item.convolution else weight.rows + weight.columns
    return float(width * _times(weight))


def _other_launches(operators: tuple[Operator, ...]) -> int:
    count = 0
    for item in operators:
        match item:
            case Attention() | Scan():
                count += len(item.layers)
            case Experts():
                count += max(1, len(item.weights[0].layers))
            case MatMul() | Lookup():
                pass
    return count


def _hidden(operators: tuple[Operator, ...]) -> int:
    """Width of the residual stream: that of the widest thing written back to it in layers."""
    backs = [item.weight.rows for item in operators if isinstance(item, MatMul) and item.weight.split is Split.COLUMNS]
    return max(backs, default=0)


def _peak_values(operators: tuple[Operator, ...], layout: Layout) -> float:
    """The widest operator's inputs and outputs, with the residual stream and its copy beside them."""
    widest = 0.0
    for item in operators:
        match item:
            case MatMul(per=Per.SEQUENCE):
                pass
            case MatMul():
                sides = 2 * item.weight.rows if item.convolution else item.weight.rows + item.weight.columns
                widest = max(widest, item.rate * sides / _ranks(item.weight, layout))
            case Experts():
                sides = max(weight.rows + weight.columns for weight in item.weights)
                widest = max(widest, item.chosen * sides / (layout.group if layout.experts > 1 else layout.tensor))
            case Attention() | Scan() | Lookup():
                pass
    return widest + 2.0 * _hidden(operators)
