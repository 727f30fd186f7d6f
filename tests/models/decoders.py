"""What the tests of all lone decoders check on a small random model: parameters, cache bytes, FLOPs.

In: a card small enough for a forward pass. Out: assertions against transformers.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from accord.edges import model_catalog
from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers


def check_small(
    card: Mapping[str, Json],
    kind: Any = peers.AutoModelForCausalLM,
    *,
    alike: Mapping[str, Json] | None = None,
    **inputs: Any,
) -> None:
    """A prefill of two sequences and a step of one token, of text alone where the card has other stages, too.

    `alike` is a card of the same model that transformers knows, where it doesn't know this one. Eager
    attention computes the whole rectangle of a prefill, so that is what is compared.
    """
    read = read_card(card, name="small")
    needs = read.of("decoder")
    model = peers.small_model(peers.config_of(alike or card), kind)
    assert read.parameters == peers.parameters_of(model)

    first = peers.run(model, new=12, batch=2, **inputs)
    counted = step_flops(needs.operators, Load(new=12, batch=2), rectangle=True)
    assert counted == pytest.approx(first.flops, rel=0.01)
    assert 2 * request_bytes(needs.cache, tokens=12, dtype=Dtype.F32) == peers.cache_bytes(first.cache)

    then = peers.run(model, new=1, batch=2, cache=first.cache, **inputs)
    counted = step_flops(needs.operators, Load(new=1, context=12, batch=2), rectangle=True)
    assert counted == pytest.approx(then.flops, rel=0.01)


def check_catalog(name: str, kind: Any = peers.AutoModelForCausalLM) -> None:
    """A catalog card has transformers' parameters, and nothing in it is left unread."""
    card = model_catalog.entry(name).card
    read = read_card(card, name=name)
    assert read.parameters == peers.parameters_of(peers.meta_model(peers.config_of(card), kind))
    assert read.unread == ()


def check_beyond_the_window(card: Mapping[str, Json], *, tokens: int, windows: int, width: int) -> None:
    """One token after more than a window of them: FLOPs, and bytes with what transformers drops put back.

    Between steps transformers keeps one token less than a window, because the next one takes its place at once; an
    engine's blocks hold all of it. `windows` layers keep `width` values a token.
    """
    needs = read_card(card, name="small").needs[0]
    model = peers.small_model(peers.config_of(card))
    first = peers.run(model, new=tokens)
    missing = windows * width * 4
    assert request_bytes(needs.cache, tokens=tokens, dtype=Dtype.F32) == peers.cache_bytes(first.cache) + missing

    then = peers.run(model, new=1, cache=first.cache)
    assert step_flops(needs.operators, Load(new=1, context=tokens)) == pytest.approx(then.flops, rel=0.01)
