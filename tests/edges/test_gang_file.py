"""Lists of gangs as files: what they mean, and what is said of those that are wrong."""

from pathlib import Path

import pytest

from accord.edges.gang_file import gangs_from_text, load_gangs
from accord.terms.errors import BadInput
from accord.terms.fleet import Codec
from accord.terms.gang import Apart, Bandwidth, Gang, Need, Part, Scope, Together

EXAMPLE = Path(__file__).parents[2] / "examples/gangs.yaml"
FULL = """
accord: 1
gangs:
  - name: chat
    parts:
      a: {cards: 4, replicas: 2, kinds: h20, within: link-group, nic_within: pcie-root, bandwidth: 20GB/s}
      b: {share: 30%, memory: 8GiB, codecs: {nvdec: 2}, cpus: 1.5, host_memory: 4GiB, nvme: 1TB, kinds: [h20, l40s]}
    relations:
      - {together: [a, b], within: leaf}
      - {apart: a, over: host, most: 2, preferred: 0.5}
      - {from: a, to: b, bandwidth: 80Gb/s}
"""


def test_every_field():
    a = Part(
        name="a", replicas=2, kinds=("h20",), within=Scope.LINK_GROUP, nic_within=Scope.PCIE_ROOT,
        need=Need(cards=4, nic_bytes_per_s=20e9),
    )  # fmt: skip
    b = Part(
        name="b", kinds=("h20", "l40s"),
        need=Need(
            share=0.3, memory_bytes=8 << 30, codecs=(Codec(name="nvdec", units=2),), cpus=1.5,
            host_memory_bytes=4 << 30, nvme_bytes=10**12,
        ),
    )  # fmt: skip
    relations = (
        Together(parts=("a", "b"), scope=Scope.LEAF),
        Apart(parts=("a",), scope=Scope.HOST, most=2, required=False, weight=0.5),
        Bandwidth(source="a", target="b", bytes_per_s=10e9),
    )
    assert gangs_from_text(FULL) == (Gang(name="chat", parts=(a, b), relations=relations),)


def test_counted_gangs_are_numbered():
    gangs = gangs_from_text("accord: 1\ngangs: [{name: w, count: 3, parts: {p: {cards: 1}}}]")
    assert [gang.name for gang in gangs] == ["w-1", "w-2", "w-3"]


def test_the_example_is_read():
    assert [gang.name for gang in load_gangs(EXAMPLE)] == ["chat", "speech", "batch-1", "batch-2", "batch-3"]


@pytest.mark.parametrize(
    ("gang", "said"),
    [
        ("{name: g, parts: {}}", "gangs[0].parts: 'a mapping of 0': no parts (line 2)"),
        ("{name: g, parts: {p: {}}}", "gangs[0].parts.p.cards: 'absent': the part needs nothing"),
        ("{name: g, parts: {p: {crads: 1}}}", "did you mean cards?"),
        ("{name: g, parts: {p: {cards: 1, share: 0.5}}}", "gangs[0].parts.p.share: 0.5: both cards and share"),
        ("{name: g, parts: {p: {cards: -1}}}", "gangs[0].parts.p.cards: -1"),
        ("{name: g, parts: {p: {cards: 1, replicas: 0}}}", "gangs[0].parts.p.replicas: 0: out of range (line 2)"),
        ("{name: g, parts: {p: {share: 0.5, memory: 8}}}", "gangs[0].parts.p.memory: 8"),
        ("{name: g, parts: {p: {cards: 1, within: rack}}}", "gangs[0].parts.p.within: 'rack'"),
        ("{name: g, parts: {p: {cards: 1}}, relations: [{apart: q, over: host}]}", "no such part; name one of p"),
        ("{name: g, parts: {p: {cards: 1}}, relations: [{apart: p}]}", "relations[0].over: 'absent': required"),
        ("{name: g, parts: {p: {cards: 1}}, relations: [{near: p}]}", "gangs[0].relations[0]: 'a mapping of 1'"),
        ("{name: g, parts: {p: {cards: 1}}}, {name: g, parts: {p: {cards: 1}}}", "gangs: 'g': this name comes twice"),
        ("{name: g, count: 1000000, parts: {p: {cards: 1}}}", "gangs[0].count: 1000000: too many"),
        ('{name: "a\\nb", parts: {p: {cards: 1}}}', "gangs[0].name"),
    ],
)
def test_what_is_wrong_is_named(gang, said):
    with pytest.raises(BadInput) as error:
        gangs_from_text(f"accord: 1\ngangs: [{gang}]")
    assert said in str(error.value)
