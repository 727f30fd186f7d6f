"""FLOPs of one step, operator by operator.

In: operators and a `Load`. Out: FLOPs by operator class. Invariant: a multiply and an add are two FLOPs; only what is
needed counts (a causal mask halves the pairs), unless `rectangle` asks for what dense kernels are charged with.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from accord.estimate.scan import scan_flops
from accord.terms.tensors import Tensor
from accord.terms.work import Attention, Experts, Load, Lookup, MatMul, Operator, OperatorClass, Per, Phase, Reach, Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFlops:
    """FLOPs of one operator in one step."""

    name: str
    kind: OperatorClass
    flops: float


def step_flops(
    operators: Iterable[Operator], load: Load, *, phase: Phase | None = None, rectangle: bool = False
) -> float:
    """FLOPs of one step of all operators. `phase` overrides what the load says (one new unit: decode)."""
    return sum(row.flops for row in flops_table(operators, load, phase=phase, rectangle=rectangle))


def flops_table(
    operators: Iterable[Operator], load: Load, *, phase: Phase | None = None, rectangle: bool = False
) -> tuple[OperatorFlops, ...]:
    """The same, one row for each operator that runs in this phase."""
    now = phase or phase_of(load)
    return tuple(_row(item, load, now, rectangle=rectangle) for item in operators if runs(item, now))


def phase_of(load: Load) -> Phase:
    """A step with one new unit for each sequence decodes."""
    return Phase.DECODE if load.new == 1 else Phase.PREFILL


def runs(operator: Operator, phase: Phase) -> bool:
    """Whether an operator takes part in this phase."""
    match operator:
        case MatMul() | Attention():
            return operator.phase in (Phase.ALWAYS, phase)
        case _:
            return True


def applications(per: Per, load: Load) -> int:
    """How many units an operator is applied to, over the whole batch."""
    match per:
        case Per.UNIT:
            return load.new * load.batch
        case Per.CONTEXT:
            return load.context * load.batch
        case Per.BOTH:
            return (load.new + load.context) * load.batch
        case Per.SEQUENCE:
            return load.batch


def experts_touched(experts: int, chosen: int, units: int) -> float:
    """How many of `experts` at least one of `units` goes through, expected where each unit's choice is even.

    A given expert is left out by one unit with 1 - chosen / experts, and by all of them with its power.
    """
    return experts * (1.0 - (1.0 - chosen / experts) ** units)


def asking(attention: Attention, load: Load) -> tuple[int, int]:
    """Units of one sequence that ask, and units beside them that are only seen."""
    match attention.per:
        case Per.CONTEXT:
            return load.context, load.new if attention.reach is Reach.ALL else 0
        case Per.BOTH:
            return load.new + load.context, 0
        case _:
            return load.new, load.context


def pairs(attention: Attention, load: Load, *, rectangle: bool = False) -> float:
    """Pairs of query and key that one head of one layer scores, over the whole batch."""
    new, old = asking(attention, load)
    queries = new * attention.rate
    first, last = round(old * attention.rate), round((old + new) * attention.rate)
    keys: float
    match attention.reach:
        case Reach.CROSS:
            keys = attention.span if attention.span is not None else old
            return load.batch * queries * keys
        case Reach.ALL:
            return load.batch * queries * (new * attention.rate + old) / attention.ratio
        case Reach.BLOCK:
            return load.batch * _blocks(queries, attention.span or queries)
        case Reach.CHUNK if attention.rate != 1:
            # An inner loop of a unit: it runs query by query, so that no kernel sees a rectangle.
            span = attention.span or last
            return load.batch * (_chunked(last, span) - _chunked(first, span))
        case _ if rectangle:
            return load.batch * queries * (last // attention.ratio)
        case Reach.CAUSAL:
            return load.batch * (_below(last, attention.ratio) - _below(first, attention.ratio))
        case Reach.WINDOW | Reach.CHOSEN:
            span = attention.span or last
            return load.batch * (_capped(last, span, attention.ratio) - _capped(first, span, attention.ratio))
        case Reach.CHUNK:
            span = attention.span or last
            return load.batch * (_chunked(last, span) - _chunked(first, span))


def _row(operator: Operator, load: Load, phase: Phase, *, rectangle: bool) -> OperatorFlops:
    match operator:
        case MatMul():
            kind = OperatorClass.CONVOLUTION if operator.convolution else OperatorClass.GEMM
            each = 2 * _values(operator.weight) * operator.rate
            return OperatorFlops(name=operator.weight.name, kind=kind, flops=each * applications(operator.per, load))
        case Experts():
            each = sum(2 * _values(weight) / weight.copies for weight in operator.weights) * operator.chosen
            return OperatorFlops(name=operator.name, kind=OperatorClass.EXPERTS, flops=each * load.new * load.batch)
        case Attention():
            per_pair = 2 * operator.heads * (operator.key_dim + operator.value_dim) * len(operator.layers)
            flops = per_pair * pairs(operator, load, rectangle=rectangle)
            return OperatorFlops(name=operator.name, kind=OperatorClass.ATTENTION, flops=flops)
        case Scan():
            scanned = scan_flops(operator, load, phase, rectangle=rectangle)
            return OperatorFlops(name=operator.name, kind=OperatorClass.SCAN, flops=scanned)
        case Lookup():
            return OperatorFlops(name=operator.weight.name, kind=OperatorClass.LOOKUP, flops=0.0)


def _values(weight: Tensor) -> int:
    return weight.parameters


def _below(position: int, ratio: int) -> float:
    """Keys seen by all queries before `position`: the sum of (p + 1) // ratio over them."""
    whole, rest = divmod(position, ratio)
    return ratio * whole * (whole - 1) // 2 + whole * (rest + 1)


def _capped(position: int, span: int, ratio: int) -> float:
    """The same with at most `span` keys each."""
    full = span * ratio - 1  # the first query that sees `span` keys
    if position <= full:
        return _below(position, ratio)
    return _below(full, ratio) + (position - full) * span


def _chunked(position: int, span: int) -> float:
    whole, rest = divmod(position, span)
    return whole * _below(span, 1) + _below(rest, 1)


def _blocks(queries: float, span: float) -> float:
    whole, rest = divmod(queries, span)
    return whole * span * span + rest * rest
