"""The target `hami`, judged by HAMi's own device configuration and by the rules of its admission webhook."""

import dataclasses
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.render.hami import model_word, render
from accord.render.hami_ask import ask
from accord.render.hami_names import NAMES, names_of
from accord.render.rendered import Options
from accord.terms.fleet import Codec, Vendor
from accord.terms.gang import Apart, Scope, Seat, Together
from tests.render.fleet_plans import B3, GIB, H20, fleet, kind, part, plan

MIB = 1 << 20
CONFIG = yaml.safe_load((Path(__file__).parent / "hami_device_config.yaml").read_text())
CODE = CONFIG["code"]
SECTIONS = {
    Vendor.NVIDIA: "nvidia",
    Vendor.AMD: "amd",
    Vendor.CAMBRICON: "cambricon",
    Vendor.HYGON: "hygon",
    Vendor.KUNLUNXIN: "kunlun",
    Vendor.METAX: "metax",
    Vendor.MOORE_THREADS: "mthreads",
    Vendor.ENFLAME: "enflame",
    Vendor.ILUVATAR: "iluvatars",
}
KINDS = (
    H20,
    B3,
    kind("mi300x", Vendor.AMD, gib=192),
    kind("ascend-910a", Vendor.ASCEND, gib=32),
    kind("ascend-910b2", Vendor.ASCEND, gib=64),
    kind("ascend-910b4", Vendor.ASCEND, gib=32),
    kind("ascend-910b4-1", Vendor.ASCEND, gib=64),
    kind("ascend-910c", Vendor.ASCEND, gib=64, pairs=True),
    kind("ascend-310p", Vendor.ASCEND, gib=24),
    kind("mlu370-x8", Vendor.CAMBRICON, gib=48),
    kind("k100-ai", Vendor.HYGON, gib=64),
    kind("bi-v150", Vendor.ILUVATAR, gib=64),
    kind("kunlun-p800", Vendor.KUNLUNXIN, gib=96),
    kind("metax-c500", Vendor.METAX, gib=64),
    kind("mtt-s4000", Vendor.MOORE_THREADS, gib=48),
    kind("gcu-s60", Vendor.ENFLAME, gib=48),
)


def asked(on, **need):
    names = names_of(on)
    assert names is not None
    found = ask(part("p", on, **need), on, names)
    return dict(found.limits), found.notes


def test_every_vendor_of_the_configuration_has_its_names():
    sections = [section for section in CONFIG.values() if isinstance(section, dict)]
    named = {value for section in sections for value in section.values() if isinstance(value, str)}
    named |= {value for row in CONFIG["iluvatars"] for value in row.values()}
    named |= {row[key] for row in CONFIG["vnpus"] for key in ("resourceName", "resourceMemoryName")}
    fields = ("count", "whole", "memory", "percentage", "core")
    ours = {getattr(names, field) for names in NAMES for field in fields} - {None}
    assert ours <= named
    # What is left out on purpose: chips are rows, priority isn't ours to give, a DRS profile is found by its memory.
    left = named - ours
    assert left == {"nvidia.com/priority", "enflame.com/drs-gcu", "MR-V100", "MR-V50", "BI-V150", "BI-V100"}


@pytest.mark.parametrize("row", CONFIG["vnpus"], ids=lambda row: row["commonWord"])
def test_templates_are_those_of_the_configuration(row):
    names = next(names for names in NAMES if names.count == row["resourceName"])
    told = [(one["name"], one["memory"], one["aiCore"], one.get("aiCPU", 0)) for one in row["templates"]]
    assert [(one.name, one.memory_mib, one.ai_cores, one.ai_cpus) for one in names.templates] == told
    assert (names.memory, names.ai_cores, names.memory_whole_mib) == (
        row["resourceMemoryName"],
        row["aiCore"],
        row["memoryAllocatable"],
    )
    assert names.pairs == row.get("superPod", False)
    assert names.uuid_key == f"hami.io/use-{row['commonWord']}-uuid"


