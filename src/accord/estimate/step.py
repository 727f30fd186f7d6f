"""Seconds of one step of one replica.

In: a `Form`, a `Performance`, a `Step` of arrays. Out: `Times`, arrays of seconds by class. Invariant: each class is
bounded by its FLOPs and by its bytes (joined by a p-norm), collectives by bytes and hops; more work is never faster.
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from accord.estimate import keys
from accord.estimate.form import Attending, Dense, Form, Routed
from accord.estimate.performance import NARROW, Performance
from accord.terms.tensors import Math
from accord.terms.work import OperatorClass, Per, Phase

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step of a replica computes; arrays that broadcast.

    `decode` sequences get one unit each on top of `context`; `prompts` sequences get `new` units each on top of
    `before`. Stages that don't decode have prompts only.
    """

    decode: Array | float = 0.0
    context: Array | float = 0.0
    prompts: Array | float = 0.0
    new: Array | float = 0.0
    before: Array | float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of a step by what they are spent on."""

    gemm: Array
    convolution: Array
    experts: Array
    attention: Array
    scan: Array
    collectives: Array
    overhead: Array

    @property
    def total(self) -> Array:
        """Seconds of the whole step."""
        return sum((getattr(self, item.name) for item in fields(self)), start=np.zeros(()))


def step_times(form: Form, performance: Performance, step: Step) -> Times:
    """Seconds of one step. With pipeline ranks: of one micro-batch's way through all of them."""
    sides = _sides(step, form)
    dense = {kind: np.zeros(()) for kind in (OperatorClass.GEMM, OperatorClass.CONVOLUTION)}
    collectives = np.zeros(())
    for row in form.dense:
        applied = _applied(row.per, row.phase, sides)
        dense[row.kind] = dense[row.kind] + _dense_s(row, performance, applied)
        if row.reductions:
            collectives = collectives + all_reduce_s(form, performance, row.reduced_bytes * applied, row.reductions)
    experts = np.zeros(())
    for routed in form.routed:
        seconds, sent = _routed_s(form, performance, routed, _units(sides) * form.data)
        experts, collectives = experts + seconds, collectives + sent
    moved = _units(sides) * form.written_bytes + (sides.decode + sides.prompts) * form.state_bytes
    tuning = performance.tuning
    attention = sum((_attention_s(item, performance, sides) for item in form.attending), start=np.zeros(()))
    attention = attention + moved / (performance.memory_bytes_per_s * tuning.cache)
    busy = (sides.decode + sides.prompts) > 0
    hops = max(0, len(form.layout.pipeline) - 1)
    return Times(
        gemm=dense[OperatorClass.GEMM],
        convolution=dense[OperatorClass.CONVOLUTION],
        experts=experts,
        attention=attention,
        scan=_scan_s(form, performance, sides),
        collectives=collectives + hops * _hop_s(form, performance, sides),
        overhead=np.asarray(busy * _overhead_s(form, performance)),
    )


def _overhead_s(form: Form, performance: Performance) -> float:
    """What a step costs besides its work."""
    tuning = performance.tuning
    narrow = sum(row.launches for row in form.dense if performance.multiplies_in(row.math) in NARROW)
    launches = form.launches * tuning.launch_s + narrow * tuning.quantize_s
    return tuning.step_s + form.layers * tuning.layer_s + launches


