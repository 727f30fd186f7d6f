"""Cosmos's autoregressive world models (arXiv 2501.03575): a Llama-like decoder over the tokens of a video.

In: a checkpoint's `config.json` as NVIDIA wrote it, with a `text_encoder` put in where it reads a prompt.
Out: `Architecture`. Shapes follow the Transformer of NVIDIA's cosmos1 package; absolute positions are computed.
"""

from accord.models.card import Card
from accord.models.families.diffusion.text_encoders import encoder
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in
from accord.models.parts.attention import grouped
from accord.models.parts.audio import cross
from accord.models.parts.feedforward import gated
from accord.models.parts.parts import Layers, Parts, head, norm, tokens
from accord.terms.architecture import Architecture, Unit
from accord.terms.graph import DOOR, Batching, Capability, Payload

FAMILY = "cosmos-ar"

_PROMPT = 512  # tokens that the prompt is padded to
_CLIP = 5120  # tokens of the nine frames that a request may start from, at 640 x 1024 pixels
_UNCOUNTED = "the video tokenizer isn't counted, nor the diffusion model that may refine what it decodes"


def build(card: Card, name: str) -> Architecture:
    """The architecture of one world model."""
    context = card.size("max_seq_len", 12800)
    prompted = card.flag("insert_cross_attn", False)
    stages = [_decoder_stage(card, prompted=prompted)]
    edges = [_codes(DOOR, "decoder", stream=False), _codes("decoder", DOOR, stream=True)]
    if prompted:
        below = card.sub("text_encoder")
        made = encoder(below)
        stages.insert(0, _encoder_stage(below, made.parts))
        edges[1:1] = (text_in("text_encoder"), _prompt(card.size("context_dim", 1024), made.hidden, card))
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=tuple(stages),
        edges=tuple(edges),
        context_max=context,
        remarks=(_UNCOUNTED,),
    )


def _decoder_stage(card: Card, *, prompted: bool) -> StageDraft:
    card.skip(
        "apply_abs_pos_emb", "apply_yarn", "backend", "cache_dir", "causal_mask", "ckpt_dir", "ckpt_path",
        "context_dim", "embedding_dropout", "fuse_qkv", "input_types", "insert_cross_attn_every_k_layers",
        "max_batch_size", "mm_projector", "multiple_of", "norm_type", "num_video_frames", "original_latent_shape",
        "original_seq_len", "pad_to_multiple_of", "precision", "pytorch_rope_version", "rope_dim", "text_encoder",
        "use_qk_normalization", "video_height", "video_latent_shape", "video_width", "vision_encoder",
        "vision_encoder_in_channels", "yarn_beta_fast", "yarn_beta_slow", "yarn_scale",
    )  # fmt: skip
    return StageDraft(
        name="decoder",
        capabilities=(Capability.AR,),
        batching=Batching.CONTINUOUS,
        unit=Unit.TOKEN,
        parts=_decoder(card, prompted=prompted),
        card=card,
        example_units=_CLIP,
    )


def _decoder(card: Card, *, prompted: bool) -> Parts:
    """Embedding, layers with attention to the prompt in some, last norm and logits."""
    hidden, layers = card.size("dim", 4096), tuple(range(card.layers("n_layers", 32)))
    heads, kv_heads = card.size("n_heads", 32), card.size("n_kv_heads", 8)
    card.divides("n_heads", heads, kv_heads, by="n_kv_heads")
    if "head_dim" not in card:
        card.divides("dim", hidden, heads, by="n_heads")
    head_dim = card.size("head_dim", hidden // heads)
    qk_norm = head_dim if card.flag("use_qk_normalization", True) else 0
    vocabulary = card.size("vocab_size", 64000)
    parts = (
        tokens(vocabulary, hidden)
        + norm("attention_norm", hidden, layers)
        + grouped(layers, hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=head_dim, qk_norm=qk_norm)
    )
    if prompted:
        every = card.size("insert_cross_attn_every_k_layers", 1)
        some: Layers = layers[::every]
        source = card.size("context_dim", 1024)
        parts += norm("cross_norm", hidden, some)
        parts += norm("cross.q_norm", qk_norm, some) + norm("cross.k_norm", qk_norm, some)
        parts += cross(
            some,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            source=source,
            keys=_PROMPT,
            bias=False,
        )
    return (
        parts
        + norm("mlp_norm", hidden, layers)
        + gated(layers, hidden=hidden, width=card.size("ffn_hidden_size", 14336))
        + norm("norm", hidden)
        + head(vocabulary, hidden)
    )


def _encoder_stage(card: Card, parts: Parts) -> StageDraft:
    return StageDraft(
        name="text_encoder",
        capabilities=(Capability.ENCODE,),
        batching=Batching.PLAIN,
        unit=Unit.TOKEN,
        parts=parts,
        card=card,
        example_units=_PROMPT,
    )


def _codes(source: str, target: str, *, stream: bool) -> EdgeDraft:
    """Tokens of a video, from its tokenizer and back to it."""
    return EdgeDraft(
        source=source,
        target=target,
        payload=Payload.CODES,
        unit=Unit.TOKEN,
        unit_bytes=4,
        stream=stream,
        chunk_units=1 if stream else None,
        required=not stream,
    )


def _prompt(expected: int, hidden: int, card: Card) -> EdgeDraft:
    if hidden != expected:
        card.wrong("context_dim", problem=f"the text encoder writes {hidden} values a token", fix=f"write {hidden}")
    return EdgeDraft(
        source="text_encoder",
        target="decoder",
        payload=Payload.HIDDEN,
        unit=Unit.TOKEN,
        unit_bytes=2 * hidden,
        required=True,
    )
