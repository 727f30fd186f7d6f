"""The planner for one machine.

In: a `Question`. Out: a `Plan`, or a `Refusal` with causes and ways out.
Invariant: what it accepts, it accepts with more cores, more memory, a lower rate or laxer objectives.
"""

import math

from accord.plan.local.choose import Choice, active_max, arena_bytes, best
from accord.plan.local.predict import predicted
from accord.plan.local.question import Question, explicit
from accord.plan.local.refuse import refusal
from accord.terms.graph import Stage
from accord.terms.intent import Metric, Objective
from accord.terms.plan import AdmissionLimits, Plan, StagePlan
from accord.terms.refusal import Refusal

_WAIT_S_MAX = 30.0
_WAIT_S_USUAL = 10.0
_WAIT_S_MIN = 0.05
_QUEUE_MAX = 256
_WAITED_FOR = (Metric.TTFT, Metric.FIRST_AUDIO, Metric.LATENCY)


def plan_local(question: Question) -> Plan | Refusal:
    """The best plan on this machine, or why there is none."""
    question = explicit(question)
    choice = best(question)
    return refusal(question) if choice is None else _plan(question, choice)


def _plan(question: Question, choice: Choice) -> Plan:
    intent, graph = question.intent, question.model.graph
    active = active_max(question, choice.replicas, batch=choice.batch)
    return Plan(
        name=intent.name,
        graph=graph,
        stages=tuple(_stage_plan(question, choice, stage, active=active) for stage in graph.stages),
        admission=_admission(question, choice, active=active),
        objectives=intent.objectives,
        deterministic=intent.serving.deterministic,
    )


def _stage_plan(question: Question, choice: Choice, stage: Stage, *, active: int) -> StagePlan:
    number = question.model.graph.stages.index(stage)
    speed, replicas = choice.speeds[number], choice.replicas[number]
    slots = math.ceil(active / replicas)
    row = question.model.engine(stage.name)
    return StagePlan(
        stage=stage.name,
        engine=row.engine,
        device="cpu",
        threads=speed.threads,
        replicas=replicas,
        batch_max=slots,
        memory_bytes=slots * stage.request_bytes,
        arena_bytes=arena_bytes(question, stage.name, slots=slots),
        assets=row.assets,
        options=row.options,
        work=speed.work,
    )


def _admission(question: Question, choice: Choice, *, active: int) -> AdmissionLimits:
    """A request may wait as long as its objectives leave, and only as many as are served in that time.

    Half as many again as the continuous stage batches may be inside: while they are with the other stages, or
    wait before that one, it never lacks work (measured on spoken questions: busy 96% instead of 87% of the time).
    A whole batch may end, and be followed, in one moment: there is always room for that many. Who would wait too
    long is refused by the runtime's estimate, however short the queue.
    """
    wait_s = min((_wait_s(question, choice, item) for item in question.intent.objectives), default=_WAIT_S_USUAL)
    served = choice.capacity_rps * wait_s
    queue_max = _QUEUE_MAX if served >= _QUEUE_MAX else max(active, int(served))
    ahead = active // 2 if len(question.model.graph.stages) > 1 else 0
    return AdmissionLimits(active_max=active + ahead, queue_max=queue_max, queue_s_max=round(wait_s, 3))


def _wait_s(question: Question, choice: Choice, objective: Objective) -> float:
    """How long a request may wait under one objective.

    A tail objective (p90 and above) binds nearly every request: it leaves what the path doesn't need.
    One about the middle leaves the rest of the requests free, so that a burst may wait ten times as long.
    """
    if objective.metric not in _WAITED_FOR:
        return _WAIT_S_USUAL
    if objective.percentile < 90:
        return min(_WAIT_S_USUAL, 10 * objective.bound)
    speeds = {speed.stage: speed for speed in choice.speeds}
    left_s = objective.bound - predicted(question, speeds, objective)
    return min(_WAIT_S_MAX, max(_WAIT_S_MIN, left_s))
