"""Regions are learned from rules that nobody tells the learner, and judged on points that it never saw.

In: rules over points, as real devices have shown them. Out: failures that name the rule and what was learned.
Invariant: the rule itself is the judge; 4,000 points anywhere and those next to the rule's own bounds are asked.
"""

import math
import random
from collections.abc import Callable
from functools import cache

import pytest

from accord.terms.quirk import Fact, Point
from accord.terms.quirk_text import parse_region, region_text
from accord.verify.learn import Learned, learn
from accord.verify.oracle import Oracle
from accord.verify.shrink import shrink
from accord.verify.space import Axis, Choice, Space

Rule = Callable[[Point], bool]
_DTYPES = Choice(name="dtype", words=("f32", "bf16", "f16"))
_ITEMSIZE = {"f32": 4, "bf16": 2, "f16": 2}
_STRIDE = {"contiguous": 0, "sliced": 3}


def _side(point: Point, name: str) -> int:
    value = point.fact(name)
    assert value is not None
    return value


def _small(point: Point) -> Point | None:
    return point if math.prod(_side(point, name) for name in "MNK") <= 1 << 27 else None


def _strided(point: Point) -> Point | None:
    itemsize = Fact(name="itemsize", value=_ITEMSIZE[str(point.trait("dtype"))])
    stride = Fact(name="stride", value=_side(point, "K") + _STRIDE[str(point.trait("layout"))])
    return Point(operator=point.operator, facts=(*point.facts, itemsize, stride), traits=point.traits)


_SIDES = tuple(Axis(name=name, high=4096) for name in "MNK")
_OUT = Choice(name="overload", words=("default", "out"))
_LAYOUT = Choice(name="layout", words=("contiguous", "sliced"))
MM = Space(operator="mm", axes=_SIDES, choices=(_DTYPES, _OUT), complete=_small)
STRIDED = Space(operator="mm", axes=_SIDES, choices=(_DTYPES, _LAYOUT), complete=_strided)
JIT = Space(
    operator="norm",
    axes=(Axis(name="n", high=70_000), Axis(name="d", high=8)),
    choices=(Choice(name="dtype", words=("f32", "f64")), Choice(name="mode", words=("eager", "jit"))),
)
BLOCKS = Space(
    operator="matmul_nbits",
    axes=(*_SIDES, Axis(name="block_size", values=(16, 32, 64, 128, 256, 512, 1024))),
    choices=(Choice(name="dtype", words=("f32", "f16")),),
)
ROWS = Space(operator="softmax", axes=(Axis(name="rows", high=4096), Axis(name="cols", high=1 << 18)))


def _intervals(point: Point) -> bool:
    """jax 0.10.2, issue 39103: what was measured to fail."""
    n, d = _side(point, "n"), _side(point, "d")
    if point.trait("mode") != "jit":
        return False
    if point.trait("dtype") == "f64":
        return (d == 3 and 16_385 <= n <= 43_520) or (d == 5 and 16_385 <= n <= 26_112)
    return d == 3 and 32_769 <= n <= 43_520


def _amx(point: Point) -> bool:
    """torch 2.13.0 with AMX: the rule that misses nothing."""
    m, n, k = (_side(point, name) for name in "MNK")
    return point.trait("dtype") == "bf16" and m > 16 and k % 32 != 0 and m * n * k > 4096


RULES: dict[str, tuple[Space, Rule]] = {
    "amx": (MM, _amx),
    "intervals": (JIT, _intervals),
    "block size": (BLOCKS, lambda p: _side(p, "block_size") >= 512),
    "modulo and dtype": (MM, lambda p: _side(p, "N") % 64 == 0 and p.trait("dtype") == "f16"),
    "odd modulo": (MM, lambda p: _side(p, "N") % 24 == 7),
    "tail of a tile": (MM, lambda p: _side(p, "K") % 16 >= 12),
    "beyond 65536": (ROWS, lambda p: _side(p, "cols") > 65_536),
    "at 65537": (ROWS, lambda p: _side(p, "cols") == 65_537),
    "product": (MM, lambda p: _side(p, "M") * _side(p, "N") >= 100_000 and p.trait("overload") == "out"),
    "bytes": (STRIDED, lambda p: _side(p, "K") * _side(p, "itemsize") % 32 != 0),
    "stride": (STRIDED, lambda p: _side(p, "stride") % 64 == 0 and _side(p, "M") > 8),
    "layout": (STRIDED, lambda p: p.trait("layout") == "sliced" and _side(p, "N") >= 512),
    "band": (MM, lambda p: 257 <= _side(p, "K") <= 511 and _side(p, "N") % 8 != 0),
    "either": (
        MM,
        lambda p: (
            (_side(p, "M") == 1 and _side(p, "N") > 1000) or (_side(p, "K") % 128 == 0 and p.trait("dtype") == "bf16")
        ),
    ),
    "everywhere": (ROWS, lambda _: True),
}
_SEEDS: dict[str, tuple[dict[str, int], dict[str, str]]] = {"at 65537": ({"rows": 64, "cols": 65_537}, {})}


def _failing(name: str, rng: random.Random) -> list[Point]:
    space, rule = RULES[name]
    if name in _SEEDS:
        sides, words = _SEEDS[name]
        found = space.point(sides, words)
        return [found] if found else []
    drawn = (space.random_point(rng) for _ in range(20_000))
    return [point for point in drawn if point is not None and rule(point)][:3]


