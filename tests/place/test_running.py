"""What is taken as gangs that run: to move one is to give it what it had, exactly and nothing else."""

from dataclasses import replace

from hypothesis import given, settings

from accord.place.board import Board
from accord.place.gang import apply, decide, release
from accord.place.mix import mix_unknown
from accord.place.online import Scores
from accord.place.running import running_of
from accord.terms.fleet import Codec, Device, DeviceKind, Figure, Fleet, Nic, Node, Numa, Tag, Taken, Template, Vendor
from accord.terms.gang import Placement, Scope
from tests.place.tiny import fleets

GIB = 1 << 30
SOFT = DeviceKind(
    name="soft",
    vendor=Vendor.OTHER,
    memory_bytes=Figure(value=8 * GIB, tag=Tag.ASSUMED, source="this test"),
    codecs=(Codec(name="dec", units=4),),
    templates=(Template(name="half", memory_bytes=4 * GIB, share=0.5, count_max=2),),
)
NODES = tuple(
    Node(
        name=name,
        numa=(Numa(cpus=8, memory_bytes=64 * GIB),),
        devices=(Device(kind="soft", root="pci0", group="link"), Device(kind="soft", root="pci1", group="link")),
        nics=(Nic(name="nic", bandwidth_bytes_per_s=1e9, root="pci0"),),
    )
    for name in ("n1", "n2")
)


def running(*taken: Taken):
    board = Board(Fleet(kinds=(SOFT,), nodes=NODES, taken=taken))
    return board, running_of(board)


def test_whole_devices_stay_linked_and_near_their_nic():
    one = Taken(node="n1", owner="o", share=1.0, memory_bytes=8 * GIB, codecs=SOFT.codecs, movable=True)
    taken = [replace(one, device=0, nic=0, nic_bytes_per_s=5e8, cpus=2.5, move_cost_usd=1.0), replace(one, device=1)]
    _, (its,) = running(*taken)
    (part,) = its.gang.parts
    assert (part.need.cards, part.need.cpus, part.need.nic_bytes_per_s, part.kinds) == (2, 2.5, 5e8, ("soft",))
    assert (part.within, part.nic_within) == (Scope.LINK_GROUP, Scope.NUMA)  # the devices have one NUMA domain
    assert (its.movable, its.cost_usd) == (True, 1.0)


def test_fractions_keep_their_codecs_and_stay_on_cards_of_their_own():
    dec = (Codec(name="dec", units=1),)
    fractions = [
        Taken(node="n1", owner="o", device=n, share=0.25, memory_bytes=GIB, codecs=dec, movable=True) for n in (0, 1)
    ]
    board, (its,) = running(*fractions)
    release(board, its.placement)
    answer = decide(board, Scores(board, mix_unknown(board)), its.gang)
    assert isinstance(answer, Placement)
    assert sorted(seat.devices for seat in answer.seats) == [(0,), (1,)]
    assert [(seat.share_milli, seat.memory_bytes, seat.codecs) for seat in answer.seats] == [(250, GIB, dec)] * 2


def test_what_can_not_be_put_back_as_it_is_is_not_moved():
    _, (its,) = running(
        Taken(node="n1", owner="o", device=0, share=0.5, memory_bytes=4 * GIB, template="half", movable=True)
    )
    assert not its.movable
    _, (fixed,) = running(Taken(node="n1", owner="o", cpus=1, movable=True), Taken(node="n1", owner="o", cpus=1))
    assert not fixed.movable


@given(fleet=fleets())
@settings(max_examples=50)
def test_without_all_that_runs_the_fleet_is_empty(fleet):
    board = Board(fleet)
    before = board.states()
    its = running_of(board)
    for one in its:
        release(board, one.placement)
    assert (board.states() == Board(Fleet(kinds=fleet.kinds, nodes=fleet.nodes)).states()).all()
    for one in its:
        apply(board, one.placement)
    assert (board.states() == before).all()
