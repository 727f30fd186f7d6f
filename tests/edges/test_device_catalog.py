"""The catalog of devices: it reads, it is honest about its figures, and it agrees with what others publish."""

import importlib.resources

import pytest
import yaml

from accord.edges import device_catalog
from accord.edges.fleet_kinds import catalog_kind
from accord.terms.errors import BadInput
from accord.terms.fleet import Tag, Vendor
from accord.terms.tensors import Math

NAMES = device_catalog.names()
GIB = 1 << 30


def test_every_vendor_of_the_vocabulary_is_there():
    assert {catalog_kind(name).vendor for name in NAMES} == set(Vendor) - {Vendor.OTHER}


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_says_where_its_figures_are_from(name):
    kind = catalog_kind(name)
    figures = [
        kind.memory_bytes, kind.bandwidth_bytes_per_s, kind.link_bytes_per_s, kind.price_usd_per_hour,
        *(rate.flops_per_s for rate in kind.rates),
    ]  # fmt: skip
    assert all(len(figure.source) > 4 for figure in figures if figure)
    assert kind.price_usd_per_hour is None or kind.price_usd_per_hour.tag is Tag.REPORTED


@pytest.mark.parametrize("name", NAMES)
def test_templates_can_be_cut_from_their_device(name):
    kind = catalog_kind(name)
    has = {codec.name: codec.units for codec in kind.codecs}
    for cut in kind.templates:
        assert cut.memory_bytes * cut.count_max <= kind.memory_bytes.value, cut.name
        assert cut.share * cut.count_max <= 1 + 1e-9, cut.name
        for codec in cut.codecs:
            assert codec.units * cut.count_max <= has[codec.name], cut.name


# aiconfigurator-core carries what NVIDIA's own planner holds true of these systems.
@pytest.mark.parametrize(
    ("name", "system"),
    [("a100-80g", "a100_sxm"), ("h100", "h100_sxm"), ("h200", "h200_sxm"), ("b200", "b200_sxm"), ("a30", "a30"),
     ("l40s", "l40s")],
)  # fmt: skip
def test_figures_agree_with_those_of_nvidias_planner(name, system):
    path = importlib.resources.files("aiconfigurator_core") / "systems" / f"{system}.yaml"
    told = yaml.safe_load(path.read_text())
    kind = catalog_kind(name)
    rates = {rate.math: rate.flops_per_s.value for rate in kind.rates}
    assert kind.bandwidth_bytes_per_s.value == pytest.approx(told["gpu"]["mem_bw"], rel=0.05)
    assert kind.memory_bytes.value == pytest.approx(told["gpu"]["mem_capacity"], rel=0.07)
    assert rates[Math.BF16] == pytest.approx(told["gpu"]["bfloat16_tc_flops"], rel=0.02)
    if Math.FP8 in rates:
        assert rates[Math.FP8] == pytest.approx(told["gpu"]["fp8_tc_flops"], rel=0.02)
    if kind.link_bytes_per_s and name != "a30":  # the planner counts the A30 without its bridge
        assert kind.link_bytes_per_s.value == told["node"]["intra_node_bw"]


# Names, memory (MiB) and AI cores of Project-HAMi/HAMi, charts/hami/templates/scheduler/device-configmap.yaml.
HAMI = {
    "ascend-910b2": (65536, 24, {"vir03_1c_8g": (8192, 3), "vir06_1c_16g": (16384, 6), "vir12_3c_32g": (32768, 12)}),
    "ascend-910b3": (65536, 20, {"vir05_1c_16g": (16384, 5), "vir10_3c_32g": (32768, 10)}),
    "ascend-910b4": (32768, 20, {"vir05_1c_8g": (8192, 5), "vir10_3c_16g": (16384, 10)}),
    "ascend-910b4-1": (65536, 20, {"vir05_1c_16g": (16384, 5), "vir10_3c_32g": (32768, 10)}),
    "ascend-910c": (65536, 20, {"vir05_1c_16g": (16384, 5), "vir10_3c_32g": (32768, 10)}),
    "ascend-310p3": (24576, 8, {"vir01": (3072, 1), "vir02": (6144, 2), "vir04": (12288, 4)}),
}


@pytest.mark.parametrize("name", HAMI)
def test_vnpu_templates_are_those_of_hami(name):
    memory_mib, cores, templates = HAMI[name]
    kind = catalog_kind(name)
    assert not kind.soft_share
    assert kind.memory_bytes.value == memory_mib << 20
    found = {cut.name: (cut.memory_bytes >> 20, round(cut.share * cores, 6)) for cut in kind.templates}
    assert {key: found.get(key) for key in templates} == templates


def test_only_the_910c_goes_out_in_pairs():
    assert [name for name in NAMES if catalog_kind(name).pairs] == ["ascend-910c"]


@pytest.mark.parametrize(
    ("typed", "meant"), [("H20", "h20"), ("910b3", "ascend-910b3"), ("a100", "a100-80g"), ("mlu370", "mlu370-x8"),
                         ("h2oo", None), ("tpu-v5", None)],
)  # fmt: skip
def test_near_names(typed, meant):
    assert device_catalog.near(typed) == meant


def test_what_sources_disagree_about_is_unknown():
    kind = catalog_kind("mlu590")
    assert kind.memory_bytes is None
    assert kind.rates == ()


def test_a_broken_catalog_name_is_bad_input():
    with pytest.raises(BadInput):
        catalog_kind("../../terms")
