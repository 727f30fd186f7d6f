"""Laws for random legal cards of every family: shares add up, caches grow and stop, formats shrink weights."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.estimate.cache import growth_end, request_bytes
from accord.estimate.shares import Shares, shares
from accord.estimate.weights import stored_bytes
from accord.estimate.work import step_flops
from accord.models.families.table import FAMILIES
from accord.models.read import read_card
from accord.terms.architecture import Needs, Stored
from accord.terms.cache import CacheKind
from accord.terms.layout import Layout
from accord.terms.tensors import Dtype, Part, Quantization
from accord.terms.work import Load
from tests.models.varied import EXAMPLES, varied

_NAMES = tuple(family.name for family in FAMILIES)
_LENGTHS = (1, 2, 100, 1000, 5000, 40_000, 300_000)


def test_every_family_has_an_example_of_its_own():
    assert set(_NAMES) == set(EXAMPLES)
    assert all(read_card(card, name=name).family == name for name, card in EXAMPLES.items())


@pytest.mark.parametrize("family", _NAMES)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_laws_hold(family, data):
    made = read_card(data.draw(varied(family)), name=family)
    ranks, quantization = data.draw(st.sampled_from((1, 2, 4, 8))), data.draw(st.sampled_from(list(Quantization)))
    for needs in made.needs:
        _shares_add_up(needs, Stored(), Layout(tensor=ranks))
        _shares_add_up(needs, Stored(quantization=quantization), Layout(tensor=ranks))
        if any(tensor.part is Part.EXPERT for tensor in needs.tensors):
            _shares_add_up(needs, Stored(), Layout(experts=ranks))
        _a_cache_grows_and_stops(needs)
        _formats_shrink(needs)
        _work_grows(needs)


def _shares_add_up(needs: Needs, stored: Stored, layout: Layout) -> None:
    found = shares(needs, stored, layout)
    if not isinstance(found, Shares):  # heads or blocks that can't be divided so
        assert found.field.startswith("layout.")
        return
    held = sum(rank.count * rank.held_bytes for rank in found.ranks)
    assert held == found.whole_bytes + found.duplicate_bytes + found.padding_bytes
    assert found.whole_bytes == stored_bytes(needs.tensors, stored)
    values = sum(rank.count * rank.parameters for rank in found.ranks)
    assert values == needs.parameters + found.duplicate_parameters + found.padding_parameters
    assert min(found.duplicate_bytes, found.padding_bytes) >= 0


def _a_cache_grows_and_stops(needs: Needs) -> None:
    sizes = [request_bytes(needs.cache, tokens=tokens, dtype=Dtype.BF16) for tokens in _LENGTHS]
    assert all(before <= after for before, after in pairwise(sizes))
    assert all(request_bytes(needs.cache, tokens=tokens, dtype=Dtype.FP8) <= size
               for tokens, size in zip(_LENGTHS, sizes, strict=True))  # fmt: skip
    for group in needs.cache:
        end = growth_end(group)
        if group.kind in (CacheKind.WINDOW, CacheKind.CHUNK, CacheKind.STATE, CacheKind.CROSS):
            assert end is not None
        if end is not None:
            at_end, later = (request_bytes((group,), tokens=end + more, dtype=Dtype.BF16) for more in (0, 12345))
            assert at_end == later


def _formats_shrink(needs: Needs) -> None:
    plain = stored_bytes(needs.tensors, Stored())
    large = any(tensor.quantizable and min(tensor.rows, tensor.columns) >= 128 for tensor in needs.tensors)
    for quantization in Quantization:
        if quantization is not Quantization.NONE and large:
            assert stored_bytes(needs.tensors, Stored(quantization=quantization)) < plain


def _work_grows(needs: Needs) -> None:
    once = step_flops(needs.operators, Load(new=needs.example_units, context=needs.example_context))
    assert 0 < once < step_flops(needs.operators, Load(new=2 * needs.example_units, context=needs.example_context))
    assert step_flops(needs.operators, Load(new=needs.example_units, context=needs.example_context, batch=2)) > once
