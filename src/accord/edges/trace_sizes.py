"""A trace of requests -> its rate and sizes, as a `Workload` has them.

In: a CSV file with TIMESTAMP, ContextTokens and GeneratedTokens (Azure's), or JSON lines with timestamp in
milliseconds, input_length and output_length (Mooncake's), also gzipped. Out: `TraceSizes`. Invariant: a line that isn't
understood is BadInput with its number; the rate is that of the busiest minute.
"""

import csv
import gzip
import itertools
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.intent import Spread

_LINE_MAX, _REQUESTS_MAX = 1 << 20, 10_000_000
_CSV = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_JSON = ("timestamp", "input_length", "output_length")
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSizes:
    """A trace in few figures. `rate_rps` is that of its busiest minute; `mean_rps` of all of it."""

    requests: int
    span_s: float
    rate_rps: float
    mean_rps: float
    input_tokens: Spread
    output_tokens: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    at_s: float
    inputs: int
    outputs: int


def read_trace_sizes(path: Path, *, field: str) -> TraceSizes:
    """The figures of a trace. BadInput names the file, and the line where there is one."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as lines:
            return _sizes(list(_requests(_bounded(lines, path, field), path, field)), path, field)
    except FileNotFoundError:
        raise BadInput(field=field, value=str(path), problem="no such file", fix="check the path") from None
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        fix = "give a CSV file or JSON lines, in UTF-8, gzipped or not"
        raise BadInput(field=field, value=str(path), problem=f"can't be read: {error}", fix=fix) from error
    except OSError as error:
        raise BrokenEdge(f"{field}: {path}: {error.strerror}; make it readable") from error


def _bounded(lines: Iterator[str], path: Path, field: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if len(line) > _LINE_MAX or number > _REQUESTS_MAX:
            raise _wrong(path, field, number, problem="too long", fix="give a trace of at most ten million short lines")
        yield line


def _requests(lines: Iterator[str], path: Path, field: str) -> Iterator[_Request]:
    first = next(lines, "")
    if first.lstrip().startswith("{"):
        yield from (
            _of_json(line, path, field, number) for number, line in enumerate(itertools.chain([first], lines), 1)
        )
        return
    names = [name.strip() for name in first.split(",")]
    if not set(_CSV) <= set(names):
        fix = f"give a CSV file with {', '.join(_CSV)}, or JSON lines with {', '.join(_JSON)}"
        raise BadInput(field=field, value=str(path), problem="not a trace that is known here", fix=fix)
    places = [names.index(name) for name in _CSV]
    for number, row in enumerate(csv.reader(lines), 2):
        if row:
            yield _of_row(row, places, number, path=path, field=field)


def _of_json(line: str, path: Path, field: str, number: int) -> _Request:
    try:
        values = json.loads(line)
        at_ms, inputs, outputs = (values[name] for name in _JSON)
        return _request(float(at_ms) / 1e3, int(inputs), int(outputs))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise _wrong(path, field, number, problem=f"not a request: {error}", fix=f"write {', '.join(_JSON)}") from error


def _of_row(row: list[str], places: list[int], number: int, *, path: Path, field: str) -> _Request:
    try:
        at, inputs, outputs = (row[place].strip() for place in places)
        return _request(_seconds(at), int(inputs), int(outputs))
    except (ValueError, IndexError) as error:
        raise _wrong(path, field, number, problem=f"not a request: {error}", fix=f"write {', '.join(_CSV)}") from error


def _request(at_s: float, inputs: int, outputs: int) -> _Request:
    if not math.isfinite(at_s) or inputs < 0 or outputs < 0:
        raise ValueError("figures are 0 or more")
    return _Request(at_s=at_s, inputs=inputs, outputs=outputs)


def _seconds(text: str) -> float:
    """A date and time, or plain seconds. Without a zone the clock's jumps aren't known; they are taken for none."""
    try:
        return float(text)
    except ValueError:
        found = datetime.fromisoformat(text)
        return (found.replace(tzinfo=None) - datetime(2000, 1, 1)).total_seconds()  # noqa: DTZ001, differences only


def _sizes(requests: list[_Request], path: Path, field: str) -> TraceSizes:
    if not requests:
        raise BadInput(field=field, value=str(path), problem="no requests", fix="give a trace with some")
    first, last = min(one.at_s for one in requests), max(one.at_s for one in requests)
    minutes = Counter(math.floor((one.at_s - first) / _MINUTE_S) for one in requests)
    span_s = last - first
    # A trace shorter than a minute has no busiest one.
    busiest = max(minutes.values()) / _MINUTE_S if span_s >= _MINUTE_S else len(requests) / max(span_s, 1.0)
    return TraceSizes(
        requests=len(requests),
        span_s=span_s,
        rate_rps=busiest,
        mean_rps=len(requests) / max(span_s, 1.0),
        input_tokens=_spread([one.inputs for one in requests]),
        output_tokens=_spread([one.outputs for one in requests]),
    )


def _spread(counts: list[int]) -> Spread:
    ordered = sorted(counts)
    return Spread(p50=float(max(1, _at(ordered, 0.5))), p99=float(max(1, _at(ordered, 0.99))))


def _at(ordered: list[int], part: float) -> int:
    """The smallest count that this part of all doesn't exceed."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def _wrong(path: Path, field: str, number: int, *, problem: str, fix: str) -> BadInput:
    return BadInput(field=field, value=f"{path}, line {number}", problem=problem, fix=fix)
