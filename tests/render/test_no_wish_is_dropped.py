"""Each kind of wish, for each target: it is found in the text, or it is among what is lost.

The table says what the text must hold, as lines `path=value` of the parsed documents (of the text, for scripts). A wish
that is neither lost nor in the table fails, so that a target can't drop one in silence.
"""

import dataclasses
import re

import pytest
import yaml

from accord.render.rendered import Options
from accord.render.targets import TARGETS
from accord.render.wishes import Aspect, wishes
from accord.terms.fleet import Codec
from accord.terms.fleet_plan import Parallel
from accord.terms.gang import Apart, Bandwidth, Scope, Seat, Together
from tests.render import small

GIB = 1 << 30
ENGINES = ("vllm", "sglang", "vllm-omni", "ray")
SCHEDULERS = tuple(name for name in TARGETS if name not in ENGINES)
FLEET = small.fleet("h20", "a100-80g")
CLAIMS = ("kubernetes", "kueue")
LEAF, SPINE, HOST = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "kubernetes.io/hostname"

SHARED = {"share": 0.3, "memory_bytes": 8 * GIB}
TWO = {"cards": 2}
PINNED = small.plan(
    small.part(cards=2, nic_bytes_per_s=1e9), seats=(Seat(part="a", replica=0, node="n0", devices=(4, 5), nic=2),)
)


def of_part(**more):
    return small.plan(small.part(**more), parallel=Parallel(tensor=more.get("cards", 1)))


def related(relation, **need):
    need = need or {"cards": 1}
    return small.plan(small.part("a", **need), small.part("b", **need), relations=(relation,))


def claims(text):
    return dict.fromkeys(CLAIMS, text)


def everywhere(text):
    return dict.fromkeys(SCHEDULERS, text)


def affinity(relation):
    """The term that the pods of both parts must have."""
    how = "required" if relation.required else "preferred"
    key = {Scope.HOST: HOST, Scope.LEAF: LEAF, Scope.SPINE: SPINE}.get(relation.scope, "no such key")
    if isinstance(relation, Together):
        return everywhere(rf"podAffinity\.{how}.*topologyKey={key}$")
    if relation.most == 1:
        return everywhere(rf"podAntiAffinity\.{how}.*topologyKey={key}$")
    return everywhere(rf"topologySpreadConstraints.*topologyKey={key}$")


