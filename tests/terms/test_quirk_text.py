"""A region and its text say the same.

In: regions, and lines as people write them. Out: failures that show both. Invariant: what is written holds the same
points when it is read, and what isn't understood is refused with its place.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.terms.errors import BadInput
from accord.terms.quirk import Fact, Is, Modulo, Point, Range, Region, Trait
from accord.terms.quirk_text import parse_region, region_text

_NAMES = st.sampled_from(["M", "N", "K", "row_bytes"])
_FACTORS = st.lists(_NAMES, min_size=1, max_size=3, unique=True).map(tuple)
_BOUND = st.none() | st.integers(0, 1 << 40)


@st.composite
def _modulo(draw: st.DrawFn) -> Modulo:
    modulus = draw(st.integers(2, 64))
    inside = draw(st.sets(st.integers(0, modulus - 1), min_size=1, max_size=modulus - 1))
    return Modulo(factors=draw(_FACTORS), modulus=modulus, remainders=tuple(sorted(inside)))


_RANGES = st.builds(Range, factors=_FACTORS, low=_BOUND, high=_BOUND)
_WORDS = st.lists(st.sampled_from(["bf16", "f32", "2.13.0+cpu", "torch.compile", "a-or-b"]), min_size=1, unique=True)
_IS = st.builds(Is, trait=st.sampled_from(["dtype", "mode"]), words=_WORDS.map(tuple))
_CASES = st.lists(st.lists(_RANGES | _modulo() | _IS, max_size=4).map(tuple), max_size=3).map(tuple)
_POINTS = st.builds(
    Point,
    operator=st.just("mm"),
    facts=st.tuples(*(st.builds(Fact, name=st.just(name), value=st.integers(0, 1 << 20)) for name in ("M", "N", "K"))),
    traits=st.tuples(st.builds(Trait, name=st.just("dtype"), word=st.sampled_from(["bf16", "f32"]))),
)


@given(cases=_CASES, points=st.lists(_POINTS, max_size=20))
def test_a_region_that_was_written_and_read_holds_the_same_points(
    cases: tuple[tuple[Range | Modulo | Is, ...], ...], points: list[Point]
) -> None:
    region = Region(cases=cases)
    again = parse_region(region_text(region))
    assert region_text(again) == region_text(region)
    assert [again.holds(point) for point in points] == [region.holds(point) for point in points]


def _point(**facts: int) -> Point:
    known = tuple(Fact(name=name, value=value) for name, value in facts.items())
    return Point(operator="mm", facts=known, traits=(Trait(name="dtype", word="bf16"),))


@pytest.mark.parametrize(
    ("told", "inside", "outside"),
    [
        ("M > 16", _point(M=17), _point(M=16)),
        ("M<=16", _point(M=16), _point(M=17)),
        ("16 < M <= 32", _point(M=17), _point(M=16)),
        ("M == 5", _point(M=5), _point(M=6)),
        ("K % 32 != 0", _point(K=33), _point(K=64)),
        ("K % 32 not in (0, 1)", _point(K=34), _point(K=33)),
        ("K % 4 in (1, 3)", _point(K=7), _point(K=6)),
        ("K % 16 in (1..4, 7)", _point(K=19), _point(K=21)),
        ("M*N*K > 4096", _point(M=16, N=16, K=17), _point(M=16, N=16, K=16)),
        ("dtype is bf16 and M > 16", _point(M=17), _point(M=1)),
        ("dtype in (bf16, f16) and M > 16", _point(M=17), _point(M=1)),
        ("(dtype is f32 and M > 1) or M == 1", _point(M=1), _point(M=2)),
        ("always", _point(), Point(operator="mm", facts=())),
    ],
)
def test_lines_mean_what_they_say(told: str, inside: Point, outside: Point) -> None:
    region = parse_region(told)
    assert region.holds(inside)
    assert told == "always" or not region.holds(outside)


def test_remainders_in_a_row_are_told_as_a_run() -> None:
    region = Region(cases=((Modulo(factors=("K",), modulus=128, remainders=(*range(1, 17), 20, 21)),),))
    assert region_text(region) == "K % 128 in (1..16, 20, 21)"


def test_never_holds_nowhere() -> None:
    assert region_text(Region(cases=())) == "never"
    assert not parse_region("never").holds(_point(M=1))


@pytest.mark.parametrize(
    ("told", "part"),
    [
        ("M >", "M >"),
        ("M > 16 and", "M > 16 and"),
        ("M > -1", "M > -1"),
        ("M > 16 && K > 2", "M > 16 && K > 2"),
        ("K % 32 == 32", "% 32"),
        ("K % 1 == 0", "% 1"),
        ("K % 8 in (1..99999999)", "(1..99999999)"),
        ("K % 8 in (1, , 2)", "(1, , 2)"),
        ("K % 8 in (4..1)", "% 8"),
        ("K % 99999999 == 0", "% 99999999"),
        ("__import__('os')", "__import__"),
        ("", ""),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(told: str, part: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_region(told, field="quirks[0].region")
    assert part in str(caught.value)
    assert caught.value.field == "quirks[0].region"
