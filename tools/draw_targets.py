"""Draws docs/targets.md: which wishes of a plan each target can express, as the targets themselves answer.

In: small plans with one wish each, rendered for every target. Out: the page, printed. Invariant: no cell is written by
hand. Run it as `.venv/bin/python tools/draw_targets.py > docs/targets.md`; a test compares the two.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from accord.edges.fleet_kinds import catalog_kind
from accord.render.rendered import Options
from accord.render.targets import TARGETS
from accord.render.wishes import Aspect, wishes
from accord.terms.errors import BadInput
from accord.terms.fleet import Codec, Device, Fleet, Nic, Node, Numa
from accord.terms.fleet_plan import FleetPlan, Pool
from accord.terms.gang import Apart, Bandwidth, Gang, Need, Part, Relation, Scope, Seat, Together
from accord.terms.graph import Batching, Capability, Stage, StageGraph

WORDS = """\
# What each target can express

Drawn by `tools/draw_targets.py` from the targets themselves: each row is a small plan with that one wish, rendered for
every target; a test holds page and code together. "yes": the text says it. A number: it can't, and the note says why;
`accord render` lists such wishes on stderr, the text has them in its head, and `--strict` refuses. What a fleet is like
counts, too: where every node has all of its devices on one fabric, "one link-group" holds anyway and isn't lost.

Engine command lines (`vllm`, `sglang`, `vllm-omni`, `ray`) start processes; where they stand is yours to see to.
"""
GIB = 1 << 30
GRAPH = StageGraph(
    model="m", stages=(Stage(name="s", capabilities=(Capability.AR,), batching=Batching.CONTINUOUS),), edges=()
)
VENDORS = (
    "h20", "mi300x", "ascend-910b3", "mlu590", "kunlunxin-p800", "iluvatar-bi-v150", "metax-c500", "hygon-k100-ai",
    "mthreads-s4000", "enflame-s60",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: its words, a plan with that wish, and what the wish is about."""

    words: str
    plan: FleetPlan
    aspect: Aspect
    pinned: bool = False


def plan(
    *parts: Part, relations: tuple[Relation, ...] = (), seats: tuple[Seat, ...] = (), kind: str = "h20"
) -> FleetPlan:
    """A plan of these parts, one pool each."""
    pools = tuple(
        Pool(name=part.name, stage="s", part=part.name, engine="vllm", kind=kind, replicas=part.replicas)
        for part in parts
    )
    gang = Gang(name="p", parts=parts, relations=relations)
    return FleetPlan(name="p", model="m", graph=GRAPH, pools=pools, gang=gang, seats=seats)


