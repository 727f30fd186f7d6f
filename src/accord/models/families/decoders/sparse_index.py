"""Latent attention over entries that an indexer chose: DeepSeek-V3.2, GLM-5 to 5.3.

In: their cards. Out: `Architecture` with one stage. Shapes follow transformers' DeepseekV32ForCausalLM and
GlmMoeDsaForCausalLM; since GLM-5.2 some layers reuse the choice of an earlier one and have no indexer.
"""

from accord.models.card import Card
from accord.models.families.decoders.dense import Frame, frame, lone
from accord.models.families.decoders.mla import completed, decoder, latent_shape
from accord.models.parts.latent import indexer, latent_attention
from accord.models.parts.parts import Layers, Parts
from accord.terms.architecture import Architecture

FAMILY = "sparse-index"


def build(card: Card, name: str) -> Architecture:
    """The architecture of a decoder with an indexer beside its latent attention."""
    own = completed(card)
    base = frame(own)
    return lone(card, name, base=base, family=FAMILY, parts=decoder(own, base, _attention(own, base)))


def _attention(card: Card, base: Frame) -> Parts:
    shape = latent_shape(card)
    if shape.query_rank is None:
        card.wrong("q_lora_rank", problem="the indexer reads the queries' latent", fix="write its rank")
    card.words("layer_types", known=("indexed_attention", "deepseek_sparse_attention"), count=len(base.layers))
    card.skip("indexer_rope_interleave", "index_share_for_mtp_iteration")
    return indexer(
        _choosers(card, base),
        hidden=base.hidden,
        query_rank=shape.query_rank,
        heads=card.size("index_n_heads"),
        dim=card.size("index_head_dim", least=shape.rope),
    ) + latent_attention(base.layers, shape, hidden=base.hidden, chosen=card.size("index_topk"))


def _choosers(card: Card, base: Frame) -> Layers:
    """The layers with an indexer; the others take over what the one before them chose."""
    kinds = card.words("indexer_types", known=("full", "shared"), count=len(base.layers))
    if not kinds and "index_topk_pattern" in card:
        kinds = _pattern(card, base)
    every = card.size("index_topk_freq", 1, least=0) or 1
    offset = card.size("index_skip_topk_offset", 2, least=0)
    if not kinds:
        kinds = tuple("full" if max(layer - offset + 1, 0) % every == 0 else "shared" for layer in base.layers)
    if kinds[0] == "shared":
        card.wrong("indexer_types", problem="the first layer has no choice to share", fix='write "full" first')
    card.skip("index_topk_pattern")
    return tuple(layer for layer in base.layers if kinds[layer] == "full")


def _pattern(card: Card, base: Frame) -> tuple[str, ...]:
    pattern = card.word("index_topk_pattern")
    if len(pattern) != len(base.layers) or set(pattern) - {"F", "S"}:
        card.wrong("index_topk_pattern", problem="not one letter a layer", fix="write F or S for each layer")
    return tuple("full" if letter == "F" else "shared" for letter in pattern)
