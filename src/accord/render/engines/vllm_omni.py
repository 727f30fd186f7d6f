"""vLLM-Omni: its deploy document, and one process a stage. Names are those of vLLM-Omni 0.30.

In: a plan, its pools, where their processes run. Out: `Launch`, the deploy document. Invariant: the stages are those of
vLLM-Omni's own pipelines, which fold encoders into the stage that they feed, and a denoiser's decoder into it.
"""

import math
from collections.abc import Mapping

from accord.render.engines.common import model_word, option_words, visible_devices
from accord.render.engines.vllm import engine_arguments
from accord.render.launch import Launch, Mount, Port, Where
from accord.render.rendered import Lost
from accord.render.yaml_text import Document, Value, yaml_text
from accord.terms.errors import BadInput
from accord.terms.fleet import Vendor
from accord.terms.fleet_plan import FleetPlan, Pool, Role
from accord.terms.graph import Capability, StageGraph

DEPLOY = "/etc/accord/deploy.yaml"
HTTP = 8091
_MASTER = 26000
_TRANSFER = 50051
_SHARED, _NETWORK = "shared-memory", "network"
_NO_SHARES: Mapping[str, float | None] = {}
_OWN = frozenset((Capability.AR, Capability.DENOISE, Capability.VOCODE, Capability.ACT))
_IMAGES = {Vendor.NVIDIA: "vllm/vllm-omni:v0.30.0", Vendor.ASCEND: "quay.io/ascend/vllm-omni:latest"}


def stages(graph: StageGraph) -> tuple[str, ...]:
    """The graph's stages that vLLM-Omni runs as such, in its order: their places are its stage ids."""
    denoisers = {stage.name for stage in graph.stages if Capability.DENOISE in stage.capabilities}
    after = {edge.target for edge in graph.edges if edge.source in denoisers}
    return tuple(
        stage.name for stage in graph.stages if _OWN & set(stage.capabilities) and stage.name not in after - denoisers
    )


def home(graph: StageGraph, stage: str) -> str | None:
    """The stage within which vLLM-Omni runs `stage`: itself, the one that it feeds, or the denoiser before it."""
    known = stages(graph)
    if stage in known:
        return stage
    near = [edge.target for edge in graph.edges if edge.source == stage]
    near += [edge.source for edge in graph.edges if edge.target == stage]
    return next((name for name in near if name in known), None)


def launch_vllm_omni(plan: FleetPlan, pool: Pool, vendor: Vendor | None, where: Where) -> Launch:
    """One process of one stage; that of the first stage answers requests too. Each sees the devices of its pool."""
    known = stages(plan.graph)
    number = known.index(home(plan.graph, pool.stage) or pool.stage)
    head = number == 0
    if pool.replicas > 1 and pool.stage == known[0]:
        fix = f"write replicas: 1 for {pool.name}; several plans side by side have several"
        field = f"fleet_plan.pools.{pool.name}.replicas"
        raise BadInput(field=field, value=pool.replicas, problem="vLLM-Omni's first stage has one process", fix=fix)
    first = next((one.name for one in plan.pools if one.stage == known[0]), pool.name)
    master = where.own_address if head else dict(where.peers).get(first, where.leader_address)
    words = ["vllm", "serve", model_word(plan), "--omni", "--deploy-config", DEPLOY, "--stage-id", str(number)]
    words += ["--omni-master-address", master, "--omni-master-port", str(_MASTER + where.slot if head else _MASTER)]
    port = HTTP + where.slot
    words += ["--host", "0.0.0.0", "--port", str(port)] if head else ["--headless"]
    words += [] if head else ["--omni-replica-address", where.own_address]
    devices = {one.name: template_devices(one) for one in plan.pools}
    document = deploy_document(plan, devices, one_host=False, shares={pool.name: where.memory_share})
    return Launch(
        words=tuple(words),
        image=_IMAGES.get(vendor or Vendor.NVIDIA, f"registry.invalid/vllm-omni-{vendor}"),
        environment=visible_devices(vendor, where),
        ports=(Port(name="http", number=port), Port(name="omni-master", number=_MASTER)) if head else (),
        health="/health" if head else None,
        mounts=(Mount(path=DEPLOY, text=yaml_text((document,))),),
        lost=losses(plan, pool),
    )


