"""The targets `vllm` and `sglang`: a shell script for each process, and the order in which to run them.

In: a `FleetPlan`, the `Fleet` where one is known. Out: files of bash. Invariant: a script starts one process and is
replaced by it; pools of the other engine are written in this one's words, and what can't be is lost.
"""

from dataclasses import replace

from accord.render.engines.common import NAMES_PORTS, VISIBLE_DEVICES
from accord.render.engines.routers import Worker, launch_router
from accord.render.launch import Launch
from accord.render.names import label_name
from accord.render.processes import OWN_ADDRESS, Process, engine_losses, judge_memory, processes
from accord.render.rendered import File, Lost, Options, Rendered
from accord.render.shell import command, exports, holes, needed, remark
from accord.render.wishes import Aspect, Wish, kind_of, lost
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet, Node, Vendor
from accord.terms.fleet_plan import FleetPlan, Pool, Role
from accord.terms.gang import Seat
from accord.terms.graph import Capability

_ENGINES = ("vllm", "sglang")
_CHOSEN = (Aspect.KIND, Aspect.WITHIN, Aspect.NIC, Aspect.NIC_WITHIN, Aspect.TOGETHER, Aspect.APART)
_NEVER = {
    Aspect.COMPUTE: "a process takes as much of a device's compute as it can",
    Aspect.CODECS: "codec units aren't divided between processes",
    Aspect.CPUS: "numactl binds to NUMA domains; it doesn't bound cores or memory",
    Aspect.NVME: "a script reserves no disk",
    Aspect.NIC_RATE: "a script reserves no bandwidth",
    Aspect.BANDWIDTH: "a script reserves no bandwidth",
    Aspect.GANG: "scripts are run one by one",
}


