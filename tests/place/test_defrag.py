"""Making room: the fewest moves, in an order that works, against every set of moves by brute force."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.place.board import Board
from accord.place.defrag import Defrag, Running, make_room
from accord.place.gang import apply, decide, release
from accord.place.mix import mix_of
from accord.place.offline import join
from accord.place.online import Scores
from accord.terms.fleet import Device, Fleet, Node, Numa, Taken
from accord.terms.gang import Apart, Gang, Need, Part, Placement, Scope
from accord.terms.refusal import Refusal
from tests.place import brute
from tests.place.tiny import KINDS, UNIT


def fleet_of(*counts: int) -> Fleet:
    numa = (Numa(cpus=8, memory_bytes=8 * UNIT),)
    nodes = (Node(name=f"n{n}", numa=numa, devices=(Device(kind="soft"),) * count) for n, count in enumerate(counts))
    return Fleet(kinds=KINDS, nodes=tuple(nodes))


def gang_of(name: str, need: Need, replicas: int = 1) -> Gang:
    return Gang(name=name, parts=(Part(name="p", need=need, replicas=replicas),))


def at(gang: Gang, board: Board, node: str, device: int, *, cost_usd: float = 1.0, movable: bool = True) -> Running:
    """A gang of one fraction that runs where it is told to."""
    scores = Scores(board, mix_of([Need(share=0.5)]))
    answer = decide(board, scores, gang)
    assert isinstance(answer, Placement)
    placement = replace(answer, seats=(replace(answer.seats[0], node=node, devices=(device,)),))
    apply(board, placement)
    return Running(gang=gang, placement=placement, cost_usd=cost_usd, movable=movable)


def replay(board: Board, answer: Defrag) -> None:
    """Moves one by one, then the gang: BadInput if anything is given twice."""
    state = board.copy()
    for move in answer.moves:
        release(state, move.before)
        apply(state, move.after)
    apply(state, answer.placement)


def test_one_cheap_move_makes_room():
    board = Board(fleet_of(2, 2))
    half = Need(share=0.5)
    running = (
        at(gang_of("dear", half), board, "n0", 0, cost_usd=5.0),
        at(gang_of("cheap", half), board, "n1", 1, cost_usd=2.0),
    )
    gang = gang_of("new", Need(cards=2))
    answer = make_room(board, Scores(board, mix_of([half])), gang, running)
    assert isinstance(answer, Defrag)
    assert [(move.gang, move.after.seats[0].node) for move in answer.moves] == [("cheap", "n0")]
    assert (answer.cost_usd, answer.proven) == (2.0, True)
    replay(board, answer)


def test_what_may_not_move_stays():
    board = Board(fleet_of(2, 2))
    half = Need(share=0.5)
    running = (
        at(gang_of("dear", half), board, "n0", 0, cost_usd=5.0),
        at(gang_of("cheap", half), board, "n1", 1, cost_usd=2.0, movable=False),
    )
    answer = make_room(board, Scores(board, mix_of([half])), gang_of("new", Need(cards=2)), running)
    assert isinstance(answer, Defrag)
    assert [move.gang for move in answer.moves] == ["dear"]


def test_no_moves_where_it_fits():
    board = Board(fleet_of(2))
    answer = make_room(board, Scores(board, mix_of([Need(cards=1)])), gang_of("new", Need(cards=2)), ())
    assert isinstance(answer, Defrag)
    assert answer.moves == ()


def test_a_full_fleet_is_refused():
    board = Board(fleet_of(1, 1))
    half = Need(share=0.6)
    running = (at(gang_of("a", half), board, "n0", 0), at(gang_of("b", half), board, "n1", 0))
    scores = Scores(board, mix_of([half]))
    answer = make_room(board, scores, gang_of("new", Need(cards=1)), running)
    assert isinstance(answer, Refusal)
    assert not answer.may_retry
    answer = make_room(board, scores, gang_of("new", Need(cards=2)), running)
    assert isinstance(answer, Refusal)
    assert answer.causes[0].startswith("it wouldn't fit without all 2 movable gangs")


def test_the_bound_on_tries_is_said():
    board = Board(fleet_of(2, 2))
    half = Need(share=0.5)
    running = (at(gang_of("a", half), board, "n0", 0), at(gang_of("b", half), board, "n1", 1))
    answer = make_room(board, Scores(board, mix_of([half])), gang_of("new", Need(cards=2)), running, tries_max=0)
    assert isinstance(answer, Refusal)
    assert answer.may_retry


@st.composite
def scenes(draw: st.DrawFn):
    fleet = fleet_of(*draw(st.lists(st.integers(1, 2), min_size=2, max_size=3)))
    shares = draw(st.lists(st.sampled_from([0.3, 0.5, 0.6]), min_size=1, max_size=4))
    gang = gang_of("new", Need(cards=draw(st.integers(1, 2))), replicas=draw(st.integers(1, 2)))
    if draw(st.booleans()):
        gang = replace(gang, relations=(Apart(parts=("p",), scope=Scope.HOST),))
    costs = [draw(st.sampled_from([1.0, 2.0, 3.0])) for _ in shares]
    spots = [draw(st.integers(0, 5)) for _ in shares]
    return fleet, gang, shares, costs, spots


@given(scene=scenes())
def test_no_smaller_or_cheaper_set_of_moves_would_do(scene):
    fleet, gang, shares, costs, spots = scene
    board = Board(fleet)
    devices = [(node.name, number) for node in fleet.nodes for number in range(len(node.devices))]
    running = []
    for number, (share, cost, spot) in enumerate(zip(shares, costs, spots, strict=True)):
        node, device = devices[spot % len(devices)]
        if board.share[board.row[node], device] >= 1000 * share:
            running.append(at(gang_of(f"old{number}", Need(share=share)), board, node, device, cost_usd=cost))
    scores = Scores(board, mix_of([Need(share=share) for share in shares]))
    answer = make_room(board, scores, gang, tuple(running), moves_max=4)
    sets = [some for count in range(len(running) + 1) for some in itertools.combinations(running, count)]
    helping = [
        (len(some), sum(its.cost_usd for its in some))
        for some in sets
        if brute.feasible(_without(fleet, running, some), join((gang, *(its.gang for its in some))))
    ]
    if isinstance(answer, Defrag):
        replay(board, answer)
        assert (len(answer.moves), answer.cost_usd) == pytest.approx(min(helping)) or not answer.proven
    else:
        assert not helping or answer.may_retry


def _without(fleet: Fleet, running: list[Running], some: tuple[Running, ...]) -> Fleet:
    """The fleet with all that runs taken, but for some."""
    taken = [
        Taken(node=seat.node, owner="old", device=seat.devices[0], share=seat.share_milli / 1000)
        for its in running
        if its not in some
        for seat in its.placement.seats
    ]
    return replace(fleet, taken=tuple(taken))