def all_reduce_s(form: Form, performance: Performance, sent_bytes: Array, count: int) -> Array:
    """`count` all-reduces of `sent_bytes` together in each tensor-parallel group: a ring's bytes, a tree's latency."""
    ranks = form.layout.tensor
    return _collective_s(performance, 2.0 * (ranks - 1) / ranks * sent_bytes, count, ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """A step of one data-parallel group, as arrays."""

    decode: Array
    context: Array
    prompts: Array
    new: Array
    before: Array


def _sides(step: Step, form: Form) -> _Sides:
    return _Sides(
        decode=np.asarray(step.decode, dtype=float) / form.data,
        context=np.asarray(step.context, dtype=float),
        prompts=np.asarray(step.prompts, dtype=float) / form.data,
        new=np.asarray(step.new, dtype=float),
        before=np.asarray(step.before, dtype=float),
    )


def _units(sides: _Sides) -> Array:
    return sides.decode + sides.prompts * sides.new


def _applied(per: Per, phase: Phase, sides: _Sides) -> Array:
    decoding = sides.decode if phase is not Phase.PREFILL else np.zeros(())
    prompting = sides.prompts if phase is not Phase.DECODE else np.zeros(())
    match per:
        case Per.UNIT:
            return decoding + prompting * sides.new
        case Per.CONTEXT:
            return decoding * sides.context + prompting * sides.before
        case Per.BOTH:
            return decoding * (1 + sides.context) + prompting * (sides.new + sides.before)
        case Per.SEQUENCE:
            return decoding + prompting


def _joined(compute_s: Array, memory_s: Array, sharpness: float) -> Array:
    longer, shorter = np.maximum(compute_s, memory_s), np.minimum(compute_s, memory_s)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(longer > 0, shorter / longer, 0.0)
    return longer * (1.0 + ratio**sharpness) ** (1.0 / sharpness)


def _dense_s(row: Dense, performance: Performance, applied: Array) -> Array:
    tuning = performance.tuning
    reached = tuning.convolution if row.kind is OperatorClass.CONVOLUTION else tuning.gemm
    compute = row.flops * applied / (performance.rate(row.math) * reached)
    moved = np.where(applied > 0, row.weight_bytes, 0.0) + row.activation_bytes * applied
    return _joined(compute, moved / (performance.memory_bytes_per_s * tuning.memory), tuning.sharpness)


def _routed_s(form: Form, performance: Performance, row: Routed, units: Array) -> tuple[Array, Array]:
    """Seconds of the experts, and of what is sent to them and back. `units` are of all data-parallel groups."""
    tuning = performance.tuning
    longer = 1.0 + (tuning.imbalance if row.dealt and row.ranks > 1 else 0.0)
    share = units * row.chosen / row.ranks * longer
    touched = row.experts * -np.expm1(units * np.log1p(-row.chosen / row.experts)) if row.chosen < row.experts else None
    held = (np.where(units > 0, row.experts, 0.0) if touched is None else touched) * row.expert_bytes / row.ranks
    compute = row.flops * share / (performance.rate(row.math) * tuning.experts)
    memory = (held + row.activation_bytes * share) / (performance.memory_bytes_per_s * tuning.memory)
    seconds = _joined(compute, memory, tuning.sharpness)
    if row.ranks == 1:
        return seconds, np.zeros(())
    if form.data == 1:
        sent = 2.0 * (row.ranks - 1) / row.ranks * units * row.unit_bytes * row.layers
        return seconds, _collective_s(performance, sent, row.layers, row.ranks)
    # Each group sends its units to the ranks of their experts, and gets answers back.
    targets = row.ranks * -np.expm1(row.chosen * np.log1p(-1.0 / row.ranks))
    sent = 2.0 * units / row.ranks * targets * row.unit_bytes * row.layers
    return seconds, _collective_s(performance, sent, 2 * row.layers, row.ranks)


def _collective_s(performance: Performance, sent_bytes: Array, count: int, ranks: int) -> Array:
    if ranks < 2:
        return np.zeros(())
    tuning = performance.tuning
    inside = min(ranks, performance.node_cards)
    nodes = -(-ranks // performance.node_cards)
    latency = count * (performance.link_latency_s + tuning.collective_s * np.log2(inside))
    seconds = latency + sent_bytes / (performance.link_bytes_per_s * tuning.link)
    if nodes > 1:
        across = sent_bytes * (nodes - 1) / nodes / inside if inside > 1 else sent_bytes
        seconds = seconds + count * performance.network_latency_s * np.log2(nodes)
        seconds = seconds + across / (performance.network_bytes_per_s * tuning.link)
    return np.asarray(np.where(np.asarray(sent_bytes) > 0, seconds, 0.0))


def _hop_s(form: Form, performance: Performance, sides: _Sides) -> Array:
    wide = form.layout.ranks > performance.node_cards
    speed = performance.network_bytes_per_s if wide else performance.link_bytes_per_s
    latency = performance.network_latency_s if wide else performance.link_latency_s
    return latency + _units(sides) * form.hidden_bytes / (speed * performance.tuning.link)


def _attention_s(item: Attending, performance: Performance, sides: _Sides) -> Array:
    tuning, operator = performance.tuning, item.operator
    seconds = np.zeros(())
    one = np.ones_like(sides.context)
    for phase, count, new, old in (
        (Phase.DECODE, sides.decode, one, sides.context),
        (Phase.PREFILL, sides.prompts, sides.new, sides.before),
    ):
        if operator.phase not in (Phase.ALWAYS, phase):
            continue
        flops = count * keys.pairs(operator, new, old) * item.pair_flops
        moved = count * (keys.keys(operator, new, old) * item.key_bytes + new * item.query_bytes)
        compute = flops / (_widest(performance) * tuning.attention)
        seconds = seconds + _joined(compute, moved / (performance.memory_bytes_per_s * tuning.cache), tuning.sharpness)
    return seconds


def _scan_s(form: Form, performance: Performance, sides: _Sides) -> Array:
    tuning, seconds = performance.tuning, np.zeros(())
    for item in form.scanning:
        flops = sides.decode * item.decode_flops + sides.prompts * sides.new * item.prefill_flops
        moved = _units(sides) * item.activation_bytes
        compute = flops / (_widest(performance) * tuning.attention)
        seconds = seconds + _joined(compute, moved / (performance.memory_bytes_per_s * tuning.cache), tuning.sharpness)
    return seconds


def _widest(performance: Performance) -> float:
    """Attention and recurrences multiply in 16 bits."""
    return performance.rate(Math.BF16)
