"""Whole plans: the solver against the search, and against sums by hand."""

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.place.board import Board
from accord.place.gang import apply, decide
from accord.place.mix import mix_of
from accord.place.offline import Offline, plan
from accord.place.offline_model import Aim
from accord.place.online import Scores
from accord.terms.errors import BadInput
from accord.terms.fleet import Device, Fleet, Node, Numa
from accord.terms.gang import Apart, Gang, Need, Part, Placement, Scope
from accord.terms.refusal import Refusal
from tests.place import brute
from tests.place.tiny import KINDS, UNIT, fleets, gangs


def scores_of(board: Board, *some: Gang) -> Scores:
    return Scores(board, mix_of([part.need for gang in some for part in gang.parts]))


def fleet_of(*counts: int) -> Fleet:
    """Nodes with so many soft devices each."""
    numa = (Numa(cpus=64, memory_bytes=64 * UNIT),)
    nodes = (Node(name=f"n{n}", numa=numa, devices=(Device(kind="soft"),) * count) for n, count in enumerate(counts))
    return Fleet(kinds=KINDS, nodes=tuple(nodes))


def shares(*sizes: float) -> tuple[Gang, ...]:
    """Gangs of one fraction each."""
    return tuple(
        Gang(name=f"g{number}", parts=(Part(name="p", need=Need(share=share)),)) for number, share in enumerate(sizes)
    )


@given(fleet=fleets(), gang=gangs(), aim=st.sampled_from(Aim))
def test_the_solver_finds_a_plan_where_the_search_does(fleet, gang, aim):
    board = Board(fleet)
    scores = scores_of(board, gang)
    answer = plan(board, scores, (gang,), aim=aim)
    assert isinstance(answer, Offline) == isinstance(decide(board, scores, gang, steps_max=1_000_000), Placement)
    if isinstance(answer, Offline):
        (placement,) = answer.placements
        assert brute.faults_of(fleet, gang, placement.seats) == []
        assert answer.bound <= answer.cost + 1e-6


@given(fleet=fleets(), first=gangs(required=None), second=gangs(required=None))
def test_plans_of_several_gangs_hold(fleet, first, second):
    board = Board(fleet)
    some = (first, replace(second, name="other"))
    answer = plan(board, scores_of(board, *some), some)
    if isinstance(answer, Offline):
        for gang, placement in zip(some, answer.placements, strict=True):
            assert brute.faults_of(fleet, gang, placement.seats) == []
            apply(board, placement)


def test_fewest_devices_beats_first_come():
    # 0.6 + 0.4, 0.5 + 0.5 and 0.7 + 0.3 fill three devices; one by one and largest first they do too, but not with
    # 0.45 + 0.35 + 0.2 thrown in, where bin packing needs all combinations.
    some = shares(0.5, 0.45, 0.35, 0.2, 0.5, 0.6, 0.4, 0.7, 0.3)
    board = Board(fleet_of(8))
    answer = plan(board, scores_of(board, *some), some, aim=Aim.DEVICES)
    assert isinstance(answer, Offline)
    assert (answer.cost, answer.bound, answer.gap) == (4.0, 4.0, 0.0)


def test_fewest_nodes():
    parts = [Part(name="p", need=Need(cards=cards)) for cards in (2, 3, 1)]
    some = tuple(Gang(name=f"g{number}", parts=(part,)) for number, part in enumerate(parts))
    board = Board(fleet_of(2, 2, 4, 6))
    answer = plan(board, scores_of(board, *some), some, aim=Aim.NODES)
    assert isinstance(answer, Offline)
    assert (answer.cost, answer.gap) == (1.0, 0.0)
    assert {seat.node for placement in answer.placements for seat in placement.seats} == {"n3"}


def test_without_the_solver_the_gap_is_stated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ortools", None)
    some = shares(0.6, 0.6, 0.6)
    board = Board(fleet_of(4))
    answer = plan(board, scores_of(board, *some), some, aim=Aim.DEVICES)
    assert isinstance(answer, Offline)
    assert not answer.solver
    assert "accord-ai[solve]" in answer.note
    assert (answer.cost, answer.bound) == (3.0, 2.0)  # 1.8 devices' worth
    assert answer.gap == pytest.approx(1 / 3)


def test_no_time_no_proof_but_a_plan():
    some = shares(*([0.6] * 6 + [0.3] * 6))
    board = Board(fleet_of(8, 8))
    answer = plan(board, scores_of(board, *some), some, aim=Aim.DEVICES, seconds_max=1e-9)
    assert isinstance(answer, Offline)
    assert answer.bound <= 6 <= answer.cost


def test_what_doesnt_fit_is_refused_with_the_reason():
    gang = Gang(
        name="g",
        parts=(Part(name="p", need=Need(cards=1), replicas=3),),
        relations=(Apart(parts=("p",), scope=Scope.HOST),),
    )
    board = Board(fleet_of(8, 8))
    answer = plan(board, scores_of(board, gang), (gang,))
    assert isinstance(answer, Refusal)
    assert answer.field == "relations[0]"


def test_gangs_need_names_of_their_own():
    board = Board(fleet_of(1))
    gang = shares(0.5)[0]
    with pytest.raises(BadInput, match="named twice"):
        plan(board, scores_of(board, gang), (gang, gang))


def test_the_same_call_gives_the_same_plan():
    some = shares(0.5, 0.45, 0.35, 0.2, 0.5, 0.6)
    board = Board(fleet_of(3, 3))
    scores = scores_of(board, *some)
    one, other = (plan(board, scores, some, aim=Aim.LOSS, seconds_max=0.5) for _ in range(2))
    assert one == other
