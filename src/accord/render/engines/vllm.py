"""vLLM's command line, and where vendors' plugins for it differ. Names are those of vLLM 0.30.

In: a plan, one of its pools, where the process runs. Out: `Launch`. Invariant: options of the pool come last and as
they are written, so that they win.
"""

import json
import math
from collections.abc import Mapping

from accord.render.engines.common import (
    model_word,
    network_port,
    option_words,
    other_half,
    quantization_loss,
    split_losses,
    visible_devices,
    whole_nodes,
)
from accord.render.launch import Launch, Port, Where
from accord.render.rendered import Lost
from accord.terms.errors import BadInput
from accord.terms.fleet import Vendor
from accord.terms.fleet_plan import FleetPlan, Parallel, Pool, Role
from accord.terms.tensors import Dtype, Quantization

_HTTP = 8000
_MASTER = 29501
_SIDE_CHANNEL = 5600  # NIXL's handshake, of the first rank; others count up from it
_MOONCAKE = 30000  # vLLM-Ascend's connector takes one port a rank from here
# A slot's ports lie apart by as many as a host may have ranks.
_RANKS_MAX = 64
_IMAGES = {
    Vendor.NVIDIA: "vllm/vllm-openai:v0.30.0",
    Vendor.AMD: "vllm/vllm-openai-rocm:v0.30.0",
    Vendor.ASCEND: "quay.io/ascend/vllm-ascend:latest",
    Vendor.CPU: "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.30.0",
}
_CACHE: Mapping[Dtype, str] = {Dtype.F16: "float16", Dtype.BF16: "bfloat16", Dtype.FP8: "fp8"}
# What vLLM can make of weights while it loads them; other formats it finds in the weights' own configuration.
_QUANTIZATION: Mapping[Quantization, str] = {Quantization.FP8: "fp8", Quantization.MXFP8: "mxfp8"}


def launch_vllm(plan: FleetPlan, pool: Pool, vendor: Vendor | None, where: Where) -> Launch:
    """One process of `pool`. BadInput where vLLM can't run what the pool asks for."""
    whole_nodes(pool)
    port = http_port(where.slot)
    words = ["vllm", "serve", model_word(plan)]
    if where.leader:
        words += ["--host", "0.0.0.0", "--port", str(port)]
    words += _parallel(pool.parallel)
    if pool.nodes > 1:
        words += ["--nnodes", str(pool.nodes), "--node-rank", where.node_rank, "--master-addr", where.leader_address]
        words += ["--master-port", str(_MASTER + where.slot), *([] if where.leader else ["--headless"])]
    words += [word for name, value in engine_arguments(pool) for word in (f"--{name}", value)]
    if where.memory_share is not None:
        words += ["--gpu-memory-utilization", f"{where.memory_share:g}"]
    transfer = kv_transfer(plan, pool, vendor, where)
    if transfer is not None:
        words += ["--kv-transfer-config", json.dumps(transfer, sort_keys=True)]
    return Launch(
        words=(*words, *option_words(pool)),
        image=_IMAGES.get(vendor or Vendor.NVIDIA, f"registry.invalid/vllm-{vendor}"),
        environment=_environment(pool, vendor, where),
        ports=(Port(name="http", number=port),) if where.leader else (),
        health="/health" if where.leader else None,
        lost=losses(plan, pool),
    )


def http_port(slot: int) -> int:
    """Where the leader in `slot` of its host listens."""
    return _HTTP + slot


def engine_arguments(pool: Pool) -> tuple[tuple[str, str], ...]:
    """Bounds and formats as (name, value), as the command line and `EngineArgs` name them."""
    # vLLM counts both for each data-parallel rank, a pool for the whole replica.
    data = pool.parallel.data
    named: dict[str, object] = {
        "max-num-seqs": None if pool.batch_max is None else math.ceil(pool.batch_max / data),
        "max-num-batched-tokens": None if pool.chunk_tokens is None else math.ceil(pool.chunk_tokens / data),
        "max-model-len": pool.context_tokens_max,
        "kv-cache-dtype": _CACHE.get(pool.cache_dtype) if pool.cache_dtype else None,
        "quantization": _QUANTIZATION.get(pool.quantization) if pool.quantization else None,
    }
    return tuple((name, str(value)) for name, value in named.items() if value is not None)


