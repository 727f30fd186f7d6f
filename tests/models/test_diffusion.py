"""Diffusion pipelines against diffusers and transformers: parameters to the last one, FLOPs of a step and of decoding.

Sizes that a request chooses are small here; the wavelets of Cosmos, which our counts leave out, are replaced by the
rearrangement that diffusers offers, too.
"""

from functools import partial
from typing import Any

import pytest
import torch

from accord.edges import model_catalog
from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.families.schedules import times
from accord.models.read import read_card
from accord.terms.architecture import Rule, Unit
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR
from accord.terms.work import Load
from tests.models import pipelines
from tests.models.peers import parameters_of

_CARDS = tuple(name for name in model_catalog.names() if "vae" in model_catalog.entry(name).card)

_T5: dict[str, Json] = {
    "model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 48, "d_ff": 80, "d_kv": 12, "num_heads": 4,
    "num_layers": 3, "feed_forward_proj": "gated-gelu", "vocab_size": 96,
}  # fmt: skip
_CLIP: dict[str, Json] = {
    "model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 48, "intermediate_size": 96,
    "num_attention_heads": 4, "num_hidden_layers": 3, "projection_dim": 40, "vocab_size": 96, "bos_token_id": 0,
    "eos_token_id": 1, "pad_token_id": 1,
}  # fmt: skip
_QWEN: dict[str, Json] = {
    "model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "tie_word_embeddings": False,
    "text_config": {"model_type": "qwen2_5_vl_text", "hidden_size": 64, "intermediate_size": 96,
                    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96,
                    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}},
    "vision_config": {"depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "out_hidden_size": 64,
                      "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112,
                      "fullatt_block_indexes": [1]},
}  # fmt: skip
_KL: dict[str, Json] = {
    "_class_name": "AutoencoderKL", "block_out_channels": [8, 16, 16], "layers_per_block": 2, "latent_channels": 4,
    "down_block_types": ["DownEncoderBlock2D"] * 3, "up_block_types": ["UpDecoderBlock2D"] * 3, "norm_num_groups": 4,
}  # fmt: skip
_WAN_VAE: dict[str, Json] = {"_class_name": "AutoencoderKLWan", "base_dim": 8, "z_dim": 4, "num_res_blocks": 1}
_SMALL: dict[str, dict[str, Json]] = {
    "qwen-image": {
        "_class_name": "QwenImagePipeline",
        "height": 64, "width": 96,
        "text_encoder": _QWEN,
        "transformer": {"_class_name": "QwenImageTransformer2DModel", "in_channels": 16, "out_channels": 4,
                        "num_layers": 2, "attention_head_dim": 16, "num_attention_heads": 3,
                        "joint_attention_dim": 64, "axes_dims_rope": [8, 4, 4]},
        "vae": {**_WAN_VAE, "_class_name": "AutoencoderKLQwenImage"},
    },
    "flux": {
        "_class_name": "FluxPipeline",
        "height": 32, "width": 48,
        "text_encoder": _CLIP,
        "text_encoder_2": _T5,
        "transformer": {"_class_name": "FluxTransformer2DModel", "in_channels": 16, "num_layers": 2,
                        "num_single_layers": 3, "attention_head_dim": 16, "num_attention_heads": 3,
                        "joint_attention_dim": 48, "pooled_projection_dim": 48, "guidance_embeds": True,
                        "axes_dims_rope": [8, 4, 4]},
        "vae": _KL,
    },
    "sd3": {
        "_class_name": "StableDiffusion3Pipeline",
        "height": 32, "width": 48,
        "text_encoder": {**_CLIP, "architectures": ["CLIPTextModelWithProjection"]},
        "text_encoder_2": {**_T5, "feed_forward_proj": "relu"},
        "transformer": {"_class_name": "SD3Transformer2DModel", "in_channels": 4, "out_channels": 4, "num_layers": 3,
                        "attention_head_dim": 12, "num_attention_heads": 4, "joint_attention_dim": 48,
                        "caption_projection_dim": 48, "pooled_projection_dim": 40, "pos_embed_max_size": 16,
                        "sample_size": 16, "dual_attention_layers": [0, 1], "qk_norm": "rms_norm"},
        "vae": {**_KL, "use_quant_conv": False, "use_post_quant_conv": False},
    },
    "wan": {
        "_class_name": "WanPipeline",
        "height": 64, "width": 96, "num_frames": 9,
        "text_encoder": {**_T5, "model_type": "umt5", "architectures": ["UMT5EncoderModel"]},
        "transformer": {"_class_name": "WanTransformer3DModel", "in_channels": 4, "out_channels": 4, "num_layers": 2,
                        "num_attention_heads": 3, "attention_head_dim": 24, "ffn_dim": 100, "text_dim": 48,
                        "freq_dim": 32},
        "vae": _WAN_VAE,
    },
    "wan 2.2 small": {
        "_class_name": "WanPipeline",
        "height": 64, "width": 96, "num_frames": 9, "expand_timesteps": True,
        "transformer": {"_class_name": "WanTransformer3DModel", "in_channels": 4, "out_channels": 4, "num_layers": 2,
                        "num_attention_heads": 3, "attention_head_dim": 24, "ffn_dim": 100, "text_dim": 48,
                        "freq_dim": 32},
        "vae": {**_WAN_VAE, "base_dim": 4, "decoder_base_dim": 8, "is_residual": True, "patch_size": 2,
                "in_channels": 12, "out_channels": 12},
    },
    "cosmos": {
        "_class_name": "CosmosTextToWorldPipeline",
        "height": 64, "width": 96, "num_frames": 17,
        "transformer": {"_class_name": "CosmosTransformer3DModel", "in_channels": 4, "out_channels": 4,
                        "num_layers": 2, "num_attention_heads": 3, "attention_head_dim": 24, "text_embed_dim": 48,
                        "adaln_lora_dim": 8, "max_size": [8, 32, 32], "concat_padding_mask": False},
        "vae": {"_class_name": "AutoencoderKLCosmos", "latent_channels": 4,
                "encoder_block_out_channels": [16, 32, 32, 32], "decode_block_out_channels": [32, 32, 32, 32],
                "num_layers": 1, "patch_type": "rearrange"},
    },
}  # fmt: skip

