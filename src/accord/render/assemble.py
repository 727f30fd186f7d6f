"""What the targets with a scheduler of their own share: one file, with what a reader must know at its head.

In: a target's dresser, judge and notes. Out: `Rendered`. Invariant: what is lost stands in the file too, as a comment,
for whoever meets the file without the words that came with it.
"""

from collections.abc import Callable

from accord.render.around import is_grouped, may_grow
from accord.render.dress import Dresser, Member
from accord.render.gangs import SWITCHES, running
from accord.render.relations import TOPOLOGY_KEYS
from accord.render.rendered import File, Lost, Options, Rendered
from accord.render.wishes import Aspect, Judge, Wish, lost, uuids
from accord.render.workloads import launch_of, members, workloads
from accord.render.yaml_text import Document, comment, yaml_text
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan
from accord.terms.gang import Apart, Together

# Why a target can't express a wish of these pods, or None if it does.
PodJudge = Callable[[Wish, Member], str | None]
Noter = Callable[[Member], tuple[str, ...]]


def assemble(
    target: str,
    plan: FleetPlan,
    fleet: Fleet | None,
    options: Options,
    *,
    dresser: Dresser,
    judge: PodJudge,
    noter: Noter = lambda _: (),
    first: tuple[Document, ...] = (),
    needs: tuple[str, ...] = (),
) -> Rendered:
    """`first` are the documents of the whole plan; `needs` says what the cluster must have."""
    pods = [member for pool in plan.pools for replica in members(plan, pool, fleet, options) for member in replica]
    missing = lost(plan, fleet, _judge_of(pods, judge), pinned=options.pinned)
    missing += (*(one for member in pods for one in launch_of(member).lost), *_fixed(plan, options))
    missing = tuple(dict.fromkeys(missing))
    told = tuple(dict.fromkeys(note for member in pods for note in noter(member)))
    lines = [f"Needs: {need}" for need in (*needs, *_needs(plan, options))] + [f"Note: {note}" for note in told]
    lines += [f"Lost: {one.what}: {one.why}" for one in missing]
    text = "".join(map(comment, lines)) + yaml_text([*first, *workloads(plan, fleet, options, dresser)])
    return Rendered(files=(File(name=f"{target}.yaml", text=text),), lost=missing, notes=told)


def _needs(plan: FleetPlan, options: Options) -> tuple[str, ...]:
    """What the cluster must have for the workloads themselves."""
    found = []
    if any(is_grouped(pool) for pool in running(plan)):
        found.append("the LeaderWorkerSet controller (leaderworkerset.x-k8s.io/v1)")
    if not (options.pinned and plan.seats):
        scopes = {one.scope for one in plan.gang.relations if isinstance(one, Together | Apart)}
        keys = [TOPOLOGY_KEYS[scope] for scope in SWITCHES if scope in scopes]
        found += [f"nodes labelled with {key}, such as NVIDIA's topograph does" for key in keys]
    if options.replicas_max is not None:
        found.append("an adapter that serves the engines' metrics as Pods metrics")
    return tuple(found)


def _fixed(plan: FleetPlan, options: Options) -> tuple[Lost, ...]:
    """The pools that can't grow, where they should."""
    why = "its router knows the replicas that it was started with"
    kept = [pool for pool in running(plan) if not may_grow(pool)] if options.replicas_max is not None else []
    return tuple(Lost(what=f"{pool.name}: up to {options.replicas_max} replicas", why=why) for pool in kept)


def _judge_of(pods: list[Member], judge: PodJudge) -> Judge:
    """A judge of wishes from one of pods: a wish holds if it does for all pods that it binds."""

    def judge_wish(wish: Wish) -> str | None:
        bound = [one for one in pods if one.part.name in wish.parts and (wish.replica is None or _has(one, wish))]
        reasons = (None if _is_pinned(wish, member, judge) else judge(wish, member) for member in bound)
        return next((why for why in reasons if why is not None), None)

    return judge_wish


def _has(member: Member, wish: Wish) -> bool:
    """Whether the seat that a pin is about is one of these pods'."""
    return any(seat.replica == wish.replica for seat in member.seats)


def _is_pinned(wish: Wish, member: Member, judge: PodJudge) -> bool:
    """Whether the wish holds because the nodes, or the devices too, are those that Accord chose with it in mind."""
    if not member.seats or wish.aspect not in (Aspect.TOGETHER, Aspect.APART, Aspect.WITHIN):
        return False
    if wish.aspect is not Aspect.WITHIN and wish.scope in TOPOLOGY_KEYS:
        return True
    pin = Wish(aspect=Aspect.PIN_DEVICE, what="", parts=wish.parts, vendors=wish.vendors)
    return uuids(member.seats, member.fleet) is not None and judge(pin, member) is None
