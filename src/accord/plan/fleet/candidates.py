"""Plans for a question, the best first.

In: a `Question`. Out: `Candidates`. Invariant: without a rate, the highest one that can be carried is found first, and
then the cheapest plan for it.
"""

from dataclasses import dataclass

from accord.plan.fleet.choose import Choice, Progress, Watch, cheapest, quiet
from accord.plan.fleet.question import Question, over_context, problem_of
from accord.plan.fleet.rate import fastest


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """`choices` carry `rate_rps`. `whole`: all of the space was looked at; `stopped`: somebody ended the search."""

    rate_rps: float
    choices: tuple[Choice, ...]
    whole: bool
    stopped: bool = False


_STOPPED = Candidates(rate_rps=0.0, choices=(), whole=False, stopped=True)


def candidates(question: Question, *, watch: Watch = quiet) -> Candidates | None:
    """None: nothing meets everything. No choices: the search was stopped before there was one."""
    if over_context(question):
        return None
    heard = _Heard(watch)
    rate = question.intent.workload.rate_rps
    if rate is None:
        most = fastest(lambda tried: problem_of(question, tried), watch=heard)
        if most is None:
            return _STOPPED if heard.stopped else None
        rate, found = most.rate_rps, most.found
    else:
        found = cheapest(problem_of(question, rate), rate, watch=heard)
    if not found.choices:
        return _STOPPED if heard.stopped else None
    return Candidates(rate_rps=rate, choices=found.choices, whole=found.whole, stopped=heard.stopped)


class _Heard:
    """A watch that remembers whether it ended the search."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.stopped = watch, False

    def __call__(self, progress: Progress) -> bool:
        self.stopped = self.stopped or not self.watch(progress)
        return not self.stopped