def cases():
    kind = claims(r"expression=.*h20") | {"hami": r"use-gputype=H20", "volcano": r"use-gputype=H20"}
    yield Aspect.KIND, of_part(**TWO), kind | {"ray": r'"accord/kind": "h20"'}
    cards = claims(r"\.count=2$") | {
        "hami": "nvidia.com/gpu=2",
        "volcano": "nvidia.com/gpu=2",
        "kai": "nvidia.com/gpu=2",
    }
    cards |= {"koordinator": r"koordinator.sh/gpu=200", "ray": '"GPU": 2', "sglang": "--tp-size 2"}
    cards |= {"vllm": "--tensor-parallel-size 2", "vllm-omni": "tensor_parallel_size: 2"}
    yield Aspect.CARDS, of_part(**TWO), cards
    memory = claims(r"capacity.requests.memory=8Gi") | {"hami": "nvidia.com/gpumem=8192", "kai": "gpu-memory=8192"}
    memory |= {"volcano": "volcano.sh/vgpu-memory=8192", "koordinator": f"koordinator.sh/gpu-memory={8 * GIB}"}
    memory |= {"vllm": "--gpu-memory-utilization 0.083", "sglang": "--mem-fraction-static 0.083"}
    memory |= {"vllm-omni": "gpu_memory_utilization: 0.083", "ray": '"--gpu-memory-utilization",\\s*"0.083"'}
    yield Aspect.MEMORY, of_part(**SHARED), memory
    compute = claims(r"capacity.requests.cores=30") | {"hami": "gpucores=30", "volcano": "volcano.sh/vgpu-cores=30"}
    yield Aspect.COMPUTE, of_part(**SHARED), compute | {"koordinator": "koordinator.sh/gpu-core=30"}
    yield Aspect.CODECS, of_part(**SHARED, codecs=(Codec(name="nvdec", units=1),)), {}
    whole = of_part(cards=1, cpus=4.0, host_memory_bytes=GIB)
    yield (
        Aspect.CPUS,
        whole,
        everywhere(r"limits\.cpu=4$") | {"ray": r'"CPU": 4.0,\s*"GPU": 1,\s*"memory": 1073741824.0'},
    )
    yield Aspect.NVME, of_part(cards=1, nvme_bytes=GIB), everywhere(r"limits\.ephemeral-storage=1Gi")
    port = claims(r"deviceClassName=accord-rdma") | {"koordinator": "koordinator.sh/rdma=100"}
    yield Aspect.NIC, of_part(cards=1, nic_bytes_per_s=1e9), port
    yield Aspect.NIC_RATE, of_part(cards=1, nic_bytes_per_s=1e9), port  # no port of the fleet is slower
    yield Aspect.NIC_RATE, of_part(cards=1, nic_bytes_per_s=1e12), {}
    yield from near_cases()
    for scope in Scope:
        for required in (True, False):
            yield from relation_cases(scope, required=required)
    yield Aspect.BANDWIDTH, related(Bandwidth(source="a", target="b", bytes_per_s=1e9)), {}
    gang = {"volcano": "spec.minMember=2", "koordinator": "min-available=2", "kai": "minSubGroup=2"}
    yield Aspect.GANG, related(Apart(parts=("a",), scope=Scope.HOST)), gang | {"ray": '"bundles"'}
    node = everywhere(r"nodeAffinity\.required.*matchFields.*values.0=n0") | {"ray": '"accord/node": "n0"'}
    yield Aspect.PIN_NODE, PINNED, node | dict.fromkeys(("vllm", "sglang", "vllm-omni"), "Run it on n0")
    device = claims(r'expression=.*uuid in \["GPU-n0-4", "GPU-n0-5"\]') | {"hami": "use-gpuuuid=GPU-n0-4,GPU-n0-5"}
    device |= {"volcano": "vgpu-use-gpuuuid=GPU-n0-4,GPU-n0-5"}
    device |= dict.fromkeys(("vllm", "sglang", "vllm-omni"), "CUDA_VISIBLE_DEVICES=4,5")
    yield Aspect.PIN_DEVICE, PINNED, device
    port = claims(r'expression=.*rdmaDevice in \["mlx5_2"\]')
    yield Aspect.PIN_NIC, PINNED, port | dict.fromkeys(("vllm", "sglang"), "NCCL_IB_HCA==?.*mlx5_2")


def near_cases():
    same, pcie, numa = r"matchAttribute=resource.kubernetes.io/", "pcieRoot", "numaNode"
    hint = "device-allocate-hint=.*requiredTopologyScope"
    told = {
        Scope.LINK_GROUP: {"koordinator": "gpu-partition-spec=.*Restricted"},
        Scope.PCIE_SWITCH: {"koordinator": f"{hint}.*PCIe"},
        Scope.PCIE_ROOT: claims(same + pcie) | {"koordinator": f"{hint}.*PCIe"},
        Scope.NUMA: claims(same + numa) | {"koordinator": f"{hint}.*NUMANode", "hami": "numa-bind=true"},
    }
    for scope, found in told.items():
        yield Aspect.WITHIN, of_part(**TWO, within=scope), found
    joint = {"koordinator": "device-joint-allocate=.*SamePCIe"}
    told = {
        Scope.PCIE_SWITCH: joint,
        Scope.PCIE_ROOT: claims(same + pcie) | joint,
        Scope.NUMA: claims(same + numa),
    }
    for scope, found in told.items():
        yield Aspect.NIC_WITHIN, of_part(**TWO, nic_within=scope), found


