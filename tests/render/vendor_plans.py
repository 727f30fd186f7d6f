"""Renders of one plan with everything in it, for the tests of targets with schedulers of their own."""

import yaml

from accord.render.rendered import Options
from accord.render.targets import TARGETS
from accord.terms.fleet import Codec, Vendor
from accord.terms.gang import Apart, Bandwidth, Scope, Together
from tests.render.fleet_plans import B3, GIB, H20, fleet, kind, part, plan

K100 = kind("k100-ai", Vendor.HYGON, gib=64)
XPU = kind("kunlun-p800", Vendor.KUNLUNXIN, gib=96)
GCU = kind("gcu-s60", Vendor.ENFLAME, gib=48)
MIXED = fleet(H20, B3, K100, XPU, GCU)


def rendered(target, made, on=MIXED, **options):
    return TARGETS[target].load()(made, on, Options(**options))


def documents(target, made, on=MIXED, **options):
    return list(yaml.safe_load_all(rendered(target, made, on, **options).files[0].text))


def of_sort(found, sort):
    return [one for one in found if one["kind"] == sort]


def pods(found):
    for one in found:
        if one["kind"] == "Deployment":
            yield one["spec"]["template"]
        if one["kind"] == "LeaderWorkerSet":
            yield from (one["spec"]["leaderWorkerTemplate"][f"{role}Template"] for role in ("leader", "worker"))


def limits(pod):
    found = dict(pod["spec"]["containers"][0]["resources"].get("limits", {}))
    return {name: value for name, value in found.items() if "/" in name}


MANY = plan(
    part("prefill", H20, cards=8, replicas=4, within=Scope.LINK_GROUP, nic_within=Scope.HOST, nic_bytes_per_s=1e10),
    part("decode", H20, cards=8, replicas=2, cpus=8.0, host_memory_bytes=64 * GIB, nvme_bytes=GIB),
    part("speech", H20, share=0.3, memory_bytes=9 * GIB, codecs=(Codec(name="nvdec", units=1),)),
    part("picture", B3, share=0.2, memory_bytes=9 * GIB),
    part("other", K100, cards=2, within=Scope.NUMA),
    part("small", XPU, share=0.2, memory_bytes=9 * GIB),
    part("last", GCU, share=0.2, memory_bytes=9 * GIB),
    nodes={"prefill": 2, "decode": 2},
    relations=(
        Together(parts=("prefill", "decode"), scope=Scope.LEAF),
        Together(parts=("speech",), scope=Scope.SPINE, required=False),
        Apart(parts=("speech", "picture"), scope=Scope.HOST, most=1),
        Bandwidth(source="prefill", target="decode", bytes_per_s=1e10),
    ),
)
