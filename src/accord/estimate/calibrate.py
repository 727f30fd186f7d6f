"""Measured calls -> what a device reaches -> the figures that steps are estimated with.

In: `Sample`s, or a `Calibration` with a `DeviceKind` and a `Tuning`. Out: `Reached`; the kind and the tuning with what
was measured in the place of peaks and defaults. Invariant: the formulas are those of `step.py`; what wasn't measured
keeps its relation to what was.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from accord.estimate.least import least_squares
from accord.estimate.performance import NARROW, Tuning
from accord.terms.calibration import Calibration, Kernel, MathRate, Reached, Sample
from accord.terms.estimate import Source
from accord.terms.fleet import DeviceKind, Figure, Rate, Tag
from accord.terms.tensors import Math

Array = npt.NDArray[np.float64]

_SHARPNESS = 2.0  # where the samples hold too few that are bound by both to tell
_NEAR = 0.25  # residuals beyond this weigh less and less: a kernel that was chosen badly tells nothing of the others


def reached(samples: Sequence[Sample]) -> Reached:
    """The rates and overheads that explain the samples best, each by its relative error."""
    found, errors = Reached(), [np.zeros(0)]
    for kernels, fit in _GROUPS:
        group = tuple(item for item in samples if item.kernel in kernels)
        if group:
            found, more = fit(group, found)
            errors.append(more)
    spread = np.abs(np.expm1(np.concatenate(errors)))
    return replace(found, uncertainty=float(np.quantile(spread, 2 / 3)) if spread.size else 0.0)


def predicted_s(sample: Sample, by: Reached) -> float | None:
    """How long this call should take; None where nothing that was measured bears on it."""
    launch_s, rate, speed = _bounds(sample, by)
    if launch_s is None or (sample.flops > 0 and rate is None) or (sample.moved_bytes > 0 and speed is None):
        return None
    sharp = by.sharpness or _SHARPNESS
    compute, memory = sample.flops / (rate or 1.0), sample.moved_bytes / (speed or 1.0)
    longer, shorter = max(compute, memory), min(compute, memory)
    return launch_s + (longer * (1.0 + (shorter / longer) ** sharp) ** (1.0 / sharp) if longer else 0.0)


def _bounds(sample: Sample, by: Reached) -> tuple[float | None, float | None, float | None]:
    """What bears on a call: seconds at least, FLOP/s, bytes a second."""
    plain = next((rate.flops_per_s for rate in by.rates if rate.math is sample.math), None)
    match sample.kernel:
        case Kernel.PREFILL | Kernel.DECODE:
            return by.attention_s, by.attention_flops_per_s, by.cache_bytes_per_s
        case Kernel.EXPERTS:
            part = None if plain is None or by.experts is None else plain * by.experts
            return by.experts_s, part, by.experts_bytes_per_s
        case Kernel.GEMM if by.launch_s is not None:
            return by.launch_s + (by.quantize_s or 0.0) * _narrow(sample), plain, by.bandwidth_bytes_per_s
        case Kernel.GEMM | Kernel.COPY | Kernel.LAUNCH:
            return by.launch_s, None, by.bandwidth_bytes_per_s
        case Kernel.ALL_REDUCE:
            if by.link_latency_s is None or by.collective_s is None or by.link_bytes_per_s is None:
                return None, None, None
            ring = 2.0 * (sample.ranks - 1) / sample.ranks
            return by.link_latency_s + by.collective_s * math.log2(sample.ranks), None, by.link_bytes_per_s / ring


def calibration_of(kind: str, engine: str, known: Sequence[Calibration]) -> Calibration | None:
    """The one of this kind with this engine, else the one of this kind with any; the last of equals."""
    mine = [item for item in known if item.kind == kind and item.engine in (engine, None)]
    return max(mine, key=lambda item: (item.engine is not None, item.taken), default=None)


def calibrated(kind: DeviceKind, tuning: Tuning, by: Calibration) -> tuple[DeviceKind, Tuning]:
    """The kind with rates that are reached as its rates, and the tuning with efficiencies that are relative to them."""
    source = f"{by.tool}, {by.taken}, {by.machine}"
    found = by.reached

    def figure(value: float | None, known: Figure | None) -> Figure | None:
        return known if value is None else Figure(value=value, tag=Tag.MEASURED, source=source)

    told = replace(
        kind,
        memory_bytes=figure(by.memory_bytes, kind.memory_bytes),
        bandwidth_bytes_per_s=figure(found.bandwidth_bytes_per_s, kind.bandwidth_bytes_per_s),
        link_bytes_per_s=figure(found.link_bytes_per_s, kind.link_bytes_per_s),
        link_latency_s=figure(found.link_latency_s, kind.link_latency_s),
        rates=_rates(kind, tuning, found, source),
    )
    return told, _tuning(tuning, found)


def _rates(kind: DeviceKind, tuning: Tuning, found: Reached, source: str) -> tuple[Rate, ...]:
    """Formats that weren't measured count with the part of their peak that the tuning expects."""
    if not found.rates:
        return kind.rates
    expected = {
        rate.math: Rate(
            math=rate.math, flops_per_s=replace(rate.flops_per_s, value=rate.flops_per_s.value * tuning.gemm)
        )
        for rate in kind.rates
    }
    measured = {
        rate.math: Rate(math=rate.math, flops_per_s=Figure(value=rate.flops_per_s, tag=Tag.MEASURED, source=source))
        for rate in found.rates
    }
    both = {**expected, **measured}
    return tuple(both[math] for math in Math if math in both)


