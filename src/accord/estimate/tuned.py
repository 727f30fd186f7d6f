"""From what is known of a replica to what its engine reaches.

In: `Tunings` (basic figures, and effects with the tags they hold for), the tags of a replica. Out: `Tuning` and
`Serving`. Invariant: an effect is a factor on a named figure, and holds where all its tags are; a replica of which
nothing is known gets the basic figures.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from accord.estimate.performance import Tuning
from accord.estimate.steady import Serving
from accord.terms.architecture import Architecture, Needs, Stored
from accord.terms.estimate import Source
from accord.terms.fleet import DeviceKind
from accord.terms.tensors import Quantization
from accord.terms.work import Attention, Experts, Scan

Made = TypeVar("Made")

# One factor for all that a kernel costs apart from its work.
KERNELS = ("launch_s", "quantize_s", "layer_s", "experts_s", "scan_s")
# Parts of a peak: no product of factors takes them beyond all of it.
PARTS = ("gemm", "convolution", "memory", "experts", "experts_memory", "cache", "attention", "link")
TUNED = tuple(item.name for item in fields(Tuning) if item.name not in ("uncertainty", "source"))
SERVED = tuple(item.name for item in fields(Serving))


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Factors on figures, where all of `tags` hold."""

    tags: frozenset[str]
    factors: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunings:
    """Figures and effects. `uncertainty` is relative, for engines that were measured; others get that of `Tuning`.

    `kinds` has the tags of device kinds.
    """

    base: Mapping[str, float]
    effects: tuple[Effect, ...]
    engines: frozenset[str]
    kinds: Mapping[str, tuple[str, ...]]
    uncertainty: float


FORMATS = {
    Quantization.NONE: "bf16",
    Quantization.FP8: "fp8",
    Quantization.FP8_CHANNEL: "fp8",
    Quantization.FP8_BLOCK: "fp8",
    Quantization.MXFP8: "fp8",
    Quantization.INT8: "int8",
    Quantization.INT4_GROUP: "int4",
    Quantization.MXFP4: "fp4",
    Quantization.NVFP4: "fp4",
}


def tags_of(
    needs: Needs, stored: Stored, *, kind: Iterable[str] = (), engine: str = "", release: str = ""
) -> frozenset[str]:
    """What is known of a replica of a stage. `kind` are the tags of its device's kind."""
    attending = [item for item in needs.operators if isinstance(item, Attention)]
    routed = any(isinstance(item, Experts) for item in needs.operators)
    named = (
        (engine, bool(engine)),
        (f"{engine} {release}", bool(engine and release)),
        ("experts" if routed else "dense", True),
        ("recurrent", any(isinstance(item, Scan) for item in needs.operators)),
        ("latent", any(item.values_in_keys for item in attending)),
        ("window", any(item.span is not None for item in attending)),
        (FORMATS[stored.quantization], True),
    )
    return frozenset((*kind, *(name for name, holds in named if holds)))


def reaching(tunings: Tunings, architecture: Architecture) -> Callable[[DeviceKind, str], Tuning]:
    """What an engine reaches on a kind with the largest stage of a model."""
    stages = zip(architecture.needs, architecture.stored, strict=True)
    needs, stored = max(stages, key=lambda stage: stage[0].parameters)

    def found(kind: DeviceKind, engine: str) -> Tuning:
        family = engine.partition("-")[0]  # vLLM-Omni runs decoders as vLLM does
        tags = tags_of(needs, stored, kind=tunings.kinds.get(kind.name, ()), engine=family)
        return tuned(tunings, tags)[0]

    return found


def tuned(tunings: Tunings, tags: frozenset[str]) -> tuple[Tuning, Serving]:
    """The figures of a replica with these tags."""
    found = dict(tunings.base)
    for effect in tunings.effects:
        if effect.tags <= tags:
            for name, factor in effect.factors.items():
                for one in KERNELS if name == "kernels" else (name,):
                    if one in found:
                        found[one] *= factor
    found = {name: min(1.0, value) if name in PARTS else value for name, value in found.items()}
    known = bool(tunings.engines & tags) and any(tags.issuperset(own) for own in tunings.kinds.values())
    tuning = _filled(Tuning, found, TUNED)
    if known:
        tuning = replace(tuning, uncertainty=tunings.uncertainty, source=Source.MODELLED)
    return tuning, _filled(Serving, found, SERVED)


def _filled(make: Callable[..., Made], figures: Mapping[str, float], names: tuple[str, ...]) -> Made:
    return make(**{name: figures[name] for name in names if name in figures})
