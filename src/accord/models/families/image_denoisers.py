"""Denoisers of image pipelines: Qwen-Image, FLUX and Stable Diffusion 3, where prompt and latent attend jointly.

In: a pipeline's nested `transformer` mapping. Out: `Denoiser`. Shapes follow diffusers' QwenImageTransformer2DModel,
FluxTransformer2DModel and SD3Transformer2DModel.
"""

from accord.models.card import Card
from accord.models.parts.diffusion import (
    TIME_VALUES,
    Blocks,
    Denoiser,
    attend,
    double,
    embedder,
    last,
    modulation,
    only_text,
    output,
    project,
    single,
)
from accord.models.parts.parts import Parts, convolution, linear, norm
from accord.terms.tensors import Part, Tensor
from accord.terms.work import Per, Reach


def qwen_image(card: Card) -> Denoiser:
    """Double blocks throughout (arXiv 2508.02324)."""
    figures = _blocks(card, layers=60, heads=24, head_dim=128, qk_norm=True)
    text = card.size("joint_attention_dim", 3584)
    inputs = card.size("in_channels", 64)
    values = card.size("patch_size", 2) ** 2 * (card.size("out_channels", 16, least=0) or inputs)
    card.skip("axes_dims_rope", "guidance_embeds", "use_layer3d_rope")
    only_text(card, "zero_cond_t", "use_additional_t_cond")
    return Denoiser(
        values=values,
        parts=embedder("time", TIME_VALUES, figures.hidden)
        + norm("text_norm", text)
        + linear("latent_in", inputs, figures.hidden, bias=True, quantizable=False)
        + linear("text_in", text, figures.hidden, bias=True, per=Per.CONTEXT, quantizable=False)
        + double(figures, text_out=figures.layers)
        + last(figures.hidden, values),
    )


def flux(card: Card) -> Denoiser:
    """Double blocks, then single ones; the dev release is told how strongly to be guided."""
    figures = _blocks(card, layers=19, heads=24, head_dim=128, qk_norm=True)
    singles = figures.only(tuple(range(card.layers("num_single_layers", 38))))
    inputs, text = card.size("in_channels", 64), card.size("joint_attention_dim", 4096)
    values = card.size("patch_size", 1) ** 2 * (card.maybe("out_channels") or inputs)
    card.skip("axes_dims_rope")
    parts = embedder("time", TIME_VALUES, figures.hidden)
    if card.flag("guidance_embeds", False):
        parts += embedder("guidance", TIME_VALUES, figures.hidden)
    return Denoiser(
        values=values,
        parts=parts
        + embedder("pooled", card.size("pooled_projection_dim", 768), figures.hidden)
        + linear("latent_in", inputs, figures.hidden, bias=True, quantizable=False)
        + linear("text_in", text, figures.hidden, bias=True, per=Per.CONTEXT, quantizable=False)
        + double(figures, text_out=figures.layers)
        + single(singles)
        + last(figures.hidden, values),
    )


def sd3(card: Card) -> Denoiser:
    """MMDiT (arXiv 2403.03206): double blocks, of which the last leaves the prompt as it is."""
    card.choice("qk_norm", ("rms_norm",), "rms_norm")
    figures = _blocks(card, layers=18, heads=18, head_dim=64, qk_norm="qk_norm" in card)
    text, caption = card.size("joint_attention_dim", 4096), card.size("caption_projection_dim", 1152)
    if caption != figures.hidden:
        card.wrong("caption_projection_dim", problem=f"not the hidden size {figures.hidden}", fix="write that size")
    patch, inputs = card.size("patch_size", 2), card.size("in_channels", 16)
    values = patch**2 * (card.size("out_channels", 16, least=0) or inputs)
    card.skip("sample_size")
    side = card.size("pos_embed_max_size", 96, most=4096)
    positions = Tensor(name="positions", part=Part.EMBEDDING, rows=side**2, columns=figures.hidden, buffer=True)
    return Denoiser(
        values=values,
        parts=convolution("latent_in", inputs, figures.hidden, kernel=patch**2, rate=1.0)
        + Parts(tensors=(positions,))
        + embedder("time", TIME_VALUES, figures.hidden)
        + embedder("pooled", card.size("pooled_projection_dim", 2048), figures.hidden)
        + linear("text_in", text, caption, bias=True, per=Per.CONTEXT, quantizable=False)
        + double(figures, text_out=figures.layers[:-1])
        + _second_attention(figures, card.sizes("dual_attention_layers", most=len(figures.layers) - 1))
        + last(figures.hidden, values),
    )


def _second_attention(figures: Blocks, chosen: tuple[int, ...]) -> Parts:
    """Attention of the latent over itself alone, beside the joint one (MMDiT-X of Stable Diffusion 3.5 medium)."""
    some = figures.only(tuple(layer for layer in figures.layers if layer in chosen))
    return (
        modulation("latent.modulation.2", some, vectors=3)
        + project("latent.attention.2", some)
        + attend("attention.2", some, reach=Reach.BLOCK)
        + output("latent.attention.2", some)
    )


def _blocks(card: Card, *, layers: int, heads: int, head_dim: int, qk_norm: bool) -> Blocks:
    """What Qwen-Image, FLUX and Stable Diffusion 3 share: the feed-forward is four times as wide."""
    heads, head_dim = card.size("num_attention_heads", heads), card.size("attention_head_dim", head_dim)
    return Blocks(
        layers=tuple(range(card.layers("num_layers", layers))),
        hidden=heads * head_dim,
        heads=heads,
        head_dim=head_dim,
        width=4 * heads * head_dim,
        qk_norm=head_dim if qk_norm else 0,
    )