def _tuning(tuning: Tuning, found: Reached) -> Tuning:
    """Efficiencies relative to what GEMM and memory reach; overheads as measured."""
    rates = {rate.math: rate.flops_per_s for rate in found.rates}
    wide = next((rates[math] for math in (Math.BF16, Math.F16, Math.F32) if math in rates), None)
    changed = tuning
    if rates:
        changed = replace(
            changed,
            gemm=1.0,
            convolution=min(1.0, tuning.convolution / tuning.gemm),
            experts=min(1.0, tuning.experts / tuning.gemm) if found.experts is None else found.experts,
            attention=_part(found.attention_flops_per_s, wide, tuning.attention / tuning.gemm),
        )
    if found.bandwidth_bytes_per_s is not None:
        whole, kept = found.bandwidth_bytes_per_s, tuning.memory
        changed = replace(
            changed,
            memory=1.0,
            cache=_part(found.cache_bytes_per_s, whole, tuning.cache / kept),
            experts_memory=_part(found.experts_bytes_per_s, whole, tuning.experts_memory / kept),
        )
    if found.link_bytes_per_s is not None:
        changed = replace(changed, link=1.0, collective_s=found.collective_s or tuning.collective_s)
    if found.launch_s is not None:
        # What engines were seen to take a layer is mostly what its attention and its launches take.
        attention_s = max(0.0, (found.attention_s or 0.0) - found.launch_s)
        experts_s = max(0.0, (found.experts_s or 0.0) - found.launch_s)
        changed = replace(
            changed,
            launch_s=found.launch_s,
            quantize_s=found.quantize_s or 0.0,
            layer_s=attention_s,
            experts_s=experts_s,
            whole=1.0,
        )
    return replace(
        changed,
        sharpness=found.sharpness or tuning.sharpness,
        uncertainty=math.hypot(found.uncertainty, _ENGINE_DOUBT),
        source=Source.MODELLED,
    )


# What calls on their own don't show of a whole step: the engine's scheduling, and how calls overlap.
_ENGINE_DOUBT = 0.15


def _part(value: float | None, whole: float | None, otherwise: float) -> float:
    return min(1.0, otherwise) if value is None or whole is None else value / whole


def _narrow(sample: Sample) -> bool:
    return sample.kernel is Kernel.GEMM and sample.math in NARROW


_ATTENDING = "attention"


def _rate_name(sample: Sample) -> str | None:
    """Multiplies have a rate for each format; attention has one, whatever the format."""
    if not sample.flops:
        return None
    return _ATTENDING if sample.kernel in (Kernel.PREFILL, Kernel.DECODE) else f"rate {sample.math}"