_TOKENS = 7


@pytest.mark.parametrize("name", _CARDS)
def test_parameters_equal_diffusers_and_transformers(name):
    card = model_catalog.entry(name).card
    ours = {item.stage: item.parameters for item in read_card(card, name=name).needs}
    theirs = pipelines.components(card)
    assert ours == {stage: parameters_of(pipelines.meta_component(values)) for stage, values in theirs.items()}


@pytest.mark.parametrize("name", _CARDS)
def test_a_catalog_card_is_read_whole(name):
    built = read_card(model_catalog.entry(name).card, name=name)
    assert built.unread == ()
    assert [edge.target for edge in built.graph.edges][-1] == DOOR


@pytest.mark.parametrize("kind", _SMALL)
def test_a_small_denoiser_has_our_parameters_and_flops(kind):
    built = read_card(_SMALL[kind], name=kind)
    needs = built.of("denoiser")
    model = pipelines.component(pipelines.components(_SMALL[kind])["denoiser"])
    assert needs.parameters == parameters_of(model)
    load = Load(new=needs.example_units, context=_TOKENS, batch=2)
    theirs = pipelines.flops_of(lambda: model(**_step(_SMALL[kind], needs.example_units)))
    assert step_flops(needs.operators, load) == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("kind", _SMALL)
def test_a_small_vae_has_our_parameters_and_decoding_flops(kind):
    needs = read_card(_SMALL[kind], name=kind).of("vae")
    model = pipelines.component(pipelines.components(_SMALL[kind])["vae"])
    assert needs.parameters == parameters_of(model)
    latent = torch.randn(1, 4, *_latent_sizes(_SMALL[kind]))
    theirs = pipelines.flops_of(lambda: model.decode(latent[:, :, 0] if kind in ("flux", "sd3") else latent))
    assert step_flops(needs.operators, Load(new=needs.example_units)) == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("kind", ["qwen-image", "flux", "sd3", "wan"])
def test_small_text_encoders_have_our_parameters_and_flops(kind):
    built = read_card(_SMALL[kind], name=kind)
    found = pipelines.components(_SMALL[kind])
    for stage in (stage for stage in found if stage.startswith("text_encoder")):
        needs, model = built.of(stage), pipelines.component(found[stage])
        assert needs.parameters == parameters_of(model)
        ids = torch.randint(5, 90, (2, _TOKENS))
        ids[:, -1] = 1
        # Pipelines use hidden states only; logits are made by the class that they load, and thrown away.
        inner: Any = model.model.language_model if kind == "qwen-image" else model
        theirs = pipelines.flops_of(partial(inner, input_ids=ids))
        counted = step_flops(needs.operators, Load(new=_TOKENS, batch=2), rectangle=True)
        assert counted == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize(("steps", "shift"), [(40, 12.0), (50, 3.0), (40, 5.0), (8, 1.0)])
