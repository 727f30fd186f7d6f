"""The search for workarounds, on R1's times as they were measured, and on faults that a rule states."""

import dataclasses
import itertools
import math
import random

import pytest

from accord.terms.quirk import Fact, FaultKind, Is, Modulo, Point, Range, Trait, Way
from accord.verify.attempts import Attempt, Kit, attempts
from accord.verify.classes import classes
from accord.verify.mend import Search, mend
from tests.verify.planted import R1_RULE, quirk

PAD, FP32 = Attempt(way=Way.PAD, detail="K to 32"), Attempt(way=Way.UPCAST, detail="f32")
SIDES = ("M", "N", "K")
# Microseconds, native, padded and in fp32, measured on a CPU with AMX, as (M, K, N).
MEASURED = {
    (17, 33, 64): (32, 79, 9),
    (33, 129, 256): (34, 92, 38),
    (128, 1001, 1024): (577, 1582, 5257),
    (512, 1001, 512): (758, 1168, 8115),
}


def _point(m: int, k: int, n: int, dtype: str = "bf16") -> Point:
    facts = tuple(Fact(name=name, value=value) for name, value in (("M", m), ("K", k), ("N", n)))
    return Point(operator="mm", facts=facts, traits=(Trait(name="dtype", word=dtype),))


class _Told:
    """Times from a table; right where a rule says so."""

    def __init__(self, right=None) -> None:
        self._right = right or (lambda *_: True)
        self.asked: list[tuple[Point, Attempt]] = []

    def right(self, point: Point, attempt: Attempt) -> bool | None:
        self.asked.append((point, attempt))
        return self._right(point, attempt)

    def seconds(self, point: Point, attempt: Attempt | None) -> float | None:
        row = MEASURED.get((point.fact("M") or 0, point.fact("K") or 0, point.fact("N") or 0), (1, 2, 3))
        return row[{None: 0, PAD: 1, FP32: 2}.get(attempt, 1)] * 1e-6


def _search(*tried: Attempt, fresh=lambda _: (), deadline_s: float = 1e9, now_s=lambda: 0.0) -> Search:
    return Search(attempts=tried, factors=SIDES, fresh=fresh, deadline_s=deadline_s, now_s=now_s)


R1 = quirk("mm", *R1_RULE)
POINTS = [_point(*shape) for shape in MEASURED]


def test_the_best_way_round_r1_flips_with_the_shape():
    small, large = mend(R1, POINTS, _Told(), _search(PAD, FP32))
    assert (small.way, large.way) == (Way.UPCAST, Way.PAD)
    assert [small.region.holds(point) for point in POINTS] == [True, True, False, False]
    assert [large.region.holds(point) for point in POINTS] == [False, False, True, True]
    # Geometric means of the table above: sqrt(9/32 * 38/34) and sqrt(1582/577 * 1168/758).
    assert small.cost_ratio == pytest.approx(0.561, abs=1e-3)
    assert large.cost_ratio == pytest.approx(2.055, abs=1e-3)
    assert (small.verified, large.verified) == (2, 2)


def test_every_size_between_is_in_one_class():
    made = mend(R1, POINTS, _Told(), _search(PAD, FP32))
    for m, n in itertools.product((17, 60, 200, 5000), (1, 90, 300, 1000)):
        assert sum(item.region.holds(_point(m, 33, n)) for item in made) == 1


def test_a_way_that_is_wrong_anywhere_in_its_class_is_not_offered():
    told = _Told(lambda point, attempt: attempt == PAD or point.fact("M") < 100)
    made = mend(R1, POINTS[2:], told, _search(FP32, PAD))
    assert [item.way for item in made] == [Way.PAD]


def test_fresh_points_strike_a_way_out():
    fresh = (_point(21, 35, 70), _point(22, 39, 71))
    told = _Told(lambda point, attempt: not (attempt == FP32 and point in fresh))
    made = mend(R1, POINTS, told, _search(PAD, FP32, fresh=lambda region: [p for p in fresh if region.holds(p)]))
    assert [(item.way, item.verified) for item in made] == [(Way.PAD, 6)]


