"""Fleet files: what they mean, what they refuse, and that they come back as they went."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.edges.fleet_dump import dump_fleet, save_fleet
from accord.edges.fleet_file import fleet_from_text, load_fleet
from accord.place.board import Board
from accord.terms.errors import BadInput
from accord.terms.fleet import (
    Codec,
    Device,
    DeviceKind,
    Figure,
    Fleet,
    Nic,
    Node,
    Numa,
    Rate,
    Tag,
    Taken,
    Template,
    Vendor,
)  # fmt: skip
from accord.terms.tensors import Math

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "fleets").glob("*.yaml"))
GIB = 1 << 30
ONE = "accord: 1\nnodes:\n  - {name: n1, cpus: 8, memory: 64GiB, devices: 2 x h20, nics: ib400, nvme: 1TB}\n"


def node(text: str) -> Node:
    return fleet_from_text(f"accord: 1\nnodes:\n  - {{name: n1, {text}}}").nodes[0]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_read_written_and_placed_on(path, tmp_path):
    fleet = load_fleet(path)
    assert fleet_from_text(dump_fleet(fleet)) == fleet
    save_fleet(fleet, tmp_path / "fleet.yaml")
    assert load_fleet(tmp_path / "fleet.yaml") == fleet
    assert Board(fleet).names == tuple(sorted(node.name for node in fleet.nodes))


def test_the_design_documents_node():
    fleet = fleet_from_text("""
accord: 1
devices:
  my-npu: {like: ascend-910b3, price_per_hour: $1.9}
nodes:
  - name: n01
    leaf: leaf-3
    numa:
      - {cpus: 48, memory: 512GiB, pcie: [{root: "pci0000:17", devices: [h20, my-npu], nics: [ib400]}]}
""")
    mine = fleet.kind("my-npu")
    assert mine.price_usd_per_hour == Figure(value=1.9, tag=Tag.ASSUMED, source="this fleet file")
    assert mine.memory_bytes.value == 64 * GIB
    assert mine.vendor is Vendor.ASCEND
    assert [kind.name for kind in fleet.kinds] == ["h20", "my-npu"]
    (one,) = fleet.nodes
    assert one.numa == (Numa(cpus=48, memory_bytes=512 * GIB),)
    assert one.devices == (Device(kind="h20", root="pci0000:17"), Device(kind="my-npu", root="pci0000:17"))
    assert one.nics == (Nic(name="ib400-0", bandwidth_bytes_per_s=50e9, root="pci0000:17", rdma=True),)
    assert one.leaf == "leaf-3"


def test_a_thousand_nodes_in_a_line():
    nodes = fleet_from_text("""
accord: 1
nodes:
  - {name: "gpu-[0001-1000]", leaf: "leaf-[1-32]", spine: "spine-[1-4]", cpus: 192, memory: 2TiB, numa: 2,
     switches: 4, devices: 8 x h20, nics: 4 x ib400, links: 2 x nvlink}
""").nodes
    assert [nodes[0].name, nodes[999].name, len(nodes)] == ["gpu-0001", "gpu-1000", 1000]
    sizes = [sum(node.leaf == f"leaf-{number}" for node in nodes) for number in range(1, 33)]
    assert set(sizes) == {31, 32}
    assert len({(node.leaf, node.spine) for node in nodes}) == 32
    one = nodes[500]
    assert one.numa == (Numa(cpus=96, memory_bytes=1024 * GIB),) * 2
    assert [device.bridge for device in one.devices] == ["sw0", "sw0", "sw1", "sw1", "sw2", "sw2", "sw3", "sw3"]
    assert [device.numa for device in one.devices] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [device.group for device in one.devices] == ["nvlink-0"] * 4 + ["nvlink-1"] * 4
    assert [(nic.name, nic.bridge) for nic in one.nics] == [(f"ib400-{number}", f"sw{number}") for number in range(4)]
    assert {nic.numa for nic in one.nics[2:]} == {1}


@pytest.mark.parametrize(
    ("kind", "bytes_per_s", "rdma"), [("ib400", 50e9, True), ("roce200", 25e9, True), ("eth25", 3.125e9, False)]
)
def test_kinds_of_nics(kind, bytes_per_s, rdma):
    (nic,) = node(f"cpus: 1, memory: 1GiB, nics: {kind}").nics
    assert (nic.bandwidth_bytes_per_s, nic.rdma) == (bytes_per_s, rdma)


def test_a_kind_of_ones_own_with_units_tags_and_sources():
    fleet = fleet_from_text("""