def test_times_equal_the_schedulers(steps, shift):
    assert list(times(steps, shift=shift)) == pipelines.times_of(steps, shift=shift)


def test_two_experts_share_the_steps_of_a_request():
    built = read_card(model_catalog.entry("wan2.2-t2v-a14b").card, name="wan")
    steps = [rule.figure for item in built.needs for rule in item.constraints if rule.rule is Rule.STEPS]
    assert len(steps) == 2
    assert sum(steps) == 40
    assert {(edge.source, edge.target) for edge in built.graph.edges} >= {
        ("denoiser", "denoiser_2"),
        ("denoiser_2", "vae"),
        ("text_encoder", "denoiser"),
        ("text_encoder", "denoiser_2"),
    }


def test_a_picture_of_flux_has_as_many_positions_as_its_latent_has_pairs_of_pairs():
    built = read_card(model_catalog.entry("flux.1-dev").card, name="flux")
    denoiser = built.of("denoiser")
    assert (denoiser.unit, denoiser.example_units) == (Unit.LATENT, (1024 // 16) ** 2)
    sent = {flow.edge: flow.unit_bytes for flow in built.flows}
    assert sent["denoiser-vae.latent"] == 2 * 2 * 16 * 2
    assert sent["text_encoder_2-denoiser.hidden"] == 4096 * 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"transformer": None}, "transformer"),
        ({"vae": None}, "vae"),
        ({"vae": {"_class_name": "AutoencoderDC"}}, "vae._class_name"),
        ({"transformer": {"_class_name": "WanTransformer3DModel", "image_dim": 1280}}, "transformer.image_dim"),
        ({"transformer": {"_class_name": "WanTransformer3DModel", "patch_size": [2, 2, 2]}}, "transformer.patch_size"),
        ({"num_frames": "many"}, "num_frames"),
        ({"height": 8}, "height"),
        ({"text_encoder": {"model_type": "bert"}}, "text_encoder.model_type"),
        ({"transformer_2": {"_class_name": "WanTransformer3DModel"}}, "boundary_ratio"),
        ({"vae": {**_WAN_VAE, "temperal_downsample": "no"}}, "vae.temperal_downsample"),
    ],
)
def test_what_is_wrong_is_named(change, field):
    with pytest.raises(BadInput) as caught:
        read_card({**_SMALL["wan"], **change}, name="wrong")
    assert caught.value.field == field


def _latent_sizes(card):
    time = 8 if card["_class_name"].startswith("Cosmos") else 4
    space = {"AutoencoderKL": 4}.get(card["vae"]["_class_name"], 8) * card["vae"].get("patch_size", 1)
    if card["vae"]["_class_name"] == "AutoencoderKLCosmos":
        space = 8
    return 1 + (card.get("num_frames", 1) - 1) // time, card["height"] // space, card["width"] // space


def _step(card, positions):
    """The inputs of one step for two requests, as each class takes them."""
    frames, height, width = _latent_sizes(card)
    kind = card["transformer"]["_class_name"]
    hidden = card["transformer"].get("joint_attention_dim", 48)
    prompt, time = torch.randn(2, _TOKENS, hidden), torch.tensor([500.0, 500.0])
    packed = torch.randn(2, positions, 16)
    match kind:
        case "QwenImageTransformer2DModel":
            shapes = [[(1, height // 2, width // 2)]] * 2
            return {"hidden_states": packed, "encoder_hidden_states": prompt, "timestep": time, "img_shapes": shapes}
        case "FluxTransformer2DModel":
            return {"hidden_states": packed, "encoder_hidden_states": prompt, "timestep": time, "guidance": time,
                    "pooled_projections": torch.randn(2, 48), "img_ids": torch.zeros(positions, 3),
                    "txt_ids": torch.zeros(_TOKENS, 3)}  # fmt: skip
        case "SD3Transformer2DModel":
            return {"hidden_states": torch.randn(2, 4, height, width), "encoder_hidden_states": prompt,
                    "timestep": time, "pooled_projections": torch.randn(2, 40)}  # fmt: skip
    if card.get("expand_timesteps"):
        time = time[:, None].expand(2, positions)
    clip = torch.randn(2, 4, frames, height, width)
    return {"hidden_states": clip, "encoder_hidden_states": prompt, "timestep": time}