@pytest.mark.parametrize(("vendor", "section"), SECTIONS.items())
def test_units_and_annotations_are_those_of_the_code(vendor, section):
    for names in (names for names in NAMES if names.vendor is vendor):
        assert names.unit_bytes == CODE["memoryFactorMiB"][section] * MIB
        assert names.type_key == CODE["useType"].get(section)
        told = CODE["useUUID"].get(section, f"hami.io/use-{names.chip}-uuid")
        assert names.uuid_key == told
    if vendor is Vendor.MOORE_THREADS:
        assert (list(names.memory_units), names.core_parts) == (CODE["mthreadsMemorySlices"], CODE["mthreadsCores"])
    if vendor is Vendor.KUNLUNXIN:
        assert list(names.memory_units) == CODE["kunlunMemoryMiB"]
        assert names.memory_whole_mib == CODE["kunlunMemoryMaxMiB"]


def test_the_chip_is_found_in_the_kinds_name():
    chips = {one.name: names_of(one).count for one in KINDS if one.vendor in (Vendor.ASCEND, Vendor.ILUVATAR)}
    assert chips == {
        "ascend-910b3": "huawei.com/Ascend910B3",
        "ascend-910a": "huawei.com/Ascend910A",
        "ascend-910b2": "huawei.com/Ascend910B2",
        "ascend-910b4": "huawei.com/Ascend910B4",
        "ascend-910b4-1": "huawei.com/Ascend910B4-1",
        "ascend-910c": "huawei.com/Ascend910C",
        "ascend-310p": "huawei.com/Ascend310P",
        "bi-v150": "iluvatar.ai/BI-V150-vgpu",
    }
    assert names_of(kind("ascend-2000", Vendor.ASCEND)) is None
    assert names_of(kind("xeon", Vendor.CPU)) is None


