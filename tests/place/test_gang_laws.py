"""Laws of placing gangs, on tiny fleets of any shape: complete, never too much, all or nothing, exact to release."""

from dataclasses import replace

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from accord.place.board import Board
from accord.place.gang import apply, decide, release
from accord.place.gang_holds import broken
from accord.place.mix import mix_of
from accord.place.online import Scores
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet
from accord.terms.gang import Gang, Placement
from accord.terms.refusal import Refusal
from tests.place import brute
from tests.place.tiny import fleets, gangs

STEPS = 1_000_000


def tried(fleet: Fleet, gang: Gang) -> tuple[Board, Placement | Refusal]:
    board = Board(fleet)
    scores = Scores(board, mix_of([part.need for part in gang.parts]))
    return board, decide(board, scores, gang, steps_max=STEPS)


def arrays(board: Board) -> list[np.ndarray]:
    return [its for name, its in sorted(vars(board).items()) if isinstance(its, np.ndarray) and name != "versions"]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(its, others) for its, others in zip(one, other, strict=True))


@given(fleet=fleets(), gang=gangs())
def test_brute_force_agrees(fleet, gang):
    _, answer = tried(fleet, gang)
    assert isinstance(answer, Placement) == brute.feasible(fleet, gang)
    event(f"placed: {isinstance(answer, Placement)}")


@given(fleet=fleets(), gang=gangs(required=None))
def test_seats_keep_every_bound_and_relation(fleet, gang):
    board, answer = tried(fleet, gang)
    if isinstance(answer, Placement):
        assert brute.faults_of(fleet, gang, answer.seats) == []
        assert broken(board, gang, answer.seats) == ()
        apply(board, answer)  # Board.take refuses whatever is too much
        assert all((its >= 0).all() for its in (board.cpu, board.host, board.nvme, board.codecs, board.templates))


@given(fleet=fleets(), gang=gangs(required=False))
def test_preferences_cost_nobody_a_place(fleet, gang):
    _, answer = tried(fleet, gang)
    _, bare = tried(fleet, replace(gang, relations=tuple(r for r in gang.relations if not hasattr(r, "weight"))))
    assert isinstance(answer, Placement) == isinstance(bare, Placement)
    if isinstance(answer, Placement):
        assert len(answer.unmet) <= len(gang.relations)


@given(fleet=fleets(), gang=gangs(required=None))
def test_deciding_changes_nothing_and_says_the_same_twice(fleet, gang):
    board, answer = tried(fleet, gang)
    assert same(arrays(board), arrays(Board(fleet)))
    assert board.version == Board(fleet).version
    assert tried(fleet, gang)[1] == answer


@given(fleet=fleets(), gang=gangs())
def test_releasing_gives_back_exactly(fleet, gang):
    board, answer = tried(fleet, gang)
    if isinstance(answer, Placement):
        before = [its.copy() for its in arrays(board)]
        apply(board, answer)
        release(board, answer)
        assert same(before, arrays(board))


@given(fleet=fleets(), gang=gangs(), other=gangs())
def test_a_newer_board_takes_all_or_nothing(fleet, gang, other):
    board, answer = tried(fleet, gang)
    _, rival = tried(fleet, other)
    if isinstance(answer, Placement) and isinstance(rival, Placement):
        apply(board, rival)
        before = [its.copy() for its in arrays(board)]
        try:
            apply(board, answer)
        except BadInput:
            assert same(before, arrays(board))
        else:
            release(board, answer)
            assert same(before, arrays(board))


@given(fleet=fleets(), other=fleets(), gang=gangs())
def test_a_fleet_that_has_changed_takes_all_or_nothing(fleet, other, gang):
    _, answer = tried(fleet, gang)
    board = Board(other)
    before = [its.copy() for its in arrays(board)]
    if isinstance(answer, Placement):
        try:
            apply(board, answer)
        except BadInput:
            assert same(before, arrays(board))
        else:
            assert all((its >= 0).all() for its in (board.cpu, board.host, board.nvme, board.codecs, board.templates))


@given(fleet=fleets(), gang=gangs(), data=st.data())
def test_the_order_of_nodes_in_a_file_changes_nothing(fleet, gang, data):
    shuffled = replace(fleet, nodes=tuple(data.draw(st.permutations(fleet.nodes))))
    assert tried(fleet, gang)[1] == tried(shuffled, gang)[1]


@given(fleet=fleets(), gang=gangs(), data=st.data())
def test_the_names_of_nodes_dont_change_feasibility(fleet, gang, data):
    names = dict(zip([node.name for node in fleet.nodes], data.draw(st.permutations("xyz")), strict=False))
    renamed = replace(
        fleet,
        nodes=tuple(replace(node, name=names[node.name]) for node in fleet.nodes),
        taken=tuple(replace(taken, node=names[taken.node]) for taken in fleet.taken),
    )
    assert isinstance(tried(fleet, gang)[1], Placement) == isinstance(tried(renamed, gang)[1], Placement)
