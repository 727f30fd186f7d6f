"""Examines one point on one device: builds its calls, runs them, judges the answers, asks the witnesses.

In: a point, a device, witnesses. Out: `Examined`. Invariant: a device is blamed only where the reference in float64 and
at least one independent library agree, and none disagrees; a crash is blamed when it happens twice.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accord.terms.quirk import FaultKind, Point
from accord.verify.findings import Verdict
from accord.verify.judge import Grade, Judgement, judge
from accord.verify.operators.row import Case, Fill, OperatorRow
from accord.verify.ports import Answer, Death, Device, Died, State, Unsupported
from accord.verify.space import existing
from accord.verify.tensor import ROUNDOFF, Dtype, Tensor
from accord.verify.witness import agrees

REFERENCE = "numpy"  # the family of the reference in float64
_RUNS = 3  # the first call, and two that ought to repeat it
_DEATHS = {Death.CRASH: FaultKind.CRASH, Death.HANG: FaultKind.HANG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One thing that is wrong at a point: by which probe it was seen, and what is worst about it, in words."""

    fault: FaultKind
    probe: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A point's verdict. `seen` holds each kind of fault once; `words` say what drifts, lacks or is disputed."""

    point: Point
    verdict: Verdict
    seen: tuple[Seen, ...] = ()
    witnesses: tuple[str, ...] = ()
    words: str = ""

    def fault(self, kind: FaultKind) -> Seen | None:
        """What was seen of this kind."""
        return next((seen for seen in self.seen if seen.fault is kind), None)

    def shows(self, kind: FaultKind) -> bool | None:
        """Whether this kind is seen; None where nobody can tell, or another kind may hide it."""
        if self.fault(kind) is not None:
            return True
        return None if self.verdict in (Verdict.UNDECIDED, Verdict.UNSUPPORTED) or self.seen else False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probed:
    """What one fill showed."""

    verdict: Verdict
    seen: Seen | None = None
    witnesses: tuple[str, ...] = ()
    words: str = ""


class Examiner:
    """`witnesses` share no kernel library with the device; see `families` of their descriptions."""

    def __init__(
        self, device: Device, witnesses: Sequence[Device], rows: Mapping[str, OperatorRow], *, runs: int = _RUNS
    ) -> None:
        self._device = device
        self._witnesses = tuple(witnesses)
        self._rows = rows
        self._runs = runs
        self._habits: dict[str, bool] = {}

    def examine(self, point: Point, *, state: State = State.WARM) -> Examined:
        """All probes that suit the point. KeyError for an operator without a row."""
        row = self._rows[point.operator]
        probed: list[_Probed] = []
        for fill in Fill:
            case = row.build(point, numbers_of(point, fill), fill)
            if case is not None:
                # What was cold is warm after one call; to forget may cost a process.
                probed.append(self._probe(case, fill, row, State.WARM if probed else state))
            if probed and probed[-1].verdict is Verdict.UNSUPPORTED:
                break
        return _summed(point, probed)

    def fails(self, kind: FaultKind) -> Callable[[Point], bool | None]:
        """Whether a point shows this kind of fault; None where nobody can tell."""
        state = State.COLD if kind is FaultKind.STATE else State.WARM

        def asked(point: Point) -> bool | None:
            found = self.examine(point)
            if kind is FaultKind.STATE and not found.seen:
                found = self.examine(point, state=state)
            return found.shows(kind)

        return asked

    def _probe(self, case: Case, fill: Fill, row: OperatorRow, state: State) -> _Probed:
        outcome = self._device.run(replace(case.call, repeat=self._runs, state=state))
        if isinstance(outcome, Died):
            outcome = self._device.run(replace(case.call, repeat=self._runs, state=state))
        match outcome:
            case Unsupported(reason=reason):
                return _Probed(verdict=Verdict.UNSUPPORTED, words=reason)
            case Died(death=death, detail=detail):
                seen = Seen(fault=_DEATHS[death], probe=fill.value, words=detail)
                return _Probed(verdict=Verdict.FAULT, seen=seen)
            case Answer(runs=runs):
                return self._answered(case, fill, row, runs)

    def _answered(self, case: Case, fill: Fill, row: OperatorRow, runs: tuple[tuple[Tensor, ...], ...]) -> _Probed:
        alike = [_same_bits(run, runs[-1]) for run in runs]
        last = judge(case, runs[-1], sums_wide=row.sums_wide, low=row.low)
        judged = [
            last if same else judge(case, run, sums_wide=row.sums_wide, low=row.low)
            for run, same in zip(runs, alike, strict=True)
        ]
        worst = max(judged, key=lambda found: found.grade)
        if worst.grade is Grade.DRIFT and _in_full(case) and not self._drifts_by_habit(row):
            worst = replace(worst, grade=Grade.WRONG)  # this device can do better: here it is wrong
            judged = [replace(found, grade=Grade.WRONG) if found.grade is Grade.DRIFT else found for found in judged]
        if worst.grade <= Grade.DRIFT and all(alike):
            verdict = Verdict.RIGHT if worst.grade is Grade.RIGHT else Verdict.PRECISION
            return _Probed(verdict=verdict, words=worst.words)
        words = worst.words or "the same call gives other bits when it is repeated"
        seen = Seen(fault=_kind(judged, alike, fill), probe=fill.value if worst.words else "repeat", words=words)
        if worst.grade <= Grade.DRIFT:
            return _Probed(verdict=Verdict.FAULT, seen=seen)  # the device contradicts itself: no witness is needed
        return self._blamed(case, seen)

    def _drifts_by_habit(self, row: OperatorRow) -> bool:
        """Whether the device computes this operator in low precision everywhere, as it does under a hint."""
        if row.name not in self._habits:
            self._habits[row.name] = all(self._drifts(row, point) for point in _plainest(row))
        return self._habits[row.name]

    def _drifts(self, row: OperatorRow, point: Point) -> bool:
        for fill in (Fill.NORMAL, Fill.INTEGERS):
            case = row.build(point, numbers_of(point, fill), fill)
            outcome = None if case is None else self._device.run(case.call)
            if case is not None and isinstance(outcome, Answer):
                return judge(case, outcome.runs[0], sums_wide=row.sums_wide, low=row.low).grade is Grade.DRIFT
        return False

    def _blamed(self, case: Case, seen: Seen) -> _Probed:
        """A fault if the witnesses agree on what was wanted, else undecided."""
        own = set(self._device.describe().families)
        answers = {witness.describe().name: agrees(witness, case) for witness in self._witnesses}
        disputing = [name for name, answer in answers.items() if answer is False]
        if disputing:
            words = f"{', '.join(disputing)}: another answer than the reference; {seen.words}"
            return _Probed(verdict=Verdict.UNDECIDED, words=words)
        agreeing = [name for name, answer in answers.items() if answer]
        if REFERENCE not in own and REFERENCE not in agreeing:
            agreeing.append(REFERENCE)
        if len(agreeing) < 2:
            return _Probed(verdict=Verdict.UNDECIDED, words=f"no second library has {case.call.operator}; {seen.words}")
        return _Probed(verdict=Verdict.FAULT, seen=seen, witnesses=tuple(sorted(agreeing)))


