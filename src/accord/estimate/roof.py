"""One step of one replica at the speed of light: its work in seconds at peak rates, before any efficiency.

In: a `Form`, a `Performance` (its peaks only), a `Step` of arrays. Out: `Roof`. Invariant: no figure of a `Tuning`
enters, so that one roof serves any engine, and a fit computes it once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accord.estimate import keys
from accord.estimate.form import Attending, Dense, Form, Routed
from accord.estimate.performance import NARROW, Performance
from accord.terms.tensors import Math
from accord.terms.work import OperatorClass, Per, Phase

Array = npt.NDArray[np.float64]
ZERO: Array = np.zeros(())
_SMALL_TILE = 0.25  # 16 rows of 64: the m16n8k16 instruction's, against the smallest tile of grouped FP8 GEMMs
_WIDTHS = {Math.F32: 4.0, Math.F16: 2.0, Math.BF16: 2.0, Math.FP8: 1.0, Math.INT8: 1.0, Math.FP4: 0.5}


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
class Bound:
    """Seconds of computing and of moving bytes, each at its peak."""

    compute_s: Array
    memory_s: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """Experts: `touched` of them get `rows` units each; one unit takes `row_s` at the peak, over all layers.

    `dealt` is 1 where whole experts are dealt to ranks, whose loads differ. `tile` is that of the kernels, as a part of
    the usual one: those that widen narrow weights on their way (Marlin and its like) are made for few units.
    """

    row_s: Array
    touched: Array
    rows: Array
    memory_s: Array
    dealt: Array
    tile: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A step's work. `moved_s`: caches and states written; `sent_s`: collectives' bytes at the links' peak.

    `hops` counts collectives, each times log2 of its ranks; `fixed_s` are latencies of links. `sequences` are those
    of one data-parallel group; `busy` and `reads` are 1 where there is any work, and any prompt.
    """

    gemm: tuple[Bound, ...]
    convolution: tuple[Bound, ...]
    experts: tuple[Grouped, ...]
    attention: tuple[Bound, ...]
    scan: tuple[Bound, ...]
    moved_s: Array
    sent_s: Array
    hops: Array
    fixed_s: Array
    sequences: Array
    busy: Array
    reads: Array
    launches: Array
    narrow: Array
    layers: Array
    scans: Array
    routings: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """A step of one data-parallel group, as arrays."""

    decode: Array
    context: Array
    prompts: Array
    new: Array
    before: Array

    @property
    def units(self) -> Array:
        return self.decode + self.prompts * self.new


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What collectives take: bytes at the links' peak, hops of trees, latencies."""

    sent_s: Array
    hops: Array
    fixed_s: Array

    def __add__(self, other: "_Sent") -> "_Sent":
        return _Sent(
            sent_s=self.sent_s + other.sent_s, hops=self.hops + other.hops, fixed_s=self.fixed_s + other.fixed_s
        )


_NOTHING = _Sent(sent_s=ZERO, hops=ZERO, fixed_s=ZERO)


def roof(form: Form, performance: Performance, step: Step) -> Roof:
    """The work of one step. With pipeline ranks: of one micro-batch's way through all of them."""
    sides = _sides(step, form)
    applied = [_applied(row.per, row.phase, sides) for row in form.dense]
    bounds = [_dense(row, performance, times) for row, times in zip(form.dense, applied, strict=True)]
    kinds = [row.kind for row in form.dense]
    sent = _pipeline(form, performance, sides)
    for row, times in zip(form.dense, applied, strict=True):
        if row.reductions:
            sent = sent + _all_reduce(form, performance, row.reduced_bytes * times, row.reductions)
    for routed in form.routed:
        sent = sent + _dispatch(form, performance, routed, sides.units * form.data)
    moved = sides.units * form.written_bytes + (sides.decode + sides.prompts) * form.state_bytes
    return Roof(
        gemm=tuple(item for item, kind in zip(bounds, kinds, strict=True) if kind is OperatorClass.GEMM),
        convolution=tuple(item for item, kind in zip(bounds, kinds, strict=True) if kind is OperatorClass.CONVOLUTION),
        experts=tuple(_grouped(item, performance, sides.units * form.data) for item in form.routed),
        attention=tuple(bound for item in form.attending for bound in _attention(item, performance, sides)),
        scan=_scans(form, performance, sides),
        moved_s=moved / performance.memory_bytes_per_s,
        sent_s=sent.sent_s,
        hops=sent.hops,
        fixed_s=sent.fixed_s,
        sequences=sides.decode,
        busy=np.asarray((sides.decode + sides.prompts) > 0, dtype=float),
        reads=np.asarray(sides.prompts > 0, dtype=float),
        launches=np.asarray(float(form.launches)),
        narrow=np.asarray(float(_narrow(form, performance))),
        layers=np.asarray(float(form.layers)),
        scans=np.asarray(float(sum(row.layers for row in form.scanning))),
        routings=np.asarray(float(sum(row.layers for row in form.routed))),
    )


def _narrow(form: Form, performance: Performance) -> int:
    return sum(row.launches for row in form.dense if performance.multiplies_in(row.math) in NARROW)


def _sides(step: Step, form: Form) -> _Sides:
    return _Sides(
        decode=np.asarray(step.decode, dtype=float) / form.data,
        context=np.asarray(step.context, dtype=float),
        prompts=np.asarray(step.prompts, dtype=float) / form.data,
        new=np.asarray(step.new, dtype=float),
        before=np.asarray(step.before, dtype=float),
    )


