"""`accord fleet`, as a user meets it: the drawing in the terminal and as SVG, the JSON, the ways to end."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.cli.fleet_shape import racks, shapes, title
from accord.cli.fleet_svg import fleet_svg, node_svg
from accord.cli.fleet_words import fleet_lines, node_lines, runs
from accord.cli.root import run
from accord.edges.fleet_file import fleet_from_text, load_fleet
from accord.terms.fleet import Device, Fleet, Nic, Node, Numa, Taken
from tests.edges import fake_cluster as fake

FLEETS = Path(__file__).parents[2] / "examples" / "fleets"
SVG = "{http://www.w3.org/2000/svg}"


def fleet(capsys, *given):
    """Exit status, stdout and stderr of one command."""
    with pytest.raises(SystemExit) as end:
        run(["fleet", *map(str, given)])
    out, err = capsys.readouterr()
    return end.value.code, out, err


def test_a_mixed_fleet_is_drawn(capsys):
    status, out, _ = fleet(capsys, "show", FLEETS / "mixed.yaml")
    assert status == 0
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0] == (
        "  12 nodes on 3 leaf switches · 48 h20, 32 ascend-910b3, 16 mlu370-x8 · 2,112 cores · 19TiB · $137.6/h"
    )
    assert (
        "  │  ├─ h20-01            ■■■■ ◧□□□    8 x h20                156 of 192 cores free  4 x 400Gb/s RDMA" in lines
    )
    assert (
        "  │  └─ h20-[04-06]  × 3  □□□□ □□□□    each 8 x h20           192 of 192 cores free  4 x 400Gb/s RDMA" in lines
    )
    assert "    └─ pci1 ─ sw1  2 h20   3 h20   ⇅ ib400-1 400Gb/s RDMA" in lines
    assert "    mlulink-1  devices 4-7  100GB/s each way" in lines


def test_a_thousand_nodes_fit_a_page(capsys):
    _, out, _ = fleet(capsys, "show", FLEETS / "thousand.yaml")
    assert len(out.splitlines()) < 50
    assert "leaf-[01-03]  (3 leaf switches)" in out
    assert "gpu-[0001-0096]  × 96" in out


def test_one_node_with_who_has_what_of_it(capsys):
    _, out, _ = fleet(capsys, "show", FLEETS / "mixed.yaml", "--node", "h20-01")
    assert "◧ 4 h20 30% taken   □ 5 h20" in out
    assert "team-b/asr   device 4 · 0.3 of it, 24GiB · 4 cores · 16GiB of host memory · movable" in out


def test_json_has_the_fleet_and_what_is_used(capsys):
    _, out, _ = fleet(capsys, "show", FLEETS / "mixed.yaml", "--json")
    told = json.loads(out)
    assert len(told["fleet"]["nodes"]) == 12
    assert told["used"]["h20-01"]["shares"] == [1.0, 1.0, 1.0, 1.0, 0.3, 0.0, 0.0, 0.0]


def test_the_catalog_is_listed(capsys):
    _, out, _ = fleet(capsys, "kinds")
    assert "mlu590" in out
    assert "all unknown" in out
    _, out, _ = fleet(capsys, "kinds", "--json")
    assert {"h20", "ascend-910b3"} <= {kind["name"] for kind in json.loads(out)["kinds"]}


def test_this_machine_is_probed(capsys, tmp_path):
    status, out, _ = fleet(capsys, "probe")
    assert status == 0
    assert len(fleet_from_text(out).nodes) == 1
    assert fleet(capsys, "probe", "--out", tmp_path / "f.yaml")[0] == 0
    assert load_fleet(tmp_path / "f.yaml").unseen
    assert "Unseen" in fleet(capsys, "show", "local")[1]


def test_a_cluster_is_probed(capsys, tmp_path):
    objects = {fake.NODES: [fake.node("n1")], fake.SLICES: [fake.gpu_slice("n1")]}
    with fake.serve(objects) as url:
        status, out, _ = fleet(capsys, "probe", "--kubernetes", "--server", url, "--out", tmp_path / "c.yaml")
    assert status == 0
    assert "2 x h100" in out
    assert [device.kind for device in load_fleet(tmp_path / "c.yaml").nodes[0].devices] == ["h100", "h100"]


@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        (("show", "gone.yaml"), 2, "no such file"),
        (("show", FLEETS / "dgx.yaml", "--node", "x"), 2, "no such node"),
        (("probe", "--server", "http://127.0.0.1:1"), 2, "--kubernetes"),
        (("probe", "--kubernetes", "--server", "http://127.0.0.1:9"), 3, "check the address"),
        (("show", FLEETS / "dgx.yaml", "--svg", "/proc/none/f.svg"), 3, "choose a folder"),
    ],
)
def test_ways_to_end(capsys, given, status, text):
    code, _, err = fleet(capsys, *given)
    assert code == status
    assert text in err


@pytest.mark.parametrize("name", ["mixed", "dgx", "thousand"])
def test_the_svg_has_a_tile_for_each_device_that_it_shows(name):
    found = load_fleet(FLEETS / f"{name}.yaml")
    drawing = ET.fromstring(fleet_svg(found))
    tiles = [one.text for one in drawing.iter(f"{SVG}title") if one.text and one.text.startswith("device ")]
    bunches = [bunch for rack in racks(found) for bunch in rack.bunches]
    assert len(tiles) == sum(len(bunch.node.devices) for bunch in bunches)
    assert sum(len(bunch.names) for bunch in bunches) == len(found.nodes)
    text = fleet_svg(found)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")  # it needs nothing else


def test_nothing_that_a_fleet_says_breaks_out_of_the_svg():
    bad = '"><script>alert(1)</script>&amp;'
    device = Device(kind="h20", root=bad, bridge=bad, group=bad)
    node = Node(
        name="n", numa=(Numa(cpus=1, memory_bytes=1),), devices=(device,), leaf=bad, spine=bad,
        nics=(Nic(name=bad, bandwidth_bytes_per_s=1, root=bad, bridge=bad),),
    )  # fmt: skip
    kinds = load_fleet(FLEETS / "thousand.yaml").kinds
    one = Fleet(kinds=kinds, nodes=(node,), taken=(Taken(node="n", owner=bad, device=0, share=0.5),))
    for text in (fleet_svg(one), node_svg(one, node)):
        assert {element.tag.removeprefix(SVG) for element in ET.fromstring(text).iter()} <= {
            "svg", "title", "style", "rect", "text", "tspan", "g", "line", "circle",
        }  # fmt: skip


_SPOT = st.sampled_from((None, "a", "b"))
_NODES = st.builds(
    Node,
    name=st.just("n"),
    numa=st.just((Numa(cpus=4, memory_bytes=1 << 30),) * 2),
    devices=st.lists(
        st.builds(Device, kind=st.just("h20"), numa=st.integers(0, 1), root=_SPOT, bridge=_SPOT, group=_SPOT),
        max_size=5,
    ).map(tuple),
    nics=st.lists(
        st.builds(
            Nic, name=st.text("xyz", min_size=1, max_size=2), bandwidth_bytes_per_s=st.sampled_from((0.0, 5e10)),
            numa=st.integers(0, 1), root=_SPOT, bridge=_SPOT,
        ),
        max_size=3,
    ).map(tuple),
    leaf=_SPOT,
)  # fmt: skip


@settings(max_examples=50)
@given(st.lists(_NODES, max_size=4))
def test_any_fleet_can_be_drawn(nodes):
    kinds = load_fleet(FLEETS / "thousand.yaml").kinds
    named = tuple(replace(node, name=f"n{number}") for number, node in enumerate(nodes))
    found = Fleet(kinds=kinds, nodes=named)
    assert list(fleet_lines(found, width=100))
    ET.fromstring(fleet_svg(found))
    for node in named:
        lines = "\n".join(node_lines(found, node))
        assert all(f"{number} h20" in lines for number in range(len(node.devices)))
        ET.fromstring(node_svg(found, node))


def test_equal_nodes_stand_together_and_others_do_not():
    found = load_fleet(FLEETS / "mixed.yaml")
    assert [names for names, _ in shapes(racks(found))] == ["h20-[01-06]", "npu-[01-04]", "mlu-[01-02]"]
    assert title(["b", "a", "x", "y", "z"]) == "b, a, x, y and 1 more"
    assert runs([0, 1, 2, 5]) == "0-2, 5"
