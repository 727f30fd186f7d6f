"""What a sweep saw of one operator -> its faults, each with a region, a reproducer and ways round it.

In: examined points, an examiner, effort. Out: `OperatorFindings`. Invariant: every kind of fault that was seen is in a
quirk or inside the region of one; what learning asked is among the marks, too.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from accord.terms.quirk import FaultKind, Point, Quirk
from accord.verify.examine import Examined, Examiner, numbers_of
from accord.verify.findings import Mark, OperatorFindings, Verdict
from accord.verify.judge import allowed
from accord.verify.mending import Effort, mended
from accord.verify.operators.row import Fill, OperatorRow
from accord.verify.oracle import Oracle
from accord.verify.ports import Call, Description, Device
from accord.verify.prove import About, Sight, prove
from accord.verify.reproduce import Shown, script
from accord.verify.tensor import Dtype
from accord.verify.trial import Bench

_DEAR = (FaultKind.CRASH, FaultKind.HANG, FaultKind.STATE)  # each question may cost a process: fewer are asked
_QUESTIONS = 3000
_FEW_QUESTIONS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Whom to investigate, and how. `port` and `python` open the device again; `seconds` is for one fault."""

    examiner: Examiner
    device: Description
    port: str
    python: str | None
    bench: Bench | None
    today: str
    seconds: Callable[[], float]
    now_s: Callable[[], float]
    seed: int = 0


def investigate(
    row: OperatorRow, examined: Sequence[Examined], case: Case, *, record: Callable[[Examined], None]
) -> OperatorFindings:
    """Learns every kind of fault that was seen, the most frequent first, and looks for ways round it."""
    known = {found.point: found for found in examined}

    def keep(found: Examined) -> Examined:
        known[found.point] = found
        record(found)
        return found

    quirks: list[Quirk] = []
    for kind in _kinds(examined):
        failing = [found.point for found in examined if found.fault(kind) is not None]
        left = [point for point in failing if not any(quirk.region.holds(point) for quirk in quirks)]
        if left:
            quirks.append(_proved(row, kind, known, case, keep=keep))
    marks = tuple(Mark(point=found.point, verdict=found.verdict) for found in known.values())
    return OperatorFindings(space=row.space, marks=marks, quirks=tuple(quirks), drift=_drift(known.values()))


def unproved(row: OperatorRow, examined: Sequence[Examined]) -> OperatorFindings:
    """The same without learning, where there is nothing to learn or no time for it."""
    marks = tuple(Mark(point=found.point, verdict=found.verdict) for found in examined)
    return OperatorFindings(space=row.space, marks=marks, drift=_drift(examined))


def bench_of(device: Device, rows: Mapping[str, OperatorRow], *, cpu: Device | None = None) -> Bench:
    """Judges ways round by the very probes of the sweep; no witness is needed for what is right.

    `cpu`: where a way may lead that leaves the device.
    """

    def right(tried: Device, point: Point) -> bool | None:
        found = Examiner(tried, (), rows).examine(point)
        if found.verdict is Verdict.UNSUPPORTED:
            return None
        return found.verdict in (Verdict.RIGHT, Verdict.PRECISION)

    def call(point: Point) -> Call | None:
        row = rows[point.operator]
        built = (row.build(point, numbers_of(point, fill), fill) for fill in (Fill.NORMAL, Fill.INTEGERS))
        return next((made.call for made in built if made is not None), None)

    return Bench(device=device, judge=right, build=call, cpu=cpu)


def _kinds(examined: Iterable[Examined]) -> list[FaultKind]:
    counts: dict[FaultKind, int] = {}
    for found in examined:
        for seen in found.seen:
            counts[seen.fault] = counts.get(seen.fault, 0) + 1
    return sorted(counts, key=lambda kind: -counts[kind])


def _proved(
    row: OperatorRow,
    kind: FaultKind,
    known: dict[Point, Examined],
    case: Case,
    *,
    keep: Callable[[Examined], Examined],
) -> Quirk:
    def fails(point: Point) -> bool | None:
        if kind is FaultKind.STATE:
            return case.examiner.fails(kind)(point)  # asks twice, warm and cold
        found = known.get(point) or keep(case.examiner.examine(point))
        return found.shows(kind)

    labels = {point: shown for point, found in known.items() if (shown := found.shows(kind)) is not None}
    failing = [point for point, shown in labels.items() if shown]
    rng = random.Random(f"{case.seed} {row.name} {kind}")
    seconds = case.seconds()
    oracle = Oracle(
        fails,
        budget=_FEW_QUESTIONS if kind in _DEAR else _QUESTIONS,
        known=labels,
        deadline_s=case.now_s() + 0.7 * seconds,
        now_s=case.now_s,
    )
    about = About(
        device=case.device,
        fault=kind,
        witnesses=tuple(sorted({name for found in known.values() for name in found.witnesses})),
        today=case.today,
        look=lambda point: _look(row, kind, known.get(point) or case.examiner.examine(point), case),
    )
    quirk = prove(oracle, failing, row.space, about, rng=rng)
    if case.bench is None:
        return quirk
    failing = [point for point, answer in oracle.labelled() if answer]
    effort = Effort(seconds_max=0.3 * seconds, rng=rng, now_s=case.now_s)
    return mended(quirk, failing, row, case.bench, effort=effort)


def _look(row: OperatorRow, kind: FaultKind, found: Examined, case: Case) -> Sight:
    """How wrong the smallest failing point is, and a script that shows it."""
    seen = found.fault(kind)
    words = seen.words if seen else found.words or kind.value
    shown = Shown(device=case.device, port=case.port, python=case.python, point=found.point, words=words)
    built = None
    fill = next((fill for fill in Fill if seen is not None and fill.value == seen.probe), None)
    if fill is not None and kind in (FaultKind.WRONG, FaultKind.LEAK):
        built = row.build(found.point, numbers_of(found.point, fill), fill)
    if built is not None:
        slack = allowed(built, Dtype(found.point.trait("dtype") or Dtype.F32.value))
        shown = Shown(
            device=case.device,
            port=case.port,
            python=case.python,
            point=found.point,
            words=words,
            allowed=slack,
        )
    return Sight(worst=words, probes=(seen.probe,) if seen else (), reproducer=script(shown, built))


def _drift(examined: Iterable[Examined]) -> str | None:
    drifting = [found for found in examined if found.verdict is Verdict.PRECISION]
    if not drifting:
        return None
    points = "1 point" if len(drifting) == 1 else f"{len(drifting)} points"
    return f"{points}, such as {drifting[0].words}" if drifting[0].words else points
