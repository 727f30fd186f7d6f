"""Why a question has no plan, and the cheapest changes that would give it one.

In: a `Question` without an allowed choice. Out: a `Refusal`.
Invariant: every way out that is printed was planned for: with that one change the question has a plan,
as far as the wishes up to the named one go, in the order memory, rate, objectives.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from accord.plan.local.change import (
    Change,
    with_answers,
    with_cores,
    with_objectives,
    with_prompts,
    with_rate,
    without_input,
)
from accord.plan.local.choose import BATCHES, BUSY_MAX, MEMORY_SHARE, allowed, best, memory_bytes, memory_limit_bytes
from accord.plan.local.predict import busy_s, predicted, spent
from accord.plan.local.question import Question, mean_amounts, share_in
from accord.terms import units
from accord.terms.intent import Metric, Objective, Spread
from accord.terms.refusal import Refusal
from accord.terms.speed import StageSpeed

_Way = tuple[str, Change]

_CORES = (2, 4, 8, 16, 32, 64, 128)
_WAYS_MAX = 3


def refusal(question: Question) -> Refusal:
    """The first wish that can't be met on top of those before it, with causes and ways out."""
    if best(with_rate(with_objectives(question, ()), None)) is None:
        return _memory(question)
    paced = with_objectives(question, ())
    if best(paced) is None:
        return _rate(paced)
    met: tuple[Objective, ...] = ()
    for objective in question.intent.objectives:
        if best(with_objectives(question, (*met, objective))) is None:
            return _objective(with_objectives(question, met), objective)
        met = (*met, objective)
    raise AssertionError("a question without a choice breaks one of its wishes")


def too_small(question: Question) -> Refusal | None:
    """The refusal for a machine without memory for one request at a time; no speeds are needed for it."""
    needed = memory_bytes(question, (1,) * len(question.model.graph.stages), batch=1)
    return _memory(question) if needed > memory_limit_bytes(question) else None


def objective_name(objective: Objective) -> str:
    """`ttft_p99`: how the intent writes it."""
    return f"{objective.metric}_{units.format_percentile(objective.percentile)}"


def bound_text(objective: Objective, value: float, *, digits: int | None = 3) -> str:
    """A figure of this objective with its unit."""
    return f"{value:.3g}" if objective.metric is Metric.RTF else units.format_duration_s(value, digits=digits)


def _memory(question: Question) -> Refusal:
    stages = question.model.graph.stages
    needed = memory_bytes(question, (1,) * len(stages), batch=1)
    have, wanted = question.machine.memory_bytes or 0, math.ceil(needed / MEMORY_SHARE)
    largest = max(stages, key=lambda stage: stage.weights_bytes + stage.request_bytes)
    held = largest.weights_bytes + largest.request_bytes
    return Refusal(
        field="fleet",
        value=f"{question.intent.fleet}, {_size(have)} of memory at hand",
        limit=f"one request at a time needs {_size(wanted)}",
        causes=(
            f"{len(stages)} stages and the door hold {_size(needed)}, {largest.name} alone {_size(held)}",
            f"{units.format_share(1 - MEMORY_SHARE, digits=2)} of the memory is left free",
        ),
        fix=(f"free {_size(wanted - have)}", f"use a machine with {_size(wanted)} of free memory"),
        may_retry=True,
    )


def _rate(question: Question) -> Refusal:
    rate = question.intent.workload.rate_rps or 0.0
    idle = best(with_rate(question, None))
    most = _largest(lambda tried: best(with_rate(question, tried)) is not None, low=0.0, high=rate)
    work = mean_amounts(question)
    speeds = () if idle is None else idle.speeds
    full_s = {speed.stage: busy_s(speed, work, batch=BATCHES[0]) for speed in speeds}
    slowest = max(full_s, key=lambda stage: full_s[stage])
    return Refusal(
        field="workload.rate_rps",
        value=f"{rate:g}",
        limit=f"this machine carries {_down(most):g} requests/s",
        causes=(
            f"binds: {slowest}, {_time(full_s[slowest])} for the mean request in full batches",
            f"no stage is planned to be more than {units.format_share(BUSY_MAX)} busy",
        ),
        fix=_ways(question, [_lower_rate(most), *_cores(question), *_shorter_answers(question)]),
    )


