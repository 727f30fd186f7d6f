"""How fast kinds are with the engine that a model needs.

In: an `Architecture`, tunings. Out: `Perform`, which has the `Performance` of a kind or says what is unknown.
Invariant: a kind without a tuning of its own gets the default, tagged assumed.
"""

from collections.abc import Callable

from accord.estimate.performance import Performance, Tuning, performance
from accord.plan.fleet.supply import Supply
from accord.plan.fleet.types import Perform
from accord.terms.architecture import Architecture
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


def perform_of(architecture: Architecture, tunings: Tunings = assumed) -> Perform:
    """The performance of each kind for this model."""
    engine = engine_of(architecture)

    def found(supply: Supply) -> Performance | Refusal:
        return performance(
            supply.kind, tunings(supply.kind, engine), engine=engine, node_cards=supply.linked,
            network_bytes_per_s=supply.network,
        )  # fmt: skip

    return found