class _Columns:
    """Samples of one group as arrays: which rate and which speed each is bound by, as columns of parameters."""

    def __init__(self, samples: Sequence[Sample], *, sharpness: float | None) -> None:
        self.names: list[str] = []
        self.sharpness = sharpness
        self.flops = np.array([item.flops for item in samples])
        self.moved = np.array([item.moved_bytes for item in samples])
        self.told = np.log([item.seconds for item in samples])
        self.narrow = np.array([_narrow(item) for item in samples])
        self.rate = np.array([self._column(_rate_name(item)) for item in samples])
        self.speed = np.array([self._column("speed" if item.moved_bytes else None) for item in samples])

    def _column(self, name: str | None) -> int:
        if name is None:
            return -1
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def fitted(self) -> tuple[Mapping[str, float], Array]:
        """Each parameter by name, and the residuals: launch, quantize, sharpness, speed, `rate FORMAT`."""
        best = np.ones(len(self.names))
        for columns, work in ((self.rate, self.flops), (self.speed, self.moved)):
            for column in range(len(self.names)):
                here = columns == column
                if here.any():
                    best[column] = max(best[column], float((work[here] / np.exp(self.told[here])).max()))
        launch = float(np.exp(self.told.min()))
        # A launch may be most of the shortest call, or next to nothing of it.
        corner = (self.sharpness or _SHARPNESS) - 1.0 + _ALMOST
        starts = [np.log([*best, launch * part, launch * part, corner]) for part in (1.0, 0.03)]
        values = least_squares(self._residuals, starts, near=_NEAR)
        names = (*self.names, "launch", "quantize", "sharpness")
        found = dict(zip(names, (float(value) for value in np.exp(values)), strict=True))
        return {**found, "sharpness": self.sharpness or 1.0 + found["sharpness"]}, self._residuals(values)

    def _residuals(self, values: Array) -> Array:
        rates, sharp = np.exp(values[:-3]), self.sharpness or 1.0 + np.exp(values[-1])
        launch = np.exp(values[-3]) + np.exp(values[-2]) * self.narrow
        compute = np.where(self.rate >= 0, self.flops / rates[self.rate], 0.0)
        memory = np.where(self.speed >= 0, self.moved / rates[self.speed], 0.0)
        longer, shorter = np.maximum(compute, memory), np.minimum(compute, memory)
        ratio = np.divide(shorter, longer, out=np.zeros_like(longer), where=longer > 0)
        return np.asarray(np.log(launch + longer * (1.0 + ratio**sharp) ** (1.0 / sharp)) - self.told)


_ALMOST = 1e-9


def _matrices(samples: Sequence[Sample], found: Reached) -> tuple[Reached, Array]:
    """Matrix multiplies, copies and empty calls: the ground that the other groups stand on."""
    by, errors = _Columns(samples, sharpness=None).fitted()
    rates = tuple(MathRate(math=item, flops_per_s=by[f"rate {item}"]) for item in Math if f"rate {item}" in by)
    told = replace(
        found,
        rates=rates,
        bandwidth_bytes_per_s=by.get("speed"),
        launch_s=by["launch"],
        quantize_s=by["quantize"] if any(map(_narrow, samples)) else None,
        sharpness=by["sharpness"] if rates else None,
    )
    return told, errors


def _attention(samples: Sequence[Sample], found: Reached) -> tuple[Reached, Array]:
    by, errors = _Columns(samples, sharpness=found.sharpness).fitted()
    told = replace(found, attention_flops_per_s=by[_ATTENDING], cache_bytes_per_s=by["speed"], attention_s=by["launch"])
    return told, errors


def _experts(samples: Sequence[Sample], found: Reached) -> tuple[Reached, Array]:
    """The experts' rates as one part of those of plain multiplies, whatever the format."""
    by, errors = _Columns(samples, sharpness=found.sharpness).fitted()
    plain = {f"rate {rate.math}": rate.flops_per_s for rate in found.rates}
    parts = [math.log(by[name] / rate) for name, rate in plain.items() if name in by]
    part = math.exp(sum(parts) / len(parts)) if parts else None
    return replace(found, experts=part, experts_bytes_per_s=by["speed"], experts_s=by["launch"]), errors


def _links(samples: Sequence[Sample], found: Reached) -> tuple[Reached, Array]:
    """With what all-reduces show: a ring's bytes one way, and a latency that grows with a tree's depth."""
    hops = np.log2([item.ranks for item in samples])
    sent = np.array([2.0 * (item.ranks - 1) / item.ranks * item.moved_bytes for item in samples])
    told = np.log([item.seconds for item in samples])

    def residuals(tried: Array) -> Array:
        speed, hop, once = np.exp(tried)
        return np.asarray(np.log(once + hop * hops + sent / speed) - told)

    least = float(np.exp(told).min()) / 2
    start = np.log([float((sent / np.exp(told)).max()), least, least])
    values = least_squares(residuals, [start], near=_NEAR)
    speed, hop, once = (float(value) for value in np.exp(values))
    return replace(found, link_bytes_per_s=speed, collective_s=hop, link_latency_s=once), residuals(values)


# Later groups stand on what earlier ones found.
_GROUPS: tuple[tuple[tuple[Kernel, ...], Callable[[Sequence[Sample], Reached], tuple[Reached, Array]]], ...] = (
    ((Kernel.GEMM, Kernel.COPY, Kernel.LAUNCH), _matrices),
    ((Kernel.PREFILL, Kernel.DECODE), _attention),
    ((Kernel.EXPERTS,), _experts),
    ((Kernel.ALL_REDUCE,), _links),
)
