"""The target `vllm-omni`: its deploy document, and the scripts that start its stages.

In: a `FleetPlan`, the `Fleet` where one is known. Out: `deploy.yaml` and files of bash. Invariant: where all stages fit
one host there is one process; else one a stage, and hidden states travel over the network.
"""

from collections.abc import Mapping
from dataclasses import replace

from accord.render.engines.common import model_word, visible_devices
from accord.render.engines.table import runs
from accord.render.engines.vllm_omni import DEPLOY, HTTP, deploy_document, losses, template_devices
from accord.render.launch import Launch, Port, Where
from accord.render.processes import Process, memory_share, processes
from accord.render.rendered import File, Lost, Options, Rendered
from accord.render.scripts import bash, judge, order
from accord.render.shell import hole
from accord.render.wishes import Aspect, Wish, kind_of, lost
from accord.render.yaml_text import yaml_text
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Scope, Together

_DEPLOY = "DEPLOY"
_BESIDE = 'DEPLOY="$(cd "$(dirname "$0")" && pwd)/deploy.yaml"\n'
_SAMPLING = "how each stage samples is the model's own; add default_sampling_params to change it"


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The deploy document and the scripts. BadInput for a plan without a pool of this engine."""
    mine = replace(plan, pools=tuple(pool for pool in plan.pools if pool.engine == "vllm-omni" and runs(plan, pool)))
    if not mine.pools:
        fix = "choose the target of the engine that the pools name"
        raise BadInput(field="--to", value="vllm-omni", problem="no pool of the plan runs in vLLM-Omni", fix=fix)
    kept = options.pinned and bool(plan.seats)
    missing: list[Lost] = [
        Lost(what=f"{pool.name}: the stage {pool.stage}", why=f"the plan runs it in {pool.engine}")
        for pool in plan.pools
        if pool.engine != "vllm-omni"
    ]

    def judge_wish(wish: Wish) -> str | None:
        own = wish.aspect is Aspect.PIN_NIC
        return "vLLM-Omni's connector chooses the port itself" if own else judge(wish, plan, fleet, pinned=kept)

    missing += lost(plan, fleet, judge_wish, pinned=kept)
    missing += [one for pool in plan.pools if pool.engine == "vllm-omni" for one in losses(plan, pool)]
    devices = _one_host(mine, fleet, pinned=kept)
    shares = {pool.name: _share(mine, pool, fleet) for pool in mine.pools}
    text = yaml_text(
        (
            deploy_document(
                mine,
                devices or {pool.name: template_devices(pool) for pool in mine.pools},
                one_host=devices is not None,
                shares=shares,
            ),
        )
    )
    found = _whole(mine, fleet, kept=kept) if devices is not None else processes(mine, fleet, options)
    files = [File(name="deploy.yaml", text=text)]
    files += [File(name=f"run-{one.name}.sh", text=_script(mine, one, found)) for one in found]
    files.append(File(name="order.txt", text=order(plan, found, [], missing)))
    return Rendered(files=tuple(files), lost=tuple(missing), notes=(_SAMPLING,))


def _share(plan: FleetPlan, pool: Pool, fleet: Fleet | None) -> float | None:
    need = next(part.need for part in plan.gang.parts if part.name == pool.part)
    return memory_share(need, kind_of(pool.kind, fleet))


def _one_host(plan: FleetPlan, fleet: Fleet | None, *, pinned: bool) -> Mapping[str, str] | None:
    """Each pool's devices, numbered among those that the one process sees; None where one host can't hold them."""
    parts = {pool.part for pool in plan.pools}
    if pinned:
        seats = [seat for seat in plan.seats if seat.part in parts]
        if len({seat.node for seat in seats}) != 1:
            return None
        seen = sorted({number for seat in seats for number in seat.devices})
        return {
            pool.name: ",".join(str(seen.index(n)) for seat in seats if seat.part == pool.part for n in seat.devices)
            for pool in plan.pools
        }
    devices = _dealt_out(plan)
    wanted = 1 + max((int(number) for text in devices.values() for number in text.split(",")), default=0)
    kinds = {pool.kind for pool in plan.pools}
    nodes = fleet.nodes if fleet else ()
    fits = any(sum(device.kind in kinds for device in node.devices) >= wanted for node in nodes)
    return devices if len(kinds) == 1 and fits else None


def _dealt_out(plan: FleetPlan) -> Mapping[str, str]:
    """Devices in the plan's order: parts that belong on one card share it, all others have their own."""
    needs = {part.name: part.need for part in plan.gang.parts}
    cards = [one.parts for one in plan.gang.relations if isinstance(one, Together) and one.scope is Scope.CARD]
    shared: dict[tuple[str, ...], int] = {}
    given: dict[str, str] = {}
    free = 0
    for pool in plan.pools:
        group = next((parts for parts in cards if pool.part in parts), None)
        if group is not None and group in shared:
            given[pool.name] = ",".join([str(shared[group])] * pool.replicas)
            continue
        if group is not None:
            shared[group] = free
        count = max(1, needs[pool.part].cards) * (1 if group is not None else pool.replicas)
        numbers = [str(free + one) for one in range(count)]
        given[pool.name] = ",".join(numbers * (pool.replicas if group is not None else 1))
        free += count
    return given


def _whole(plan: FleetPlan, fleet: Fleet | None, *, kept: bool) -> tuple[Process, ...]:
    """The one process that runs all stages on one host."""
    pool = plan.pools[0]
    kind = kind_of(pool.kind, fleet)
    parts = {one.part for one in plan.pools}
    seats = [seat for seat in plan.seats if seat.part in parts] if kept else []
    seen = ",".join(map(str, sorted({number for seat in seats for number in seat.devices}))) or None
    where = Where(devices=seen)
    words = ("vllm", "serve", model_word(plan), "--omni", "--deploy-config", DEPLOY, "--host", "0.0.0.0")
    launch = Launch(
        words=(*words, "--port", str(HTTP)),
        image="",
        environment=visible_devices(kind.vendor if kind else None, where),
        ports=(Port(name="http", number=HTTP),),
    )
    host = seats[0].node if seats else hole("HOST_0")
    seat = seats[0] if seats else None
    return (
        Process(name="all", pool=pool, replica=0, rank=0, host=host, launch=launch, where=where, seat=seat, node=None),
    )


def _script(plan: FleetPlan, process: Process, everyone: tuple[Process, ...]) -> str:
    place = f"Run it on {process.seat.node}." if process.seat else "Run it on a host with free devices."
    words = tuple(hole(_DEPLOY) if word == DEPLOY else word for word in process.launch.words)
    what = "all stages" if process.name == "all" else f"the stage {process.pool.stage}, replica {process.replica}"
    return bash((f"{plan.name}: {what}", place), process.launch, words, everyone, before=_BESIDE)
