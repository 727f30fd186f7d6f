"""The table of docs/accuracy.md.

In: rows, and errors in percent by what was left out. Out: the document. Invariant: all rows are in each table; what
is far off stands there like the rest.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from _accuracy_rows import Row
from _figures import Figure

Array = npt.NDArray[np.float64]
Errors = Mapping[str, Mapping[str, Array]]
_WORST = 25

_HEAD = """# Accuracy of estimates

Written by `.venv/bin/python benchmarks/accuracy.py --write`, which needs the wheel `aiconfigurator-core` 0.12.0: it
holds 5,221 measured end-to-end services (H100, H200, B200, B300, GB200, GB300; vLLM, SGLang, TensorRT-LLM; mean TTFT
and TPOT of public load tests). Every row is answered; none is left out. An error is |predicted / measured - 1|, in
percent, as "mean / median" over rows.

*Model left out*: predicted by a fit that saw no row of the same architecture (DeepSeek-R1 and V3 count as one).
*Device left out*: likewise with the device kind. *Rows held out*: five random folds.

The prediction is `estimate/step.py` (the work of a step at the device's peak rates, divided by what engines reach)
and `estimate/steady.py` (what a steady crowd sees). What is fitted are the figures of `estimate/tuning.yaml`: some 30
physical ones (parts of the peak that are reached, seconds a kernel, a layer, a step, a sequence), and named effects of
engines, formats, kinds of attention, versions and implementations of an architecture, each drawn to "none". Which
effects there are, and how far each may go, was decided while looking at these rows; the figures never saw the rows
that they are judged by.

## What limits it

- Most disaggregated rows don't say how many replicas they had, nor whether a draft model was used. The same
  configuration stands in the file with TPOTs of 4.9 and 9.8 ms (DeepSeek-R1, fp8, SGLang, B200, 4 requests). Where a
  described row has the same load, its replicas are taken; for the others the nearest ones'.
- Mean TTFTs hold stalls of a first use (kernels that are compiled during the test): 7 to 9 s where neighbours have
  0.3 s, at one load and not at the next.
- Repeated measurements of one configuration on the same engine and version differ by 3.0% (TTFT) and 2.0% (TPOT) in
  the mean; on any version of the engine by 8.5% and 5.2%; on any engine by 69.8% and 12.3%.
- How well an engine runs an architecture isn't in its work: the fitted factors of `X in Y` of `estimate/tuning.yaml`
  differ from each other by 23% (TPOT) and 36% (TTFT) in standard deviation, after everything else. A prediction that
  hasn't seen the pair can't know its own.
- An unseen architecture meets kernels that nobody has timed on it: vLLM 0.12 takes 40 to 55 ms a token for
  Qwen3-235B, twice what its work explains.
"""

_UNTUNED = """
## On devices that no fit has seen

What a plan would count with on these kinds, against published measurements (sources in
`benchmarks/_accuracy_checks.py`); nothing is fitted to them. Prefill and FlagPerf's are rates (below 1: cautious),
decode's are times a token (above 1: cautious). CloudMatrix's engine overlaps two batches, which the estimate doesn't
count. MLPerf's is the sum of the parts, of which the measured fleet reached 94%; the parts themselves are estimated
with the default efficiencies.
"""


def document(rows: Sequence[Row], errors: Errors, checks: Sequence[Figure]) -> str:
    """The whole text."""
    parts = [_HEAD, "## All rows\n", _overall(rows, errors)]
    for title, key in (
        ("description", _description),
        ("model", lambda row: row.model),
        ("device", lambda row: row.kind),
        ("engine", lambda row: row.engine),
        ("format", lambda row: row.form),
        ("tokens in and out", lambda row: f"{row.inputs / _length(row):.0f} / {row.outputs / _length(row):.0f}"),
    ):
        parts += [f"## By {title}\n", _table(title, rows, errors, key)]
    parts += ["## Furthest off\n", _worst(rows, errors), _UNTUNED]
    parts += [
        "| check | predicted / measured |\n|---|---:|",
        *(f"| {item.name} | {item.value:.2f} |" for item in checks),
    ]
    return "\n".join(parts) + "\n"


def _length(row: Row) -> float:
    return 1.0 if row.even else 0.9


def _description(row: Row) -> str:
    if row.reader is None:
        return "aggregated" + (", with drafts" if row.drafts else "")
    if row.described:
        return "disaggregated, replicas named"
    return "disaggregated, replicas guessed" + (", and drafts" if row.drafts else "")


def _overall(rows: Sequence[Row], errors: Errors) -> str:
    return _table("mode", rows, errors, lambda row: row.mode, total=True)


def _table(title: str, rows: Sequence[Row], errors: Errors, key: Callable[[Row], str], *, total: bool = False) -> str:
    columns = [(left, what) for left in ("model", "device", "rows") for what in ("tpot", "ttft")]
    heads = [f"{what.upper()}, {'rows held out' if left == 'rows' else f'{left} left out'}" for left, what in columns]
    lines = [f"| {title} | rows | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]
    keys = np.array([key(row) for row in rows])
    names = sorted(set(keys), key=lambda name: -int((keys == name).sum()))
    for name in (["all"] if total else []) + names[:_WORST]:
        held = np.ones(len(rows), dtype=bool) if name == "all" and total else keys == name
        cells = [
            f"{errors[left][what][held].mean():.1f} / {np.median(errors[left][what][held]):.1f}"
            for left, what in columns
        ]
        lines.append(f"| {name} | {int(held.sum())} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _worst(rows: Sequence[Row], errors: Errors) -> str:
    """Groups by their part of all errors of TPOT where rows are held out."""
    keys = np.array([f"{row.model} | {row.kind} | {row.engine} {row.release} | {row.mode}" for row in rows])
    own = errors["rows"]
    lines = ["| model | device | engine | mode | rows | TPOT | TTFT |", "|---|---|---|---|---:|---:|---:|"]
    names = sorted(set(keys), key=lambda name: -float(own["tpot"][keys == name].sum()))
    for name in names[:_WORST]:
        held = keys == name
        cells = [f"{own[what][held].mean():.1f} / {np.median(own[what][held]):.1f}" for what in ("tpot", "ttft")]
        lines.append(f"| {name} | {int(held.sum())} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
