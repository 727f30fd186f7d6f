"""What must hold before a request, a graph or a stage's plan is taken in.

In: a `Request`, a `StageGraph`, a `StagePlan`. Out: what travels, or BadInput with field, value and fix.
Invariant: what passes here can be put on the wire: its numbers into frames, its parts into the door's arena.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from accord.run.frames import EDGES_MAX, PARAMS_BYTES_MAX
from accord.run.ports import EngineSpec
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.graph import StageGraph
from accord.terms.plan import StagePlan
from accord.terms.request import Params, Request

DEADLINE_S_MAX = 7 * 86_400.0
_encoder = msgspec.msgpack.Encoder()


@lru_cache(maxsize=1024)
def encode_params(params: Params) -> bytes:
    """Params as they travel."""
    return _encoder.encode(params)


def check_request(request: Request, *, part_bytes_max: int) -> None:
    """BadInput for a deadline that is none, params that fill a packet, or a part larger than `part_bytes_max`."""
    if not 0 < request.deadline_s <= DEADLINE_S_MAX:
        raise BadInput(
            field="deadline_s",
            value=request.deadline_s,
            problem=f"must be more than 0 and at most {DEADLINE_S_MAX:.0f}",
            fix="give a time in seconds",
        )
    try:
        size = len(encode_params(request.params))
    except OverflowError:
        raise BadInput(
            field="seed", value=request.params.seed, problem="must fit in 64 bits", fix="give a smaller number"
        ) from None
    if size > PARAMS_BYTES_MAX:
        raise BadInput(
            field="params",
            value=f"{size} bytes",
            problem=f"at most {PARAMS_BYTES_MAX} bytes are passed to the stages",
            fix="give fewer or shorter stop texts",
        )
    for part in request.parts:
        if len(part.data) > part_bytes_max:
            raise BadInput(
                field=f"inputs.{part.edge}",
                value=f"{len(part.data)} bytes",
                problem=f"the service passes at most {part_bytes_max} bytes in one piece",
                fix="send a smaller file",
            )


def check_graph(graph: StageGraph) -> None:
    """BadInput for more edges than a stream's key can number."""
    if len(graph.edges) > EDGES_MAX:
        raise BadInput(
            field=f"graph {graph.model}: edges",
            value=len(graph.edges),
            problem=f"at most {EDGES_MAX} can be run",
            fix="join stages, or drop edges that nobody reads",
        )


def engine_spec(
    item: StagePlan, assets: Mapping[str, str], options: Mapping[str, str], deterministic: bool
) -> EngineSpec:
    """What an engine needs to load; `assets` maps weight packages to folders. BrokenEdge if one is missing."""
    missing = [name for name in item.assets if name not in assets]
    if missing:
        raise BrokenEdge(f"stages.{item.stage}: weights {missing} are not here; fetch them first")
    return EngineSpec(
        engine=item.engine,
        stage=item.stage,
        threads=item.threads,
        batch_max=item.batch_max,
        memory_bytes=item.memory_bytes,
        assets=tuple((name, assets[name]) for name in item.assets),
        options=(*item.options, *options.items()),
        deterministic=deterministic,
    )