def render_vllm(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """Scripts that run `vllm serve`."""
    return _render("vllm", plan, fleet, options)


def render_sglang(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """Scripts that run `sglang.launch_server`."""
    return _render("sglang", plan, fleet, options)


def _render(engine: str, plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    mine, foreign = _in_words_of(engine, plan)
    if not mine.pools:
        fix = "choose the target of the engine that the pools name"
        raise BadInput(field="--to", value=engine, problem=f"no pool of the plan can run in {engine}", fix=fix)
    kept = options.pinned and bool(plan.seats)
    found = processes(mine, fleet, options)
    fronts = routers(engine, mine, found)
    files = [File(name=f"run-{one.name}.sh", text=_script(plan, one, found)) for one in found]
    files += [File(name=f"run-{name}.sh", text=_router_script(plan, one, found)) for name, one in fronts]
    missing = [
        *foreign,
        *lost(plan, fleet, lambda wish: judge(wish, plan, fleet, pinned=kept), pinned=kept),
        *engine_losses(mine, fleet),
    ]
    files.append(File(name="order.txt", text=order(plan, found, [name for name, _ in fronts], missing)))
    return Rendered(files=tuple(files), lost=tuple(missing), notes=_notes(mine, fleet))


def _in_words_of(engine: str, plan: FleetPlan) -> tuple[FleetPlan, list[Lost]]:
    """The plan with its pools on this engine, without those that it can't run."""
    missing: list[Lost] = []
    pools: list[Pool] = []
    for pool in plan.pools:
        if pool.engine == engine:
            pools.append(pool)
        elif Capability.AR in plan.graph.stage(pool.stage).capabilities and pool.engine in _ENGINES:
            pools.append(replace(pool, engine=engine, options=()))
            given = ", ".join(name for name, _ in pool.options)
            if given:
                why = f"they are {pool.engine}'s own, in its spelling"
                missing.append(Lost(what=f"{pool.name}: the options {given}", why=why))
        else:
            why = f"{engine} has no process for it alone; the plan runs it in {pool.engine}"
            missing.append(Lost(what=f"{pool.name}: the stage {pool.stage}", why=why))
    return replace(plan, pools=tuple(pools)), missing


def judge(wish: Wish, plan: FleetPlan, fleet: Fleet | None, *, pinned: bool) -> str | None:
    """Why scripts can't express `wish`, or None if they do. `pinned`: the plan's seats are kept."""
    if wish.aspect in _NEVER:
        return _NEVER[wish.aspect]
    if wish.aspect in _CHOSEN and not pinned:
        return "whoever runs a script chooses its host and devices"
    if wish.aspect is Aspect.MEMORY:
        return judge_memory(wish, plan, fleet)
    if wish.aspect is Aspect.PIN_DEVICE:
        return None if set(wish.vendors) <= set(VISIBLE_DEVICES) else "no variable is known that names their devices"
    if wish.aspect is Aspect.PIN_NIC:
        if not set(wish.vendors) <= NAMES_PORTS:
            return "their collectives take no port's name from the environment"
        return None if wish.named else "the fleet names its ports as nobody probed them"
    return None


def _script(plan: FleetPlan, process: Process, everyone: tuple[Process, ...]) -> str:
    started, seat = process.launch, process.seat
    words = (*_numactl(seat, process.node), *started.words)
    what = f"{plan.name}: {process.pool.name}, replica {process.replica}"
    what += f", rank {process.rank} of {process.pool.nodes}" if process.pool.nodes > 1 else ""
    place = f"Run it on {seat.node}." if seat else "Run it on a host with free devices."
    return bash((what, place), started, words, everyone)


def bash(
    remarks: tuple[str, ...],
    started: Launch,
    words: tuple[str, ...],
    everyone: tuple[Process, ...],
    *,
    before: str = "",
) -> str:
    """A script of `words`; `before` is bash that sets a variable of ours."""
    texts = (*words, *(value for _, value in started.environment))
    hosts = {f"HOST_{number}": f"the address of the host of {one.name}" for number, one in enumerate(everyone)}
    head = "#!/usr/bin/env bash\n" + "".join(map(remark, remarks)) + "set -euo pipefail\n"
    found = holes(texts)
    own = f': "${{{OWN_ADDRESS}:=$(hostname -I | cut -d " " -f 1)}}"\n' if OWN_ADDRESS in found else ""
    asked = own + needed((name, hosts[name]) for name in found if name in hosts)
    return f"{head}\n{before}{asked}{exports(started.environment)}{command(words)}"


def _numactl(seat: Seat | None, node: Node | None) -> tuple[str, ...]:
    """Binds to the NUMA domains whose cores the seat has, or that its devices hang off; not where it has them all."""
    if seat is None or node is None:
        return ()
    taken = {number for number, cpus in enumerate(seat.cpus_milli) if cpus}
    taken = taken or {node.devices[number].numa for number in seat.devices}
    if not taken or len(taken) == len(node.numa):
        return ()
    domains = ",".join(map(str, sorted(taken)))
    return ("numactl", f"--cpunodebind={domains}", f"--membind={domains}")


def routers(engine: str, plan: FleetPlan, found: tuple[Process, ...]) -> list[tuple[str, Launch]]:
    """The routers of `engine` that the stages of the plan need, named."""
    made = []
    for stage in plan.graph.stages:
        leaders = [one for one in found if one.pool.stage == stage.name and one.rank == 0]
        apart = [one for one in leaders if one.pool.role is not Role.WHOLE and one.pool.engine == engine]
        workers = tuple(Worker(role=one.pool.role, host=one.host, slot=one.where.slot) for one in apart)
        router = launch_router(engine, workers)
        if router is not None:
            made.append((label_name("router", stage.name), router))
    return made


def _router_script(plan: FleetPlan, router: Launch, everyone: tuple[Process, ...]) -> str:
    return bash((f"{plan.name}: requests come in here", "Run it on any host."), router, router.words, everyone)


def order(plan: FleetPlan, found: tuple[Process, ...], fronts: list[str], missing: list[Lost]) -> str:
    """Which script runs where, as a file of its own."""
    lines = [remark(f"{plan.name}: run these, each on its host; the processes of one replica need each other.")]
    lines += [remark(f"Lost: {one.what}: {one.why}") for one in missing]
    steps = [(one.name, one.seat.node if one.seat else f"host {number}") for number, one in enumerate(found)]
    steps += [(name, "any host, once the others answer") for name in fronts]
    for name, place in steps:
        lines.append(f"run-{name}.sh  " + remark(f"on {place}"))
    return "".join(lines)


def _notes(plan: FleetPlan, fleet: Fleet | None) -> tuple[str, ...]:
    """Where a vendor's devices can't be named by the environment."""
    kinds = [kind_of(pool.kind, fleet) for pool in plan.pools]
    unknown = {kind.vendor for kind in kinds if kind is not None and kind.vendor not in VISIBLE_DEVICES}
    return tuple(f"no variable is known that names {vendor} devices" for vendor in sorted(unknown - {Vendor.CPU}))
