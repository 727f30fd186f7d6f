"""Plans of fake stages, for tests and benchmarks of the runtime without models."""

from accord.terms.graph import DOOR, Batching, Capability, Edge, Payload, Stage, StageGraph
from accord.terms.intent import Objective
from accord.terms.plan import AdmissionLimits, Plan, StagePlan

STAGES = ("first", "second", "third")


def chain_graph(*, window_bytes: int = 1 << 18, sticky: bool = False) -> StageGraph:
    """door -> first -> second -> third -> door, text on every edge."""
    ends = (DOOR, *STAGES, DOOR)
    names = ("in", "one", "two", "out")
    return StageGraph(
        model="fake-chain",
        stages=tuple(
            Stage(
                name=name,
                capabilities=(Capability.PREPROCESS,),
                batching=Batching.PLAIN,
                sticky=sticky and name == "second",
            )
            for name in STAGES
        ),
        edges=tuple(
            Edge(name=name, source=source, target=target, payload=Payload.TEXT, window_bytes=window_bytes)
            for name, source, target in zip(names, ends[:-1], ends[1:], strict=True)
        ),
    )


def chain_plan(
    *,
    options: dict[str, dict[str, str]] | None = None,
    replicas: dict[str, int] | None = None,
    batch_max: int = 64,
    arena_bytes: int = 8 << 20,
    admission: AdmissionLimits | None = None,
    window_bytes: int = 1 << 18,
    objectives: tuple[Objective, ...] = (),
    sticky: bool = False,
) -> Plan:
    """The chain on fake engines. `options` go to the fake engine of each stage by name."""
    return Plan(
        name="fake-chain",
        graph=chain_graph(window_bytes=window_bytes, sticky=sticky),
        stages=tuple(
            StagePlan(
                stage=name,
                engine="fake",
                device="cpu",
                threads=1,
                replicas=(replicas or {}).get(name, 1),
                batch_max=batch_max,
                memory_bytes=0,
                arena_bytes=arena_bytes,
                options=tuple((options or {}).get(name, {}).items()),
            )
            for name in STAGES
        ),
        admission=admission or AdmissionLimits(active_max=256, queue_max=4096, queue_s_max=30.0),
        objectives=objectives,
    )
