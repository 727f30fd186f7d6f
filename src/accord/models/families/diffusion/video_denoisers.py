"""Denoisers of video and world models: Wan and Cosmos, whose latent sees itself and then the prompt.

In: a pipeline's nested `transformer` mapping. Out: `Denoiser`. Shapes follow diffusers' WanTransformer3DModel and
CosmosTransformer3DModel.
"""

from math import prod

from accord.models.card import SIZE_MAX, Card
from accord.models.parts.diffusion import Blocks, Denoiser, attend, embedder, mlp, only_text, output, project
from accord.models.parts.parts import Parts, convolution, linear, norm, vector
from accord.terms.tensors import Part, Tensor
from accord.terms.work import Per, Reach


def wan(card: Card, *, per: Per = Per.SEQUENCE) -> Denoiser:
    """Wan (arXiv 2503.20314): one modulation of the time step for all blocks, and a learned table in each."""
    heads, head_dim = card.size("num_attention_heads", 40), card.size("attention_head_dim", 128)
    hidden, text = heads * head_dim, card.size("text_dim", 4096)
    card.choice("qk_norm", ("rms_norm_across_heads",), "rms_norm_across_heads")
    card.skip("eps", "rope_max_seq_len", "pos_embed_seq_len")
    only_text(card, "image_dim", "added_kv_proj_dim")
    figures = Blocks(
        layers=tuple(range(card.layers("num_layers", 40))),
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        width=card.size("ffn_dim", 13824),
        qk_norm=hidden,
    )
    patch, inputs = _patch(card), card.size("in_channels", 16)
    values = patch * (card.size("out_channels", 16, least=0) or inputs)
    parts = (
        convolution("latent_in", inputs, hidden, kernel=patch, rate=1.0)
        + embedder("time", card.size("freq_dim", 256), hidden, per=per)
        + linear("time_out", hidden, 6 * hidden, bias=True, per=per, quantizable=False)
        + embedder("text_in", text, hidden, per=Per.CONTEXT)
        + vector("scale_shift", 6 * hidden, figures.layers)
        + _own_and_cross(figures)
    )
    if card.flag("cross_attn_norm", True):
        parts += norm("cross.norm", hidden, figures.layers, bias=True)
    parts += vector("scale_shift_out", 2 * hidden)
    return Denoiser(values=values, parts=parts + linear("out", hidden, values, bias=True, quantizable=False))


def _own_and_cross(figures: Blocks, *, text: int | None = None) -> Parts:
    """The latent sees itself, then the prompt, then comes the feed-forward."""
    return (
        project("attention", figures)
        + attend("attention", figures, reach=Reach.BLOCK)
        + output("attention", figures)
        + project("cross", figures, sides="q")
        + project("cross", figures, sides="kv", inputs=text, per=Per.CONTEXT)
        + attend("cross", figures, reach=Reach.CROSS)
        + output("cross", figures)
        + mlp("mlp", figures)
    )


def cosmos(card: Card) -> Denoiser:
    """Cosmos (arXiv 2501.03575): no offsets; each block makes its modulation through a narrow waist."""
    heads, head_dim = card.size("num_attention_heads", 32), card.size("attention_head_dim", 128)
    hidden, text = heads * head_dim, card.size("text_embed_dim", 1024)
    width = int(hidden * card.number("mlp_ratio", 4.0))
    if not 1 <= width <= SIZE_MAX:
        card.wrong("mlp_ratio", problem=f"makes the feed-forward {width} wide", fix="write a number such as 4.0")
    figures = Blocks(
        layers=tuple(range(card.layers("num_layers", 28))),
        hidden=hidden,
        heads=heads,
        head_dim=head_dim,
        width=width,
        qk_norm=head_dim,
        bias=False,
    )
    card.skip("rope_scale", "img_context_num_tokens", "img_context_dim_out")
    only_text(card, "controlnet_block_every_n", "img_context_dim_in")
    patch = _patch(card)
    inputs = card.size("in_channels", 16) + card.flag("concat_padding_mask", True)
    values = patch * card.size("out_channels", 16)
    parts = (
        linear("latent_in", inputs * patch, hidden, quantizable=False)
        + _cosmos_positions(card, hidden)
        + embedder("time", hidden, hidden, outputs=3 * hidden, bias=False)
        + norm("time.norm", hidden)
        + _cosmos_text(card)
        + _own_and_cross(figures, text=text)
        + _cosmos_modulation(card, figures)
    )
    return Denoiser(values=values, parts=parts + linear("out", hidden, values, quantizable=False))


def _cosmos_positions(card: Card, hidden: int) -> Parts:
    sizes = card.sizes("max_size", least=1, count=3) or (128, 240, 240)
    card.choice("extra_pos_embed_type", ("learnable",), "learnable")
    if card.names("extra_pos_embed_type") and "extra_pos_embed_type" not in card:  # null turns them off
        return Parts()
    rows = sum(size // patch for size, patch in zip(sizes, _patches(card), strict=True))
    return Parts(tensors=(Tensor(name="positions", part=Part.EMBEDDING, rows=rows, columns=hidden),))


def _cosmos_text(card: Card) -> Parts:
    """Cosmos 2.5 brings the text encoder's layers, side by side, to one width."""
    inputs, outputs = card.size("crossattn_proj_in_channels", 1024), card.size("encoder_hidden_states_channels", 1024)
    if not card.flag("use_crossattn_projection", False):
        return Parts()
    return linear("text_in", inputs, outputs, bias=True, per=Per.CONTEXT, quantizable=False)


def _cosmos_modulation(card: Card, figures: Blocks) -> Parts:
    """Shifts, scales and gates through a narrow waist, three times a block and once at the end."""
    waist, hidden, parts = card.size("adaln_lora_dim", 256), figures.hidden, Parts()
    for name in ("attention", "cross", "mlp"):
        parts += linear(f"{name}.modulation.1", hidden, waist, figures.layers, per=Per.SEQUENCE)
        parts += linear(f"{name}.modulation.2", waist, 3 * hidden, figures.layers, per=Per.SEQUENCE)
    parts += linear("norm_out.1", hidden, waist, per=Per.SEQUENCE, quantizable=False)
    return parts + linear("norm_out.2", waist, 2 * hidden, per=Per.SEQUENCE, quantizable=False)


def _patches(card: Card) -> tuple[int, ...]:
    sizes = card.sizes("patch_size", least=1, most=64, count=3) or (1, 2, 2)
    if sizes[0] != 1:
        card.wrong("patch_size", problem="patches span frames", fix="write 1 for time")
    return sizes


def _patch(card: Card) -> int:
    """Latent positions that one position of the denoiser stands for."""
    return prod(_patches(card))
