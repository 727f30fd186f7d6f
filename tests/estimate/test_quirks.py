"""Which quirks hit a model: its shapes against those of transformers' own model, costs against published faults."""

from collections.abc import Callable

import pytest

from accord.estimate.quirks import hits, points
from accord.models.read import read_card
from accord.terms.quirk import (
    Evidence,
    Fact,
    FaultKind,
    Is,
    Modulo,
    Point,
    Quirk,
    Range,
    Region,
    Trait,
    Way,
    Workaround,
)  # fmt: skip
from accord.terms.work import Load
from tests.models import peers
from tests.models.cards import public_card

EVIDENCE = Evidence(
    points=1, failing=1, fresh=1, missed=0, over_cover=0.0, worst="", probes=("poison",), witnesses=("numpy", "jax")
)
EVERYWHERE = Region(cases=((),))


def _quirk(*atoms, operator="linear", device="amx-cpu", workarounds=()) -> Quirk:
    return Quirk(
        name="q", device=device, operator=operator, fault=FaultKind.WRONG, region=Region(cases=(tuple(atoms),)),
        evidence=EVIDENCE, reproducer="", found="2026-12-01", workarounds=workarounds,
    )  # fmt: skip


def _linear(m: int, n: int, k: int, dtype: str = "bf16") -> Point:
    facts = (Fact(name="M", value=m), Fact(name="N", value=n), Fact(name="K", value=k))
    return Point(operator="linear", facts=facts, traits=(Trait(name="dtype", word=dtype),))


def _way(region: Region, cost_ratio: float, way: Way = Way.PAD) -> Workaround:
    return Workaround(way=way, detail="K to 32", region=region, cost_ratio=cost_ratio, verified=100)


# oneDNN#5717 as the project's public thread and our measurements state it.
AMX = (
    Is(trait="dtype", words=("bf16",)),
    Range(factors=("M",), low=17),
    Modulo(factors=("K",), modulus=32, remainders=tuple(range(1, 32))),
    Range(factors=("M", "N", "K"), low=4097),
)
# vLLM-Kunlun #387: an fp16 linear with M=1, N=248320, K=5120 is wrong; chunking N cures it.
WIDE = (Is(trait="dtype", words=("f16",)), Range(factors=("M",), high=1), Range(factors=("N",), low=131073))


@pytest.mark.parametrize(
    ("point", "hit"),
    [
        (_linear(17, 64, 33), True),
        (_linear(16, 64, 33), False),
        (_linear(17, 64, 64), False),
        (_linear(17, 64, 33, "f16"), False),
        (_linear(17, 2, 33), False),
    ],
)
def test_a_published_fault_hits_the_shapes_that_it_was_seen_on(point, hit):
    found = hits((_quirk(*AMX),), "amx-cpu", (point,))
    assert [item.points for item in found] == ([(point,)] if hit else [])
    assert all(item.certain for item in found)
    assert hits((_quirk(*AMX),), "other-cpu", (point,)) == ()


def test_a_library_fault_hits_every_kind():
    assert hits((_quirk(*AMX, device="*"),), "any", (_linear(17, 64, 33),))


@pytest.mark.parametrize("atom", [Is(trait="overload", words=("out",)), Range(factors=("itemsize",), high=2)])
def test_what_a_point_leaves_open_is_taken_for_the_worst(atom):
    """The planner doesn't know which overload an engine calls; a fault of `out=` must not be overlooked."""
    (hit,) = hits((_quirk(*AMX, atom),), "amx-cpu", (_linear(17, 64, 33),))
    assert not hit.certain
    assert hits((_quirk(*AMX, atom),), "amx-cpu", (_linear(16, 64, 33),)) == ()


