"""The target `hami`: HAMi's scheduler, with the resource names, units and annotations of each vendor.

In: a `FleetPlan`. Out: one file, with what rounding gives at its head. Invariant: a container asks for one vendor's
devices; what HAMi can't express is in `lost`.
"""

import re

from accord.render.assemble import assemble
from accord.render.common import judge_common
from accord.render.dress import Dress, Member, Pairs
from accord.render.hami_ask import Asked, ask
from accord.render.hami_names import Names, names_of
from accord.render.relations import kind_label
from accord.render.rendered import Options, Rendered
from accord.render.wishes import Aspect, Wish, uuids
from accord.terms.fleet import Fleet, Vendor
from accord.terms.fleet_plan import FleetPlan
from accord.terms.gang import Apart, Scope

SCHEDULER = "hami-scheduler"
_NODE_POLICY, _DEVICE_POLICY = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"
_NUMA_BIND = "nvidia.com/numa-bind"
# Scopes within a host that one NUMA node keeps, or comes near to.
_INSIDE_NUMA = (Scope.NUMA, Scope.PCIE_ROOT, Scope.PCIE_SWITCH)
_NEEDS = ("HAMi 2.10 with the device plugins of these vendors",)


def render(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Rendered:
    """The manifests of `plan`."""
    return assemble("hami", plan, fleet, options, dresser=dress, judge=judge, noter=notes, needs=_NEEDS)


def dress(member: Member) -> Dress:
    """HAMi's resources and annotations for these pods."""
    asked, names = asked_of(member), names_of_member(member)
    if asked is None or names is None:
        return Dress()
    return Dress(
        limits=asked.limits,
        annotations=asked.annotations + _policies(member) + _of_kind(member, names) + _of_seats(member, names),
        scheduler=SCHEDULER,
    )


def notes(member: Member) -> tuple[str, ...]:
    """Where these pods get more than what was asked."""
    asked = asked_of(member)
    return asked.notes if asked else ()


def asked_of(member: Member) -> Asked | None:
    """What is asked of HAMi for these pods; None if it is nothing, or HAMi doesn't know the devices."""
    names, need = names_of_member(member), member.part.need
    if names is None or member.kind is None or not (need.cards or need.share):
        return None
    return ask(member.part, member.kind, names)


def names_of_member(member: Member) -> Names | None:
    """The row of the pool's devices."""
    return names_of(member.kind) if member.kind else None


def _policies(member: Member) -> Pairs:
    """Fractions fill up cards (HAMi's own default spreads them), replicas that stand apart spread over nodes."""
    apart = [one for one in member.plan.gang.relations if isinstance(one, Apart) and member.part.name in one.parts]
    policies = {_NODE_POLICY: "spread" if any(one.scope is not Scope.CARD for one in apart) else "binpack"}
    if member.part.need.share:
        policies[_DEVICE_POLICY] = "spread" if any(one.scope is Scope.CARD for one in apart) else "binpack"
    elif member.part.need.cards > 1 and member.part.within is Scope.LINK_GROUP:
        policies[_DEVICE_POLICY] = "topology-aware"
    if member.vendor is Vendor.NVIDIA and member.part.within in _INSIDE_NUMA:
        policies[_NUMA_BIND] = "true"
    return tuple(policies.items())


def _of_kind(member: Member, names: Names) -> Pairs:
    model = model_word(member.pool.kind)
    return ((names.type_key, model),) if names.type_key and model else ()


def _of_seats(member: Member, names: Names) -> Pairs:
    """The UUIDs of the chosen devices; HAMi takes exactly these only if all of them are known."""
    key, chosen = _uuid_key(member, names), pinned_uuids(member)
    return ((key, ",".join(chosen)),) if key and chosen else ()


def pinned_uuids(member: Member) -> tuple[str, ...]:
    """The UUIDs of the chosen devices; none where one of them would be read as two."""
    found = uuids(member.seats, member.fleet) or ()
    return () if any("," in uuid for uuid in found) else found


def _uuid_key(member: Member, names: Names) -> str | None:
    return names.uuid_key_whole if member.part.need.cards else names.uuid_key


def model_word(kind: str) -> str | None:
    """The word of a kind's name that vendors put into a device's model: "H20" of "nvidia-h20-96g"."""
    words = re.findall(r"[a-z0-9]+", kind.lower())
    models = (word for word in words if re.search(r"\d", word) and not re.fullmatch(r"\d+g(i?b)?|x\d+", word))
    return next((word.upper() for word in models), None)


def judge(wish: Wish, member: Member) -> str | None:
    """Why HAMi can't express a wish; None if it does."""
    match wish.aspect:
        case Aspect.KIND | Aspect.CARDS | Aspect.MEMORY | Aspect.COMPUTE:
            return _judge_devices(wish, member)
        case Aspect.CODECS:
            return None if member.part.need.cards else "HAMi counts memory and cores of a shared device, no codec units"
        case Aspect.NIC | Aspect.NIC_RATE | Aspect.NIC_WITHIN | Aspect.PIN_NIC:
            return "HAMi gives out devices, no network ports"
        case Aspect.WITHIN:
            return _judge_within(wish, member)
        case Aspect.TOGETHER | Aspect.APART if not wish.required:
            return "HAMi's filter leaves one node, so that the scheduler's preferences count for nothing (HAMi #2264)"
        case Aspect.TOGETHER if wish.scope is Scope.CARD:
            return "HAMi fills up cards, but can't be told which pods share one"
        case Aspect.APART if wish.scope is Scope.CARD:
            return None if member.part.need.cards else "HAMi prefers freer cards for them, it doesn't require others"
        case Aspect.GANG:
            return "HAMi has no gangs: pods are placed one by one, and a part may run while the rest waits"
        case Aspect.PIN_DEVICE:
            return _judge_pin(wish, member)
        case _:
            return judge_common(wish, member)


def _judge_devices(wish: Wish, member: Member) -> str | None:
    if member.vendor is Vendor.CPU:
        return None
    names = names_of_member(member)
    if names is None:
        return f"HAMi has no names for {member.vendor or 'unknown'} devices such as {member.pool.kind}"
    if wish.aspect is Aspect.CARDS and names.wholes and member.part.need.cards not in names.wholes:
        return f"HAMi gives out {', '.join(map(str, names.wholes))} of these devices at a time, by their links"
    return _judge_kind(member, names) if wish.aspect is Aspect.KIND else None


def _judge_kind(member: Member, names: Names) -> str | None:
    """Names that hold the chip, and annotations that hold the model, tell kinds apart."""
    kinds = member.fleet.kinds if member.fleet else ()
    others = [one.name for one in kinds if one.name != member.pool.kind and names_of(one) is names]
    model = model_word(member.pool.kind)
    if not others or kind_label(member) is not None:
        return None
    if names.type_key is None or model is None:
        return f"HAMi's names for {names.vendor} devices don't tell {member.pool.kind} from {others[0]}"
    alike = next((one for one in others if model.lower() in one.lower()), None)
    return f"{names.type_key}: {model} also fits {alike}" if alike else None


def _judge_within(wish: Wish, member: Member) -> str | None:
    match wish.scope:
        case Scope.NUMA:
            return None if member.vendor is Vendor.NVIDIA else "HAMi binds devices to one NUMA node for NVIDIA alone"
        case Scope.LINK_GROUP:
            return "HAMi's topology-aware policy prefers linked devices, it doesn't require them"
        case Scope.PCIE_ROOT | Scope.PCIE_SWITCH:
            return "HAMi knows NUMA nodes and links, no PCIe; NVIDIA devices are kept on one NUMA node, which is wider"
        case _:
            return judge_common(wish, member)


def _judge_pin(wish: Wish, member: Member) -> str | None:
    names = names_of_member(member)
    if names is None or _uuid_key(member, names) is None:
        return f"HAMi can't be told which device of kind {member.pool.kind} to take"
    return None if wish.named and pinned_uuids(member) else "the fleet doesn't say its UUID"
