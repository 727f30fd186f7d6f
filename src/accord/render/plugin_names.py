"""Devices as their vendors' own Kubernetes plugins count them: whole ones, by one name a vendor.

In: a `Member`. Out: its limits. Invariant: a fraction, which no such plugin knows, takes a whole
device; targets say so.
"""

from accord.render.dress import Member, Pairs
from accord.render.relations import kind_label
from accord.terms.fleet import DeviceKind, Vendor

# NVIDIA/k8s-device-plugin, ROCm/k8s-device-plugin, Ascend's device plugin, Deep-Spark/ix-device-plugin (Iluvatar),
# and the other vendors' own.
_PLUGINS = {
    Vendor.NVIDIA: "nvidia.com/gpu",
    Vendor.AMD: "amd.com/gpu",
    Vendor.ASCEND: "huawei.com/Ascend910",
    Vendor.CAMBRICON: "cambricon.com/mlu",
    Vendor.HYGON: "hygon.com/dcu",
    Vendor.METAX: "metax-tech.com/gpu",
    Vendor.MOORE_THREADS: "mthreads.com/gpu",
    Vendor.ENFLAME: "enflame.com/gcu",
    Vendor.ILUVATAR: "iluvatar.com/gpu",
    Vendor.KUNLUNXIN: "kunlunxin.com/xpu",
}
_ASCEND_310P = "huawei.com/Ascend310P"
WHOLE_ONLY = "a device plugin gives out whole devices, so that a whole one is taken"


def plugin_name(kind: DeviceKind | None) -> str | None:
    """The name of devices of this kind; None if no plugin is known for them."""
    if kind is None:
        return None
    if kind.vendor is Vendor.ASCEND and "310p" in kind.name.lower():
        return _ASCEND_310P
    return _PLUGINS.get(kind.vendor)


def whole_devices(member: Member) -> Pairs:
    """What the pods ask of the plugin."""
    name, need = plugin_name(member.kind), member.part.need
    return ((name, str(need.cards or 1)),) if name and (need.cards or need.share) else ()


def judge_plugin_kind(member: Member) -> str | None:
    """Why nothing tells the pool's kind from the fleet's others: neither the plugin's name nor a label of the nodes."""
    name = plugin_name(member.kind)
    kinds = member.fleet.kinds if member.fleet else ()
    alike = next((one.name for one in kinds if one.name != member.pool.kind and plugin_name(one) == name), None)
    if member.vendor is Vendor.CPU or alike is None or kind_label(member) is not None:
        return None
    return f"{name} counts {alike} too, and no label of the nodes tells them apart"


def judge_plugin_cards(member: Member) -> str | None:
    """Why the pool's devices can't be counted."""
    known = member.vendor is Vendor.CPU or plugin_name(member.kind) is not None
    return None if known else f"no device plugin is known for devices of {member.vendor or 'this vendor'}"