def template_devices(pool: Pool) -> str:
    """The devices of one replica, numbered from 0 among those that its process sees."""
    return ",".join(map(str, range(pool.parallel.ranks)))


def deploy_document(
    plan: FleetPlan, devices: Mapping[str, str], *, one_host: bool, shares: Mapping[str, float | None] = _NO_SHARES
) -> Document:
    """The deploy document. `devices` and `shares` (of a device's memory) are named by pool."""
    known = stages(plan.graph)
    connector: Document = {"name": "SharedMemoryConnector"}
    if not one_host:
        connector = {
            "name": "MooncakeTransferEngineConnector",
            "extra": {"host": "auto", "zmq_port": _TRANSFER, "memory_pool_device": "cpu"},
        }
    name = _SHARED if one_host else _NETWORK
    written = []
    for number, stage in enumerate(known):
        pools = [pool for pool in plan.pools if pool.stage == stage]
        if pools:
            made = _stage(plan, pools[0], number, name)
            share = shares.get(pools[0].name)
            extra: Document = {"gpu_memory_utilization": share} if share is not None else {}
            written.append({**made, "devices": devices[pools[0].name], **extra})
    return {"async_chunk": len(written) > 1, "connectors": {name: connector}, "stages": written}


def _stage(plan: FleetPlan, pool: Pool, number: int, connector: str) -> Document:
    known, graph = stages(plan.graph), plan.graph
    sources = [known.index(edge.source) for edge in graph.edges if edge.target == pool.stage and edge.source in known]
    targets = [known.index(edge.target) for edge in graph.edges if edge.source == pool.stage and edge.target in known]
    parallel = pool.parallel
    made: dict[str, Value] = {"stage_id": number, "num_replicas": pool.replicas}
    if sources:
        made["input_connectors"] = {f"from_stage_{one}": connector for one in sources}
    if targets:
        made["output_connectors"] = {f"to_stage_{one}": connector for one in targets}
    sizes = (
        ("tensor_parallel_size", parallel.tensor),
        ("pipeline_parallel_size", parallel.pipeline),
        ("data_parallel_size", parallel.data),
    )
    made |= {name: size for name, size in sizes if size > 1}
    if parallel.expert > 1:
        made["enable_expert_parallel"] = True
    made |= {name.replace("-", "_"): _value(text) for name, text in engine_arguments(pool)}
    option_words(pool)  # what can't be an option's name can't be a key either
    made |= {name.replace("-", "_"): _value(text) for name, text in pool.options}
    return made


def _value(text: str) -> Value:
    """An option's text as the number, truth value or text that the engine's own command line would make of it."""
    if not text:
        return True
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else text
    return text


def losses(plan: FleetPlan, pool: Pool) -> tuple[Lost, ...]:
    """What the pool asks for and vLLM-Omni can't do."""
    found = []
    within = home(plan.graph, pool.stage)
    if within != pool.stage:
        what = f"{pool.name}: the stage {pool.stage} on devices of its own"
        why = f"vLLM-Omni runs it inside {within}" if within else "vLLM-Omni has no place for it"
        found.append(Lost(what=what, why=why))
    if pool.nodes > 1:
        found.append(Lost(what=f"{pool.name}: {pool.nodes} nodes a replica", why="a stage of vLLM-Omni is on one host"))
    if pool.role is not Role.WHOLE:
        found.append(Lost(what=f"{pool.name}: {pool.role} alone", why="a stage of vLLM-Omni does both"))
    first = next(one for one in plan.pools if one.stage == pool.stage)
    if first is not pool:
        why = f"a stage of vLLM-Omni has one pool; {first.name} is it"
        found.append(Lost(what=f"{pool.name}: beside {first.name}", why=why))
    return tuple(found)