def test_a_kind_is_charged_for_its_worst_point_with_the_fastest_way_of_each():
    """R1 as measured on a CPU with AMX: (128,1001,1024) takes 577 us, padded 1582; (17,33,64) takes 32, in fp32 9."""
    small = Region(cases=((Range(factors=("M", "N", "K"), high=100_000),),))
    pad, upcast = _way(EVERYWHERE, 1582 / 577), _way(small, 9 / 32, Way.UPCAST)
    quirk = _quirk(*AMX, workarounds=(pad, upcast))
    asked = (_linear(17, 64, 33), _linear(128, 1024, 1001))
    (hit,) = hits((quirk,), "amx-cpu", asked)
    assert hit.cost_ratio == 1582 / 577
    assert hits((quirk,), "amx-cpu", asked[:1])[0].cost_ratio == 9 / 32


def test_a_shape_without_a_way_round_excludes_the_kind():
    small = Region(cases=((Range(factors=("M", "N", "K"), high=100_000),),))
    quirk = _quirk(*AMX, workarounds=(_way(small, 0.3),))
    (hit,) = hits((quirk,), "amx-cpu", (_linear(17, 64, 33), _linear(128, 1024, 1001)))
    assert hit.cost_ratio is None


def _peers_shapes(card, *, batch: int, new: int) -> set[tuple[int, int, int]]:
    """(M, N, K) of every linear layer that transformers' own model calls, weights and inputs on the meta device."""
    import torch

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Callable, types, args=(), kwargs=None):
            if func is torch.nn.functional.linear:
                given, weight = args[0], args[1]
                shapes.add((given.shape[:-1].numel(), weight.shape[0], weight.shape[1]))
            return func(*args, **(kwargs or {}))

    shapes: set[tuple[int, int, int]] = set()
    model = peers.meta_model(peers.config_of(card))
    ids = torch.zeros(batch, new, dtype=torch.long, device="meta")
    mask = torch.zeros(batch, 1, new, new, device="meta")  # given whole, so that no value has to be looked at
    with torch.no_grad(), Watch():
        model(input_ids=ids, attention_mask=mask, use_cache=False)
    return shapes


@pytest.mark.parametrize("name", ["Qwen--Qwen3-8B", "meta-llama--Meta-Llama-3.1-8B"])
def test_the_points_of_a_decoder_are_the_shapes_that_transformers_asks_for(name):
    card = public_card(name)
    (needs, *_) = read_card(card, name=name).needs
    found = points(needs.operators, Load(new=7, batch=3), dtype="bf16")
    linears = [point for point in found if point.operator == "linear"]
    ours = {(point.fact("M"), point.fact("N"), point.fact("K")) for point in linears}
    theirs = _peers_shapes(card, batch=3, new=7)
    head = _heads(theirs, card)
    assert ours - _heads(ours, card) == theirs - head
    assert {shape[1:] for shape in _heads(ours, card)} == {shape[1:] for shape in head}


def _heads(shapes, card):
    return {shape for shape in shapes if shape[1] == card["vocab_size"]}


def test_attention_and_embedding_have_points_and_a_rank_sees_its_part():
    (needs, *_) = read_card(public_card("Qwen--Qwen3-8B"), name="qwen3-8b").needs
    found = points(needs.operators, Load(new=1, context=99, batch=4), dtype="bf16", ranks=4)
    sides = {point.operator: {fact.name: fact.value for fact in point.facts} for point in found}
    # Qwen3-8B's card: 32 heads of 128, 8 for keys, vocabulary 151,936, hidden size 4,096.
    assert sides["sdpa"] == {"B": 4, "H": 2, "G": 4, "L": 1, "S": 100, "D": 128}
    assert sides["embedding"] == {"M": 4, "V": 151936, "N": 4096}
    assert any(point.fact("N") == 12288 // 4 and point.fact("K") == 4096 for point in found)


def test_a_wide_head_is_found_on_decode():
    """The shape of vLLM-Kunlun #387 belongs to a vocabulary of 248,320; Qwen3-8B's 151,936 is wide enough, too."""
    (needs, *_) = read_card(public_card("Qwen--Qwen3-8B"), name="qwen3-8b").needs
    asked = points(needs.operators, Load(new=1, context=10), dtype="f16")
    (hit,) = hits((_quirk(*WIDE),), "amx-cpu", asked)
    assert {point.fact("N") for point in hit.points} == {151936}
