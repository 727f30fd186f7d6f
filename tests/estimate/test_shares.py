"""Weights: formats against torch's own storage and published checkpoints; shares of ranks against their laws."""

import fnmatch
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from accord.estimate.shares import Shares, shares
from accord.estimate.weights import portions, stored_bytes
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.architecture import Needs, Stored, Unit
from accord.terms.layout import Layout, even_pipeline
from accord.terms.refusal import Refusal
from accord.terms.tensors import Part, Quantization, Split, Tensor
from tests.models.cards import public_card, public_cards

_GIB = 1 << 30


def _sum(found: Shares) -> int:
    return sum(rank.count * rank.held_bytes for rank in found.ranks)


def _needs(*tensors: Tensor) -> Needs:
    return Needs(stage="decoder", unit=Unit.TOKEN, tensors=tensors)


def _llama(*, layers: int, hidden: int, heads: int, kv_heads: int, head: int, width: int, vocabulary: int) -> Needs:
    card: dict[str, Json] = {
        "model_type": "llama", "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head, "intermediate_size": width, "vocab_size": vocabulary,
    }  # fmt: skip
    return read_card(card, name="llama").needs[0]


# The bytes of all tensors that the model.safetensors.index.json of each repository states.
@pytest.mark.parametrize(
    ("name", "total"), [("openai--gpt-oss-20b", 13_761_264_768), ("openai--gpt-oss-120b", 65_248_815_744)]
)
def test_gpt_oss_has_its_published_bytes(name, total):
    found = read_card(public_card(name), name=name)
    assert stored_bytes(found.needs[0].tensors, found.stored[0]) == total


def test_deepseek_v3_has_its_published_bytes():
    """The repository's files have 688,586,727,753 bytes, of which about 0.002% are headers; they hold a second set of
    embedding and head, and one layer that predicts a further token, which our card leaves out."""
    found = read_card(public_card("deepseek-ai--DeepSeek-V3"), name="v3")
    main = stored_bytes(found.needs[0].tensors, found.stored[0])

    def fp8(rows: int, columns: int) -> int:
        return rows * columns + math.ceil(rows / 128) * math.ceil(columns / 128) * 4

    shapes = [(1536, 7168), (24576, 1536), (576, 7168), (32768, 512), (7168, 16384)]
    shapes += 257 * [(2048, 7168), (2048, 7168), (7168, 2048)]
    further = sum(fp8(*shape) for shape in shapes)
    further += 2 * (1536 + 512 + 2 * 7168 + 256 * 7168) + 4 * 256  # norms, router, its correction
    further += 2 * (2 * 129280 * 7168 + 7168 * 14336 + 3 * 7168)  # embedding, head; their joint projection, norms
    assert main + further == pytest.approx(688_586_727_753, rel=2.5e-5)
    assert main + further < 688_586_727_753


@pytest.mark.parametrize("quantization", list(Quantization))
@given(rows=st.integers(1, 40), columns=st.integers(1, 12))
def test_formats_have_torch_s_bytes(quantization, rows, columns):
    rows, columns = rows * 16, columns * 32
    held = stored_bytes(
        (Tensor(name="w", part=Part.LAYER, rows=rows, columns=columns, quantizable=True),),
        Stored(quantization=quantization),
    )
    assert held == sum(part.numel() * part.element_size() for part in _torch_parts(quantization, rows, columns))


