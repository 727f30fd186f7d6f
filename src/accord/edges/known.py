"""What is known of devices beyond the catalog: how engines fared on them, and what was measured of them here.

In: an `Architecture`, the home folder. Out: `Given`. Invariant: a file that is broken is said, not passed over.
"""

from pathlib import Path

from accord.edges.calibration_file import kept
from accord.edges.tuning_file import load_tunings
from accord.estimate.performance import Tuning
from accord.estimate.tuned import tuned
from accord.plan.fleet.question import Given
from accord.terms.architecture import Architecture
from accord.terms.fleet import DeviceKind
from accord.terms.tensors import Quantization
from accord.terms.work import Experts

_FORMATS = {
    Quantization.FP8: "fp8", Quantization.FP8_CHANNEL: "fp8", Quantization.FP8_BLOCK: "fp8", Quantization.MXFP8: "fp8",
    Quantization.NVFP4: "fp4", Quantization.MXFP4: "fp4", Quantization.INT4_GROUP: "int4",
}  # fmt: skip


def known(architecture: Architecture, home: Path) -> Given:
    """Tunings that travel with Accord, and the calibrations that are kept here."""
    tunings, model = load_tunings(), _tags(architecture)

    def found(kind: DeviceKind, engine: str) -> Tuning:
        # vLLM-Omni runs its stages in vLLM.
        tags = frozenset((engine.removesuffix("-omni"), *tunings.kinds.get(kind.name, ()))) | model
        return tuned(tunings, tags)[0]

    return Given(tunings=found, calibrations=kept(home))


def _tags(architecture: Architecture) -> frozenset[str]:
    """What the published weights tell: their format, and whether there are experts."""
    formats = {_FORMATS[stored.quantization] for stored in architecture.stored if stored.quantization in _FORMATS}
    experts = any(isinstance(item, Experts) for needs in architecture.needs for item in needs.operators)
    return frozenset((*formats, *(("experts",) if experts else ())))
