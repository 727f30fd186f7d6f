"""CSM (Sesame): a Llama over text and sound, a depth decoder for each frame's codes, and the Mimi codec.

In: its card. Out: `Architecture` with the stages `audio`, `talker` and `code2wav`. Shapes follow transformers'
CsmForConditionalGeneration. The depth decoder runs within each decode step of the talker.
"""

from accord.models.card import Card
from accord.models.families.omni.mimi import Mimi, mimi
from accord.models.families.omni.omni_talker import stack
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in
from accord.models.parts.feedforward import gated
from accord.models.parts.pace import paced
from accord.models.parts.parts import Parts, head, linear, norm, table, tokens
from accord.terms.architecture import Architecture, Constraint, Rule, Unit
from accord.terms.graph import DOOR, Batching, Capability, Payload
from accord.terms.tensors import Part
from accord.terms.work import Phase

FAMILY = "csm"

_TOKENS = (
    "audio_eos_token_id", "audio_token_id", "codebook_eos_token_id", "codebook_pad_token_id", "tie_word_embeddings",
    "codebook_size",
)  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of a CSM."""
    card.skip(*_TOKENS)
    full = card.given(
        depth_decoder_config=card.raw("depth_decoder_config") or {}, codec_config=card.raw("codec_config") or {}
    )
    groups = card.size("num_codebooks", 32, least=2)
    codec = mimi(full.sub("codec_config"))
    speaking = _backbone(card, groups) + _depth(full.sub("depth_decoder_config"), card, groups)
    if codec.groups != groups:
        card.wrong("num_codebooks", problem=f"the codec has {codec.groups}", fix=f"write {codec.groups}")
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(
            _codec_stage(full, "audio", Capability.ENCODE, codec.encoder),
            _talker_stage(card, speaking, groups),
            _codec_stage(full, "code2wav", Capability.VOCODE, codec.decoder),
        ),
        edges=_edges(codec),
        context_max=card.size("max_position_embeddings", 2048),
        remarks=("the codebooks stand in both halves of the codec, which share them in one process",),
    )


def _talker_stage(card: Card, parts: Parts, groups: int) -> StageDraft:
    words = f"the depth decoder takes {groups - 1} steps for each frame, over at most {groups} positions of its own"
    return StageDraft(
        name="talker",
        capabilities=(Capability.AR,),
        batching=Batching.CONTINUOUS,
        unit=Unit.TOKEN,
        parts=parts,
        card=card,
        constraints=(Constraint(rule=Rule.LOCKSTEP, figure=groups - 1, words=words),),
        example_units=200,
    )


def _codec_stage(card: Card, name: str, capability: Capability, parts: Parts) -> StageDraft:
    return StageDraft(
        name=name,
        capabilities=(capability,),
        batching=Batching.CHUNKED if capability is Capability.VOCODE else Batching.PLAIN,
        unit=Unit.FRAME,
        parts=parts,
        card=card,
        example_units=125,
    )


def _backbone(card: Card, groups: int) -> Parts:
    hidden, vocabulary = card.size("hidden_size", 2048), card.size("vocab_size", 2051)
    layers = tuple(range(card.layers(default=16)))
    bias = card.flag("mlp_bias", False)
    heads = card.size("num_attention_heads", 32)
    return (
        tokens(card.size("text_vocab_size", 128256), hidden, name="embed_text")
        + table("embed_codes", groups * vocabulary, hidden)
        + stack(
            card,
            layers,
            hidden=hidden,
            heads=(32, 8),
            head_dim=hidden // heads,
            bias=card.flag("attention_bias", False),
            out_bias=card.flag("attention_bias", False),
            normed=False,
        )
        + gated(layers, hidden=hidden, width=card.size("intermediate_size", 8192), bias=bias)
        + norm("norm", hidden)
        + head(vocabulary, hidden)
    )


def _depth(card: Card, root: Card, groups: int) -> Parts:
    """Each position of a frame is one application; its embeddings are the backbone's where they are tied.

    Its layers are counted behind the backbone's.
    """
    card.skip("model_type", "max_position_embeddings", "codebook_size")
    hidden, vocabulary = card.size("hidden_size", 1024), card.size("vocab_size", 2051)
    wide = card.size("backbone_hidden_size", 2048)
    if wide != root.size("hidden_size", 2048):
        card.wrong("backbone_hidden_size", problem="not the backbone's width", fix="write its hidden_size")
    tied = root.flag("tie_codebooks_embeddings", True)
    if tied and vocabulary != root.size("vocab_size", 2051):
        card.wrong("vocab_size", problem="not the backbone's, whose embeddings it reads", fix="write its vocab_size")
    if card.size("num_codebooks", 32) != groups:
        card.wrong("num_codebooks", problem=f"not the backbone's {groups}", fix=f"write {groups}")
    first, heads = root.layers(default=16), card.size("num_attention_heads", 8)
    layers = tuple(range(first, first + card.layers(default=4)))
    bias = card.flag("attention_bias", False)
    own = Parts() if tied else table("depth.embed", groups * vocabulary, wide)
    codebooks = linear("depth.head", hidden, vocabulary, copies=groups - 1, part=Part.HEAD, quantizable=False)
    made = (
        own
        + linear("depth.in", wide, hidden)
        + stack(
            card,
            layers,
            hidden=hidden,
            heads=(8, 2),
            head_dim=hidden // heads,
            bias=bias,
            out_bias=bias,
            normed=False,
            frame=groups,
            prefix="depth.",
        )
        + gated(
            layers,
            hidden=hidden,
            width=card.size("intermediate_size", 8192),
            bias=card.flag("mlp_bias", False),
            name="depth.mlp",
        )
        + norm("depth.norm", hidden)
        + paced(codebooks, 1 / groups)
    )
    return paced(made, groups, phase=Phase.DECODE)


def _edges(codec: Mimi) -> tuple[EdgeDraft, ...]:
    codes = 4 * codec.groups
    return (
        EdgeDraft(source=DOOR, target="audio", payload=Payload.PCM, unit=Unit.SAMPLE, unit_bytes=2),
        EdgeDraft(source="audio", target="talker", payload=Payload.CODES, unit=Unit.FRAME, unit_bytes=codes),
        text_in("talker"),
        EdgeDraft(
            source="talker",
            target="code2wav",
            payload=Payload.CODES,
            unit=Unit.FRAME,
            unit_bytes=codes,
            stream=True,
            chunk_units=1,
            required=True,
        ),
        EdgeDraft(
            source="code2wav",
            target=DOOR,
            payload=Payload.PCM,
            unit=Unit.SAMPLE,
            unit_bytes=2,
            stream=True,
            chunk_units=codec.samples,
        ),
    )