def _kind(judged: Sequence[Judgement], alike: Sequence[bool], fill: Fill) -> FaultKind:
    """Where only the first run differs it is the state; where others do, too, nothing can be relied on."""
    grades = [found.grade > Grade.DRIFT for found in judged]
    if not all(alike) and not all(grades):  # where every run is wrong, it is wrong, and garbage may vary
        steady = all(alike[1:]) and not any(grades[1:])
        return FaultKind.STATE if steady else FaultKind.UNSTABLE
    lost = any(found.grade is Grade.LEAK for found in judged)
    return FaultKind.LEAK if lost and fill is Fill.POISON else FaultKind.WRONG


def _in_full(case: Case) -> bool:
    """Whether the call is in f32 or more."""
    floats = [ROUNDOFF[tensor.dtype] for tensor in case.call.operands if tensor.dtype in ROUNDOFF]
    return bool(floats) and max(floats) <= ROUNDOFF[Dtype.F32]


def _plainest(row: OperatorRow) -> list[Point]:
    """The usual sides with the plainest words: in f32, in order, from the start of memory."""
    words = {choice.name: choice.words[0] for choice in row.space.choices}
    return existing(row.space.point(dict(sides), words) for sides in row.usual)


def _same_bits(run: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> bool:
    return all(
        one.shape == two.shape and one.bits().tobytes() == two.bits().tobytes()
        for one, two in zip(run, other, strict=True)
    )


def _summed(point: Point, probed: Sequence[_Probed]) -> Examined:
    """The worst verdict of the probes; each kind of fault by the probe that saw it first."""
    seen = {found.seen.fault: found.seen for found in reversed(probed) if found.seen is not None}
    order = (Verdict.FAULT, Verdict.UNDECIDED, Verdict.PRECISION, Verdict.RIGHT)
    verdicts = {found.verdict for found in probed}
    verdict = next((known for known in order if known in verdicts), Verdict.UNSUPPORTED)
    told = next((found for found in probed if found.verdict is verdict), None)
    return Examined(
        point=point,
        verdict=verdict,
        seen=tuple(seen.values()),
        witnesses=told.witnesses if told else (),
        words=told.words if told else "no probe suits it",
    )


def numbers_of(point: Point, fill: Fill) -> np.random.Generator:
    """The same operands whenever a point is asked."""
    return np.random.default_rng(zlib.crc32(f"{point} {fill.value}".encode()))
