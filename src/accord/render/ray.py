"""The target `ray`: one placement group for the whole plan, and the program that starts its processes in it.

In: a `FleetPlan`, the `Fleet` where one is known. Out: `plan.json` and `start.py`. Invariant: the program is the same
for every plan, so that no text of a plan is ever code; a placement group is had whole or not at all.

Ray Serve's own builders start vLLM on devices that Ray calls GPU, and prefill and decode apart for vLLM alone; a
placement group takes every engine and every vendor.
"""

import json
from collections.abc import Mapping
from importlib import resources

from accord.render.launch import Launch
from accord.render.names import label_value
from accord.render.processes import Process, engine_losses, judge_memory, processes
from accord.render.rendered import File, Options, Rendered
from accord.render.scripts import routers
from accord.render.shell import hole
from accord.render.wishes import Aspect, Wish, kind_of, lost
from accord.terms.fleet import DeviceKind, Fleet, Vendor
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Apart, Need, Relation, Scope, Together

# What Ray detects and hands out by itself; other vendors' devices are resources that an administrator declares.
_DETECTED: Mapping[Vendor, str] = {
    Vendor.NVIDIA: "GPU",
    Vendor.AMD: "GPU",
    Vendor.METAX: "GPU",
    Vendor.ASCEND: "NPU",
}
_NODE, _KIND = "accord/node", "accord/kind"
_SWITCHES: Mapping[Scope, str] = {Scope.LEAF: "accord/leaf", Scope.SPINE: "accord/spine"}
_RACK = "the bundles of all parts are one group; a label can hold together the whole group alone"
_WHY: Mapping[Aspect, str] = {
    Aspect.COMPUTE: "Ray counts the share; nothing holds a process to it",
    Aspect.CODECS: "Ray counts no codec units",
    Aspect.NVME: "Ray counts no disks",
    Aspect.NIC: "Ray counts no network ports",
    Aspect.NIC_RATE: "Ray counts no bandwidth",
    Aspect.NIC_WITHIN: "Ray knows nothing of what is inside a host",
    Aspect.BANDWIDTH: "Ray counts no bandwidth",
    Aspect.PIN_DEVICE: "Ray chooses the devices of a node itself",
    Aspect.PIN_NIC: "Ray counts no network ports",
}
_ROUTER_CPUS = 2.0


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The placement group and its processes as data, and the program that reads them."""
    kept = options.pinned and bool(plan.seats)
    # Ray tells addresses and devices when it has placed the group; only nodes can be asked for.
    found = processes(plan, fleet, Options())
    fronts = [launch for engine in ("vllm", "sglang") for _, launch in routers(engine, plan, found)]
    strategy, topology = _strategy(plan, kept=kept)
    bundles = [_bundle(plan, one.pool, fleet) for one in found]
    entries = [_written(one.name, one.launch, at, bundles[at]) for at, one in enumerate(found)]
    for front in fronts:
        # Beside the first process: a bundle of its own would need a host of its own where bundles are spread.
        entries.append(_written("router", front, 0, {"CPU": _ROUTER_CPUS}))
        bundles[0] = {**bundles[0], "CPU": bundles[0].get("CPU", 0) + _ROUTER_CPUS}
    made: dict[str, object] = {
        "name": plan.name,
        "strategy": strategy,
        "topology": topology,
        "bundles": bundles,
        "labels": [_labels(plan, one, kept=kept) for one in found],
        "processes": entries,
    }
    missing = (
        *lost(plan, fleet, lambda wish: _judge(wish, plan, fleet, kept=kept), pinned=kept),
        *engine_losses(plan, fleet),
    )
    program = resources.files("accord.render").joinpath("ray_start.py.txt").read_text(encoding="utf-8")
    text = json.dumps(made, indent=1, sort_keys=True) + "\n"
    return Rendered(
        files=(File(name="plan.json", text=text), File(name="start.py", text=program)),
        lost=tuple(missing),
        notes=_notes(plan, fleet, kept=kept),
    )


def resource_of(kind: DeviceKind | None) -> str:
    """What Ray calls devices of this kind."""
    if kind is None:
        return "GPU"
    return _DETECTED.get(kind.vendor, f"accord/{label_value(kind.name)}")


def _bundle(plan: FleetPlan, pool: Pool, fleet: Fleet | None) -> dict[str, float]:
    need = _need(plan, pool)
    amounts = {
        "CPU": need.cpus,
        resource_of(kind_of(pool.kind, fleet)): need.cards or need.share,
        "memory": float(need.host_memory_bytes),
    }
    held = {name: amount for name, amount in amounts.items() if amount}
    # Ray refuses an empty bundle.
    return held or {"CPU": 1.0}


def _need(plan: FleetPlan, pool: Pool) -> Need:
    return next(part.need for part in plan.gang.parts if part.name == pool.part)


def _labels(plan: FleetPlan, process: Process, *, kept: bool) -> dict[str, str]:
    need = _need(plan, process.pool)
    labels = {_KIND: label_value(process.pool.kind)} if need.cards or need.share else {}
    if kept:
        seats = sorted((seat for seat in plan.seats if seat.part == process.pool.part), key=lambda seat: seat.replica)
        number = process.replica * process.pool.nodes + process.rank
        labels |= {_NODE: label_value(seats[number].node)} if number < len(seats) else {}
    return labels


def _strategy(plan: FleetPlan, *, kept: bool) -> tuple[str, dict[str, str] | None]:
    """How the bundles stand to each other, as far as one word and one label for all of them can say it."""
    if kept:
        return "PACK", None  # each bundle names its node
    whole = [one for one in plan.gang.relations if _is_whole(one, plan)]
    strategy = "PACK"
    for one in whole:
        match one:
            case Together(scope=Scope.HOST, required=True):
                strategy = "STRICT_PACK"
            case Apart(scope=Scope.HOST, most=1, required=True):
                strategy = "STRICT_SPREAD"
            case Apart(scope=Scope.HOST, most=1) if strategy == "PACK":
                strategy = "SPREAD"
            case _:
                pass
    nearest = [one.scope for one in whole if isinstance(one, Together) and one.required and one.scope in _SWITCHES]
    label = next((_SWITCHES[scope] for scope in (Scope.LEAF, Scope.SPINE) if scope in nearest), None)
    return strategy, {"ray.io/node-id": strategy, label: "STRICT_PACK"} if label else None


def _is_whole(relation: Relation, plan: FleetPlan) -> bool:
    names = {part.name for part in plan.gang.parts if part.need.cards or part.need.share}
    return isinstance(relation, Together | Apart) and names <= set(relation.parts)


def _judge(wish: Wish, plan: FleetPlan, fleet: Fleet | None, *, kept: bool) -> str | None:
    strategy, topology = _strategy(plan, kept=kept)
    names = {part.name for part in plan.gang.parts if part.need.cards or part.need.share}
    whole = names <= set(wish.parts)
    if kept and wish.aspect in (Aspect.TOGETHER, Aspect.APART) and wish.scope in (Scope.HOST, *_SWITCHES):
        return None
    match wish.aspect:
        case Aspect.WITHIN:
            inside = wish.scope not in (Scope.HOST, Scope.LEAF, Scope.SPINE)
            return "Ray knows nothing of what is inside a host" if inside else None
        case Aspect.TOGETHER if wish.scope in _SWITCHES:
            held = whole and wish.required and topology is not None
            return None if held else _RACK
        case Aspect.TOGETHER:
            held = whole and wish.scope is Scope.HOST and strategy == "STRICT_PACK"
            return None if held else "a placement group has one strategy, for all of its bundles"
        case Aspect.APART:
            enough = ("STRICT_SPREAD",) if wish.required else ("STRICT_SPREAD", "SPREAD")
            held = whole and wish.scope is Scope.HOST and strategy in enough
            return None if held else "a placement group has one strategy, for all of its bundles"
        case Aspect.MEMORY:
            return judge_memory(wish, plan, fleet)
        case Aspect.CARDS if not set(wish.vendors) <= set(_DETECTED):
            return "Ray counts them, but hands none of them to a process"
    return _WHY.get(wish.aspect)


def _written(name: str, launch: Launch, bundle: int, amounts: Mapping[str, float]) -> dict[str, object]:
    """One process. Texts that are known only when it runs stand between NUL signs, which no plan can hold."""
    files = {mount.path: number for number, mount in enumerate(launch.mounts)}
    return {
        "name": name,
        "bundle": bundle,
        "amounts": dict(amounts),
        "words": [hole(f"FILE_{files[word]}") if word in files else word for word in launch.words],
        "environment": dict(launch.environment),
        "files": [mount.text for mount in launch.mounts],
    }


def _notes(plan: FleetPlan, fleet: Fleet | None, *, kept: bool) -> tuple[str, ...]:
    """What the nodes of the cluster must be started with."""
    kinds = {pool.kind for pool in plan.pools}
    declared = sorted({resource_of(kind_of(name, fleet)) for name in kinds} - set(_DETECTED.values()))
    _, topology = _strategy(plan, kept=kept)
    labels = [_KIND, *([_NODE] if kept else []), *(name for name in topology or {} if name in _SWITCHES.values())]
    made = [f"nodes are started with `ray start --labels`: {', '.join(labels)}"]
    made += [f"nodes are started with `ray start --resources`: {name}" for name in declared]
    return tuple(made)