def _torch_parts(quantization: Quantization, rows: int, columns: int) -> list[torch.Tensor]:
    """The tensors that a checkpoint of this format has for one matrix."""

    def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    packed = empty(rows, columns // 2, dtype=torch.uint8)
    fp8 = empty(rows, columns, dtype=torch.float8_e4m3fn)
    match quantization:
        case Quantization.NONE:
            return [empty(rows, columns, dtype=torch.bfloat16)]
        case Quantization.FP8:
            return [fp8, empty(dtype=torch.float32)]
        case Quantization.FP8_CHANNEL:
            return [fp8, empty(rows, 1, dtype=torch.bfloat16)]
        case Quantization.FP8_BLOCK:
            return [fp8, empty(math.ceil(rows / 128), math.ceil(columns / 128), dtype=torch.float32)]
        case Quantization.INT8:
            return [empty(rows, columns, dtype=torch.int8), empty(rows, 1, dtype=torch.bfloat16)]
        case Quantization.INT4_GROUP:
            return [packed, empty(rows, columns // 32, dtype=torch.bfloat16)]
        case Quantization.MXFP4:
            return [packed, empty(rows, columns // 32, dtype=torch.uint8)]
        case Quantization.MXFP8:
            return [fp8, empty(rows, columns // 32, dtype=torch.uint8)]
        case Quantization.NVFP4:
            scales = empty(rows, columns // 16, dtype=torch.float8_e4m3fn)
            return [packed, scales, empty(dtype=torch.float32)]
    return []


def test_a_dense_rank_has_what_the_formula_says():
    needs = _llama(layers=4, hidden=512, heads=16, kv_heads=4, head=32, width=1536, vocabulary=1000)
    found = shares(needs, Stored(), Layout(tensor=8))
    assert isinstance(found, Shares)
    attention = 2 * 16 * 32 * 512 // 8 + 2 * 32 * 512  # of 4 KV heads each is on 2 ranks
    layer = attention + 3 * 1536 * 512 // 8 + 2 * 512
    rank = 4 * layer + 512 + 2 * (1024 // 8) * 512  # 1000 words are padded to 1024
    assert [(item.count, item.parameters, item.held_bytes) for item in found.ranks] == [(8, rank, 2 * rank)]
    assert found.padding_parameters == 2 * 24 * 512
    assert found.duplicate_parameters == 4 * (4 * 2 * 32 * 512 + 7 * 2 * 512) + 7 * 512


def test_pipeline_ends_hold_embedding_and_head():
    needs = _llama(layers=6, hidden=256, heads=8, kv_heads=8, head=32, width=512, vocabulary=640)
    found = shares(needs, Stored(), Layout(pipeline=even_pipeline(6, 3)))
    assert isinstance(found, Shares)
    layer = 4 * 256 * 256 + 3 * 512 * 256 + 2 * 256
    assert [item.parameters for item in found.ranks] == [
        2 * layer + 640 * 256, 2 * layer, 2 * layer + 640 * 256 + 256
    ]  # fmt: skip
    assert (found.duplicate_bytes, found.padding_bytes) == (0, 0)


def test_a_tied_head_needs_the_embedding_on_both_ends():
    card: dict[str, Json] = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2,
            "intermediate_size": 128, "vocab_size": 640, "tie_word_embeddings": True}  # fmt: skip
    needs = read_card(card, name="tied").needs[0]
    found = shares(needs, Stored(), Layout(pipeline=(1, 1)))
    assert isinstance(found, Shares)
    assert found.duplicate_parameters == 640 * 64
    assert _sum(found) == found.whole_bytes + found.duplicate_bytes


def test_experts_are_dealt_out_and_the_first_ranks_take_the_rest():
    expert = Tensor(
        name="experts.up", part=Part.EXPERT, rows=64, columns=32, copies=10, layers=(0, 1), split=Split.EXPERTS,
        inner=Split.ROWS, pieces=64,
    )  # fmt: skip
    found = shares(_needs(expert), Stored(), Layout(experts=4))
    assert isinstance(found, Shares)
    assert [(item.count, item.parameters) for item in found.ranks] == [(2, 3 * 2 * 64 * 32), (2, 2 * 2 * 64 * 32)]
    inside = shares(_needs(expert), Stored(), Layout(tensor=8, experts=2))
    assert isinstance(inside, Shares)
    assert [(item.count, item.parameters) for item in inside.ranks] == [(8, 5 * 2 * 64 * 32 // 4)]
    assert inside.duplicate_bytes == 0


def test_mxfp4_experts_are_filled_up_to_whole_blocks():
    """vLLM gives each of 8 ranks 12 of gpt-oss's 90 blocks of 32 (cdiv(2880 // 32, 8) * 32 = 384 of 2880 features)."""
    found = read_card(public_card("openai--gpt-oss-20b"), name="oss")
    made = shares(found.needs[0], found.stored[0], Layout(tensor=8))
    assert isinstance(made, Shares)
    fill = 24 * 32 * 3 * 2880 * (8 * 384 - 2880)
    assert made.padding_parameters == fill
    assert made.padding_bytes == fill * 17 // 32  # half a byte a value, and a byte of scale for 32
    assert _sum(made) == made.whole_bytes + made.duplicate_bytes + made.padding_bytes


@pytest.mark.parametrize(
    ("name", "layout", "field", "words"),
    [
        ("Qwen--Qwen3-235B-A22B-FP8", Layout(tensor=8), "layout.tensor", "1536 / 8 = 192 isn't a multiple"),
        ("meta-llama--Meta-Llama-3.1-8B", Layout(tensor=12), "layout.tensor", "32 pieces can't be divided by 12"),
        ("meta-llama--Meta-Llama-3.1-8B", Layout(pipeline=(1,) * 40), "layout.pipeline", "has 32 layers"),
        ("meta-llama--Meta-Llama-3.1-8B", Layout(experts=2), "layout.experts", "no experts"),
        ("openai--gpt-oss-20b", Layout(experts=64), "layout.experts", "32 experts"),
    ],
)
def test_what_cannot_be_divided_is_refused_with_a_way_out(name, layout, field, words):
    found = read_card(public_card(name), name=name)
    made = shares(found.needs[0], found.stored[0], layout)
    assert isinstance(made, Refusal)
    assert made.field == field
    assert words in made.causes[0]
    assert made.fix


def test_heads_that_straddle_blocks_are_quantized_anew():
    """MiMo-V2-Flash has KV heads of 192 rows, and so 2 blocks of 128 on a rank that has one of 4."""
    tensor = Tensor(
        name="attention.k", part=Part.LAYER, rows=4 * 192, columns=4096, split=Split.KV_ROWS, pieces=4,
        quantizable=True,
    )  # fmt: skip
    found = shares(_needs(tensor), Stored(quantization=Quantization.FP8_BLOCK), Layout(tensor=4))
    assert isinstance(found, Shares)
    assert found.ranks[0].held_bytes == 192 * 4096 + 4 * 2 * 32
    assert found.duplicate_bytes == 4 * (4 * 2 - 6) * 32


def test_a_refusal_names_counts_that_work():
    found = read_card(public_card("Qwen--Qwen3-235B-A22B-FP8"), name="qwen")
    made = shares(found.needs[0], found.stored[0], Layout(tensor=8))
    assert isinstance(made, Refusal)
    assert made.fix == ("use 1, 2, 4 tensor-parallel ranks",)
    for count in (1, 2, 4):
        assert isinstance(shares(found.needs[0], found.stored[0], Layout(tensor=count)), Shares)


_LAYOUTS = st.tuples(st.sampled_from((1, 2, 4, 8)), st.sampled_from((1, 2, 3, 4, 8)), st.integers(1, 4))
_FORMATS = st.sampled_from(list(Quantization))


@given(parallel=_LAYOUTS, quantization=_FORMATS, kv_heads=st.sampled_from((1, 2, 4, 8)), experts=st.integers(8, 20))
def test_shares_add_up(parallel, quantization, kv_heads, experts):
    tensor, expert, pipeline = parallel
    if max(tensor, expert) % min(tensor, expert):
        return
    card: dict[str, Json] = {
        "model_type": "qwen3_moe", "num_hidden_layers": 5, "hidden_size": 1024, "num_attention_heads": 8,
        "num_key_value_heads": kv_heads, "head_dim": 128, "intermediate_size": 2048, "vocab_size": 1111,
        "num_experts": experts, "num_experts_per_tok": 2, "moe_intermediate_size": 1024, "decoder_sparse_step": 1,
    }  # fmt: skip
    needs = read_card(card, name="moe").needs[0]
    stored = Stored(quantization=quantization)
    found = shares(needs, stored, Layout(tensor=tensor, experts=expert, pipeline=even_pipeline(5, pipeline)))
    assert isinstance(found, Shares)
    assert found.whole_bytes == stored_bytes(needs.tensors, stored)
    assert min(found.duplicate_bytes, found.padding_bytes) >= 0
    assert _sum(found) == found.whole_bytes + found.duplicate_bytes + found.padding_bytes
    assert sum(rank.count for rank in found.ranks) == max(tensor, expert) * pipeline
    held = sum(rank.count * rank.parameters for rank in found.ranks)
    assert held == needs.parameters + found.duplicate_parameters + found.padding_parameters
    plain = shares(needs, Stored(), Layout(tensor=tensor, experts=expert, pipeline=even_pipeline(5, pipeline)))
    assert isinstance(plain, Shares)
    assert (found.largest_bytes < plain.largest_bytes) == (quantization is not Quantization.NONE)


@pytest.mark.parametrize("name", ["deepseek-ai--DeepSeek-V3", "openai--gpt-oss-120b", "Qwen--Qwen3-235B-A22B"])
def test_portions_add_up_and_read_well(name):
    found = read_card(public_card(name), name=name)
    needs, stored = found.needs[0], found.stored[0]
    made = portions(needs.tensors, stored)
    assert sum(item.count * item.stored_bytes for item in made) == stored_bytes(needs.tensors, stored)
    assert sum(item.count * item.parameters for item in made) == needs.parameters
    kinds = [item.name for item in made]
    assert kinds[0] == "embeddings"
    assert fnmatch.filter(kinds, "expert")


def test_an_expert_of_deepseek_v3_weighs_three_matrices():
    found = read_card(public_card("deepseek-ai--DeepSeek-V3"), name="v3")
    expert = next(item for item in portions(found.needs[0].tensors, found.stored[0]) if item.name == "expert")
    assert (expert.count, expert.parameters) == (58 * 256, 3 * 7168 * 2048)
    assert expert.stored_bytes == 3 * (7168 * 2048 + 4 * 56 * 16)


@given(layers=st.integers(1, 200), ranks=st.integers(1, 16))
def test_even_pipelines_cover_all_layers(layers, ranks):
    if ranks > layers:
        return
    made = even_pipeline(layers, ranks)
    assert sum(made) == layers
    assert max(made) - min(made) <= 1


def test_a_copy_that_changes_nothing_keeps_the_shares():
    needs = _llama(layers=2, hidden=256, heads=8, kv_heads=2, head=32, width=512, vocabulary=640)
    assert shares(needs, Stored(), Layout(tensor=4)) == shares(replace(needs), Stored(), Layout(tensor=4))


def test_every_public_card_is_shared_out_or_refused():
    shared = 0
    for name in public_cards():
        for stage, needs, stored in read_card(public_card(name), name=name).rows():
            for layout in (Layout(tensor=8), Layout(tensor=2, experts=8)):
                made = shares(needs, stored, layout)
                if isinstance(made, Refusal):
                    assert made.fix, (name, stage.name)
                    continue
                shared += 1
                assert _sum(made) == made.whole_bytes + made.duplicate_bytes + made.padding_bytes, (name, stage.name)
                assert made.whole_bytes == stored_bytes(needs.tensors, stored), (name, stage.name)
    assert shared > 80