def _applied(per: Per, phase: Phase, sides: _Sides) -> Array:
    decoding = sides.decode if phase is not Phase.PREFILL else ZERO
    prompting = sides.prompts if phase is not Phase.DECODE else ZERO
    match per:
        case Per.UNIT:
            return decoding + prompting * sides.new
        case Per.CONTEXT:
            return decoding * sides.context + prompting * sides.before
        case Per.BOTH:
            return decoding * (1 + sides.context) + prompting * (sides.new + sides.before)
        case Per.SEQUENCE:
            return decoding + prompting


def _dense(row: Dense, performance: Performance, applied: Array) -> Bound:
    moved = np.where(applied > 0, row.weight_bytes, 0.0) + row.activation_bytes * applied
    return Bound(
        compute_s=row.flops * applied / performance.rate(row.math), memory_s=moved / performance.memory_bytes_per_s
    )


def _grouped(row: Routed, performance: Performance, units: Array) -> Grouped:
    """The experts; `units` are of all data-parallel groups."""
    some = np.where(units > 0, float(row.experts), 0.0)
    touched = some
    if row.chosen < row.experts:
        touched = row.experts * -np.expm1(units * np.log1p(-row.chosen / row.experts))
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = np.where(touched > 0, units * row.chosen / touched, 0.0)
    moved = (touched * row.expert_bytes + row.activation_bytes * units * row.chosen) / row.ranks
    return Grouped(
        row_s=np.asarray(row.flops / row.ranks / performance.rate(row.math)),
        touched=touched,
        rows=rows,
        memory_s=moved / performance.memory_bytes_per_s,
        dealt=np.asarray(float(row.dealt and row.ranks > 1)),
        tile=np.asarray(_SMALL_TILE if _widens(row, performance) else 1.0),
    )


def _widens(row: Routed, performance: Performance) -> bool:
    """Whether weights take fewer bytes than what they are multiplied in."""
    parameters = row.flops / 2.0
    return row.expert_bytes < 0.8 * parameters * _WIDTHS[performance.multiplies_in(row.math)]


def _attention(item: Attending, performance: Performance, sides: _Sides) -> Iterator[Bound]:
    """Sequences that decode and prompts run as kernels of their own."""
    operator, one = item.operator, np.ones_like(sides.context)
    for phase, count, new, old in (
        (Phase.DECODE, sides.decode, one, sides.context),
        (Phase.PREFILL, sides.prompts, sides.new, sides.before),
    ):
        if operator.phase in (Phase.ALWAYS, phase):
            flops = count * keys.pairs(operator, new, old) * item.pair_flops
            moved = count * (keys.keys(operator, new, old) * item.key_bytes + new * item.query_bytes)
            yield Bound(compute_s=flops / _widest(performance), memory_s=moved / performance.memory_bytes_per_s)


def _scans(form: Form, performance: Performance, sides: _Sides) -> tuple[Bound, ...]:
    return tuple(
        Bound(
            compute_s=(sides.decode * item.decode_flops + sides.prompts * sides.new * item.prefill_flops)
            / _widest(performance),
            memory_s=sides.units * item.activation_bytes / performance.memory_bytes_per_s,
        )
        for item in form.scanning
    )


def _widest(performance: Performance) -> float:
    """Attention and recurrences multiply in 16 bits."""
    return performance.rate(Math.BF16)


def _all_reduce(form: Form, performance: Performance, sent_bytes: Array, count: int) -> _Sent:
    """`count` all-reduces of `sent_bytes` together in each tensor-parallel group: a ring's bytes, a tree's latency."""
    ranks = form.layout.tensor
    return _collective(performance, 2.0 * (ranks - 1) / ranks * sent_bytes, count, ranks)


def _dispatch(form: Form, performance: Performance, row: Routed, units: Array) -> _Sent:
    """Units on their way to experts and back; without data-parallel attention, an all-reduce of what they answer."""
    if row.ranks == 1:
        return _NOTHING
    if form.data == 1:
        sent = 2.0 * (row.ranks - 1) / row.ranks * units * row.unit_bytes * row.layers
        return _collective(performance, sent, row.layers, row.ranks)
    targets = row.ranks * -np.expm1(row.chosen * np.log1p(-1.0 / row.ranks))
    sent = 2.0 * units / row.ranks * targets * row.unit_bytes * row.layers
    return _collective(performance, sent, 2 * row.layers, row.ranks)


def _collective(performance: Performance, sent_bytes: Array, count: int, ranks: int) -> _Sent:
    if ranks < 2:
        return _NOTHING
    inside = min(ranks, performance.node_cards)
    nodes = -(-ranks // performance.node_cards)
    some = np.asarray(np.asarray(sent_bytes) > 0, dtype=float)
    sent = sent_bytes / performance.link_bytes_per_s
    fixed = count * performance.link_latency_s
    if nodes > 1:
        across = sent_bytes * (nodes - 1) / nodes / inside if inside > 1 else sent_bytes
        sent = sent + across / performance.network_bytes_per_s
        fixed = fixed + count * performance.network_latency_s * float(np.log2(nodes))
    return _Sent(sent_s=sent, hops=some * count * float(np.log2(inside)), fixed_s=some * fixed)


def _pipeline(form: Form, performance: Performance, sides: _Sides) -> _Sent:
    hops = max(0, len(form.layout.pipeline) - 1)
    if not hops:
        return _NOTHING
    wide = form.layout.ranks > performance.node_cards
    speed = performance.network_bytes_per_s if wide else performance.link_bytes_per_s
    latency = performance.network_latency_s if wide else performance.link_latency_s
    return _Sent(sent_s=hops * sides.units * form.hidden_bytes / speed, hops=ZERO, fixed_s=np.asarray(hops * latency))
