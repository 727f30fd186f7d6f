"""Ranges of names: what they stand for, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.edges.name_range import compress, expand
from accord.terms.errors import BadInput


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("n01", ("n01",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("n[1,5-6]-x", ("n1-x", "n5-x", "n6-x")),
        ("r[1-2]-n[01-02]", ("r1-n01", "r1-n02", "r2-n01", "r2-n02")),
        ("[7]", ("7",)),
    ],
)
def test_patterns_stand_for_names(pattern, names):
    assert expand(pattern, field="x", most=100) == names


@pytest.mark.parametrize("pattern", ["n[3-1]", "n[", "n]", "n[[1-2]]", "n[a-b]", "n[]", "n[1-]", "n[-1]", "n[١-٣]"])
def test_other_patterns_are_refused(pattern):
    with pytest.raises(BadInput, match="gpu-"):
        expand(pattern, field="x", most=100)


def test_a_pattern_is_counted_before_it_is_written_out():
    with pytest.raises(BadInput, match="1,000,000,000,000 names"):
        expand("n[000001-1000000]-[000001-1000000]", field="x", most=100_000)
    with pytest.raises(BadInput, match="range"):
        expand("n[" + "1," * 2000 + "1]", field="x", most=100_000)


@given(st.lists(st.from_regex(r"\A[a-z\[\]]{0,2}[0-9]{1,4}[a-z]?\Z"), min_size=1, max_size=8))
def test_compressed_names_come_back_in_their_order(names):
    pattern = compress(names)
    if pattern is not None and (len(names) > 1 or not set("[]") & set(names[0])):
        assert expand(pattern, field="x", most=100_000) == tuple(names)


def test_runs_are_written_short():
    assert compress([f"gpu-{number:04d}" for number in range(1, 1001)]) == "gpu-[0001-1000]"
    assert compress([f"n{number}" for number in range(8, 12)]) == "n[8-11]"
    assert compress(["n1", "n2", "n7"]) == "n[1-2,7]"
    assert compress(["n9", "m10"]) is None
