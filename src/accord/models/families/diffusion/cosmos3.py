"""The denoiser of Cosmos 3: a language model over the prompt, and beside it, layer by layer, its twin over the latent.

In: a pipeline's nested `transformer` mapping. Out: `Denoiser`. The prompt's half is causal and sees only the prompt;
the latent's half sees both. Shapes follow diffusers' Cosmos3OmniTransformer, which computes the prompt's half in each
step; heads for logits, sound and actions are loaded, but not run for clips.
"""

from dataclasses import dataclass

from accord.models.card import Card
from accord.models.parts.diffusion import TIME_VALUES, Denoiser, embedder
from accord.models.parts.parts import Layers, Parts, head, linear, norm, table, vector
from accord.models.parts.vae import weights_only
from accord.terms.tensors import Part, Split, Tensor
from accord.terms.work import Attention, Per, Reach

_ACTIVATIONS = ("silu", "relu2")  # the first has a gate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Half:
    """What both halves share."""

    layers: Layers
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    bias: bool
    gated: bool


def cosmos3(card: Card) -> Denoiser:
    """Both halves, what stands around them, and what is loaded for other uses."""
    half = _half(card)
    hidden, values = half.hidden, card.size("patch_latent_dim", 192)
    if values != card.size("latent_channel", 48) * card.size("latent_patch_size", 2) ** 2:
        card.wrong("patch_latent_dim", problem="not latent_channel * latent_patch_size^2", fix="write that product")
    text_norm = card.flag("qk_norm_for_text", True)
    parts = (
        table("embed_tokens", card.size("vocab_size", 151936), hidden, split=Split.VOCABULARY, per=Per.CONTEXT)
        + linear("latent_in", values, hidden, bias=True, quantizable=False)
        + embedder("time", TIME_VALUES, hidden, per=Per.UNIT)
        + _stream("text", half, reach=Reach.CAUSAL, per=Per.CONTEXT, qk_norm=text_norm)
        + _stream("latent", half, reach=Reach.ALL, per=Per.UNIT, qk_norm=True)
    )
    if card.flag("use_und_k_norm_for_gen", False) and not text_norm:
        parts += norm("text.attention.k_norm_for_latent", half.head_dim, half.layers)
    parts += norm("text.norm", hidden) + norm("latent.norm", hidden)
    parts += linear("out", hidden, values, bias=True, quantizable=False)
    return Denoiser(values=values, parts=parts + weights_only(_idle(card, hidden)), pads=True)


def _half(card: Card) -> _Half:
    heads, kv_heads = card.size("num_attention_heads", 32), card.size("num_key_value_heads", 8)
    card.divides("num_attention_heads", heads, kv_heads, by="num_key_value_heads")
    card.skip(
        "base_fps", "enable_fps_modulation", "freeze_und", "joint_attn_implementation", "max_position_embeddings",
        "position_embedding_type", "qk_norm", "qk_norm_for_diffusion", "rope_axes_dim", "sound_latent_fps",
        "temporal_compression_factor", "temporal_compression_factor_sound", "timestep_scale",
        "unified_3d_mrope_reset_spatial_ids", "unified_3d_mrope_temporal_modality_margin", "use_moe",
        "video_temporal_causal", "max_action_dim", "backbone_type", "model_type",
    )  # fmt: skip
    return _Half(
        layers=tuple(range(card.layers(default=36))),
        hidden=card.size("hidden_size", 4096),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=card.size("head_dim", 128),
        width=card.size("intermediate_size", 12288),
        bias=card.flag("attention_bias", False),
        gated=card.choice("hidden_act", _ACTIVATIONS, "silu") == "silu",
    )


def _stream(name: str, half: _Half, *, reach: Reach, per: Per, qk_norm: bool) -> Parts:
    """One half's layers, over the prompt (`per` CONTEXT) or the latent."""
    scores = Attention(
        name=f"{name}.attention",
        layers=half.layers,
        heads=half.heads,
        key_heads=half.kv_heads,
        key_dim=half.head_dim,
        value_dim=half.head_dim,
        reach=reach,
        per=per,
    )
    parts = norm(f"{name}.norm1", half.hidden, half.layers) + norm(f"{name}.norm2", half.hidden, half.layers)
    for side, heads, split in (
        ("q", half.heads, Split.ROWS),
        ("k", half.kv_heads, Split.KV_ROWS),
        ("v", half.kv_heads, Split.KV_ROWS),
    ):
        outputs = heads * half.head_dim
        parts += linear(
            f"{name}.attention.{side}",
            half.hidden,
            outputs,
            half.layers,
            split=split,
            pieces=heads,
            bias=half.bias,
            per=per,
        )
        if qk_norm and side != "v":
            parts += norm(f"{name}.attention.{side}_norm", half.head_dim, half.layers)
    parts += Parts(operators=(scores,))
    parts += linear(
        f"{name}.attention.o",
        half.heads * half.head_dim,
        half.hidden,
        half.layers,
        split=Split.COLUMNS,
        pieces=half.heads,
        bias=half.bias,
        per=per,
    )
    return parts + _mlp(f"{name}.mlp", half, per=per)


def _mlp(name: str, half: _Half, *, per: Per) -> Parts:
    parts, width = Parts(), half.width
    for side in ("gate", "up") if half.gated else ("up",):
        parts += linear(f"{name}.{side}", half.hidden, width, half.layers, split=Split.ROWS, pieces=width, per=per)
    return parts + linear(f"{name}.down", width, half.hidden, half.layers, split=Split.COLUMNS, pieces=width, per=per)


def _idle(card: Card, hidden: int) -> Parts:
    """Heads for logits, sound and actions; the last have weights of their own for each kind of robot."""
    parts = head(card.size("vocab_size", 151936), hidden)
    if card.flag("sound_gen", False):
        width = card.size("sound_dim")
        parts += linear("sound_in", width, hidden, bias=True) + linear("sound_out", hidden, width, bias=True)
        parts += vector("sound_kind", hidden)
    if card.flag("action_gen", False):
        width, robots = card.size("action_dim"), card.size("num_embodiment_domains", 32)
        for side, inputs, outputs in (("in", width, hidden), ("out", hidden, width)):
            parts += Parts(
                tensors=(Tensor(name=f"action_{side}", part=Part.LAYER, rows=robots * outputs, columns=inputs),)
            )
            parts += vector(f"action_{side}.bias", robots * outputs)
        parts += vector("action_kind", hidden)
    card.skip("sound_dim", "action_dim", "num_embodiment_domains")
    return parts
