"""The same question with one thing changed: how ways out are tried.

In: a `Question` and a change. Out: a `Question`. Invariant: nothing else differs.
"""

from collections.abc import Callable
from dataclasses import replace

from accord.plan.local.question import Question
from accord.terms.intent import Intent, Objective, Spread

Change = Callable[[Question], Question]


def with_objectives(question: Question, objectives: tuple[Objective, ...]) -> Question:
    """With these objectives instead of the intent's."""
    return _with_intent(question, replace(question.intent, objectives=objectives))


def with_rate(question: Question, rate_rps: float | None) -> Question:
    """With another rate; None means that no rate has to be carried."""
    return _with_intent(
        question, replace(question.intent, workload=replace(question.intent.workload, rate_rps=rate_rps))
    )


def with_cores(question: Question, cores: int) -> Question:
    """On a machine with as many cores of the same kind."""
    return replace(question, machine=replace(question.machine, cores=cores))


def without_input(question: Question, kind: str) -> Question:
    """Without inputs of this kind."""
    workload = question.intent.workload
    shares = tuple((name, 0.0 if name == kind else share) for name, share in workload.inputs)
    return _with_intent(question, replace(question.intent, workload=replace(workload, inputs=shares)))


def with_answers(question: Question, factor: float) -> Question:
    """With answers `factor` as long."""
    workload = question.intent.workload
    tokens = _scaled(workload.output_tokens, question.model.shape.output_tokens, factor)
    return _with_intent(question, replace(question.intent, workload=replace(workload, output_tokens=tokens)))


def with_prompts(question: Question, factor: float) -> Question:
    """With prompts `factor` as long."""
    workload = question.intent.workload
    tokens = _scaled(workload.input_tokens, question.model.shape.prompt_tokens, factor)
    return _with_intent(question, replace(question.intent, workload=replace(workload, input_tokens=tokens)))


def _with_intent(question: Question, intent: Intent) -> Question:
    return replace(question, intent=intent)


def _scaled(spread: Spread | None, usual: float, factor: float) -> Spread:
    known = spread or Spread(p50=usual, p99=usual)
    return Spread(p50=known.p50 * factor, p99=known.p99 * factor)
