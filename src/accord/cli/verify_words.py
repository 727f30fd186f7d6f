"""What a sweep found, in words for a terminal.

In: `Findings`, quirks. Out: lines. Invariant: a fault is told with where, the smallest failure and the way round;
precision is never told as a fault.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from accord.cli.table import plural
from accord.terms.quirk import Is, Point, Quirk, Workaround
from accord.terms.quirk_text import region_text
from accord.verify.findings import Findings, Verdict

_WIDTH = 100  # a region longer than this gets a line for each case


def findings_lines(findings: Findings) -> Iterator[str]:
    """The whole sweep: how much was asked, faults, drift, ways round."""
    points = sum(len(operator.marks) for operator in findings.operators)
    operators = plural(len(findings.operators), "operator")
    yield f"swept {plural(points, 'point')} over {operators}   {duration(findings.took_s)}"
    for quirk in findings.quirks:
        yield from fault_lines(quirk)
    for operator in findings.operators:
        if operator.drift:
            yield f"drift  {operator.space.operator}  precision only, not a fault: {operator.drift}"
    undecided = sum(operator.count(Verdict.UNDECIDED) for operator in findings.operators)
    if undecided:
        yield f"undecided  {plural(undecided, 'point')}: the witnesses disagree there, so the device isn't blamed"
    if not findings.quirks:
        yield "no fault found"
    if findings.ended:
        yield findings.ended


def fault_lines(quirk: Quirk) -> Iterator[str]:
    """One fault: what, where, the smallest failure, the evidence, the ways round."""
    yield f"FAULT  {quirk.operator}{_dtypes(quirk)}  {quirk.fault.value}"
    yield from (f"       {part}" for part in region_lines(quirk))
    if quirk.smallest is not None:
        yield f"       smallest: {point_text(quirk.smallest)}   ({quirk.evidence.worst})"
    evidence = quirk.evidence
    tested = f"{evidence.missed} missed and {evidence.over_cover:.1%} over-cover"
    fresh = plural(evidence.fresh, "fresh point")
    yield f"       {tested} on {fresh}; {', '.join(evidence.witnesses)} agree against it"
    if quirk.workarounds:
        yield f"       workarounds: {'   ·   '.join(way_text(way) for way in quirk.workarounds)}"
    yield from (f"       {textwrap.shorten(remark, _WIDTH, placeholder=' ...')}" for remark in quirk.remarks)


def region_lines(quirk: Quirk) -> Sequence[str]:
    """The region on one line, or one line for each case where that would be long."""
    whole = region_text(quirk.region)
    if len(whole) <= _WIDTH:
        return [whole]
    cases = whole.split(" or ")
    return [case if number == 0 else f"or {case}" for number, case in enumerate(cases)]


def way_text(way: Workaround) -> str:
    """`pad K to 32 (2.5 x)`: its time over the native call's."""
    return f"{way.way.value} {way.detail} ({way.cost_ratio:.2g} x the time)"


def point_text(point: Point) -> str:
    """`M 17, N 3, K 81, bf16`."""
    return ", ".join([*(f"{fact.name} {fact.value}" for fact in point.facts), *(trait.word for trait in point.traits)])


def duration(seconds: float) -> str:
    """`6 min 12 s`."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def _dtypes(quirk: Quirk) -> str:
    """The dtypes that every case names, for the heading."""
    named = [_words(case) for case in quirk.region.cases]
    return f" {'/'.join(dict.fromkeys(word for words in named for word in words))}" if named and all(named) else ""


def _words(case: Iterable[object]) -> tuple[str, ...]:
    return next((atom.words for atom in case if isinstance(atom, Is) and atom.trait == "dtype"), ())
