"""Gemma 4 without towers: patches and pieces of a waveform go through a few matrices straight into the decoder.

In: its composed cards. Out: `Architecture` with one stage. Shapes follow transformers'
Gemma4UnifiedForConditionalGeneration.
"""

from dataclasses import replace

from accord.models.card import Card
from accord.models.families.decoders.dense import decoder_stage
from accord.models.families.sight.seeing import VALUE_BYTES, whole_spans
from accord.models.families.text import DECODER, text_of, tying
from accord.models.graphs import EdgeDraft, architecture, text_in, text_out
from accord.models.parts.pace import idle
from accord.models.parts.parts import NOTHING, Parts, linear, norm
from accord.models.parts.vision import NAME, positions
from accord.terms.architecture import Architecture, Unit
from accord.terms.graph import DOOR, Payload
from accord.terms.work import Phase

FAMILY = "gemma4-unified"
REMARK = (
    "the matrices for patches are counted for all tokens of a prompt, as if it were all pictures; those for sound not"
)


def build(card: Card, name: str) -> Architecture:
    """The composed model: the decoder, with what turns pixels and samples into embeddings."""
    card.skip("image_token_id", "video_token_id", "boi_token_id", "eoi_token_id", "eoi_token_index", "audio_token_id")
    card.skip("boa_token_id", "eoa_token_id", "eoa_token_index", "audio_config", "vision_config")
    below = card.sub("text_config")
    text = text_of(below, kind="gemma4_unified_text", tied=tying(card, below, default=True))
    both = below.word("use_bidirectional_attention", "vision") == "vision"
    parts = NOTHING
    edges: tuple[EdgeDraft, ...] = ()
    constraints = text.constraints
    tokens = card.size("vision_soft_tokens_per_image", 280)
    if "vision_config" in card:
        values, seen = _pixels(card.sub("vision_config"), hidden=text.hidden)
        parts, edges = parts + seen, (*edges, _edge(Payload.PIXELS, Unit.PATCH, values))
        constraints = (*constraints, whole_spans(tokens)) if both else constraints
    if "audio_config" in card:
        samples, heard = _samples(card.sub("audio_config"), hidden=text.hidden)
        parts, edges = parts + heard, (*edges, _edge(Payload.PCM, Unit.FRAME, samples))
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(replace(decoder_stage(text.card, parts + text.parts), constraints=constraints),),
        edges=(*edges, text_in(DECODER), text_out(DECODER)),
        context_max=text.context_max,
        remarks=(*text.remarks, REMARK) if edges else text.remarks,
    )


def _pixels(card: Card, *, hidden: int) -> tuple[int, Parts]:
    """Values of one patch (of merged pixels), and what makes a token of it."""
    card.skip("model_type", "model_patch_size", "num_soft_tokens", "default_output_length")
    values = 3 * (card.size("patch_size", 16) * card.size("pooling_kernel_size", 3)) ** 2
    wide, out = card.size("mm_embed_dim", 3840), card.size("output_proj_dims", 3840)
    return values, (
        norm(f"{NAME}.norm1", values, bias=True)
        + linear(f"{NAME}.patches", values, wide, bias=True, phase=Phase.PREFILL, quantizable=False)
        + norm(f"{NAME}.norm2", wide, bias=True)
        + positions(2 * card.size("mm_posemb_size", 1120), wide)
        + norm(f"{NAME}.norm3", wide, bias=True)
        + linear(f"{NAME}.projector", out, hidden, phase=Phase.PREFILL, quantizable=False)
    )


def _samples(card: Card, *, hidden: int) -> tuple[int, Parts]:
    card.skip("model_type", "audio_samples_per_token", "output_proj_dims", "hidden_size")
    wide = card.size("audio_embed_dim", 640)
    return wide, idle(linear("audio.projector", wide, hidden, quantizable=False))


def _edge(payload: Payload, unit: Unit, values: int) -> EdgeDraft:
    return EdgeDraft(source=DOOR, target=DECODER, payload=payload, unit=unit, unit_bytes=values * VALUE_BYTES)