def test_shapes_that_nothing_cures_are_left_open():
    told = _Told(lambda point, _: point.fact("M") < 100)
    (made,) = mend(R1, POINTS, told, _search(PAD, FP32))
    assert made.way is Way.UPCAST
    assert [made.region.holds(point) for point in POINTS] == [True, True, False, False]
    assert mend(R1, POINTS, _Told(lambda *_: None), _search(PAD)) == ()


def test_a_deadline_ends_the_search_with_what_it_has():
    clock = itertools.count()
    told = _Told()
    search = _search(PAD, FP32, deadline_s=4, now_s=lambda: float(next(clock)))
    (made,) = mend(R1, POINTS, told, search)
    assert made.way is Way.PAD
    assert len(told.asked) == 4


def test_each_dtype_has_its_own_ways():
    faulty = quirk("mm", Range(factors=("M",), low=2))
    points = [_point(9, 9, 9, word) for word in ("f16", "f64")]
    told = _Told(lambda point, attempt: (point.trait("dtype") == "f16") == (attempt == FP32))
    made = mend(faulty, points, told, _search(PAD, FP32))
    assert {item.region.cases[0][0]: item.way for item in made} == {
        Is(trait="dtype", words=("f16",)): Way.UPCAST,
        Is(trait="dtype", words=("f64",)): Way.PAD,
    }


@pytest.mark.parametrize(
    ("atom", "wanted"),
    [
        # oneDNN#5717: padding K to 32 cures it. vLLM-Kunlun#387: cutting N does.
        (Modulo(factors=("K",), modulus=32, remainders=(1,)), Attempt(way=Way.PAD, detail="K to 32")),
        (Range(factors=("N",), low=131073), Attempt(way=Way.SPLIT, detail="N by 131072")),
        (Range(factors=("M",), high=1), Attempt(way=Way.PAD, detail="M to 2")),
        # flash-linear-attention#1251: last_dim * itemsize % 32 != 0.
        (Modulo(factors=("K", "itemsize"), modulus=32, remainders=(2,)), Attempt(way=Way.PAD, detail="K to 32")),
    ],
)
def test_public_faults_suggest_their_public_cures_first(atom, wanted):
    found = attempts(quirk("mm", atom), Kit(pads=SIDES, splits=SIDES, overloads=("bmm",), cpu=True))
    assert found[0] == wanted
    assert found[-1] == Attempt(way=Way.CPU)
    assert len(set(found)) == len(found)


def test_a_state_is_met_by_a_warm_up():
    found = attempts(dataclasses.replace(quirk("mm"), fault=FaultKind.STATE), Kit())
    assert found[0] == Attempt(way=Way.REPEAT)


def test_the_division_is_the_cheapest_of_all():
    """Against all divisions tried one by one."""
    rng = random.Random(7)
    for _ in range(40):
        size = rng.randint(1, 6)
        table = {
            Attempt(way=Way.PAD, detail=str(i)): [
                rng.choice([None, *[2 ** rng.uniform(-2, 3)] * 4]) for _ in range(size)
            ]
            for i in range(3)
        }
        found = classes(table, size)
        assert all(all(table[item.attempt][item.start : item.stop]) for item in found)

        def cost(cuts, size=size, table=table):
            edges = [0, *cuts, size]
            total = (len(cuts) + 1) * size * math.log(1.05)
            for a, b in itertools.pairwise(edges):
                rows = [sum(math.log(x) for x in row[a:b]) for row in table.values() if all(row[a:b])]
                total += min([*rows, 50.0 * (b - a)])
            return total

        divisions = [cuts for r in range(min(4, size)) for cuts in itertools.combinations(range(1, size), r)]
        best = min(cost(cuts) for cuts in divisions)
        served = {edge for item in found for edge in (item.start, item.stop)} - {0, size}
        options = [cuts for cuts in divisions if served <= set(cuts)]
        assert min(cost(cuts) for cuts in options) == pytest.approx(best)
