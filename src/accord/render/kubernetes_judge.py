"""Which wishes plain Kubernetes with resource claims can express, and why it can't express the others.

In: a plan, the fleet, a `Wish`. Out: a reason, or None. Invariant: it says of each wish what kubernetes_claims.py and
workloads.py do about it.
"""

from accord.render.common import judge_common, judge_rate
from accord.render.dress import Member
from accord.render.kubernetes_claims import common_attribute
from accord.render.kubernetes_drivers import WHOLE
from accord.render.kubernetes_slices import joint_bytes, mates_of, one_vendor, slice_of_member
from accord.render.plugin_names import WHOLE_ONLY, judge_plugin_cards, judge_plugin_kind
from accord.render.wishes import Aspect, Wish, ports, uuids
from accord.terms.gang import Scope

_GANG = (
    "the kube-scheduler starts pods one by one; gangs are beta since 1.37 (PodGroup of scheduling.k8s.io/v1beta1) and "
    "off unless a cluster turns them on"
)


def judge_wish(wish: Wish, member: Member) -> str | None:
    """Why plain Kubernetes can't express `wish` of these pods; None if it does."""
    claims = member.vendor in WHOLE
    match wish.aspect:
        case Aspect.KIND:
            return None if claims else judge_plugin_kind(member)
        case Aspect.CARDS:
            return None if claims else judge_plugin_cards(member)
        case Aspect.COMPUTE | Aspect.MEMORY | Aspect.CODECS:
            return _fraction(wish, member) if claims else WHOLE_ONLY
        case Aspect.NIC:
            return None
        case Aspect.NIC_RATE:
            return judge_rate(member)
        case Aspect.WITHIN | Aspect.NIC_WITHIN:
            return _near(wish, member) if claims else "a device plugin doesn't choose devices by where they stand"
        case Aspect.TOGETHER if wish.scope is Scope.CARD:
            return _one_card(wish, member)
        case Aspect.APART if wish.scope is Scope.CARD:
            return None if member.part.need.cards else "a claim can't keep away from the device of another claim"
        case Aspect.PIN_DEVICE | Aspect.PIN_NIC:
            return _pin(wish, member)
        case Aspect.GANG:
            return _GANG
        case _:
            return judge_common(wish, member)


def _fraction(wish: Wish, member: Member) -> str | None:
    found, need = slice_of_member(member), member.part.need
    if need.cards:
        return None  # codec units come with a whole device
    if wish.aspect is Aspect.CODECS:
        templates = {one.name: one for one in member.kind.templates} if member.kind else {}
        has = {codec.name: codec.units for codec in templates[found.template].codecs} if found.template else {}
        enough = all(has.get(codec.name, 0) >= codec.units for codec in need.codecs)
        return None if enough else "codec units of a shared device aren't counted"
    if not found.template and not found.shared:
        return f"{found.driver.name} gives out whole devices, so that a whole one is taken"
    mates = mates_of(member)
    if not mates or (found.template and member.part.replicas == 1):
        return None
    if wish.aspect is Aspect.MEMORY and joint_bytes(mates):
        return None  # the engine is told
    return "parts on one card have one claim, and are bounded together"


def _near(wish: Wish, member: Member) -> str | None:
    driver = slice_of_member(member).driver
    if wish.scope in (Scope.HOST, Scope.LEAF, Scope.SPINE):
        return None
    if wish.scope is Scope.PCIE_SWITCH and driver.pcie_root:
        return "no driver publishes PCIe switches; the root above them is required instead, and is wider"
    if wish.scope and common_attribute(wish.scope, driver):
        return None
    return f"{driver.name} publishes no attribute for a {wish.scope}"


def _one_card(wish: Wish, member: Member) -> str | None:
    if not wish.required:
        return "a claim is shared or it isn't; there is no preference"
    if not one_vendor(member, wish.parts):
        return "only devices of one kind, from a driver with claims, can be shared by name; the host is kept"
    return None


def _pin(wish: Wish, member: Member) -> str | None:
    if not wish.named:
        return "the fleet doesn't say its name"
    if wish.aspect is Aspect.PIN_NIC:
        names = ports(member.seats, member.fleet)
        # Unlike a UUID, a port's name says nothing about the node.
        return None if names and len(set(names)) == 1 else "the workers of a replica have one claim, and other ports"
    if uuids(member.seats, member.fleet) is None:
        return "the workers of a replica have one claim, and the fleet doesn't know the names of all its devices"
    if member.vendor not in WHOLE:
        return "a device plugin chooses the devices itself"
    found = slice_of_member(member)
    return None if found.driver.uuid or found.template else f"{found.driver.name} publishes no UUID"
