"""Devices as their vendors' own Kubernetes plugins count them: whole ones, by one name a vendor.

In: a `Member`. Out: its limits. Invariant: a fraction, which no such plugin knows, takes a whole
device; targets say so.
"""

from accord.render.dress import Member, Pairs
from accord.render.kubernetes_claims import PLUGINS
from accord.terms.fleet import Vendor

# NVIDIA/k8s-device-plugin, ROCm/k8s-device-plugin, Ascend's device plugin; the others where claims are unknown, too.
_MORE = {Vendor.NVIDIA: "nvidia.com/gpu", Vendor.AMD: "amd.com/gpu", Vendor.ASCEND: "huawei.com/Ascend910"}
_ASCEND_310P = "huawei.com/Ascend310P"
WHOLE_ONLY = "a device plugin gives out whole devices, so that a whole one is taken"


def plugin_name(member: Member) -> str | None:
    """The name of the pool's devices; None if no plugin is known for them."""
    if member.vendor is None:
        return None
    if member.vendor is Vendor.ASCEND and "310p" in member.pool.kind.lower():
        return _ASCEND_310P
    return PLUGINS.get(member.vendor) or _MORE.get(member.vendor)


def whole_devices(member: Member) -> Pairs:
    """What the pods ask of the plugin."""
    name, need = plugin_name(member), member.part.need
    return ((name, str(need.cards or 1)),) if name and (need.cards or need.share) else ()