@cache
def _learned(name: str) -> Learned:
    space, rule = RULES[name]
    rng = random.Random(name)
    return learn(Oracle(rule, budget=3000), _failing(name, rng), space, rng=rng)


_HEAVY = ("either",)
_NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in _HEAVY else name for name in RULES]


@pytest.mark.parametrize("name", _NAMES)
def test_a_rule_is_found_from_its_answers_alone(name: str) -> None:
    space, rule = RULES[name]
    learned = _learned(name)
    assert learned.complete, learned
    assert learned.missed == 0
    assert rule(learned.smallest)
    rng = random.Random(f"{name}, unseen")
    drawn = [point for point in (space.random_point(rng) for _ in range(4000)) if point is not None]
    missed = [point for point in drawn if rule(point) and not learned.region.holds(point)]
    inside = [point for point in drawn if learned.region.holds(point)]
    assert not missed, f"{region_text(learned.region)} misses {missed[0]}"
    false = [point for point in inside if not rule(point)]
    assert len(false) <= 0.02 * len(inside), f"{region_text(learned.region)} covers {false[0]}"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("amx", "dtype is bf16 and M > 16 and K % 32 != 0 and M*N*K > 4096"),
        ("block size", "block_size >= 512"),
        ("modulo and dtype", "dtype is f16 and N % 64 == 0"),
        ("beyond 65536", "cols > 65536"),
        ("bytes", "K*itemsize % 32 != 0"),
        ("stride", "M > 8 and stride % 64 == 0"),
    ],
)
def test_what_was_learned_reads_as_a_person_would_say_it(name: str, told: str) -> None:
    assert region_text(_learned(name).region) == told


def test_intervals_are_found_to_the_last_number() -> None:
    learned = _learned("intervals")
    for word, d, low, high in (("f64", 3, 16_385, 43_520), ("f64", 5, 16_385, 26_112), ("f32", 3, 32_769, 43_520)):
        found = [
            learned.region.holds(point)
            for n in (low - 1, low, high, high + 1)
            if (point := JIT.point({"n": n, "d": d}, {"dtype": word, "mode": "jit"})) is not None
        ]
        assert found == [False, True, True, False], region_text(learned.region)


@pytest.mark.slow
def test_a_fault_that_shows_only_sometimes_is_covered_and_the_rest_reported() -> None:
    chance = random.Random(5)
    answers: dict[Point, bool] = {}

    def sometimes(point: Point) -> bool:
        return answers.setdefault(point, _amx(point) and chance.random() < 0.8)

    learned = learn(Oracle(sometimes, budget=3000), _failing("amx", random.Random(1)), MM, rng=random.Random(2))
    assert learned.missed == 0
    assert 0.1 < learned.over_cover < 0.3
    assert "K % 32 != 0" in region_text(learned.region)


def test_a_spent_budget_is_said() -> None:
    asked = []

    def counted(point: Point) -> bool:
        asked.append(point)
        return _amx(point)

    learned = learn(Oracle(counted, budget=60), _failing("amx", random.Random(1)), MM, rng=random.Random(2))
    assert not learned.complete
    assert len(asked) == len(set(asked)) <= 60
    assert all(learned.region.holds(point) for point in asked if _amx(point))


def test_undecided_points_are_neither_in_nor_out() -> None:
    oracle = Oracle(lambda point: None if point.trait("dtype") == "f32" else _amx(point), budget=2000)
    learned = learn(oracle, _failing("amx", random.Random(1)), MM, rng=random.Random(2))
    assert learned.complete
    assert all(point.trait("dtype") != "f32" for point, _ in oracle.labelled())


def test_shrinking_reaches_the_smallest_shape() -> None:
    start = MM.point({"M": 3000, "N": 64, "K": 131}, {"dtype": "bf16", "overload": "out"})
    assert start is not None
    oracle = Oracle(_amx, budget=500)
    smallest = shrink(oracle, start, MM)
    assert _amx(smallest)
    assert _side(smallest, "M") == 17
    assert math.prod(_side(smallest, name) for name in "MNK") <= 4096 + 256
    assert smallest.trait("overload") == "default"
    for name in "MNK":
        less = MM.changed(smallest, {name: _side(smallest, name) - 1})
        assert less is None or less == smallest or not _amx(less) or _side(less, name) % 32 == 0


def test_the_deadline_ends_the_questions() -> None:
    now = iter(range(1000))
    oracle = Oracle(lambda _: True, budget=1000, deadline_s=5.0, now_s=lambda: float(next(now)))
    points = [ROWS.point({"rows": rows, "cols": 1}, {}) for rows in range(1, 50)]
    answers = [oracle.ask(point) for point in points if point is not None]
    assert answers[:2] == [True, True]
    assert answers[-1] is None


@pytest.mark.parametrize("name", ["amx", "intervals", "tail of a tile"])
def test_what_was_learned_survives_its_text(name: str) -> None:
    region = _learned(name).region
    again = parse_region(region_text(region))
    rng = random.Random(9)
    drawn = [point for point in (RULES[name][0].random_point(rng) for _ in range(500)) if point is not None]
    assert all(again.holds(point) == region.holds(point) for point in drawn)
