"""All ways to run the stages on one machine that meet a question, and the best of them.

In: a `Question`. Out: `Choice`s. Invariant: whether a choice is allowed only ever gets easier with more
cores, more memory, a lower rate or a laxer objective, since each rule compares one figure with one bound.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from accord.plan.local.predict import busy_s, predicted, token_s
from accord.plan.local.question import Question, mean_amounts
from accord.terms.graph import Batching
from accord.terms.intent import Metric, Objective
from accord.terms.speed import StageSpeed

BATCHES = (16, 12, 8, 6, 4, 3, 2, 1)
ARENA_BYTES_MIN = 16 << 20
# Above this share of its time a queue in front of a stage grows without end on a small disturbance.
BUSY_MAX = 0.85
# A replica's interpreter and libraries, and the door's process with room for its arena: seen on Linux
# x86-64 with Python 3.11 and ONNX Runtime 1.2x.
PROCESS_BYTES = 110 << 20
DOOR_BYTES = 384 << 20
# What is left free of the memory at hand, so that a page cache stays possible.
MEMORY_SHARE = 0.85
# What choices are ranked by.
_LATENCY = Objective(metric=Metric.LATENCY, percentile=50, bound=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way: for each stage, in the graph's order, its speed (with threads) and its replicas.

    `batch` requests share the steps of one replica of a continuous stage.
    """

    speeds: tuple[StageSpeed, ...]
    replicas: tuple[int, ...]
    batch: int
    memory_bytes: int
    capacity_rps: float

    @property
    def threads(self) -> int:
        """Threads of all stages and replicas together."""
        return sum(speed.threads * count for speed, count in zip(self.speeds, self.replicas, strict=True))


def best(question: Question) -> Choice | None:
    """The allowed choice with the shortest answers; among near equals the one with fewer threads."""
    return min(allowed(question), key=lambda choice: _rank(question, choice), default=None)


def allowed(question: Question) -> Iterator[Choice]:
    """Every choice that meets the objectives and the rate within cores and memory."""
    for speeds in _thread_choices(question):
        by_stage = {speed.stage: speed for speed in speeds}
        objectives = question.intent.objectives
        if any(predicted(question, by_stage, item) > item.bound for item in objectives):
            continue
        for batch in BATCHES:
            choice = _sized(question, speeds, batch=batch)
            if choice is not None and _keeps_pace(question, choice):
                yield choice
                break


def thread_bound(question: Question) -> int:
    """How many threads all stages may have together.

    As many as cores, where every stage can have one. On fewer cores each stage still has one, and one
    stage a second: the stages of one request are never all at work at once.
    """
    cores, stages = question.machine.cores or 1, len(question.model.graph.stages)
    return stages if cores < 2 else max(cores, stages + 1)


def arena_bytes(question: Question, stage: str, *, slots: int) -> int:
    """Room for what `slots` requests may have under way on all out-edges of a stage.

    A stream may have half its window and one more chunk under way, hence one and a half windows each. A chunk
    larger than its window travels alone: there is always room for two of twice the window, so that
    one can be written while the other is read.
    """
    windows = sum(edge.window_bytes for edge in question.model.graph.edges if edge.source == stage)
    return max(ARENA_BYTES_MIN, 4 * windows, slots * windows * 3 // 2)


def memory_bytes(question: Question, replicas: tuple[int, ...], *, batch: int) -> int:
    """What all processes hold together when every place is taken."""
    total = DOOR_BYTES
    active = active_max(question, replicas, batch=batch)
    for stage, count in zip(question.model.graph.stages, replicas, strict=True):
        slots = math.ceil(active / count)
        one = stage.weights_bytes + slots * stage.request_bytes + arena_bytes(question, stage.name, slots=slots)
        total += count * (one + PROCESS_BYTES)
    return total


def active_max(question: Question, replicas: tuple[int, ...], *, batch: int) -> int:
    """Requests at once: `batch` in each replica of the stages that batch continuously."""
    pairs = zip(question.model.graph.stages, replicas, strict=True)
    return batch * max((count for stage, count in pairs if stage.batching is Batching.CONTINUOUS), default=1)


def memory_limit_bytes(question: Question) -> float:
    """How much of the machine's memory may be planned; without end if it is unknown."""
    known = question.machine.memory_bytes
    return math.inf if known is None else known * MEMORY_SHARE


def _thread_choices(question: Question) -> Iterator[tuple[StageSpeed, ...]]:
    cores = max(1, question.machine.cores or 1)
    stages = question.model.graph.stages
    options = [
        [speed for speed in question.speeds if speed.stage == stage.name and speed.threads <= cores] for stage in stages
    ]
    for stage, found in zip(stages, options, strict=True):
        if not found:
            raise ValueError(f"no measured speed of stage {stage.name} with at most {cores} threads")
    bound = thread_bound(question)
    for speeds in itertools.product(*options):
        if sum(speed.threads for speed in speeds) <= bound:
            yield speeds


def _sized(question: Question, speeds: tuple[StageSpeed, ...], *, batch: int) -> Choice | None:
    """The fewest replicas that carry the rate; None if cores or memory don't allow them."""
    work = mean_amounts(question)
    rate = question.intent.workload.rate_rps or 0.0
    times_s = [busy_s(speed, work, batch=batch) for speed in speeds]
    counts = tuple(max(1, math.ceil(rate * busy / BUSY_MAX)) for busy in times_s)
    threads = sum(speed.threads * count for speed, count in zip(speeds, counts, strict=True))
    held_bytes = memory_bytes(question, counts, batch=batch)
    if threads > thread_bound(question) or held_bytes > memory_limit_bytes(question):
        return None
    core_s = sum(busy * speed.threads for busy, speed in zip(times_s, speeds, strict=True))
    paces = [count / busy for count, busy in zip(counts, times_s, strict=True) if busy > 0]
    paces += [(question.machine.cores or 1) / core_s] if core_s > 0 else []
    capacity_rps = BUSY_MAX * min(paces, default=math.inf)
    return Choice(speeds=speeds, replicas=counts, batch=batch, memory_bytes=held_bytes, capacity_rps=capacity_rps)


def _keeps_pace(question: Question, choice: Choice) -> bool:
    """The rate is carried, and objectives about pace hold while all places of a batch are taken."""
    rate = question.intent.workload.rate_rps or 0.0
    if rate > choice.capacity_rps * (1 + 1e-9):
        return False
    by_stage = {speed.stage: speed for speed in choice.speeds}
    pace_s = token_s(by_stage, batch=choice.batch)
    bounds = [item.bound for item in question.intent.objectives if item.metric is Metric.TPOT]
    return all(pace_s <= bound for bound in bounds)


def _rank(question: Question, choice: Choice) -> tuple[float, int, int]:
    by_stage = {speed.stage: speed for speed in choice.speeds}
    # Another thread has to earn 2%, or it is left to the others.
    latency_s = predicted(question, by_stage, _LATENCY) * 1.02**choice.threads
    return latency_s, choice.threads, -choice.batch
