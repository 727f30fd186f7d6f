"""How Gemma 3n and Gemma 4 hear: a conformer, and a projection into the decoder.

In: an `audio_config`. Out: `Sound`. The unit is a mel frame (10 ms). Shapes and defaults follow transformers'
Gemma3nAudioEncoder and Gemma4AudioModel.
"""

from accord.models.card import Card
from accord.models.families.omni.omni_sound import Sound
from accord.models.parts.conformer import NAME, PACE, Conformer, conformer
from accord.models.parts.feedforward import ACTIVATIONS
from accord.models.parts.parts import Parts, linear, norm, table, vector
from accord.terms.work import Per


def gemma3n_sound(card: Card, *, hidden: int) -> Sound:
    """Every fourth position goes on; words for sounds have an embedding of their own."""
    card.skip("vocab_offset", "model_type", *(f"conf_{key}" for key in ("attention_logit_cap", "residual_weight")))
    card.skip("gradient_clipping", "sscp_conv_group_norm_eps", "sscp_conv_eps", "sscp_conv_group_norm")
    for key, usual in (("sscp_conv_kernel_size", [[3, 3], [3, 3]]), ("sscp_conv_stride_size", [[2, 2], [2, 2]])):
        if card.names(key) and card.raw(key) != usual:
            card.wrong(key, problem="not read here", fix=f"write {usual}")
    figures = _figures(
        card, prefix="conf_", channels="sscp_conv_channel_size", hidden=1536, bins=card.size("input_feat_size", 128)
    )
    every = card.size("conf_reduction_factor", 4)
    words = card.size("vocab_size", 128)
    parts = (
        conformer(figures)
        + table(f"{NAME}.words", words, figures.hidden, per=Per.SEQUENCE)
        + norm(f"{NAME}.words.norm", figures.hidden)
        + norm(f"{NAME}.projector.norm", figures.hidden)
        + linear(f"{NAME}.projector", figures.hidden, hidden, rate=PACE / every, quantizable=False)
    )
    return _sound(card, parts, figures, hidden=hidden, window=4 * every)


def gemma4_sound(card: Card, *, hidden: int) -> Sound:
    """All positions go on, through two projections."""
    card.skip("attention_logit_cap", "attention_invalid_logits_value", "residual_weight", "gradient_clipping")
    card.skip("model_type")
    card.choice("hidden_act", ACTIVATIONS, "silu")
    found = card.sizes("subsampling_conv_channels", least=1, count=2) if "subsampling_conv_channels" in card else ()
    channels = found or (128, 32)
    figures = _figures(card, prefix="", channels="subsampling_conv_channels", hidden=1024, bins=channels[0] // 4 * 4)
    out = card.size("output_proj_dims", 1536)
    parts = conformer(figures)
    if card.flag("use_clipped_linears", True):
        parts += vector(f"{NAME}.bounds", 4 * 10, figures.layers, buffer=True)
    parts += linear(f"{NAME}.out", figures.hidden, out, rate=PACE, bias=True, quantizable=False)
    parts += linear(f"{NAME}.projector", out, hidden, rate=PACE, quantizable=False)
    return _sound(card, parts, figures, hidden=hidden, window=4)


def _figures(card: Card, *, prefix: str, channels: str, hidden: int, bins: int) -> Conformer:
    wide = card.size("hidden_size", hidden)
    heads = card.size(f"{prefix}num_attention_heads", 8)
    card.divides("hidden_size", wide, heads, by=f"{prefix}num_attention_heads")
    first, second = card.sizes(channels, least=1, count=2) if channels in card else (128, 32)
    return Conformer(
        layers=tuple(range(card.layers(f"{prefix}num_hidden_layers", 12))),
        hidden=wide,
        heads=heads,
        chunk=card.size(f"{prefix}attention_chunk_size", 12),
        left=card.size(f"{prefix}attention_context_left", 13) - 1,
        right=card.size(f"{prefix}attention_context_right", 0, least=0),
        kernel=card.size(f"{prefix}conv_kernel_size", 5),
        channels=(first, second),
        bins=bins,
    )


def _sound(card: Card, parts: Parts, figures: Conformer, *, hidden: int, window: int) -> Sound:
    return Sound(parts=parts, card=card, bins=figures.bins, width=hidden, window=window, tokens=1)
