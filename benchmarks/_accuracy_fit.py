"""Fits the figures of `estimate/tuning.yaml` to measured rows.

In: rows' tags and stacked work, what was measured, weights. Out: `Fitted`. Invariant: predictions come from
`estimate/step.py` and `estimate/steady.py` themselves; each effect is named, and drawn to "none" by its own width, so
that an engine's version or a model that wasn't seen gets what is known of the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from _accuracy_roofs import Stack
from accord.estimate.performance import Tuning
from accord.estimate.steady import Seen, Serving, Work, apart, together
from accord.estimate.step import timed
from accord.estimate.tuned import KERNELS, PARTS, SERVED, TUNED

Array = npt.NDArray[np.float64]

# Where the fit begins: what kernels of good libraries reach, and what a step of a good engine takes.
START: Mapping[str, float] = {
    "gemm": 0.6, "memory": 0.8, "experts": 0.4, "experts_memory": 0.8, "expert_tile": 16.0, "cache": 0.7,
    "attention": 0.4, "link": 0.4, "collective_s": 3e-6, "step_s": 1e-3, "layer_s": 8e-6, "launch_s": 2e-6,
    "quantize_s": 2e-6, "experts_s": 15e-6, "scan_s": 15e-6, "eager_s": 1.5e-5, "sequence_s": 5e-6, "imbalance": 0.3,
    "whole": 1.0, "read_share": 0.9, "wait_steps": 2.0, "burst": 0.15, "first": 1.0, "first_s": 0.03,
    "seat_wait": 1.0, "gained": 1.0, "draft_batch": 60.0, "pool": 0.5, "pool_burst": 0.3, "pool_wait_steps": 10.0,
    "pool_first_s": 0.06,
}  # fmt: skip
FIXED: Mapping[str, Any] = {"sharpness": 2.0, "convolution": 0.4}
_UNSURE = frozenset((
    "step_s", "sequence_s", "wait_steps", "burst", "first_s", "eager_s", "pool", "pool_burst", "pool_wait_steps",
    "pool_first_s", "draft_batch", "gained", "whole", "first",
))  # fmt: skip
ENGINES = ("sglang", "trtllm", "vllm")
_FORMS = ("fp8", "fp4", "int4")
_KINDS_OF_ATTENTION = ("latent", "recurrent", "window")
ERROR = (0.08, 0.25)  # of TPOT and of TTFT: what a good prediction is off by
_MARGIN = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An effect on figures where all of `tags` hold; `width` is the logarithm that it is expected to stay within."""

    figures: tuple[str, ...]
    tags: frozenset[str]
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Rows as a fit takes them, stack after stack. `held[n]` is where effect n holds, 0 or 1 by row."""

    stacks: tuple[Stack, ...]
    effects: tuple[Named, ...]
    held: Array
    ttft_s: Array
    tpot_s: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The logarithm of each effect's factor."""

    effects: tuple[Named, ...]
    values: Array


def effects(tags: Iterable[frozenset[str]], *, widths: Mapping[str, float]) -> tuple[Named, ...]:
    """All that can be told apart: base figures, engines, formats, kinds of attention, versions, implementations."""
    seen = frozenset().union(*tags)
    usual = widths["usual"]

    def each(figure: str, *groups: Sequence[str], width: float = usual) -> list[Named]:
        return [Named(figures=_figures(figure), tags=frozenset(tags), width=width) for tags in product(*groups)]

    found = [_base(figure, widths["base"]) for figure in START]
    for figure in ("gemm", "memory", "experts", "experts_memory"):
        found += each(figure, ENGINES) + each(figure, _FORMS) + each(figure, ["hopper"])
    for figure in ("experts", "experts_memory"):
        found += each(figure, ENGINES, _FORMS, ["experts"])
    found += each("experts_memory", ["hopper"], _FORMS) + each("expert_tile", ENGINES) + each("expert_tile", _FORMS)
    found += each("cache", ENGINES) + each("cache", _KINDS_OF_ATTENTION) + each("cache", ["hopper"])
    found += each("cache", ENGINES, _KINDS_OF_ATTENTION)
    found += each("attention", ENGINES) + each("attention", _KINDS_OF_ATTENTION) + each("attention", ["hopper"])
    for figure in ("collective_s", "link", "step_s", "kernels"):
        found += each(figure, ENGINES) + each(figure, ["hopper"])
    found += each("kernels", ENGINES, ["hopper"]) + each("quantize_s", ENGINES)
    found += each("layer_s", _KINDS_OF_ATTENTION) + each("layer_s", ENGINES, _KINDS_OF_ATTENTION)
    found += each("experts_s", ENGINES) + each("experts_s", _FORMS) + each("sequence_s", ENGINES)
    found += each("eager_s", ENGINES) + each("gained", ["disaggregated"])
    found += each("whole", ["data-parallel"]) + each("whole", ENGINES, ["disaggregated"])
    found += each("whole", ["data-parallel"], ["disaggregated"]) + each("whole", ["undescribed"])
    found += each("read_share", ENGINES, ["even"], width=1.0)
    for figure in ("burst", "wait_steps"):
        found += each(figure, ENGINES, width=0.4) + each(figure, ["even"], width=0.4)
    found += each("burst", ENGINES, ["even"], width=0.8) + each("burst", ["data-parallel"], width=0.4)
    for figure in ("first_s", "pool", "pool_burst", "pool_wait_steps", "pool_first_s"):
        found += each(figure, ENGINES, width=0.4)
    releases = sorted(tag for tag in seen if tag.split(" ")[0] in ENGINES and " " in tag)
    made = sorted(tag for tag in seen if " in " in tag)
    found += each("whole", releases, width=widths["release"]) + each("whole", made, width=widths["made"])
    found += each("first", releases, width=0.3) + each("first", made, width=widths["made"])
    found += each("first_s", releases, width=0.3) + each("pool_first_s", releases, width=0.4)
    found += each("burst", releases, ["even"], width=0.3)
    return tuple(found)


