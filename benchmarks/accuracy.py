"""How far estimates are from 5,221 measured services, each predicted by a fit that hasn't seen it.

In: `silicon_sample.csv` of the installed wheel aiconfigurator-core. Out: "ttft mape model" and its like: the mean over
all rows of |predicted / measured - 1| where all models of the row's architecture, its device kind, or a fifth of rows
are left out of the fit; medians beside them. Invariant: every row is answered, and none is dropped.
With --write, the fit to all rows goes to estimate/tuning.yaml, and the table to docs/accuracy.md.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from _accuracy_checks import checks
from _accuracy_fit import ENGINES, FIXED, START, Fitted, Problem, effects, fitted, predicted, problem
from _accuracy_roofs import KINDS, stacked, tags
from _accuracy_rows import Row, path, rows
from _accuracy_table import document
from _figures import Figure, write
from accord.edges.tuning_file import FILE, dump_tunings, load_tunings
from accord.estimate.tuned import KERNELS, Effect, Tunings

Array = npt.NDArray[np.float64]
FOLDS = 5
WIDTHS = {"base": 0.25, "usual": 0.06, "release": 0.12, "made": 0.3}
_UNDESCRIBED = 0.15  # the weight of a row whose replicas are guessed: its errors are 2.5 times those of others
BARS = {"tpot mape model": 15, "tpot median model": 10, "ttft mape model": 35, "ttft median model": 20}
BARS = {**BARS, "tpot mape rows": 9, "ttft mape rows": 20}
DOCUMENT = Path(__file__).parent.parent / "docs" / "accuracy.md"
_LEAST = 0.01  # effects nearer to none than this aren't worth a line
_REMARK = """Written by benchmarks/accuracy.py --write: fitted to the 5,221 measured services of
systems/silicon_sample.csv in aiconfigurator-core 0.12.0 (Apache-2.0; public load tests of 2025 and 2026).
Figures of `base` hold for all; an effect is a factor on figures where all of its tags hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Rows with what a fit that hasn't seen them says, in seconds."""

    rows: list[Row]
    ttft_s: Array
    tpot_s: Array

    def errors(self, what: str) -> Array:
        """Percent, by row."""
        said = self.ttft_s if what == "ttft" else self.tpot_s
        seen = np.array([row.ttft_ms if what == "ttft" else row.tpot_ms for row in self.rows]) / 1e3
        return np.asarray(100 * np.abs(said / seen - 1))


def main() -> int:
    """Measures all; 2 if the wheel isn't installed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--write", action="store_true", help="write estimate/tuning.yaml and docs/accuracy.md")
    asked.add_argument("--jobs", type=int, default=2, help="processes that fit at once")
    given = asked.parse_args()
    file = path()
    if file is None:
        print("accuracy: aiconfigurator-core isn't installed; pip install 'aiconfigurator-core==0.12.0'")
        return 2
    found = sorted(rows(file), key=lambda row: row.mode)
    one = posed(found)
    folds = np.random.default_rng(0).integers(0, FOLDS, len(found))
    left_out = {
        "rows": [str(number) for number in folds],
        "model": [row.architecture for row in found],
        "device": [row.kind for row in found],
    }
    judged = {name: judge(one, found, groups, jobs=given.jobs) for name, groups in left_out.items()}
    figures = [item for name, them in judged.items() for item in _figures(name, them)]
    answered = np.isfinite(judged["rows"].ttft_s) & np.isfinite(judged["rows"].tpot_s)
    figures.append(Figure(name="answered", value=float(100 * answered.mean()), unit="%", better="higher", bar=100))
    if given.write:
        everything = fitted(one, weighed(found))
        FILE.write_text(dump_tunings(_tunings(everything, judged["model"]), remark=_REMARK), encoding="utf-8")
        load_tunings.cache_clear()
    figures += (others := list(checks()))
    write("accuracy", figures)
    if given.write:
        errors = {name: _both(them) for name, them in judged.items()}
        DOCUMENT.write_text(document(found, errors, others), encoding="utf-8")
    return 0


def posed(found: Sequence[Row]) -> Problem:
    """Rows as a fit takes them; they are sorted by mode."""
    split = next((number for number, row in enumerate(found) if row.reader is not None), len(found))
    stacks = tuple(stacked(part) for part in (found[:split], found[split:]) if part)
    known = [tags(row) for row in found]
    return problem(
        stacks,
        known,
        effects(known, widths=WIDTHS),
        ttft_s=np.array([row.ttft_ms / 1e3 for row in found]),
        tpot_s=np.array([row.tpot_ms / 1e3 for row in found]),
    )


def judge(one: Problem, found: list[Row], groups: list[str], *, jobs: int) -> Judged:
    """Each group is predicted by a fit to all the others, which begins anew."""
    ttft_s, tpot_s = np.full(len(found), np.nan), np.full(len(found), np.nan)
    names = sorted(set(groups))
    weights = [np.array([float(group != name) for group in groups]) * weighed(found) for name in names]
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        for held, fit in zip(weights, pool.map(fitted, [one] * len(names), weights), strict=True):
            said = predicted(one, fit.values)
            ttft_s[held == 0], tpot_s[held == 0] = said[0][held == 0], said[1][held == 0]
    return Judged(rows=found, ttft_s=ttft_s, tpot_s=tpot_s)


def weighed(found: Sequence[Row]) -> Array:
    """How much a row says."""
    return np.array([1.0 if row.described else _UNDESCRIBED for row in found])


def _both(judged: Judged) -> dict[str, Array]:
    return {what: judged.errors(what) for what in ("tpot", "ttft")}


def _figures(name: str, judged: Judged) -> Iterable[Figure]:
    for what in ("tpot", "ttft"):
        errors = judged.errors(what)
        parts = {"": np.ones(len(errors), dtype=bool)}
        parts[" aggregated"] = np.array([row.reader is None for row in judged.rows])
        parts[" disaggregated"] = ~parts[" aggregated"]
        for part, held in parts.items():
            for kind, value in (("mape", errors[held].mean()), ("median", np.median(errors[held]))):
                full = f"{what} {kind} {name}{part}"
                yield Figure(name=full, value=float(value), unit="%", better="lower", bar=BARS.get(full))


def _tunings(fit: Fitted, judged: Judged) -> Tunings:
    """The figures, as they are shipped; the uncertainty is what two thirds of rows of unseen models stay within."""
    base = {name: float(value) for name, value in FIXED.items()} | dict(START)
    named = []
    for effect, value in zip(fit.effects, fit.values, strict=True):
        factor = float(np.exp(value))
        if not effect.tags:
            base[effect.figures[0]] *= factor
        elif abs(value) > _LEAST:
            figure = "kernels" if effect.figures == KERNELS else effect.figures[0]
            named.append((tuple(sorted(effect.tags)), figure, factor))
    merged: dict[tuple[str, ...], dict[str, float]] = {}
    for own, figure, factor in named:
        merged.setdefault(own, {})[figure] = factor
    return Tunings(
        base=base,
        effects=tuple(Effect(tags=frozenset(own), factors=factors) for own, factors in merged.items()),
        engines=frozenset(ENGINES),
        kinds={**KINDS, "h20": ("hopper",)},
        uncertainty=float(np.quantile(judged.errors("tpot"), 2 / 3)) / 100,
    )


if __name__ == "__main__":
    sys.exit(main())
