"""Ways out of a refusal: changes of the intent or of the fleet, each of which was searched with and gives a plan.

In: a `Question` without a plan, a rate. Out: `Way`s with how much they ask (1: nothing). Invariant: what is named was
tried, with everything else as it is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from accord.plan.fleet.choose import any_plan
from accord.plan.fleet.menu import Problem
from accord.plan.fleet.question import Question, asked_anew, problem_of, with_cards
from accord.plan.fleet.rate import fastest
from accord.terms import units
from accord.terms.fleet import Fleet
from accord.terms.intent import Intent, Metric, Objective, Spread
from accord.terms.tensors import FORMATS, Dtype, Quantization

LOWEST_RPS = 1e-3  # what is asked for where the intent names no rate
_MORE_CARDS = (1, 2, 4, 8, 16, 32, 64)
_MORE_NODES = (1, 2, 4)
_FEW = 64  # a part of the fleet so small that adding it is not worth a search
_PARTS = (0.5, 0.25)  # of prompts
_LAXER = (1.25, 1.5, 2.0, 3.0, 5.0)
_SMALLER = (Quantization.FP8, Quantization.INT4_GROUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A change in words. `asks`: by which factor it moves something, or what stands for that."""

    asks: float
    words: str


def words_of(ways: list[Way], *, most: int = 4) -> tuple[str, ...]:
    """The cheapest, in words."""
    found = [way.words for way in sorted(ways, key=lambda way: (way.asks, way.words))][:most]
    return tuple(found) or ("use faster devices, or a smaller model",)


def fewer_requests(question: Question, rate: float) -> Iterator[Way]:
    """A lower rate."""
    if question.intent.workload.rate_rps is None or rate <= LOWEST_RPS:
        return
    most = fastest(partial(problem_of, question), most=rate)
    if most is not None and down(most.rate_rps) > 0:
        yield Way(asks=rate / most.rate_rps, words=f"workload.rate_rps <= {down(most.rate_rps):g}")


def more_cards(question: Question, rate: float) -> Iterator[Way]:
    """More devices of the one kind of which the fewest help."""
    total = sum(supply.cards for supply in question.supplies)
    most = problem_of(question, rate)
    for number in range(len(question.supplies)):
        most = with_cards(most, number, _MORE_CARDS[-1])
    if not any_plan(most, rate).choices:
        return  # not even with more of all kinds
    for more in (more for more in _MORE_CARDS if more * _FEW >= total):
        for number, supply in enumerate(question.supplies):
            if any_plan(with_cards(problem_of(question, rate), number, more), rate).choices:
                yield Way(asks=1.0 + more / total, words=f"add {more} x {supply.kind.name}")
                return


def more_nodes(question: Question, rate: float) -> Iterator[Way]:
    """More nodes with eight devices of one kind: what doesn't fit on those that are there may fit on these."""
    for nodes in _MORE_NODES:
        for supply in question.supplies:
            fleet = _with_nodes(question.fleet, supply.kind.name, nodes)
            if _helps(asked_anew(question, fleet=fleet), rate):
                yield Way(asks=2.0 + nodes, words=f"add {nodes * 8} x {supply.kind.name}, eight to a node")
                return


def raised(question: Question, rate: float, objective: Objective, bound: float) -> Iterator[Way]:
    """A laxer bound of one objective."""
    moved = replace(objective, bound=bound)
    others = tuple(moved if item == objective else item for item in question.intent.objectives)
    if any_plan(problem_of(question, rate, objectives=others), rate).choices:
        words = f"objectives.{objective_name(objective)} >= {bound_text(objective, bound)}"
        yield Way(asks=bound / objective.bound, words=words)


def laxer(question: Question, rate: float) -> Iterator[Way]:
    """Each objective in turn, as little laxer as helps."""
    for objective in question.intent.objectives:
        for factor in _LAXER:
            found = list(raised(question, rate, objective, up(objective.bound * factor)))
            if found:
                yield found[0]
                break


def smaller_numbers(question: Question, rate: float) -> Iterator[Way]:
    """Weights, or keys and values, in fewer bits than the model's card has them."""
    allow, bits = question.intent.allow, 16
    for stored in question.architecture.stored:
        bits = min(bits, FORMATS[stored.quantization].bits if stored.quantization in FORMATS else 16)
    for item in _SMALLER:
        if item not in allow.quantizations and FORMATS[item].bits < bits:
            more = replace(allow, quantizations=(*allow.quantizations, item))
            if _helps(asked_anew(question, intent=replace(question.intent, allow=more)), rate):
                yield Way(asks=1.3, words=f"allow.quantization: {item}")
                break
    if Dtype.FP8 not in allow.cache_dtypes and any(needs.cache for needs in question.architecture.needs):
        more = replace(allow, cache_dtypes=(*allow.cache_dtypes, Dtype.FP8))
        if _helps(asked_anew(question, intent=replace(question.intent, allow=more)), rate):
            yield Way(asks=1.2, words="allow.cache: fp8")


def shorter_prompts(question: Question, rate: float) -> Iterator[Way]:
    """Half of the prompts' tokens, or a quarter."""
    spread = question.intent.workload.input_tokens
    if spread is None:
        return
    for part in _PARTS:
        fewer = Spread(p50=max(1.0, math.floor(spread.p50 * part)), p99=max(1.0, math.floor(spread.p99 * part)))
        if _helps(asked_anew(question, intent=_with_prompts(question.intent, fewer)), rate):
            yield Way(asks=1 / part, words=f"workload.input_tokens = {{p50: {fewer.p50:g}, p99: {fewer.p99:g}}}")
            return


def objective_name(objective: Objective) -> str:
    """`ttft_p99`: how the intent writes it."""
    return f"{objective.metric}_{units.format_percentile(objective.percentile)}"


def bound_text(objective: Objective, value: float) -> str:
    """A figure of this objective with its unit."""
    return f"{value:.3g}" if objective.metric is Metric.RTF else units.format_duration_s(value, digits=3)


def up(value: float) -> float:
    """The next figure of two digits, so that people can write it."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.12g}")


def down(value: float) -> float:
    """The last figure of two digits that isn't above it."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / step + 1e-9) * step:.12g}")


def _helps(question: Question, rate: float) -> bool:
    problem: Problem = problem_of(question, rate)
    return bool(any_plan(problem, rate).choices)


def _with_prompts(intent: Intent, spread: Spread) -> Intent:
    return replace(intent, workload=replace(intent.workload, input_tokens=spread))


def _with_nodes(fleet: Fleet, kind: str, nodes: int) -> Fleet:
    like = next(node for node in fleet.nodes if any(device.kind == kind for device in node.devices))
    device = next(device for device in like.devices if device.kind == kind)
    more = tuple(replace(like, name=f"{like.name}+{number}", devices=(device,) * 8) for number in range(1, nodes + 1))
    return replace(fleet, nodes=(*fleet.nodes, *more))
