"""What a refusal says: what binds, and ways out that were tried; and that each of them is a way out."""

import re
from dataclasses import replace

import pytest
from hypothesis import given

from accord.place.board import Board
from accord.place.gang import decide
from accord.place.gang_loosen import bounds
from accord.place.mix import mix_of
from accord.place.online import Scores
from accord.terms.errors import BadInput
from accord.terms.fleet import Device, Fleet, Nic, Node, Numa, Taken
from accord.terms.gang import Apart, Bandwidth, Gang, Need, Part, Placement, Scope, Together
from accord.terms.refusal import Refusal
from tests.place import brute
from tests.place.tiny import GB, KINDS, UNIT, fleets, gangs

ROOT = Scope.PCIE_ROOT


def node(name: str, leaf: str) -> Node:
    """Eight devices, two and a NIC below each PCIe root, two roots to a NUMA node."""
    return Node(
        name=name,
        leaf=leaf,
        numa=(Numa(cpus=32, memory_bytes=256 * UNIT),) * 2,
        devices=tuple(Device(kind="soft", numa=n // 4, root=f"r{n // 2}", bridge=f"b{n // 2}") for n in range(8)),
        nics=tuple(Nic(name=f"ib{n}", bandwidth_bytes_per_s=50.0 * GB, numa=n // 2, root=f"r{n}") for n in range(4)),
    )


def fleet() -> Fleet:
    busy = [("n08", 0), ("n08", 1), ("n08", 2), ("n09", 0), ("n09", 2), ("n09", 4), ("n09", 6)]
    taken = (Taken(node=name, owner="x", device=device, share=1.0, memory_bytes=4 * UNIT) for name, device in busy)
    nodes = (node("n07", "leaf-1"), node("n08", "leaf-2"), node("n09", "leaf-1"))
    return Fleet(kinds=KINDS, nodes=nodes, taken=tuple(taken))


def refused(*parts: Part, relations=()) -> Refusal:
    board = Board(fleet())
    answer = decide(board, Scores(board, mix_of([Need(cards=1)])), Gang(name="g", parts=parts, relations=relations))
    assert isinstance(answer, Refusal)
    return answer


def part(need: Need, **words) -> Part:
    return Part(name="decode", need=need, **words)


def test_devices_and_a_nic_under_one_root():
    answer = refused(part(Need(cards=4, nic_bytes_per_s=10.0 * GB), within=ROOT, nic_within=ROOT))
    assert answer == Refusal(
        field="parts.decode.within",
        value="same PCIe root for 4 devices and a NIC",
        limit="no PCIe root has more than 2 free beside such a NIC",
        causes=("same PCIe root for 4 devices and a NIC: no PCIe root has more than 2 free beside such a NIC",),
        fix=("the nearest is same NUMA node for 4 devices and a NIC (n07)", "2 instead of 4 devices for decode"),
    )


def test_a_relation_that_binds_is_loosened():
    apart = Apart(parts=("decode",), scope=Scope.HOST)
    answer = refused(part(Need(cards=2), replicas=4), relations=(apart,))
    assert (answer.field, answer.value) == ("relations[0]", "decode apart by host")
    assert answer.fix[0].startswith("the nearest is at most 2 of decode in one host (")
    assert "3 instead of 4 replicas of decode" in answer.fix


def test_bandwidth_that_no_nic_has():
    flow = Bandwidth(source="prefill", target="decode", bytes_per_s=80.0 * GB)
    apart = Apart(parts=("prefill", "decode"), scope=Scope.HOST)
    answer = refused(Part(name="prefill", need=Need(cards=4)), part(Need(cards=8)), relations=(flow, apart))
    assert answer.limit == "the nearest that fits is 50 GB/s from each prefill to decode"


def test_cores_that_no_node_has():
    answer = refused(part(Need(cards=1, cpus=80.0)))
    assert answer.field == "parts.decode.need.cpus"
    assert answer.fix == ("the nearest is 64 cores for decode (n07)",)


def test_the_nearest_amount_is_what_there_is():
    for need, words in (
        (Need(share=0.1, memory_bytes=9 * UNIT), "4GiB of device memory"),
        (Need(nic_bytes_per_s=60.0 * GB), "50 GB/s of a NIC"),
        (Need(host_memory_bytes=2000 * UNIT), "512GiB of host memory"),
    ):
        assert refused(part(need)).fix[0].startswith(f"the nearest is {words} for decode (")


def test_two_amounts_that_bind_together():
    answer = refused(part(Need(cards=8, cpus=70.0, host_memory_bytes=900 * UNIT)))
    assert answer.limit == "decode: no node has all that one replica takes beside its devices"
    assert answer.fix == ("leave out or lower all of: 900GiB of host memory for decode; 70 cores for decode",)


def test_what_has_to_be_freed():
    answer = refused(part(Need(cards=8), replicas=2), relations=(Together(parts=("decode",), scope=Scope.LEAF),))
    assert answer.limit == "decode: no more than 1 of 2 replicas have a place"
    assert answer.fix[-1] == "free devices 0, 2, 4, 6 on n09"


def test_more_than_any_node_has():
    answer = refused(part(Need(cards=16)))
    assert answer.limit == "decode: no node has room for one replica; the most free devices are 8, on n07"
    assert answer.fix == ("8 instead of 16 devices for decode",)


def test_the_bound_on_work_is_no_claim():
    board = Board(fleet())
    gang = Gang(name="g", parts=(part(Need(cards=1), replicas=4),))
    answer = decide(board, Scores(board, mix_of([Need(cards=1)])), gang, steps_max=2)
    assert isinstance(answer, Refusal)
    assert answer.may_retry
    assert answer.limit == "2 steps of search"


@pytest.mark.parametrize(
    ("gang", "field"),
    [
        (Gang(name="g", parts=()), "parts"),
        (Gang(name="g", parts=(part(Need(cards=1)), part(Need(cards=1)))), "parts.decode"),
        (Gang(name="g", parts=(part(Need(cards=1), replicas=0),)), "parts.decode.replicas"),
        (Gang(name="g", parts=(part(Need(share=1.5)),)), "parts.decode.share"),
        (Gang(name="g", parts=(part(Need(cards=1, share=0.5)),)), "parts.decode.share"),
        (Gang(name="g", parts=(part(Need(cards=-1)),)), "parts.decode.cards"),
        (Gang(name="g", parts=(part(Need(cpus=float("nan"))),)), "parts.decode.cpus"),
        (Gang(name="g", parts=(part(Need(cpus=1.0), within=ROOT),)), "parts.decode.within"),
        (Gang(name="g", parts=(part(Need(cards=1), nic_within=Scope.CARD),)), "parts.decode.nic_within"),
        (
            Gang(name="g", parts=(part(Need(cards=1)),), relations=(Together(parts=("x",), scope=Scope.HOST),)),
            "relations[0]",
        ),
        (
            Gang(name="g", parts=(part(Need(cpus=1.0)),), relations=(Together(parts=("decode",), scope=ROOT),)),
            "relations[0]",
        ),
    ],
)
def test_gangs_that_make_no_sense(gang, field):
    board = Board(fleet())
    with pytest.raises(BadInput, match="^" + re.escape(field) + ":"):
        decide(board, Scores(board, mix_of([Need(cards=1)])), gang)


@given(fleet=fleets(), gang=gangs())
def test_what_binds_makes_room_by_brute_force(fleet, gang):
    board = Board(fleet)
    answer = decide(board, Scores(board, mix_of([its.need for its in gang.parts])), gang, steps_max=1_000_000)
    if isinstance(answer, Placement):
        return
    binding = [bound for bound in bounds(gang) if brute.feasible(fleet, bound.lifted)]
    assert (answer.field, answer.value) == ((binding[0].field, binding[0].value) if binding else ("gang", gang.name))
    for text in answer.fix:
        found = re.fullmatch(r"(\d+) instead of (\d+) (replicas of|devices for) (p\d)", text)
        if found:
            its = next(its for its in gang.parts if its.name == found[4])
            less = (
                replace(its, replicas=int(found[1]))
                if found[3] == "replicas of"
                else replace(its, need=replace(its.need, cards=int(found[1])))
            )
            parts = tuple(less if other.name == its.name else other for other in gang.parts)
            assert brute.feasible(fleet, replace(gang, parts=parts))
