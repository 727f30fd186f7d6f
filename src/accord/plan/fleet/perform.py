"""How fast kinds are with the engine that a model needs.

In: an `Architecture`, tunings, calibrations. Out: `Perform`, which has the `Performance` of a kind or says what is
unknown. Invariant: what was measured of a kind goes before its data sheet and before its tuning; a kind without either
gets the default, tagged assumed.
"""

from collections.abc import Callable

from accord.estimate.calibrate import calibrated, calibration_of
from accord.estimate.performance import Performance, Tuning, performance
from accord.plan.fleet.supply import Supply
from accord.plan.fleet.types import Perform
from accord.terms.architecture import Architecture
from accord.terms.calibration import Calibration
from accord.terms.fleet import DeviceKind
from accord.terms.refusal import Refusal

VLLM, OMNI = "vllm", "vllm-omni"

# What an engine reaches on a kind.
Tunings = Callable[[DeviceKind, str], Tuning]


def assumed(_: DeviceKind, __: str) -> Tuning:
    """The default for everything."""
    return Tuning()


def engine_of(architecture: Architecture) -> str:
    """vLLM runs models of one stage, vLLM-Omni graphs of several."""
    return VLLM if len(architecture.graph.stages) == 1 else OMNI


def perform_of(
    architecture: Architecture, tunings: Tunings = assumed, calibrations: tuple[Calibration, ...] = ()
) -> Perform:
    """The performance of each kind for this model."""
    engine = engine_of(architecture)

    def found(supply: Supply) -> Performance | Refusal:
        kind, tuning = supply.kind, tunings(supply.kind, engine)
        measured = calibration_of(kind.name, VLLM if engine == OMNI else engine, calibrations)
        if measured is not None:
            kind, tuning = calibrated(kind, tuning, measured)
        steps = () if measured is None else measured.steps
        return performance(
            kind, tuning, engine=engine, steps=steps, node_cards=supply.linked,
            network_bytes_per_s=supply.network,
        )  # fmt: skip

    return found