def spreads_experts(parallel: Parallel) -> bool:
    """Whether experts are dealt out; vLLM does it over all ranks of tensor and data parallelism, or not at all."""
    return parallel.expert > 1


def losses(plan: FleetPlan, pool: Pool) -> tuple[Lost, ...]:
    """What the pool asks for and vLLM has no parameter for."""
    parallel, lost = pool.parallel, list(split_losses(plan, pool))
    ranks = parallel.tensor * parallel.data
    if spreads_experts(parallel) and parallel.expert != ranks:
        why = f"vLLM deals experts out over all {ranks} ranks of tensor and data parallelism"
        lost.append(Lost(what=f"{pool.name}: experts over {parallel.expert} ranks", why=why))
    if pool.cache_dtype is Dtype.F32:
        lost.append(Lost(what=f"{pool.name}: a cache in f32", why="vLLM keeps caches in 16 bits or fewer"))
    if pool.quantization not in (None, Quantization.NONE, *_QUANTIZATION):
        lost += quantization_loss(pool, "vLLM")
    return tuple(lost)


def kv_transfer(plan: FleetPlan, pool: Pool, vendor: Vendor | None, where: Where) -> dict[str, object] | None:
    """How KV blocks get from prefill to decode; None where one pool does both."""
    if pool.role is Role.WHOLE:
        return None
    kind = "kv_producer" if pool.role is Role.PREFILL else "kv_consumer"
    if vendor is Vendor.ASCEND:
        other = other_half(plan, pool) or pool
        prefill, decode = (pool, other) if pool.role is Role.PREFILL else (other, pool)
        sizes = {
            role: {"dp_size": one.parallel.data, "tp_size": one.parallel.tensor}
            for role, one in (("prefill", prefill), ("decode", decode))
        }
        port = str(_MOONCAKE + where.slot * _RANKS_MAX)
        return {
            "kv_connector": "MooncakeConnectorV1",
            "kv_role": kind,
            "kv_port": port,
            "kv_connector_extra_config": sizes,
        }
    if pool.role is Role.DECODE and pool.parallel.pipeline > 1:
        fix = "choose pipeline: 1, and more of tensor or data, for the pool that decodes"
        field = f"fleet_plan.pools.{pool.name}.parallel.pipeline"
        value, problem = pool.parallel.pipeline, "NIXL can't hand over to a pipeline"
        raise BadInput(field=field, value=value, problem=problem, fix=fix)
    return {"kv_connector": "NixlConnector", "kv_role": kind}


def _parallel(parallel: Parallel) -> list[str]:
    sizes = (
        ("--tensor-parallel-size", parallel.tensor),
        ("--pipeline-parallel-size", parallel.pipeline),
        ("--data-parallel-size", parallel.data),
    )
    words = [word for name, size in sizes if size > 1 for word in (name, str(size))]
    return [*words, *(["--enable-expert-parallel"] if spreads_experts(parallel) else [])]


def _environment(pool: Pool, vendor: Vendor | None, where: Where) -> tuple[tuple[str, str], ...]:
    found = [*visible_devices(vendor, where), *network_port(vendor, where)]
    if pool.nodes > 1:
        # A host with several addresses must name the one that the other ranks reach.
        found.append(("VLLM_HOST_IP", where.own_address))
    if pool.role is not Role.WHOLE and vendor is not Vendor.ASCEND:
        found.append(("VLLM_NIXL_SIDE_CHANNEL_HOST", where.own_address))
        found.append(("VLLM_NIXL_SIDE_CHANNEL_PORT", str(_SIDE_CHANNEL + where.slot * _RANKS_MAX)))
        if where.nic is not None:
            found.append(("UCX_NET_DEVICES", f"{where.nic}:1"))
    return tuple(found)
