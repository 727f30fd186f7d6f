"""The written-out table of engines that renders can start.

In: nothing. Out: `ENGINES`, `launch`, `runs`. Invariant: an engine's code is imported only when a plan names it.
"""

from collections.abc import Callable, Mapping

from accord.render.launch import Engine, Launch, Where
from accord.terms.errors import BadInput
from accord.terms.fleet import Vendor
from accord.terms.fleet_plan import FleetPlan, Pool


def _vllm() -> Engine:
    from accord.render.engines.vllm import launch_vllm

    return launch_vllm


def _sglang() -> Engine:
    from accord.render.engines.sglang import launch_sglang

    return launch_sglang


def _vllm_omni() -> Engine:
    from accord.render.engines.vllm_omni import launch_vllm_omni

    return launch_vllm_omni


ENGINES: Mapping[str, Callable[[], Engine]] = {"vllm": _vllm, "sglang": _sglang, "vllm-omni": _vllm_omni}


def launch(plan: FleetPlan, pool: Pool, vendor: Vendor | None, where: Where) -> Launch:
    """One process of `pool`. BadInput for an engine that isn't in the table."""
    load = ENGINES.get(pool.engine)
    if load is None:
        raise BadInput(
            field=f"fleet_plan.pools.{pool.name}.engine",
            value=pool.engine,
            problem="unknown engine",
            fix=f"known here: {', '.join(sorted(ENGINES))}",
        )
    return load()(plan, pool, vendor, where)


def runs(plan: FleetPlan, pool: Pool) -> bool:
    """Whether the pool's engine has processes for it; else it does the pool's work inside another stage."""
    if pool.engine != "vllm-omni":
        return True
    from accord.render.engines.vllm_omni import stages

    return pool.stage in stages(plan.graph)
