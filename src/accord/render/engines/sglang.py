"""SGLang's command line. Names are those of SGLang 0.5.22.

In: a plan, one of its pools, where the process runs. Out: `Launch`. Invariant: options of the pool come last and as
they are written, so that they win.
"""

import math
from collections.abc import Mapping

from accord.render.engines.common import (
    model_word,
    network_port,
    option_words,
    quantization_loss,
    split_losses,
    visible_devices,
    whole_nodes,
)
from accord.render.launch import Launch, Port, Where
from accord.render.rendered import Lost
from accord.terms.fleet import Vendor
from accord.terms.fleet_plan import FleetPlan, Parallel, Pool, Role
from accord.terms.tensors import Dtype, Quantization

_HTTP = 30000
BOOTSTRAP = 8998  # where decode asks prefill for the way to its KV blocks
_MASTER = 20000
# A server takes further ports of its own behind its first one.
_PORTS_A_SLOT = 500
_IMAGES = {Vendor.NVIDIA: "lmsysorg/sglang:v0.5.22"}
_CACHE: Mapping[Dtype, str] = {Dtype.BF16: "bf16", Dtype.FP8: "fp8_e4m3"}
_QUANTIZATION: Mapping[Quantization, str] = {Quantization.FP8: "fp8", Quantization.MXFP8: "mxfp8"}
_TRANSFER: Mapping[Vendor, str] = {Vendor.ASCEND: "ascend", Vendor.AMD: "mori"}


def launch_sglang(plan: FleetPlan, pool: Pool, vendor: Vendor | None, where: Where) -> Launch:
    """One process of `pool`."""
    whole_nodes(pool)
    port = http_port(where.slot)
    words = ["python3", "-m", "sglang.launch_server", "--model-path", model_word(plan)]
    words += ["--host", "0.0.0.0", "--port", str(port), "--enable-metrics"]
    words += _parallel(pool.parallel)
    if pool.nodes > 1:
        master = f"{where.leader_address}:{_MASTER + where.slot}"
        words += ["--nnodes", str(pool.nodes), "--node-rank", where.node_rank, "--dist-init-addr", master]
    words += [word for name, value in engine_arguments(pool) for word in (f"--{name}", value)]
    if where.memory_share is not None:
        words += ["--mem-fraction-static", f"{where.memory_share:g}"]
    words += _split(pool, vendor, where)
    if vendor is Vendor.ASCEND:
        words += ["--device", "npu"]
    bootstrap = (Port(name="bootstrap", number=BOOTSTRAP + where.slot),) if pool.role is Role.PREFILL else ()
    return Launch(
        words=(*words, *option_words(pool)),
        image=_IMAGES.get(vendor or Vendor.NVIDIA, f"registry.invalid/sglang-{vendor}"),
        environment=(*visible_devices(vendor, where), *network_port(vendor, where)),
        ports=(Port(name="http", number=port), *bootstrap) if where.leader else (),
        # Only the first node's process answers; the others would never be ready.
        health="/health" if where.leader else None,
        lost=losses(plan, pool),
    )


def http_port(slot: int) -> int:
    """Where the leader in `slot` of its host listens."""
    return _HTTP + slot * _PORTS_A_SLOT


def engine_arguments(pool: Pool) -> tuple[tuple[str, str], ...]:
    """Bounds and formats as (name, value)."""
    parallel, chunk = pool.parallel, pool.chunk_tokens
    if chunk is not None and not shares_experts(parallel):
        # With attention data parallelism SGLang divides the chunk itself; else each copy has its own.
        chunk = math.ceil(chunk / parallel.data)
    named: dict[str, object] = {
        "max-running-requests": pool.batch_max,
        "chunked-prefill-size": chunk,
        "context-length": pool.context_tokens_max,
        "kv-cache-dtype": _CACHE.get(pool.cache_dtype) if pool.cache_dtype else None,
        "quantization": _QUANTIZATION.get(pool.quantization) if pool.quantization else None,
    }
    return tuple((name, str(value)) for name, value in named.items() if value is not None)


def shares_experts(parallel: Parallel) -> bool:
    """Whether data-parallel ranks are attention's alone, with the experts dealt out over them."""
    return parallel.data > 1 and parallel.expert > 1


def losses(plan: FleetPlan, pool: Pool) -> tuple[Lost, ...]:
    """What the pool asks for and SGLang has no parameter for."""
    lost = list(split_losses(plan, pool))
    if pool.cache_dtype in (Dtype.F32, Dtype.F16):
        why = "SGLang names bf16 and fp8 only; else a cache is in the model's own format"
        lost.append(Lost(what=f"{pool.name}: a cache in {pool.cache_dtype}", why=why))
    if pool.quantization not in (None, Quantization.NONE, *_QUANTIZATION):
        lost += quantization_loss(pool, "SGLang")
    return tuple(lost)


def _parallel(parallel: Parallel) -> list[str]:
    """SGLang's tensor size counts the ranks of attention's data parallelism too; copies of the model it does not."""
    sizes: tuple[tuple[str, int], ...] = (("--tp-size", parallel.tensor), ("--dp-size", parallel.data))
    if shares_experts(parallel):
        sizes = (("--tp-size", parallel.tensor * parallel.data), ("--attn-dp-size", parallel.data))
    sizes += (("--pp-size", parallel.pipeline), ("--ep-size", parallel.expert))
    return [word for name, size in sizes if size > 1 for word in (name, str(size))]


def _split(pool: Pool, vendor: Vendor | None, where: Where) -> list[str]:
    if pool.role is Role.WHOLE:
        return []
    transfer = _TRANSFER.get(vendor or Vendor.NVIDIA, "mooncake")
    words = ["--disaggregation-mode", str(pool.role), "--disaggregation-transfer-backend", transfer]
    if pool.role is Role.PREFILL:
        words += ["--disaggregation-bootstrap-port", str(BOOTSTRAP + where.slot)]
    return [*words, *(["--disaggregation-ib-device", where.nic] if where.nic is not None else [])]
