"""Denoisers of image pipelines: Qwen-Image, FLUX, Stable Diffusion 3, Z-Image; prompt and latent attend jointly.

In: a pipeline's nested `transformer` mapping. Out: `Denoiser`. Shapes follow diffusers' QwenImageTransformer2DModel,
FluxTransformer2DModel, SD3Transformer2DModel and ZImageTransformer2DModel.
"""

from accord.models.card import Card
from accord.models.parts.diffusion import (
    TIME_VALUES,
    Blocks,
    Denoiser,
    attend,
    double,
    embedder,
    feed,
    last,
    mlp,
    modulation,
    only_text,
    output,
    project,
    single,
)
from accord.models.parts.parts import Parts, convolution, linear, norm, vector
from accord.terms.tensors import Part, Split, Tensor
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


def z_image(card: Card) -> Denoiser:
    """Z-Image (arXiv 2511.22699): latent and prompt are refined apart, then share all weights."""
    hidden, heads = card.size("dim", 3840), card.size("n_heads", 30)
    card.divides("dim", hidden, heads, by="n_heads")
    if card.size("n_kv_heads", heads) != heads:
        card.wrong("n_kv_heads", problem=f"not n_heads = {heads}", fix=f"write {heads}")
    figures = Blocks(
        layers=tuple(range(card.layers("n_layers", 30))),
        hidden=hidden,
        heads=heads,
        head_dim=hidden // heads,
        width=int(hidden / 3 * 8),
        qk_norm=hidden // heads if card.flag("qk_norm", True) else 0,
        bias=False,
    )
    refiners = figures.only(tuple(range(card.layers("n_refiner_layers", 2))))
    card.skip("axes_dims", "axes_lens", "rope_theta", "t_scale", "norm_eps")
    only_text(card, "siglip_feat_dim")
    values, text = _one_patch(card) * card.size("in_channels", 16), card.size("cap_feat_dim", 2560)
    waist = min(hidden, TIME_VALUES)
    return Denoiser(
        values=values,
        parts=linear("latent_in", values, hidden, bias=True, quantizable=False)
        + embedder("time", TIME_VALUES, 1024, outputs=waist)
        + norm("text_norm", text)
        + linear("text_in", text, hidden, bias=True, per=Per.CONTEXT, quantizable=False)
        + vector("latent_pad", hidden)
        + vector("text_pad", hidden)
        + _z_blocks("latent", refiners, waist=waist, per=Per.UNIT)
        + _z_blocks("text", refiners, waist=0, per=Per.CONTEXT)
        + _z_blocks("both", figures, waist=waist, per=Per.BOTH)
        + linear("norm_out", waist, hidden, bias=True, per=Per.SEQUENCE, quantizable=False)
        + linear("out", hidden, values, bias=True, per=Per.BOTH, quantizable=False),
    )


def _z_blocks(name: str, figures: Blocks, *, waist: int, per: Per) -> Parts:
    """Blocks with norms before and after each part; `waist` is the width of the time step (0: not told it)."""
    layers, hidden = figures.layers, figures.hidden
    parts = Parts()
    for index in range(4):
        parts += norm(f"{name}.norm{index + 1}", hidden, layers)
    if waist and layers:
        parts += linear(f"{name}.modulation", waist, 4 * hidden, layers, bias=True, per=Per.SEQUENCE)
    return (
        parts
        + project(f"{name}.attention", figures, per=per)
        + attend(f"{name}.attention", figures, reach=Reach.ALL if per is Per.BOTH else Reach.BLOCK, per=per)
        + output(f"{name}.attention", figures, per=per)
        + feed(f"{name}.mlp.gate", figures, hidden, figures.width, split=Split.ROWS, pieces=figures.width, per=per)
        + mlp(f"{name}.mlp", figures, per=per)
    )


def _one_patch(card: Card) -> int:
    """Latent positions of one position, where one size of patches is trained."""
    sides, frames = card.sizes("all_patch_size", least=1, most=64) or (2,), card.sizes("all_f_patch_size") or (1,)
    if len(sides) != 1 or frames != (1,):
        card.wrong("all_patch_size", problem="several sizes of patches, or patches over frames", fix="write [2]")
    return sides[0] ** 2


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
