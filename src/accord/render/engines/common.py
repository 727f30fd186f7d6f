"""What the command lines of all engines share: which devices a process sees, a pool's own options, KV connectors.

In: a `Pool`, the vendor of its devices, where the process runs. Out: words and environment. Invariant: no text of a
plan becomes an option that the plan doesn't name as one.
"""

import re
from collections.abc import Mapping

from accord.render.launch import Where
from accord.render.rendered import Lost
from accord.terms.errors import BadInput
from accord.terms.fleet import Vendor
from accord.terms.fleet_plan import FleetPlan, Pool, Role

# What tells a vendor's runtime which devices it may use. vLLM-MetaX and Iluvatar's build read CUDA's; Kunlunxin's
# documents set both. Ray's accelerator managers and the plugins' platform classes agree.
VISIBLE_DEVICES: Mapping[Vendor, tuple[str, ...]] = {
    Vendor.NVIDIA: ("CUDA_VISIBLE_DEVICES",),
    Vendor.AMD: ("HIP_VISIBLE_DEVICES",),
    Vendor.ASCEND: ("ASCEND_RT_VISIBLE_DEVICES",),
    Vendor.CAMBRICON: ("MLU_VISIBLE_DEVICES",),
    Vendor.KUNLUNXIN: ("XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    Vendor.ILUVATAR: ("CUDA_VISIBLE_DEVICES",),
    Vendor.METAX: ("CUDA_VISIBLE_DEVICES",),
    Vendor.HYGON: ("HIP_VISIBLE_DEVICES",),
    Vendor.MOORE_THREADS: ("MUSA_VISIBLE_DEVICES",),
    Vendor.ENFLAME: ("TOPS_VISIBLE_DEVICES",),
}
# Devices that NCCL or one of its kin (RCCL) joins, which take a port's name in the same variable.
NAMES_PORTS = frozenset((Vendor.NVIDIA, Vendor.AMD, Vendor.HYGON))
_OPTION = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII | re.IGNORECASE)


def visible_devices(vendor: Vendor | None, where: Where) -> tuple[tuple[str, str], ...]:
    """The environment that names the devices of a process; empty where something else gives them to it."""
    if where.devices is None:
        return ()
    named = tuple((name, where.devices) for name in VISIBLE_DEVICES.get(vendor or Vendor.NVIDIA, ()))
    # CUDA numbers the fastest device 0 unless it is told to number them as they stand.
    return (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), *named) if vendor is Vendor.NVIDIA else named


def network_port(vendor: Vendor | None, where: Where) -> tuple[tuple[str, str], ...]:
    """The environment that binds collectives to the RDMA port of the process."""
    return (("NCCL_IB_HCA", f"={where.nic}"),) if where.nic is not None and vendor in NAMES_PORTS else ()


def model_word(plan: FleetPlan) -> str:
    """The model as a word of its own. BadInput for a name that an engine would take for an option."""
    if plan.model.startswith("-") or not plan.model.strip():
        fix = "name a model, or give its path from `/`"
        raise BadInput(field="fleet_plan.model", value=plan.model, problem="reads as an option", fix=fix)
    return plan.model


def option_words(pool: Pool) -> list[str]:
    """The pool's own options as they are written, each one word. BadInput for what can't be an option's name."""
    for name, _ in pool.options:
        if not _OPTION.fullmatch(name):
            field, fix = (
                f"fleet_plan.pools.{pool.name}.options",
                "write it as the engine does, without its dashes",
            )
            raise BadInput(field=field, value=name, problem="not the name of an option", fix=fix)
    return [f"--{name}={value}" if value else f"--{name}" for name, value in pool.options]


def whole_nodes(pool: Pool) -> None:
    """BadInput where a replica's ranks can't be dealt out evenly over its nodes."""
    if pool.parallel.ranks % pool.nodes:
        fix = f"choose tensor x pipeline x data divisible by {pool.nodes}"
        field = f"fleet_plan.pools.{pool.name}.parallel"
        raise BadInput(field=field, value=f"{pool.parallel.ranks} ranks", problem="uneven over the nodes", fix=fix)


def other_half(plan: FleetPlan, pool: Pool) -> Pool | None:
    """The pool that takes over from this one, or hands over to it, where prefill and decode are apart."""
    wanted = {Role.PREFILL: Role.DECODE, Role.DECODE: Role.PREFILL}.get(pool.role)
    return next((one for one in plan.pools if one.stage == pool.stage and one.role is wanted), None)


def split_losses(plan: FleetPlan, pool: Pool) -> tuple[Lost, ...]:
    """What is lost where prefill and decode can't hand over to each other."""
    other = other_half(plan, pool)
    if pool.role is not Role.DECODE or other is None or (other.engine, other.kind) == (pool.engine, pool.kind):
        return ()
    why = "engines hand KV blocks over between processes of one engine on one kind of device"
    return (Lost(what=f"{other.name} hands over to {pool.name}", why=why),)


def quantization_loss(pool: Pool, engine: str) -> tuple[Lost, ...]:
    """A format that the engine takes from the weights alone."""
    why = f"{engine} reads the format from the weights; name a model that is stored so"
    return (Lost(what=f"{pool.name}: weights in {pool.quantization}", why=why),)
