"""Diffusion pipelines against diffusers and transformers: parameters to the last one, FLOPs of a step and of decoding.

Sizes that a request chooses are small here; the wavelets of Cosmos, which our counts leave out, are replaced by the
rearrangement that diffusers offers, too.
"""

from functools import partial
from typing import Any

import pytest
import torch

from accord.edges import model_card, model_catalog
from accord.estimate.traffic import step_traffic
from accord.estimate.work import step_flops
from accord.models.families.diffusion.schedules import times
from accord.models.read import read_card
from accord.terms.architecture import Rule, Stored, Unit
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR
from accord.terms.work import Load
from tests.models import pipelines
from tests.models.peers import parameters_of
from tests.models.small_pipelines import SMALL, WAN_VAE

_CARDS = tuple(name for name in model_catalog.names() if "vae" in model_catalog.entry(name).card)

_TOKENS = 32  # Z-Image pads prompts to as many


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


@pytest.mark.parametrize("kind", SMALL)
def test_a_small_denoiser_has_our_parameters_and_flops(kind):
    built = read_card(SMALL[kind], name=kind)
    needs = built.of("denoiser")
    model = pipelines.component(pipelines.components(SMALL[kind])["denoiser"])
    assert needs.parameters == parameters_of(model)
    load = Load(new=needs.example_units, context=_TOKENS, batch=1 if kind == "cosmos 3" else 2)
    theirs = pipelines.flops_of(lambda: model(**_step(SMALL[kind], needs.example_units)))
    assert step_flops(needs.operators, load, rectangle=True) == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("kind", SMALL)
def test_a_small_vae_has_our_parameters_and_decoding_flops(kind):
    needs = read_card(SMALL[kind], name=kind).of("vae")
    model = pipelines.component(pipelines.components(SMALL[kind])["vae"])
    assert needs.parameters == parameters_of(model)
    latent = torch.randn(1, 4, *_latent_sizes(SMALL[kind]))
    flat = pipelines.components(SMALL[kind])["vae"]["_class_name"] == "AutoencoderKL"
    theirs = pipelines.flops_of(lambda: model.decode(latent[:, :, 0] if flat else latent))
    assert step_flops(needs.operators, Load(new=needs.example_units)) == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("kind", ["qwen-image", "flux", "wan", "z-image"])
def test_a_step_reads_each_weight_of_a_denoiser_once(kind):
    built = read_card(SMALL[kind], name=kind)
    model = pipelines.meta_component(pipelines.components(SMALL[kind])["denoiser"])
    load = Load(new=built.of("denoiser").example_units, context=_TOKENS)
    assert step_traffic(built.of("denoiser"), Stored(), load).weight_bytes == 2 * parameters_of(model)


def test_decoding_reads_the_decoder_alone():
    needs = read_card(SMALL["flux"], name="flux").of("vae")
    model: Any = pipelines.meta_component(pipelines.components(SMALL["flux"])["vae"])
    read = parameters_of(model.decoder) + parameters_of(model.post_quant_conv)
    assert step_traffic(needs, Stored(), Load(new=needs.example_units)).weight_bytes == 2 * read


@pytest.mark.parametrize("kind", ["qwen-image", "flux", "sd3", "wan", "z-image"])
def test_small_text_encoders_have_our_parameters_and_flops(kind):
    built = read_card(SMALL[kind], name=kind)
    found = pipelines.components(SMALL[kind])
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


@pytest.mark.parametrize("kind", SMALL)
def test_a_folder_that_diffusers_saved_is_read_whole(kind, tmp_path):
    pipelines.save(SMALL[kind], tmp_path)
    found = model_card.find_card(str(tmp_path))
    built = read_card({**found.values, **_request(SMALL[kind])}, name=kind)
    assert built.unread == ()
    assert built.needs == read_card(SMALL[kind], name=kind).needs


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
        ({"vae": {**WAN_VAE, "temperal_downsample": "no"}}, "vae.temperal_downsample"),
    ],
)
def test_what_is_wrong_is_named(change, field):
    with pytest.raises(BadInput) as caught:
        read_card({**SMALL["wan"], **change}, name="wrong")
    assert caught.value.field == field


def _request(card):
    return {key: value for key, value in card.items() if not isinstance(value, dict)}


def _latent_sizes(card):
    kind = card["vae"]["_class_name"]
    space = (4 if kind == "AutoencoderKL" else 8) * (card["vae"].get("patch_size", 1) if "Wan" in kind else 1)
    time = 8 if kind == "AutoencoderKLCosmos" else 4
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
        case "ZImageTransformer2DModel":
            latents, prompts = torch.randn(2, 4, 1, height, width), torch.randn(2, _TOKENS, hidden)
            return {"x": list(latents), "t": time, "cap_feats": list(prompts)}
        case "Cosmos3OmniTransformer":
            return _packed_step(positions, frames, height, width)
    if card.get("expand_timesteps"):
        time = time[:, None].expand(2, positions)
    clip = torch.randn(2, 4, frames, height, width)
    return {"hidden_states": clip, "encoder_hidden_states": prompt, "timestep": time}


def _packed_step(positions, frames, height, width):
    """One request's step for Cosmos 3: the prompt, then the latent's positions, in one row."""
    latent, count = torch.arange(_TOKENS, _TOKENS + positions), torch.arange(frames)
    return {
        "input_ids": torch.randint(5, 90, (_TOKENS,)),
        "text_indexes": torch.arange(_TOKENS),
        "position_ids": torch.arange(_TOKENS + positions).expand(3, -1),
        "und_len": _TOKENS,
        "sequence_length": _TOKENS + positions,
        "vision_tokens": [torch.randn(1, 4, frames, height, width)],
        "vision_token_shapes": [(frames, -(-height // 2), -(-width // 2))],
        "vision_sequence_indexes": latent,
        "vision_mse_loss_indexes": latent,
        "vision_timesteps": torch.full((positions,), 500.0),
        "vision_noisy_frame_indexes": [count],
    }
