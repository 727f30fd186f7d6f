"""Laws of packing: what is remembered is right, nothing is given twice, and worth is the dual of the best packing."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.place.board import WHOLE, Board, taken_of
from accord.place.gang import apply, find
from accord.place.mix import Mix, Size, mix_of, mix_unknown
from accord.place.online import Scores, best_seat, is_plain
from accord.place.worth import gap_worth
from accord.terms.errors import BadInput
from accord.terms.fleet import Device, DeviceKind, Fleet, Node, Numa, Taken, Vendor
from accord.terms.gang import Gang, Need, Part
from tests.place.tiny import fleets, gangs, needs

PARTS = st.builds(Part, name=st.just("p"), need=needs(), kinds=st.sampled_from([(), (), ("soft",), ("hard", "soft")]))


def parts(most=8):
    return st.lists(PARTS, min_size=1, max_size=most)


def filled(board, scores, wanted):
    """Places what fits; the seats, None for what doesn't."""
    seats = []
    for part in wanted:
        seat = best_seat(scores, part)
        seats.append(seat)
        if seat is not None:
            board.take(seat)
    return seats


@given(fleet=fleets(), wanted=parts(), later=parts(4), known=st.booleans())
def test_remembered_losses_are_those_computed_afresh(fleet, wanted, later, known):
    board = Board(fleet)
    scores = Scores(board, mix_of(part.need for part in wanted) if known else Mix(needs=()))
    seats = filled(board, scores, wanted)
    for seat in seats[::2]:
        if seat is not None:
            board.give(seat)
    for part in wanted + later:
        _, loss, device = scores.of(part)
        _, fresh_loss, fresh_device = scores.on(board).of(part)
        assert np.array_equal(loss, fresh_loss)
        assert np.array_equal(device[np.isfinite(loss)], fresh_device[np.isfinite(loss)])


@given(fleet=fleets(), wanted=parts(24))
def test_nothing_is_given_twice_and_all_comes_back(fleet, wanted):
    board = Board(fleet)
    before = board.copy()
    seats = filled(board, Scores(board, mix_of(part.need for part in wanted)), wanted)
    stacks = (board.cpu, board.host, board.nvme, board.share_sum, board.codecs, board.templates)
    assert all((left >= 0).all() for left in stacks)
    for left, kind in ((board.share, board.kind), (board.memory, board.kind)):
        assert (left[kind >= 0] >= 0).all()
    assert (board.nic >= -1).all()
    for seat in filter(None, seats):
        board.give(seat)
    assert np.array_equal(board.states(), before.states())
    assert np.array_equal(board.share_sum, before.share_sum)


@given(fleet=fleets(), wanted=parts(12))
def test_a_plain_part_alone_is_placed_as_a_gang_of_one(fleet, wanted):
    board = Board(fleet)
    scores = Scores(board, mix_of(part.need for part in wanted))
    for part in wanted:
        seat = best_seat(scores, part)
        if is_plain(board, part):
            placement = find(board, scores, Gang(name="g", parts=(part,)))
            # The same node; on it a gang may choose among devices that lose the same.
            assert (seat and seat.node) == (placement and placement.seats[0].node)
        if seat is not None:
            board.take(seat)


@given(fleet=fleets(), first=st.lists(gangs(), max_size=4), later=st.lists(gangs(), max_size=3))
@settings(max_examples=40)
def test_a_restart_from_a_snapshot_decides_as_if_nothing_had_happened(fleet, first, later):
    mix = mix_of(part.need for gang in first for part in gang.parts)
    board = Board(fleet)
    scores = Scores(board, mix)
    taken = list(fleet.taken)
    for gang in first:
        placement = find(board, scores, gang)
        if placement is not None:
            apply(board, placement)
            taken += [row for seat in placement.seats for row in taken_of(seat, owner=gang.name)]
    restarted = Board(replace(fleet, taken=tuple(taken)))
    assert np.array_equal(board.states(), restarted.states())
    afresh = Scores(restarted, mix)
    for gang in later:
        one, other = find(board, scores, gang), find(restarted, afresh, gang)
        assert (one and one.seats) == (other and other.seats)


def test_more_needs_than_are_remembered_change_no_answer():
    board = Board(Fleet(kinds=(SOFT,), nodes=tuple(node(f"n{number}", 2) for number in range(3))))
    scores = Scores(board, Mix(needs=()))
    wanted = [Part(name="p", need=Need(share=milli / WHOLE, cpus=0.1)) for milli in range(1, 700)]
    first = [best_seat(scores, part) for part in wanted]
    assert len(scores._slots) < len(wanted)
    assert [best_seat(scores, part) for part in wanted] == first


def test_seven_sevenths_that_are_taken_are_one_device():
    taken = tuple(Taken(node="n", owner=f"o{number}", device=0, share=1 / 7) for number in range(7))
    board = Board(Fleet(kinds=(SOFT,), nodes=(node("n", 1),), taken=taken))
    assert board.share.tolist() == [[0]]
    with pytest.raises(BadInput):
        Board(replace(board.fleet, taken=(*taken, taken[0])))


# What a gap is worth.


def sizes_of(*rows):
    return tuple(Size(milli=milli, weight=weight) for milli, weight in sorted(rows, reverse=True))


