"""One failing call once more: what a reproducer calls where the device isn't plain PyTorch.

In: a device's name, an operator, a point. Out: an exit status. Invariant: the operands are those that failed, bit for
bit, since they are drawn from the point itself.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace

from accord.terms.quirk import Fact, Point, Trait
from accord.verify.devices.child import ChildDevice
from accord.verify.examine import numbers_of
from accord.verify.judge import Grade, judge
from accord.verify.operators.row import Case, Fill, OperatorRow
from accord.verify.operators.table import operators
from accord.verify.ports import Answer, Device, Died, State, Unsupported

_RUNS = 3


def again(
    *, device: str, operator: str, facts: Mapping[str, int], traits: Mapping[str, str], python: str | None = None
) -> int:
    """1 if the device is wrong, contradicts itself, crashes or hangs; 0 if not. Says what it saw."""
    point = Point(
        operator=operator,
        facts=tuple(Fact(name=name, value=value) for name, value in facts.items()),
        traits=tuple(Trait(name=name, word=word) for name, word in traits.items()),
    )
    opened = ChildDevice(device, python=python)
    try:
        told = [words for fill in Fill if (words := _fault(opened, operators()[operator], point, fill)) is not None]
    finally:
        opened.close()
    sys.stdout.write("".join(f"{words}\n" for words in told) or "right\n")
    return int(bool(told))


def _fault(device: Device, row: OperatorRow, point: Point, fill: Fill) -> str | None:
    case = row.build(point, numbers_of(point, fill), fill)
    if case is None:
        return None
    for state in (State.WARM, State.COLD):
        outcome = device.run(replace(case.call, repeat=_RUNS, state=state))
        match outcome:
            case Died(death=death, detail=detail):
                return f"{fill.value}: {death.value}: {detail}"
            case Unsupported(reason=reason):
                return f"{fill.value}: {reason}" if state is State.WARM else None
            case Answer():
                if (words := _wrong(case, outcome, row)) is not None:
                    return f"{fill.value}: {words}"
    return None


def _wrong(case: Case, answer: Answer, row: OperatorRow) -> str | None:
    judged = [judge(case, run, sums_wide=row.sums_wide) for run in answer.runs]
    worst = max(judged, key=lambda found: found.grade)
    if worst.grade > Grade.DRIFT:
        return worst.words
    bits = {tuple(tensor.bits().tobytes() for tensor in run) for run in answer.runs}
    return "the same call gives other bits when it is repeated" if len(bits) > 1 else None