def fleet(kind: str) -> Fleet:
    """One node of eight devices, two to a PCIe root, with names for all; nothing holds anyway."""
    devices = tuple(
        Device(kind=kind, numa=i // 4, root=f"r{i // 2}", bridge=f"s{i // 2}", group=f"g{i // 4}", uuid=f"U-{i}")
        for i in range(8)
    )
    nics = tuple(
        Nic(name=f"mlx5_{i}", bandwidth_bytes_per_s=5e10, numa=i // 2, root=f"r{i}", bridge=f"s{i}", rdma=True)
        for i in range(4)
    )
    numa = (Numa(cpus=48, memory_bytes=GIB << 9), Numa(cpus=48, memory_bytes=GIB << 9))
    return Fleet(kinds=(catalog_kind(kind),), nodes=(Node(name="n0", numa=numa, devices=devices, nics=nics),))


def rows() -> Iterator[Row]:
    """All rows of the large table."""
    card, part = Need(cards=1), Part(name="a", need=Need(cards=2))
    shared = Need(share=0.3, memory_bytes=8 * GIB, codecs=(Codec(name="nvdec", units=1),))
    for need, aspect, words in (
        (card, Aspect.KIND, "devices of one kind"),
        (card, Aspect.CARDS, "whole devices"),
        (shared, Aspect.MEMORY, "a fraction's memory"),
        (shared, Aspect.COMPUTE, "a fraction's compute share"),
        (shared, Aspect.CODECS, "a fraction's codec units"),
        (Need(cards=1, cpus=4.0, host_memory_bytes=GIB), Aspect.CPUS, "CPU cores and host memory"),
        (Need(cards=1, nvme_bytes=GIB), Aspect.NVME, "local scratch"),
        (Need(cards=1, nic_bytes_per_s=1e9), Aspect.NIC, "a network port of its own"),
        (Need(cards=1, nic_bytes_per_s=1e12), Aspect.NIC_RATE, "network bandwidth beyond what each port has"),
    ):
        yield Row(words=words, plan=plan(Part(name="a", need=need)), aspect=aspect)
    for scope in (Scope.LINK_GROUP, Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA, Scope.HOST):
        yield Row(
            words=f"a replica's devices on one {scope}", plan=plan(replace(part, within=scope)), aspect=Aspect.WITHIN
        )
    for scope in (Scope.PCIE_SWITCH, Scope.PCIE_ROOT, Scope.NUMA, Scope.HOST):
        near = replace(part, nic_within=scope)
        yield Row(words=f"its port on the devices' {scope}", plan=plan(near), aspect=Aspect.NIC_WITHIN)
    yield from relation_rows()
    seats = (Seat(part="a", replica=0, node="n0", devices=(0, 1), nic=0),)
    pinned = plan(replace(part, need=Need(cards=2, nic_bytes_per_s=1e9)), seats=seats)
    for aspect in (Aspect.PIN_NODE, Aspect.PIN_DEVICE, Aspect.PIN_NIC):
        yield Row(words=f"pinned: {aspect}", plan=pinned, aspect=aspect, pinned=True)


def relation_rows() -> Iterator[Row]:
    """Rows about several parts."""
    parts = (Part(name="a", need=Need(cards=1)), Part(name="b", need=Need(cards=1)))
    shared = tuple(replace(one, need=Need(share=0.3, memory_bytes=8 * GIB)) for one in parts)
    for scope in Scope:
        both = shared if scope is Scope.CARD else parts
        for required in (True, False):
            words = "" if required else ", preferred"
            relation = Together(parts=("a", "b"), scope=scope, required=required)
            made = plan(*both, relations=(relation,))
            yield Row(words=f"parts together on one {scope}{words}", plan=made, aspect=Aspect.TOGETHER)
    for scope in (Scope.CARD, Scope.NUMA, Scope.HOST, Scope.LEAF, Scope.SPINE):
        both = shared if scope is Scope.CARD else parts
        made = plan(*both, relations=(Apart(parts=("a", "b"), scope=scope),))
        yield Row(words=f"replicas apart by {scope}", plan=made, aspect=Aspect.APART)
    few = Apart(parts=("a", "b"), scope=Scope.HOST, most=2)
    yield Row(words="at most two replicas to a host", plan=plan(*parts, relations=(few,)), aspect=Aspect.APART)
    sends = plan(*parts, relations=(Bandwidth(source="a", target="b", bytes_per_s=1e9),))
    yield Row(words="bandwidth between parts", plan=sends, aspect=Aspect.BANDWIDTH)
    yield Row(words="all parts start, or none", plan=plan(*parts), aspect=Aspect.GANG)


def answer(row: Row, target: str, kind: str) -> str | None:
    """Why this target can't express the wish of this row; None if it does."""
    known = fleet(kind)
    try:
        made = TARGETS[target].load()(row.plan, known, Options(pinned=row.pinned))
    except BadInput as error:
        return error.problem
    (wish, *_) = [one for one in wishes(row.plan, known, pinned=row.pinned) if one.aspect is row.aspect]
    return next((one.why for one in made.lost if one.what == wish.what), None)


def table(heads: list[str], lines: list[list[str]]) -> Iterator[str]:
    """A table in Markdown."""
    for cells in (heads, ["---"] * len(heads), *lines):
        yield f"| {' | '.join(cells)} |"


def page(targets: list[str]) -> Iterator[str]:
    """The lines of the page."""
    notes: dict[str, int] = {}

    def cell(why: str | None) -> str:
        return "yes" if why is None else str(notes.setdefault(why, len(notes) + 1))

    yield WORDS
    yield "## NVIDIA (H20)\n"
    found = [[row.words, *(cell(answer(row, target, "h20")) for target in targets)] for row in rows()]
    yield from table(["wish", *targets], found)
    yield "\n## Vendors\n"
    yield "Whole devices / a fraction's memory / a fraction's compute share.\n"
    lines = []
    for kind in VENDORS:
        few = [
            Row(words="", plan=plan(Part(name="a", need=need), kind=kind), aspect=aspect)
            for need, aspect in (
                (Need(cards=2), Aspect.CARDS),
                (Need(share=0.25, memory_bytes=8 * GIB), Aspect.MEMORY),
                (Need(share=0.25, memory_bytes=8 * GIB), Aspect.COMPUTE),
            )
        ]
        lines.append([kind, *(" / ".join(cell(answer(row, target, kind)) for row in few) for target in targets)])
    yield from table(["kind", *targets], lines)
    yield "\n## Notes\n"
    yield from (f"{number}. {why}" for why, number in notes.items())


if __name__ == "__main__":
    placing = [name for name in TARGETS if name not in ("ray", "vllm", "sglang", "vllm-omni")]
    print("\n".join(page(placing)))