def test_fractions_that_complement_each_other_leave_worth_behind():
    worth = gap_worth(sizes_of((700, 1.0), (300, 1.2)))
    assert worth[300] == pytest.approx(300)  # there are 300s to spare, and whole devices of them fill 900
    assert worth[WHOLE] == pytest.approx(900)
    assert worth[300] + worth[700] == pytest.approx(worth[WHOLE])
    # A gap of 500 holds nothing but one 300; one of 299 holds nothing at all.
    assert worth[500] == pytest.approx(worth[300])
    assert worth[299] == 0


def test_a_gap_that_only_something_rare_fills_is_worth_little():
    common = gap_worth(sizes_of((800, 1.0), (200, 1.2)))
    rare = gap_worth(sizes_of((800, 1.0), (200, 0.01), (500, 1.0)))
    assert rare[200] < common[200]


def test_where_nothing_is_known_a_gap_is_worth_its_size():
    assert gap_worth(()).tolist() == list(range(WHOLE + 1))


@given(
    rows=st.dictionaries(
        st.integers(3, 20).map(lambda step: 50 * step), st.sampled_from([0.1, 1.0, 2.0]), min_size=1, max_size=4
    )
)
@settings(max_examples=40)
def test_worth_is_the_dual_of_the_best_packing(rows):
    """Weak duality holds for any superadditive worth; only the optimal one meets the optimum of all patterns."""
    worth = gap_worth(sizes_of(*rows.items()))
    assert (np.diff(worth) >= -1e-9).all()
    assert (worth <= np.arange(WHOLE + 1) + 1e-6).all()
    supply = {milli: WHOLE * weight / sum(m * w for m, w in rows.items()) for milli, weight in rows.items()}
    dual = worth[WHOLE] + sum(supply[milli] * (milli - worth[milli]) for milli in rows)
    assert dual == pytest.approx(best_fill(supply), abs=1e-3)


def best_fill(supply):
    """The most that one device is filled with, by a mix of all patterns there are."""
    import highspy

    milli = sorted(supply)
    counts = itertools.product(*(range(WHOLE // size + 1) for size in milli))
    patterns = [count for count in counts if np.dot(count, milli) <= WHOLE]
    solver = highspy.Highs()
    solver.silent()
    used = [solver.addVariable(lb=0, ub=1) for _ in patterns]
    solver.addConstr(sum(used) <= 1)
    for row, size in enumerate(milli):
        solver.addConstr(sum(pattern[row] * one for pattern, one in zip(patterns, used, strict=True)) <= supply[size])
    solver.maximize(sum(float(np.dot(pattern, milli)) * one for pattern, one in zip(patterns, used, strict=True)))
    return solver.getObjectiveValue()


# What packing then does.

SOFT = DeviceKind(name="soft", vendor=Vendor.OTHER)


def node(name, devices, cpus=64):
    return Node(name=name, numa=(Numa(cpus=cpus, memory_bytes=1 << 40),), devices=(Device(kind="soft"),) * devices)


def part(share=0.0, cpus=1.0, cards=0):
    return Part(name="p", need=Need(share=share, cpus=cpus, cards=cards))


def test_complements_meet_on_one_device():
    board = Board(Fleet(kinds=(SOFT,), nodes=(node("a", 2),)))
    scores = Scores(board, mix_of([part(0.7).need, part(0.3).need]))
    seats = filled(board, scores, [part(0.7), part(0.7), part(0.3), part(0.3)])
    assert [seat.devices for seat in seats] == [(0,), (1,), (0,), (1,)]


def test_a_need_without_devices_goes_where_cores_are_to_spare():
    board = Board(Fleet(kinds=(SOFT,), nodes=(node("a", 8, cpus=64), node("b", 1, cpus=64))))
    scores = Scores(board, mix_of([part(cards=1, cpus=8).need]))
    assert best_seat(scores, part(cpus=32)).node == "b"


def test_whole_devices_of_one_replica_are_of_one_kind():
    kinds = (SOFT, replace(SOFT, name="other"))
    mixed = Node(
        name="a",
        numa=(Numa(cpus=64, memory_bytes=1 << 40),),
        devices=(Device(kind="soft"), Device(kind="other"), Device(kind="other")),
    )
    board = Board(Fleet(kinds=kinds, nodes=(mixed,)))
    scores = Scores(board, Mix(needs=()))
    assert best_seat(scores, part(cards=2)).devices == (1, 2)
    assert best_seat(scores, part(cards=3)) is None


def test_what_came_outweighs_what_was_guessed():
    board = Board(Fleet(kinds=(SOFT,), nodes=(node("a", 8),)))
    guess = mix_unknown(board)
    assert sum(weight for _, weight in guess.needs) == pytest.approx(1)
    assert [size.milli for size in guess.sizes(0)] == [1000, 875, 750, 625, 500, 375, 250, 125]
    assert guess.cores().mean == pytest.approx(64 / 8 / 2)  # thousandths of a core a thousandth of a device
    learned = mix_of([part(0.3).need] * 900, prior=guess)
    assert dict(learned.needs)[part(0.3).need] == pytest.approx(0.9)
