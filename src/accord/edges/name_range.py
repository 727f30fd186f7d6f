"""Many names in one: `gpu-[0001-1000]`, `r[1-4]-n[01-16,20]`, as Slurm and clush write them.

In: a pattern, or names. Out: names, or a pattern. Invariant: expand(compress(names)) == names, in their order; a
pattern is counted before anything is made of it.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accord.terms.errors import BadInput

_PIECES = re.compile(r"\[([^\[\]]*)\]")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)", re.ASCII)
_SPANS_MAX = 1000
_FIX = "write names such as gpu-[0001-1000] or r[1-4]-n[01-16,20]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Numbers from `first` to `last`, written with at least `digits` digits."""

    first: int
    last: int
    digits: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def texts(self) -> Iterator[str]:
        return (f"{number:0{self.digits}d}" for number in range(self.first, self.last + 1))


def expand(pattern: str, *, field: str, most: int) -> tuple[str, ...]:
    """The names that a pattern stands for; a name without brackets stands for itself. BadInput beyond `most`."""
    pieces = _PIECES.split(pattern)
    texts, ranges = pieces[::2], [_spans(piece, pattern, field=field) for piece in pieces[1::2]]
    if any(mark in text for text in texts for mark in "[]"):
        raise BadInput(field=field, value=pattern, problem="brackets don't pair", fix=_FIX)
    count = math.prod(sum(span.count for span in spans) for spans in ranges)
    if count > most:
        problem = f"stands for {count:,} names, at most {most:,} may be here"
        raise BadInput(field=field, value=pattern, problem=problem, fix="write a shorter range")
    choices = [[text for span in spans for text in span.texts()] for spans in ranges]
    return tuple(
        "".join(itertools.chain(*zip(texts, (*chosen, ""), strict=True))) for chosen in itertools.product(*choices)
    )


def compress(names: Sequence[str]) -> str | None:
    """One pattern for these names in this order; None if there is none that is plain."""
    if len(names) == 1:
        return names[0]
    matches = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    if len(matches) < len(names) or len({(match[1], match[3]) for match in matches}) > 1:
        return None
    if any(mark in name for name in (names[0], names[-1]) for mark in "[]"):
        return None
    runs: list[list[str]] = []
    for match in matches:
        follows = runs and int(match[2]) == int(runs[-1][-1]) + 1 and _padded(runs[-1][-1], match[2])
        if follows:
            runs[-1].append(match[2])
        else:
            runs.append([match[2]])
    spans = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"{matches[0][1]}[{','.join(spans)}]{matches[0][3]}" if len(spans) <= _SPANS_MAX else None


def _padded(before: str, after: str) -> bool:
    return len(after) == max(len(before), len(str(int(after))))


def _spans(piece: str, pattern: str, *, field: str) -> list[_Span]:
    spans: list[_Span] = []
    for part in piece.split(",")[: _SPANS_MAX + 1]:
        match = _SPAN.fullmatch(part.strip())
        if match is None or len(spans) == _SPANS_MAX:
            raise BadInput(field=field, value=pattern, problem=f"[{piece[:40]}] is not a range", fix=_FIX)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise BadInput(field=field, value=pattern, problem=f"{part.strip()} runs backwards", fix=_FIX)
        spans.append(_Span(first=first, last=last, digits=len(match[1])))
    return spans