accord: 1
devices:
  mine:
    vendor: other
    memory: 64GiB
    bandwidth: {value: 1.6TB/s, tag: measured, source: babelstream}
    rates: {bf16: 300TFLOP/s, fp8: 0.6PFLOP/s}
    link: 800Gb/s
    link_latency: 2us
    codecs: {jpeg: 4}
    templates: {half: {memory: 32GiB, share: 1/2, most: 2, codecs: {jpeg: 2}}}
    soft_share: false
    quirks: [topk-fp16]
  less: {like: h100, price_per_hour: unknown, rates: {fp8: unknown}}
nodes: [{name: n1, cpus: 1, memory: 1GiB, devices: [mine]}]
""")
    mine, less = fleet.kind("mine"), fleet.kind("less")
    assert mine == DeviceKind(
        name="mine", vendor=Vendor.OTHER, memory_bytes=_mine(64 * GIB),
        bandwidth_bytes_per_s=Figure(value=1.6e12, tag=Tag.MEASURED, source="babelstream"),
        rates=(Rate(math=Math.BF16, flops_per_s=_mine(3e14)), Rate(math=Math.FP8, flops_per_s=_mine(6e14))),
        link_bytes_per_s=_mine(1e11), link_latency_s=_mine(2e-6), codecs=(Codec(name="jpeg", units=4),),
        templates=(Template(name="half", memory_bytes=32 * GIB, share=0.5, count_max=2,
                            codecs=(Codec(name="jpeg", units=2),)),),
        soft_share=False, quirks=("topk-fp16",),
    )  # fmt: skip
    assert less.price_usd_per_hour is None
    assert [rate.math for rate in less.rates] == [Math.F32, Math.F16, Math.BF16]


def _mine(value: float) -> Figure:
    return Figure(value=value, tag=Tag.ASSUMED, source="this fleet file")


def test_a_device_that_is_cut():
    cut = "{node: n1, owner: a, devices: 0, template: 1g.12gb"
    text = ONE + f"taken: [{cut}}}, {cut}, codecs: {{}}, share: 10%}}]"
    one, other = fleet_from_text(text).taken
    # NVIDIA's MIG user guide: 1g.12gb of the H20 96GB has an eighth of its memory, one decoder, one JPEG unit.
    assert (one.template, one.share, one.memory_bytes) == ("1g.12gb", pytest.approx(1 / 7), 12 * GIB)
    assert {codec.name: codec.units for codec in one.codecs} == {"nvdec": 1, "jpeg": 1}
    assert (other.share, other.memory_bytes, other.codecs) == (0.1, 12 * GIB, ())
    assert fleet_from_text(dump_fleet(fleet_from_text(text))).taken == (one, other)


def test_what_is_taken():
    taken = fleet_from_text(
        ONE + "taken:\n"
        "  - {node: n1, owner: a, devices: 0, cpus: 2, host_memory: 4GiB, nic: 0, bandwidth: 100Gb/s, nvme: 1GB}\n"
        "  - {node: n1, owner: b, devices: [1], share: 30%, memory: 8GiB, movable: true}\n"
    ).taken
    assert taken == (
        Taken(node="n1", owner="a", device=0, share=1.0, memory_bytes=96 * GIB, cpus=2, host_memory_bytes=4 * GIB,
              codecs=(Codec(name="jpeg", units=7), Codec(name="nvdec", units=7), Codec(name="ofa", units=1)),
              nic=0, nic_bytes_per_s=12.5e9, nvme_bytes=10**9),
        Taken(node="n1", owner="b", device=1, share=0.3, memory_bytes=8 * GIB, movable=True),
    )  # fmt: skip


BAD = {
    "nodes: []\n": "accord: 'absent'",
    "accord: 2\nnodes: []": "accord: 2",
    "accord: 1": "nodes: 'absent'",
    "accord: 1\nnodes: 3": "nodes: 3: not a list (line 2)",
    "accord: 1\nnodes: []\nnods: 1": "nods: 1: unknown field (line 3); did you mean nodes?",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB, devices: H20}":
        "nodes[0].devices: 'H20': no such device kind (line 3); did you mean h20?",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB, devices: [h20, 910b3]}":
        "nodes[0].devices[1]: '910b3': no such device kind (line 3); did you mean ascend-910b3?",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB, devices: 0 x h20}": "nodes[0].devices: '0 x h20'",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB, devices: 9999 x h20}": "out of range",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB, devices: [256 x h20, h20]}": "257: too many",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB, nics: ob400}": "write ib400",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB, nics: [{name: x, bandwidth: 400}]}":
        "nodes[0].nics.bandwidth: 400: not a bandwidth (line 3)",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB, nics: [{name: x, kind: ib1}, {name: x, kind: ib1}]}":
        "'x': comes twice in this node",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 1GiB}\n  - {name: 'a', cpus: 1, memory: 1GiB}": "comes twice",
    "accord: 1\nnodes:\n  - {name: 'n[1-200000]', cpus: 1, memory: 1GiB}": "at most 100,000",
    "accord: 1\nnodes:\n  - {name: 'n[1-60000]', cpus: 1, memory: 1GiB}\n"
    "  - {name: 'm[1-60000]', cpus: 1, memory: 1GiB}": "at most 40,000",
    "accord: 1\nnodes:\n  - {name: '; rm -rf /', cpus: 1, memory: 1GiB}": "not a name (line 3)",
    "accord: 1\nnodes:\n  - {name: 'ñ', cpus: 1, memory: 1GiB}": "not a name",
    "accord: 1\nnodes:\n  - {name: " + "a" * 300 + ", cpus: 1, memory: 1GiB}": "not a name",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1.5, memory: 1GiB}": "nodes[0].cpus: 1.5: not a whole number (line 3)",
    "accord: 1\nnodes:\n  - {name: a, cpus: 1, memory: 64}": "nodes[0].memory: 64: a figure with a unit is wanted",
    "accord: 1\nnodes:\n  - {name: a, cpus: 3, memory: 1GiB, numa: 2}": "doesn't divide by 2",
    "accord: 1\nnodes:\n  - {name: a, cpus: 2, memory: 1GiB, numa: 2, switches: 3}": "can't be dealt over 2",
    "accord: 1\nnodes:\n  - {name: a, cpus: 2, memory: 1GiB, switches: 3, devices: 8 x h20}": "evenly over 3 places",
    "accord: 1\nnodes:\n  - {name: a, cpus: 2, memory: 1GiB, devices: 8 x h20, links: 3 x nvlink}": "3 equal groups",
    "accord: 1\nnodes:\n  - {name: a, cpus: 2, memory: 1GiB, devices: 8 x h20, links: {x: 0-8}}": "from 0 to 7",
    "accord: 1\nnodes:\n  - {name: a, cpus: 2, memory: 1GiB, devices: 8 x h20, links: {x: 0-3, y: 3-7}}":
        "in x already",
    "accord: 1\nnodes:\n  - {name: a, cpus: 2, numa: [{cpus: 2, memory: 1GiB}]}": "in each NUMA domain",
    "accord: 1\nnodes:\n  - {name: a, numa: []}": "write 1 to 64 domains",
    "accord: 1\nnodes:\n  - {name: a, numa: [{cpus: 2, memory: 1GiB, pcie: [{root: p}, {root: p}]}]}":
        "nodes[0].numa[0].pcie[1].root: 'p': comes twice",
    "accord: 1\nnodes:\n  - {name: a, numa: [{cpus: 2, memory: 1GiB}], devices: [{kind: h20, numa: 1}]}":
        "no such NUMA domain",
    "accord: 1\nnodes:\n  - {name: a, cpus: 2, memory: 1GiB, leaf: l1, spine: s1}\n"
    "  - {name: b, cpus: 2, memory: 1GiB, leaf: l1, spine: s2}": "spines s1 and s2",
    "accord: 1\nnodes:\n  - {name: a, cpus: 2, memory: 1GiB, leaf: 'l[1-2]'}": "for 1 nodes",
    "accord: 1\ndevices: {x: {like: h2O}}\nnodes: []": "devices.x.like: 'h2O': no such device kind (line 2)",
    "accord: 1\ndevices: {x: {memory: 1GiB}}\nnodes: []": "devices.x.vendor: 'absent'",
    "accord: 1\ndevices: {x: {vendor: nvidea}}\nnodes: []": "did you mean nvidia?",
    "accord: 1\ndevices: {x: {like: h20, memory: 64}}\nnodes: []": "devices.x.memory: 64",
    "accord: 1\ndevices: {x: {like: h20, memory: {value: 1GiB, tag: sure}}}\nnodes: []": "devices.x.memory.tag: 'sure'",
    "accord: 1\ndevices: {x: {like: h20, rates: {bf17: 1TFLOP/s}}}\nnodes: []": "did you mean bf16?",
    "accord: 1\ndevices: {x: {like: h20, templates: {t: {memory: 1GiB, share: 3/2, most: 1}}}}\nnodes: []":
        "not a share",
    "accord: 1\ndevices: {'a b': {like: h20}}\nnodes: []": "not a name (line 2)",
    "accord: 1\ndevices: {x: {like: h20}, x: {like: h100}}\nnodes: []": "written twice",
    ONE + "taken: [{node: n2, owner: a}]": "taken[0].node: 'n2': no such node",
    ONE + "taken: [{node: n1}]": "taken[0].owner: 'absent'",
    ONE + "taken: [{node: n1, owner: a, devices: 2}]": "from 0 to 1",
    ONE + "taken: [{node: n1, owner: a, share: 10%}]": "say which",
    ONE + "taken: [{node: n1, owner: a, nic: 1}]": "the node has 1",
    ONE + "taken: [{node: n1, owner: a, bandwidth: 1Gb/s}]": "say which",
    ONE + "taken: [{node: n1, owner: a, devices: 0}, {node: n1, owner: b, devices: 0, share: 1%}]":
        "with b more share of device 0 is taken than there is",
    ONE + "taken: [{node: n1, owner: a, devices: 0, template: 9g}]": "taken[0].template: '9g': no such template of h20",
    ONE + "taken: [{node: n1, owner: a, template: 9g}]": "say which",
    ONE + "taken: [{node: n1, owner: a, devices: 0, codecs: {nvdec: 8}}]": "more nvdec of device 0 is taken",
    ONE + "taken: [{node: n1, owner: a, cpus: 9}]": "more cpus is taken",
    ONE + 'taken: [{node: n1, owner: "a\\nb"}]': "not a short text",
    ONE + "unseen: links": "unseen: 'links': not a list",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_mistakes_are_told_precisely(text):
    with pytest.raises(BadInput) as caught:
        fleet_from_text(text)
    assert BAD[text] in str(caught.value)


_NAMES = st.from_regex(r"\A[a-z][a-z0-9]{0,3}-?[0-9]{1,3}\Z")
_FIGURES = st.builds(
    Figure,
    value=st.integers(1, 1 << 50).map(float),
    tag=st.sampled_from(Tag),
    source=st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20),
)
_CODECS = st.lists(
    st.builds(Codec, name=st.sampled_from(("jpeg", "nvdec", "ofa")), units=st.integers(0, 9)),
    unique_by=lambda c: c.name,
).map(lambda codecs: tuple(sorted(codecs, key=lambda codec: codec.name)))
_SHARES = st.sampled_from((0.0, 0.25, 1 / 7, 0.3, 1.0))


@st.composite
def _kinds(draw: st.DrawFn, name: str) -> DeviceKind:
    maybe = st.none() | _FIGURES
    templates = st.builds(
        Template, name=st.sampled_from(("1g.5gb", "1g.5gb+me", "vir01")), memory_bytes=st.integers(0, 1 << 40),
        share=_SHARES, count_max=st.integers(0, 9), codecs=_CODECS,
    )  # fmt: skip
    rates = {math: draw(_FIGURES) for math in Math if draw(st.booleans())}
    return DeviceKind(
        name=name,
        vendor=draw(st.sampled_from(Vendor)),
        memory_bytes=draw(maybe),
        bandwidth_bytes_per_s=draw(maybe),
        rates=tuple(Rate(math=math, flops_per_s=figure) for math, figure in rates.items()),
        link_bytes_per_s=draw(maybe),
        link_latency_s=draw(st.sampled_from((None, Figure(value=2e-6, tag=Tag.MEASURED, source="x")))),
        price_usd_per_hour=draw(maybe),
        codecs=draw(_CODECS),
        templates=tuple(draw(st.lists(templates, max_size=2, unique_by=lambda cut: cut.name))),
        soft_share=draw(st.booleans()),
        pairs=draw(st.booleans()),
        quirks=tuple(draw(st.lists(_NAMES, max_size=2))),
    )


@st.composite
def _nodes(draw: st.DrawFn, name: str, kinds: list[str]) -> Node:
    numa = draw(st.integers(1, 2))
    spot = {
        "numa": st.integers(0, numa - 1),
        "root": st.none() | st.sampled_from(("pci0000:17", "pci0")),
        "bridge": st.none() | st.sampled_from(("0000:18:00.0", "sw0")),
    }
    devices = st.builds(
        Device, kind=st.sampled_from(kinds), **spot, group=st.none() | st.just("nvlink"),
        uuid=st.none() | st.just("GPU-1234-abcd"),
    )  # fmt: skip
    nics = st.builds(
        Nic, name=st.sampled_from(("ib400-0", "ib400-1", "mlx5_0", "eth0")), rdma=st.booleans(), **spot,
        bandwidth_bytes_per_s=st.sampled_from((50e9, 3.125e9, 1.0)),
    )  # fmt: skip
    return Node(
        name=name,
        numa=(Numa(cpus=draw(st.integers(0, 99)), memory_bytes=draw(st.integers(0, 1 << 45))),) * numa,
        devices=tuple(draw(st.lists(devices, max_size=5))),
        nics=tuple(draw(st.lists(nics, max_size=3, unique_by=lambda nic: nic.name))),
        leaf=draw(st.none() | st.just("leaf-1")),
        nvme_bytes=draw(st.sampled_from((0, 14 * 10**12, 12345))),
        price_usd_per_hour=draw(st.sampled_from((None, 1.5))),
        labels=draw(st.sampled_from(((), (("a/b", "c"), ("d", ""))))),
    )


def _taken(node: str, device: int, kind: DeviceKind, draw: st.DrawFn) -> Taken:
    cut = draw(st.sampled_from([None, *(its for its in kind.templates if its.count_max and its.memory_bytes == 0)]))
    codecs = tuple(replace(codec, units=codec.units // 2) for codec in kind.codecs) if draw(st.booleans()) else ()
    return Taken(
        node=node, owner="team/a b", device=device, share=0.25, movable=draw(st.booleans()), codecs=codecs,
        template=cut.name if cut else None,
    )  # fmt: skip


@st.composite
def _fleets(draw: st.DrawFn) -> Fleet:
    names = sorted({*draw(st.lists(_NAMES, min_size=1, max_size=2)), "h20"})
    kinds = sorted((draw(_kinds(name)) for name in names), key=lambda kind: kind.name)
    nodes = tuple(draw(_nodes(name, names)) for name in draw(st.lists(_NAMES, max_size=4, unique=True)))
    taken = [
        _taken(node.name, number, next(kind for kind in kinds if kind.name == device.kind), draw)
        for node in nodes
        for number, device in enumerate(node.devices)
        if draw(st.booleans())
    ]
    return Fleet(kinds=tuple(kinds), nodes=nodes, taken=tuple(taken), unseen=("PCIe switches of n1: no sysfs",))


@settings(max_examples=60)
@given(_fleets())
def test_any_fleet_comes_back(fleet):
    assert fleet_from_text(dump_fleet(fleet)) == fleet


def test_ten_thousand_equal_nodes_are_written_in_a_line():
    fleet = fleet_from_text("accord: 1\nnodes: [{name: 'n[00001-10000]', cpus: 8, memory: 1GiB, devices: 8 x h20}]")
    assert len(fleet.nodes) == 10_000
    assert len(dump_fleet(fleet).splitlines()) < 10
    assert math.isclose(fleet.kind("h20").memory_bytes.value, 96 * GIB)


_WORDS = st.sampled_from(
    ("", "x", "0", "-1", "1e400", "8 x h20", "ib400", "[]", "{}", "null", "[1-99999999]", "'", "n[1-3]", "64GiB",
     "400Gb/s", "{value: 1GiB}", "0-7", "true", "&a [*a]", "!!python/none", "2", "nvlink", "\u202e",
     "{kind: h20, numa: 9}")
)  # fmt: skip


@settings(max_examples=150)
@given(st.sampled_from(EXAMPLES), st.lists(st.tuples(st.integers(0, 10_000), _WORDS), min_size=1, max_size=3))
def test_a_spoilt_file_is_read_or_refused_and_never_breaks_anything(path, spoilt):
    lines = path.read_text().splitlines()
    for place, word in spoilt:
        number = place % len(lines)
        key, colon, _ = lines[number].partition(":")
        lines[number] = f"{key}{colon} {word}" if place % 3 else word
    try:
        fleet = fleet_from_text("\n".join(lines))
    except BadInput as error:
        assert error.fix
    else:
        assert fleet_from_text(dump_fleet(fleet)) == fleet


def test_a_text_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("accord: 1\n#" + " " * (33 << 20))
    with pytest.raises(BadInput, match="larger than"):
        load_fleet(path)
    with pytest.raises(BadInput, match="nested"):
        fleet_from_text("accord: 1\nnodes: " + "[" * 100 + "]" * 100)