SHARES = [
    # (kind, share, GiB) -> what HAMi's documents and code make of it
    (H20, 0.25, 24, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "24576", "nvidia.com/gpucores": "25"}),
    (H20, 0.5, 0, {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "50"}),
    (KINDS[2], 0.1, 20, {"amd.com/gpu": "1", "amd.com/gpumem": "20480", "amd.com/gpucores": "10"}),
    (B3, 0.2, 9, {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"}),
    (B3, 0.4, 9, {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "32768"}),
    (B3, 0.2, 40, {"huawei.com/Ascend910B3": "1"}),
    (KINDS[8], 0.25, 5, {"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "6144"}),
    (
        KINDS[9],
        0.3,
        10,
        {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "40", "cambricon.com/mlu.smlu.vcore": "30"},
    ),
    (KINDS[10], 0.6, 2, {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2048", "hygon.com/dcucores": "60"}),
    (
        KINDS[11],
        0.5,
        16,
        {"iluvatar.ai/BI-V150-vgpu": "1", "iluvatar.ai/BI-V150.vMem": "64", "iluvatar.ai/BI-V150.vCore": "50"},
    ),
    (KINDS[12], 0.2, 9, {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "24576"}),
    (KINDS[12], 0.5, 9, {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "49152"}),
    (KINDS[12], 0.6, 9, {"kunlunxin.com/xpu": "1"}),
    (KINDS[13], 0.6, 4, {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "4", "metax-tech.com/vcore": "60"}),
    (KINDS[14], 0.5, 9, {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "32", "mthreads.com/sgpu-core": "8"}),
    (KINDS[15], 0.4, 20, {"enflame.com/gcu-memory": "20480", "enflame.com/gcu-core": "40"}),
]


@pytest.mark.parametrize(("on", "share", "gib", "limits"), SHARES, ids=lambda value: getattr(value, "name", None))
def test_a_share_in_the_vendors_units(on, share, gib, limits):
    assert asked(on, share=share, memory_bytes=gib * GIB)[0] == limits


@pytest.mark.parametrize("on", KINDS, ids=lambda one: one.name)
def test_whole_devices(on):
    names = names_of(on)
    limits, notes = asked(on, cards=2)
    assert limits == {names.whole or names.count: "2"}
    assert not notes


def test_what_rounding_gives_is_told():
    assert asked(B3, share=0.2, memory_bytes=9 * GIB)[1] == (
        "p: asked 9GiB and 20% of the cores, template vir05_1c_16g gives 16GiB and 5 of 20 cores",
    )
    assert asked(B3, share=0.25, memory_bytes=16 * GIB)[1] == ()
    assert asked(KINDS[7], cards=3) == (
        {"huawei.com/Ascend910C": "4"},
        ("p: asked 3 devices, ascend-910c is given out in pairs, so 4 are taken",),
    )
    assert asked(KINDS[14], share=0.5, memory_bytes=9 * GIB)[1] == (
        "p: asked 9GiB of device memory, HAMi's steps, so 16GiB are taken",
    )
    rendered = render(plan(part("p", B3, share=0.2, memory_bytes=9 * GIB)), fleet(B3), Options())
    assert rendered.notes == asked(B3, share=0.2, memory_bytes=9 * GIB)[1]
    assert f"# Note: {rendered.notes[0]}\n" in rendered.files[0].text


needs = st.tuples(
    st.sampled_from(KINDS), st.integers(1, 999).map(lambda milli: milli / 1000), st.integers(0, 40 * 1024)
)


@settings(max_examples=300)
@given(needs)
def test_never_less_than_asked_and_always_admitted(need):
    on, share, memory_mib = need
    names = names_of(on)
    limits, notes = asked(on, share=share, memory_bytes=memory_mib * MIB)
    whole = len(limits) == 1
    wanted_mib = memory_mib or math.ceil(share * on.memory_bytes.value / MIB)
    if names.memory in limits:
        given_mib = int(limits[names.memory]) * names.unit_bytes // MIB
        assert given_mib >= wanted_mib
        if given_mib != wanted_mib:
            assert notes
    elif names.percentage in limits:
        assert int(limits[names.percentage]) >= share * 100 - 1e-9
    else:
        assert whole or not wanted_mib
    if names.core in limits:
        assert share * names.core_parts - 1e-6 <= int(limits[names.core]) <= names.core_parts
    admitted(names, limits)


def admitted(names, limits):
    """The webhook's rules, as its code has them (pkg/device/*/device.go, MutateAdmission)."""
    memory = limits.get(names.memory)
    match names.vendor:
        case Vendor.ASCEND:
            assert not any(name.endswith("-core") for name in limits), "only soft partitions have a core share"
            row = next(row for row in CONFIG["vnpus"] if row["resourceName"] == names.count)
            assert memory is None or int(memory) in {one["memory"] for one in row["templates"]}
        case Vendor.MOORE_THREADS:
            assert memory is None or int(memory) in CODE["mthreadsMemorySlices"]
        case Vendor.ENFLAME:
            assert "enflame.com/drs-gcu" not in limits
            assert 0 < int(limits.get(names.core, 1)) <= 100
            assert int(limits.get(names.memory, 1024)) >= 1024, "HAMi would take it for GiB"
        case _:
            assert all(int(value) > 0 for value in limits.values())


@given(st.integers(1, 16))
def test_910c_is_asked_for_in_pairs(cards):
    count = int(asked(KINDS[7], cards=cards)[0]["huawei.com/Ascend910C"])
    assert count % 2 == 0
    assert cards <= count <= cards + 1


def pods_of(rendered):
    documents = list(yaml.safe_load_all(rendered.files[0].text))
    return {one["metadata"]["name"]: one["spec"]["template"] for one in documents if one["kind"] == "Deployment"}


def test_annotations_follow_the_plan():
    made = plan(
        part("cards", H20, cards=4, within=Scope.LINK_GROUP),
        part("near", H20, cards=2, within=Scope.PCIE_SWITCH),
        part("share", H20, share=0.25, memory_bytes=GIB, replicas=2),
        relations=(Apart(parts=("share",), scope=Scope.HOST),),
    )
    pods = pods_of(render(made, fleet(H20), Options()))
    found = {name: pod["metadata"]["annotations"] for name, pod in pods.items()}
    assert found == {
        "chat-cards": {
            "hami.io/gpu-scheduler-policy": "topology-aware",
            "hami.io/node-scheduler-policy": "binpack",
            "nvidia.com/use-gputype": "H20",
        },
        "chat-near": {
            "hami.io/node-scheduler-policy": "binpack",
            "nvidia.com/numa-bind": "true",
            "nvidia.com/use-gputype": "H20",
        },
        "chat-share": {
            "hami.io/gpu-scheduler-policy": "binpack",
            "hami.io/node-scheduler-policy": "spread",
            "nvidia.com/use-gputype": "H20",
        },
    }
    assert {pod["spec"]["schedulerName"] for pod in pods.values()} == {"hami-scheduler"}


def seat(name, replica, node, devices):
    return Seat(part=name, replica=replica, node=node, devices=devices)


def test_pinned_devices_are_named_by_uuid():
    seats = (seat("p", 0, "n00", (1, 2)), seat("p", 1, "n01", (0, 7)))
    made = plan(part("p", H20, cards=2, replicas=2), seats=seats)
    rendered = render(made, fleet(H20), Options(pinned=True))
    pods = pods_of(rendered)
    assert [pod["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] for pod in pods.values()] == [
        "U-0-1,U-0-2",
        "U-1-0,U-1-7",
    ]
    # HAMi's webhook denies a pod that has a node already.
    assert all("nodeName" not in pod["spec"] for pod in pods.values())
    assert [one.what for one in rendered.lost] == ["chat: all parts start, or none"]
    unnamed = render(made, fleet(H20, uuids=False), Options(pinned=True))
    assert {one.why for one in unnamed.lost} >= {"the fleet doesn't say its UUID"}


def test_a_uuid_that_would_be_read_as_two_is_not_written():
    on = fleet(H20)
    odd = tuple(dataclasses.replace(device, uuid="U-1,U-2") for device in on.nodes[0].devices)
    on = dataclasses.replace(on, nodes=(dataclasses.replace(on.nodes[0], devices=odd), *on.nodes[1:]))
    made = plan(part("p", H20, cards=1), seats=(seat("p", 0, "n00", (1,)),))
    rendered = render(made, on, Options(pinned=True))
    (pod,) = pods_of(rendered).values()
    assert "nvidia.com/use-gpuuuid" not in pod["metadata"]["annotations"]
    assert [one.why for one in rendered.lost] == ["the fleet doesn't say its UUID"]


def lost_of(made, on):
    return {one.what.split(": ")[-1]: one.why for one in render(made, on, Options()).lost}


def test_what_hami_cant_say_is_lost():
    made = plan(
        part("a", H20, share=0.5, memory_bytes=GIB, codecs=(Codec(name="nvdec", units=1),)),
        part("b", H20, cards=2, within=Scope.PCIE_ROOT, nic_within=Scope.PCIE_ROOT, nic_bytes_per_s=1e9),
        relations=(Together(parts=("a", "b"), scope=Scope.LEAF, required=False),),
    )
    assert set(lost_of(made, fleet(H20))) == {
        "1 nvdec unit",
        "a network port of its own",
        "1 GB/s of network bandwidth",
        "the devices of a replica within one pcie-root",
        "the network port within the devices' pcie-root",
        "a and b together on one leaf (preferred)",
        "all parts start, or none",
    }


def test_kinds_that_names_dont_tell_apart_are_told():
    h200 = kind("h200-141g", Vendor.NVIDIA, gib=141)
    assert "devices of kind h20" in lost_of(plan(part("a", H20, cards=1)), fleet(H20, h200))
    assert lost_of(plan(part("a", h200, cards=1)), fleet(H20, h200)) == {}
    b2 = kind("ascend-910b2", Vendor.ASCEND, gib=64)
    assert lost_of(plan(part("a", B3, cards=1)), fleet(B3, b2)) == {}


def test_kunlunxin_counts_by_its_links():
    on = KINDS[12]
    assert lost_of(plan(part("a", on, cards=3)), fleet(on)) == {
        "3 whole devices": "HAMi gives out 1, 2, 4, 8 of these devices at a time, by their links"
    }


@pytest.mark.parametrize(
    ("name", "word"),
    [("nvidia-h20-96g", "H20"), ("a100-80g", "A100"), ("rtx-4090", "4090"), ("80gib-l40s", "L40S"), ("tpu", None)],
)
def test_the_word_of_a_model(name, word):
    assert model_word(name) == word
