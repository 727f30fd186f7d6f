"""How long one request takes that comes right after a start, as `accord demo` asks it.

In: a `Question`, a plan, the request's sizes. Out: seconds by metric. Invariant: the formulas are those of
`predict.py`; what a stage's first use costs besides is added once, where it is waited for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from accord.plan.local.predict import predicted, spent
from accord.plan.local.question import Question
from accord.terms.intent import Metric, Objective, Spread
from accord.terms.plan import Plan
from accord.terms.speed import StageSpeed


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A spoken question, and its answer."""

    audio_in_s: float
    prompt_tokens: float
    output_tokens: float


def first_request(question: Question, plan: Plan, size: Size) -> Mapping[Metric, float]:
    """Seconds to the first text, to the first sound and to the end of a spoken question with a spoken answer."""
    asked = _sized(question, size)
    threads = {stage.stage: stage.threads for stage in plan.stages}
    speeds = {speed.stage: speed for speed in question.speeds if threads.get(speed.stage) == speed.threads}
    found: dict[Metric, float] = {}
    for metric in (Metric.TTFT, Metric.FIRST_AUDIO):
        objective = _middle(metric)
        path = spent(asked, speeds, objective)
        found[metric] = predicted(asked, speeds, objective) + sum(speeds[stage].first_use_s for stage, _ in path)
    return {**found, Metric.LATENCY: found[Metric.FIRST_AUDIO] + _rest_s(asked, speeds)}


def _rest_s(asked: Question, speeds: Mapping[str, StageSpeed]) -> float:
    """What follows the first sound: the slowest stage, which the others hold up where they find no core of their own.

    Its threads wait for each other in every step: while one of them lacks its core, all of them stand.
    """
    firsts = dict(spent(asked, speeds, _middle(Metric.FIRST_AUDIO)))
    whole = dict(spent(asked, speeds, _middle(Metric.LATENCY)))
    rests = {stage: max(0.0, seconds - firsts.get(stage, 0.0)) for stage, seconds in whole.items() if stage in firsts}
    slowest = max(rests, key=lambda stage: rests[stage])
    others_s = sum(speeds[stage].threads * rest for stage, rest in rests.items() if stage != slowest)
    free = max(0, (asked.machine.cores or 1) - speeds[slowest].threads)
    return rests[slowest] + max(0.0, others_s - free * rests[slowest])


def _middle(metric: Metric) -> Objective:
    return Objective(metric=metric, percentile=50, bound=0.0)


def _sized(question: Question, size: Size) -> Question:
    def always(tokens: float) -> Spread:
        return Spread(p50=tokens, p99=tokens)

    workload = replace(
        question.intent.workload,
        inputs=(("audio", 1.0),),
        outputs=(("text", 1.0), ("audio", 1.0)),
        input_tokens=always(size.prompt_tokens),
        output_tokens=always(size.output_tokens),
    )
    shape = replace(question.model.shape, audio_in_s=size.audio_in_s)
    return replace(
        question,
        intent=replace(question.intent, workload=workload),
        model=replace(question.model, shape=shape),
    )
