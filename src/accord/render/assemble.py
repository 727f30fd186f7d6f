"""What the targets with a scheduler of their own share: one file, with what a reader must know at its head.

In: a target's dresser, judge and notes. Out: `Rendered`. Invariant: what is lost stands in the file too, as a comment,
for whoever meets the file without the words that came with it.
"""

from collections.abc import Callable

from accord.render.common import judge_common
from accord.render.dress import Dresser, Member
from accord.render.relations import TOPOLOGY_KEYS
from accord.render.rendered import File, Options, Rendered
from accord.render.wishes import Aspect, Judge, Wish, lost, uuids
from accord.render.workloads import launch_of, members, workloads
from accord.render.yaml_text import Document, comment, yaml_text
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan

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
    missing = tuple(dict.fromkeys((*missing, *(one for member in pods for one in launch_of(member).lost))))
    told = tuple(dict.fromkeys(note for member in pods for note in noter(member)))
    lines = [f"Needs: {need}" for need in needs] + [f"Note: {note}" for note in told]
    lines += [f"Lost: {one.what}: {one.why}" for one in missing]
    text = "".join(map(comment, lines)) + yaml_text([*first, *workloads(plan, fleet, options, dresser)])
    return Rendered(files=(File(name=f"{target}.yaml", text=text),), lost=missing, notes=told)


def _judge_of(pods: list[Member], judge: PodJudge) -> Judge:
    by_part = {member.part.name: member for member in reversed(pods)}

    def judge_wish(wish: Wish) -> str | None:
        bound = [by_part[name] for name in wish.parts if name in by_part]
        if not bound:
            return judge_common(wish)
        return None if all(_is_pinned(wish, member, judge) for member in bound) else judge(wish, bound[0])

    return judge_wish


def _is_pinned(wish: Wish, member: Member, judge: PodJudge) -> bool:
    """Whether the wish holds because the nodes, or the devices too, are those that Accord chose with it in mind."""
    if not member.seats or wish.aspect not in (Aspect.TOGETHER, Aspect.APART, Aspect.WITHIN):
        return False
    if wish.aspect is not Aspect.WITHIN and wish.scope in TOPOLOGY_KEYS:
        return True
    pin = Wish(aspect=Aspect.PIN_DEVICE, what="", parts=wish.parts, vendors=wish.vendors)
    return uuids(member.seats, member.fleet) is not None and judge(pin, member) is None
