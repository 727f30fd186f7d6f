"""vLLM's command line.

In: a plan, one of its pools, where the process runs. Out: `Launch`. Invariant: options of the pool come last and as
they are written.
"""

from accord.render.launch import Launch, Port, Where
from accord.terms.fleet import Vendor
from accord.terms.fleet_plan import FleetPlan, Pool

_PORT = 8000
_IMAGES = {Vendor.NVIDIA: "vllm/vllm-openai:latest", Vendor.ASCEND: "quay.io/ascend/vllm-ascend:latest"}


def launch_vllm(plan: FleetPlan, pool: Pool, vendor: Vendor | None, where: Where) -> Launch:
    """One process of `pool`."""
    parallel = pool.parallel
    words = ["vllm", "serve", plan.model, "--port", str(_PORT)]
    words += ["--tensor-parallel-size", str(parallel.tensor), "--pipeline-parallel-size", str(parallel.pipeline)]
    if pool.nodes > 1:
        words += ["--nnodes", str(pool.nodes), "--node-rank", where.node_rank, "--master-addr", where.leader_address]
        words += [] if where.leader else ["--headless"]
    for name, value in pool.options:
        words += [f"--{name}={value}" if value else f"--{name}"]
    return Launch(
        words=tuple(words),
        image=_IMAGES.get(vendor or Vendor.NVIDIA, _IMAGES[Vendor.NVIDIA]),
        ports=(Port(name="http", number=_PORT),) if where.leader else (),
        health="/health" if where.leader else None,
    )
