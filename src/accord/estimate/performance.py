"""What a kind of device reaches with an engine.

In: a `DeviceKind`, efficiencies and overheads of an engine on it. Out: `Performance`, or a Refusal that names the
figure which nobody knows. Invariant: peak rates are the catalog's; an efficiency says where it is from, and a kind
that nobody has measured gets the default, tagged assumed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from accord.terms.calibration import StepGrid
from accord.terms.estimate import Source
from accord.terms.fleet import DeviceKind, Figure, Tag
from accord.terms.refusal import Refusal
from accord.terms.tensors import Math

# What is multiplied in where the device lacks a format: weights are brought to the next one on the way.
FALLBACKS: Mapping[Math, tuple[Math, ...]] = {
    Math.FP4: (Math.FP4, Math.FP8, Math.BF16, Math.F16),
    Math.FP8: (Math.FP8, Math.BF16, Math.F16),
    Math.INT8: (Math.INT8, Math.FP8, Math.BF16, Math.F16),
    Math.BF16: (Math.BF16, Math.F16, Math.F32),
    Math.F16: (Math.F16, Math.BF16, Math.F32),
    Math.F32: (Math.F32,),
}
NARROW = frozenset((Math.FP8, Math.INT8, Math.FP4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Parts of the peak that an engine reaches, and what each step costs besides; see estimate/tuning.yaml.

    Efficiencies are 0 to 1. `sharpness` is the p of the norm that joins compute and memory time of one class (large:
    the longer one alone). `step_s` is paid once a step, `layer_s` once a layer, `scan_s` besides by one with a
    recurrence and `experts_s` by one with experts, whose call is several kernels; `launch_s` once a kernel,
    `quantize_s` besides by each matrix multiply in fewer than 16 bits: its activations are brought there first;
    `eager_s` by each kernel of a step that reads prompts (those of others are launched as one graph);
    `sequence_s` once a sequence, `collective_s` by each all-reduce, times log2 of its ranks. `expert_tile` is the
    number of units that a kernel charges an expert with at least. `imbalance` is how much longer the fullest of
    expert-parallel ranks takes. `whole` is a factor on all of it. `uncertainty` is relative.
    """

    gemm: float = 0.6
    convolution: float = 0.4
    experts: float = 0.5
    attention: float = 0.4
    memory: float = 0.75
    experts_memory: float = 0.75
    cache: float = 0.6
    link: float = 0.6
    sharpness: float = 2.0
    step_s: float = 1.0e-3
    layer_s: float = 20e-6
    launch_s: float = 0.0
    quantize_s: float = 0.0
    experts_s: float = 0.0
    scan_s: float = 0.0
    eager_s: float = 0.0
    sequence_s: float = 0.0
    expert_tile: float = 0.0
    collective_s: float = 8e-6
    imbalance: float = 0.3
    whole: float = 1.0
    uncertainty: float = 0.4
    source: Source = Source.ASSUMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """A kind with an engine, in plain figures. `rates` has each format's peak FLOP/s; links are one way.

    `node_cards` is how many devices share fast links; beyond them `network_bytes_per_s` joins nodes. `steps` are whole
    steps that are known of some models.
    """

    kind: str
    engine: str
    rates: Mapping[Math, float]
    memory_bytes: int
    memory_bytes_per_s: float
    link_bytes_per_s: float
    link_latency_s: float
    network_bytes_per_s: float
    network_latency_s: float
    node_cards: int
    tuning: Tuning
    source: Source
    uncertainty: float
    steps: tuple[StepGrid, ...] = ()

    def rate(self, wanted: Math) -> float:
        """Peak FLOP/s for weights of this format, by the first fallback that the device has."""
        return self.rates[self.multiplies_in(wanted)]

    def multiplies_in(self, wanted: Math) -> Math:
        """The format that weights of this one are multiplied in here."""
        for choice in FALLBACKS[wanted]:
            if choice in self.rates:
                return choice
        return max(self.rates, key=lambda choice: self.rates[choice])


NETWORK_BYTES_PER_S = 25e9  # 200 Gbit/s a device, where the fleet doesn't say
NETWORK_LATENCY_S = 10e-6
LINK_LATENCY_S = 4e-6
PCIE_BYTES_PER_S = 25e9  # PCIe 4.0 x16 as reached, where a kind has no link of its own


def performance(
    kind: DeviceKind,
    tuning: Tuning,
    *,
    engine: str,
    node_cards: int = 8,
    network_bytes_per_s: float = NETWORK_BYTES_PER_S,
    steps: tuple[StepGrid, ...] = (),
) -> Performance | Refusal:
    """The figures of a kind, or which one is unknown."""
    memory, bandwidth, link = kind.memory_bytes, kind.bandwidth_bytes_per_s, kind.link_bytes_per_s
    if memory is None or bandwidth is None or not kind.rates:
        return _unknown(kind, "memory" if memory is None else "bandwidth" if bandwidth is None else "rates")
    figures = [memory, bandwidth, *(rate.flops_per_s for rate in kind.rates)]
    return Performance(
        kind=kind.name,
        engine=engine,
        rates={rate.math: rate.flops_per_s.value for rate in kind.rates},
        memory_bytes=int(memory.value),
        memory_bytes_per_s=bandwidth.value,
        link_bytes_per_s=PCIE_BYTES_PER_S if link is None else link.value,
        link_latency_s=LINK_LATENCY_S if kind.link_latency_s is None else kind.link_latency_s.value,
        network_bytes_per_s=network_bytes_per_s,
        network_latency_s=NETWORK_LATENCY_S,
        node_cards=node_cards,
        tuning=tuning,
        source=tuning.source,
        uncertainty=_uncertainty(figures, tuning),
        steps=steps,
    )


def _unknown(kind: DeviceKind, figure: str) -> Refusal:
    return Refusal(
        field=f"devices.{kind.name}.{figure}",
        value="unknown",
        limit="needed to estimate anything on this kind",
        causes=(f"the catalog has no {figure} of {kind.name}",),
        fix=(f"write it in the fleet's `devices: {{{kind.name}: {{{figure}: ...}}}}`", f"accord profile {kind.name}"),
    )


def _uncertainty(figures: list[Figure], tuning: Tuning) -> float:
    """A reported or assumed peak makes the product as uncertain as itself."""
    doubt = {Tag.MEASURED: 0.0, Tag.DATASHEET: 0.0, Tag.REPORTED: 0.15, Tag.ASSUMED: 0.3}
    worst = max(doubt[figure.tag] for figure in figures)
    return math.hypot(tuning.uncertainty, worst)