def relation_cases(scope, *, required):
    need = SHARED if scope is Scope.CARD else {"cards": 1}
    near = Together(parts=("a", "b"), scope=scope, required=required)
    shared = claims(r"spec.resourceClaims.0.resourceClaimName=p-a-b") if scope is Scope.CARD and required else {}
    on_ray = {}
    if required and scope in (Scope.HOST, Scope.LEAF, Scope.SPINE):
        on_ray = {"ray": '"strategy": "STRICT_PACK"' if scope is Scope.HOST else f'"accord/{scope}": "STRICT_PACK"'}
    yield Aspect.TOGETHER, related(near, **need), affinity(near) | shared | on_ray
    for most in (1, 2):
        apart = Apart(parts=("a", "b"), scope=scope, required=required, most=most)
        alone = {"volcano": "vgpu-podgroup-policy=spread"} if scope is Scope.CARD and most == 1 else {}
        word = "STRICT_SPREAD" if required else "SPREAD"
        on_ray = {"ray": f'"strategy": "{word}"'} if scope is Scope.HOST and most == 1 else {}
        yield Aspect.APART, related(apart, **need), affinity(apart) | alone | on_ray


def lines(value, path=""):
    """The leaves of a document, each as `path=value`."""
    match value:
        case dict():
            for key, one in value.items():
                yield from lines(one, f"{path}.{key}")
        case list():
            for number, one in enumerate(value):
                yield from lines(one, f"{path}.{number}")
        case _:
            yield f"{path}={value}"


CASES = [pytest.param(*case, id=f"{number}-{case[0].name.lower()}") for number, case in enumerate(cases())]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("aspect", "plan", "told"), CASES)
def test_a_wish_is_in_the_text_or_lost(aspect, plan, told, target):
    if target == "vllm-omni":
        plan = dataclasses.replace(plan, pools=tuple(dataclasses.replace(p, engine=target) for p in plan.pools))
    pinned = bool(plan.seats)
    made = TARGETS[target].load()(plan, FLEET, Options(pinned=pinned))
    asked = [one.what for one in wishes(plan, FLEET, pinned=pinned) if one.aspect is aspect and not one.held]
    assert asked
    lost = {one.what for one in made.lost}
    texts = [file.text for file in made.files]
    if target in SCHEDULERS:
        texts = [line for text in texts for document in yaml.safe_load_all(text) for line in lines(document)]
    for what in asked:
        if what in lost:
            continue
        assert target in told, f"{what}: neither lost, nor does this test know where the text says it"
        assert any(re.search(told[target], text) for text in texts), f"{what}: not lost, and not in the text"


def test_a_part_that_nothing_runs_is_lost():
    plan = small.plan(small.part("a"))
    gang = dataclasses.replace(plan.gang, parts=(*plan.gang.parts, small.part("b", cards=1, cpus=1.0)))
    plan = dataclasses.replace(plan, gang=gang)
    for target in TARGETS:
        if target != "vllm-omni":
            made = TARGETS[target].load()(plan, FLEET, Options())
            assert {one.why for one in made.lost if one.what.startswith("b: ")} == {
                "no pool of the plan runs this part"
            }


def test_a_wish_binds_all_pods_that_it_names():
    """A whole card keeps others off, a share of one doesn't: whichever part comes first in the plan."""
    apart = Apart(parts=("a", "b"), scope=Scope.CARD)
    whole, shared = {"cards": 1}, SHARED
    for first, second in ((whole, shared), (shared, whole)):
        plan = small.plan(small.part("a", **first), small.part("b", **second, replicas=2), relations=(apart,))
        for target in ("kubernetes", "hami", "koordinator", "kai"):
            lost = {one.what for one in TARGETS[target].load()(plan, FLEET, Options()).lost}
            assert "replicas of a and b apart, 1 to a card" in lost