def _objective(question: Question, objective: Objective) -> Refusal:
    """`question` holds the objectives that are met; `objective` can't be met on top of them."""
    choices = [{speed.stage: speed for speed in choice.speeds} for choice in allowed(question)]
    fastest = min(choices, key=lambda speeds: predicted(question, speeds, objective))
    reached = predicted(question, fastest, objective)
    asked = with_objectives(question, (*question.intent.objectives, objective))
    ways = [*_raised(asked, objective, reached), *_cores(asked), *_fewer(asked), *_shorter_prompts(asked)]
    return Refusal(
        field=f"objectives.{objective_name(objective)}",
        value=bound_text(objective, objective.bound, digits=None),
        limit=f"the fastest plan on this machine reaches {bound_text(objective, reached)}",
        causes=tuple(_causes(question, fastest, objective)),
        fix=_ways(asked, ways),
    )


def _causes(question: Question, speeds: dict[str, StageSpeed], objective: Objective) -> Iterator[str]:
    for stage, seconds in sorted(spent(question, speeds, objective), key=lambda item: -item[1]):
        if seconds > 0:
            speed = speeds[stage]
            threads = "1 thread" if speed.threads == 1 else f"{speed.threads} threads"
            yield f"{stage}: {_time(seconds)} ({threads}, {speed.work.source})"


def _ways(question: Question, ways: Iterable[_Way]) -> tuple[str, ...]:
    """The words of the changes that help, cheapest first, at most three."""
    words = [words for words, change in ways if best(change(question)) is not None][:_WAYS_MAX]
    return tuple(words) or ("use a faster machine, or a smaller model",)


def _raised(question: Question, objective: Objective, reached: float) -> Iterator[_Way]:
    """A bound that people can write and that is enough, also for the pace of full batches."""
    others = tuple(item for item in question.intent.objectives if item != objective)
    bound = _up(reached)
    yield (
        f"objectives.{objective_name(objective)} >= {bound_text(objective, bound)}",
        lambda asked: with_objectives(asked, (*others, replace(objective, bound=bound))),
    )


def _lower_rate(most: float) -> _Way:
    lower = _down(most)
    return f"workload.rate_rps <= {lower:g}", partial(with_rate, rate_rps=lower)


def _cores(question: Question) -> Iterator[_Way]:
    for cores in _CORES:
        if cores > (question.machine.cores or 1) and best(with_cores(question, cores)) is not None:
            yield f"a machine with {cores} such cores", partial(with_cores, cores=cores)
            return


def _fewer(question: Question) -> Iterator[_Way]:
    for kind in ("image", "audio"):
        if share_in(question.intent, kind) > 0:
            yield f"workload.inputs.{kind} = 0", partial(without_input, kind=kind)


def _shorter_answers(question: Question) -> Iterator[_Way]:
    usual = question.model.shape.output_tokens
    known = question.intent.workload.output_tokens or Spread(p50=usual, p99=usual)
    yield from _shorter(question, "output_tokens", known, with_answers)


def _shorter_prompts(question: Question) -> Iterator[_Way]:
    usual = question.model.shape.prompt_tokens
    known = question.intent.workload.input_tokens or Spread(p50=usual, p99=usual)
    yield from _shorter(question, "input_tokens", known, with_prompts)


def _shorter(
    question: Question, field: str, known: Spread, scaled: Callable[[Question, float], Question]
) -> Iterator[_Way]:
    # Both ends of the distribution shrink alike, and both are named: a tail objective is bound by the upper one.
    factor = _largest(lambda tried: best(scaled(question, tried)) is not None, low=1 / known.p50, high=1.0)
    fewer = int(factor * known.p50)
    if fewer > 1:
        words = f"workload.{field} = {{p50: {fewer}, p99: {int(fewer / known.p50 * known.p99)}}}"
        yield words, lambda asked: scaled(asked, fewer / known.p50)


def _largest(holds: Callable[[float], bool], *, low: float, high: float) -> float:
    """The largest figure between `low` and `high` that holds, by halving; `low` if none does."""
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _up(value: float) -> float:
    """The next figure of two digits, so that people can write it."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step) * step:.12g}")


def _down(value: float) -> float:
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / step) * step:.12g}")


def _size(size_bytes: int) -> str:
    return units.format_size_bytes(size_bytes, digits=3)


def _time(seconds: float) -> str:
    return units.format_duration_s(seconds, digits=3)