def _base(figure: str, width: float) -> Named:
    return Named(figures=(figure,), tags=frozenset(), width=3 * width if figure in _UNSURE else width)


def _figures(figure: str) -> tuple[str, ...]:
    return KERNELS if figure == "kernels" else (figure,)


def problem(
    stacks: tuple[Stack, ...], tags: Sequence[frozenset[str]], named: tuple[Named, ...], *, ttft_s: Array, tpot_s: Array
) -> Problem:
    """The rows and effects, ready to be fitted."""
    held = np.array([[float(effect.tags <= own) for own in tags] for effect in named])
    return Problem(stacks=stacks, effects=named, held=held, ttft_s=ttft_s, tpot_s=tpot_s)


def predicted(given: Problem, values: Array) -> tuple[Array, Array]:
    """TTFT and TPOT of all rows, in seconds."""
    return _seen(given.stacks, _figures_of(given, values))


def fitted(given: Problem, weights: Array, *, start: Array | None = None, rounds: int = 12) -> Fitted:
    """Levenberg and Marquardt's method on soft-L1 losses; at the end on relative errors, as they are judged."""
    values = np.zeros(len(given.effects)) if start is None else start.copy()
    for relative, some in ((False, rounds), (True, max(3, rounds // 2))):
        values = _descend(given, weights, values, relative=relative, rounds=some)
    return Fitted(effects=given.effects, values=values)


def _figures_of(given: Problem, values: Array) -> dict[str, Array]:
    logs = {name: np.full(given.held.shape[1], np.log(START[name])) for name in START}
    for effect, held, value in zip(given.effects, given.held, values, strict=True):
        for name in effect.figures:
            logs[name] = logs[name] + held * value
    return {name: np.exp(np.minimum(log, 0.0) if name in PARTS else log) for name, log in logs.items()}


def _seen(stacks: tuple[Stack, ...], figures: Mapping[str, Array]) -> tuple[Array, Array]:
    found, begin = [], 0
    for stack in stacks:
        end = begin + len(stack.batches)
        found.append(_seen_of(stack, {name: value[begin:end] for name, value in figures.items()}))
        begin = end
    return np.concatenate([item.ttft_s for item in found]), np.concatenate([item.tpot_s for item in found])


def _seen_of(stack: Stack, figures: Mapping[str, Array]) -> Seen:
    """By the code that plans are made with, which takes arrays where it names floats."""
    arrays: dict[str, Any] = {name: value[:, None] for name, value in figures.items() if name in TUNED}
    served: dict[str, Any] = {name: value for name, value in figures.items() if name in SERVED}
    tuning, serving = Tuning(**FIXED, **arrays), Serving(**served)
    writing, reading = timed(stack.writing, tuning).total, timed(stack.reading, tuning).total
    work = Work(batches=stack.batches, write_s=writing[:, :-1], mixed_s=writing[:, -1], alone_s=reading[:, 0])
    return (apart if stack.apart else together)(stack.crowd, work, serving)


def _errors(given: Problem, figures: Mapping[str, Array], *, relative: bool) -> Array:
    ttft_s, tpot_s = _seen(given.stacks, figures)
    logs = np.stack([np.log(tpot_s / given.tpot_s), np.log(ttft_s / given.ttft_s)])
    if relative:
        logs = np.where(logs > 0, np.expm1(np.minimum(logs, 3.0)), logs)
    found: Array = logs / np.array(ERROR)[:, None]
    return found


def _descend(given: Problem, weights: Array, values: Array, *, relative: bool, rounds: int) -> Array:
    widths = np.array([effect.width for effect in given.effects])

    def loss(errors: Array, at: Array) -> float:
        return float(2 * (weights * (np.sqrt(1 + errors**2) - 1)).sum() + ((at / widths) ** 2).sum())

    here = _errors(given, _figures_of(given, values), relative=relative)
    best, damping = loss(here, values), 1e-2
    for _ in range(rounds):
        normal, downhill = _normal(given, weights, values, here, relative=relative)
        normal += np.diag(widths**-2.0)
        downhill += values / widths**2
        gain = 0.0
        for _ in range(6):
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -downhill)
            tried = values + np.clip(step, -0.7, 0.7)
            errors = _errors(given, _figures_of(given, tried), relative=relative)
            if (found := loss(errors, tried)) < best:
                gain, values, here, best, damping = best - found, tried, errors, found, max(damping / 4, 1e-6)
                break
            damping *= 6
        if gain < 2e-4 * best:
            break
    return values


def _normal(given: Problem, weights: Array, values: Array, here: Array, *, relative: bool) -> tuple[Array, Array]:
    """The normal equations. Rows are apart from each other, so one look aside a figure serves all its effects."""
    figures = _figures_of(given, values)
    slopes = {}
    for name in figures:
        aside = {**figures, name: figures[name] * np.exp(_MARGIN)}
        slopes[name] = (_errors(given, aside, relative=relative) - here) / _MARGIN
    columns = np.zeros((len(given.effects), *here.shape))
    for number, effect in enumerate(given.effects):
        columns[number] = sum((slopes[name] for name in effect.figures), start=np.zeros(())) * given.held[number]
    flat = columns.reshape(len(columns), -1)
    scaled = (weights / np.sqrt(1 + here**2)).reshape(-1)
    return (flat * scaled) @ flat.T, (flat * scaled) @ here.reshape(-1)
