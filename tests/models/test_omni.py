"""Omni models against transformers: parameters of each stage, caches, FLOPs of each stage."""

import json
from importlib.resources import files
from typing import Any

import pytest
import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.read import read_card
from accord.terms.architecture import Architecture, Rule
from accord.terms.errors import BadInput
from accord.terms.graph import Payload
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers

_AUDIO: dict[str, Any] = {
    "d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "num_mel_bins": 32,
    "output_dim": 96, "max_source_positions": 200,
}  # fmt: skip
_TEXT: dict[str, Any] = {
    "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "vocab_size": 320, "pad_token_id": 0,
}  # fmt: skip
_ROPE: dict[str, Any] = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
_VISION: dict[str, Any] = {
    "depth": 4, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 96, "patch_size": 4,
}  # fmt: skip

_QWEN3: dict[str, Any] = {
    "model_type": "qwen3_omni_moe",
    "thinker_config": {
        "audio_config": {**_AUDIO, "downsample_hidden_size": 16, "n_window": 50, "n_window_infer": 200},
        "vision_config": {**_VISION, "num_position_embeddings": 64, "deepstack_visual_indexes": [1, 2]},
        "text_config": {**_TEXT, "head_dim": 32, "num_experts": 8, "num_experts_per_tok": 2,
                        "moe_intermediate_size": 48},
    },
    "talker_config": {
        "num_code_groups": 6, "thinker_hidden_size": 96, "spatial_merge_size": 2,
        "text_config": {**_TEXT, "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2,
                        "moe_intermediate_size": 48, "shared_expert_intermediate_size": 80, "hidden_size": 64},
        "code_predictor_config": {**_TEXT, "head_dim": 32, "num_code_groups": 6, "hidden_size": 64},
    },
    "code2wav_config": {
        "codebook_size": 64, "num_quantizers": 6, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 4, "intermediate_size": 128, "sliding_window": 8, "decoder_dim": 96,
        "upsample_rates": [4, 3], "upsampling_ratios": [2, 2],
    },
}  # fmt: skip

_QWEN25: dict[str, Any] = {
    "model_type": "qwen2_5_omni",
    "thinker_config": {
        "audio_config": {**_AUDIO, "n_window": 20},
        "vision_config": {**_VISION, "window_size": 16, "fullatt_block_indexes": [3]},
        "text_config": {**_TEXT, "rope_parameters": _ROPE},
    },
    "talker_config": {**_TEXT, "rope_parameters": _ROPE, "embedding_size": 96, "hidden_size": 64, "head_dim": 16},
    "token2wav_config": {
        "dit_config": {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16,
                       "emb_dim": 32, "num_embeds": 64, "mel_dim": 20, "look_ahead_layers": [1],
                       "look_backward_layers": [0], "enc_emb_dim": 24, "enc_dim": 16, "enc_attention_channels": 8,
                       "enc_se_channels": 8, "enc_channels": [32, 32, 32, 64], "enc_kernel_sizes": [5, 3, 3, 1],
                       "enc_dilations": [1, 2, 3, 1]},
        "bigvgan_config": {"mel_dim": 20, "upsample_initial_channel": 96, "upsample_rates": [3, 2],
                           "upsample_kernel_sizes": [7, 4]},
    },
}  # fmt: skip

_SMALL = {"qwen3": _QWEN3, "qwen2.5": _QWEN25}
_CLASSES: dict[str, Any] = {
    "qwen3_omni_moe": transformers.Qwen3OmniMoeForConditionalGeneration,
    "qwen2_5_omni": transformers.Qwen2_5OmniForConditionalGeneration,
}


def _catalog(name: str) -> dict[str, Any]:
    return json.loads((files("accord.models") / "cards" / f"{name}.json").read_text())["card"]


def _meta(card: dict[str, Any]) -> Any:
    with torch.device("meta"):
        return _CLASSES[str(card["model_type"])](peers.config_of(card))


def _small(card: dict[str, Any]) -> Any:
    """A random model. Qwen2.5's vocoder needs scaled-dot-product attention; torch counts both alike."""
    torch.manual_seed(0)
    config = peers.config_of(card)
    config._attn_implementation = "eager"
    model = _CLASSES[str(card["model_type"])]._from_config(config, attn_implementation="eager").float().eval()
    for part in model.modules():
        if hasattr(part, "config") and hasattr(part.config, "_experts_implementation"):
            part.config._experts_implementation = "eager"
    return model


def _stages(model: Any) -> dict[str, int]:
    """Parameters of each stage, as the model's own modules have them."""
    thinker = model.thinker
    encoders = {"audio": thinker.model.audio_tower, "vision": thinker.model.visual}
    counts = {name: peers.parameters_of(part) for name, part in encoders.items()}
    counts["thinker"] = peers.parameters_of(thinker) - sum(counts.values())
    counts["talker"] = peers.parameters_of(model.talker)
    if hasattr(model, "code2wav"):
        return {**counts, "code2wav": peers.parameters_of(model.code2wav)}
    wave = model.token2wav
    counts["denoiser"] = peers.parameters_of(wave.code2wav_dit_model)
    return {**counts, "vocoder": peers.parameters_of(wave.code2wav_bigvgan_model)}


def _counted(ours: Architecture, stage: str, load: Load) -> float:
    return step_flops(ours.of(stage).operators, load, rectangle=True)


def _flops(call: Any) -> tuple[int, Any]:
    """FLOPs of a call; fused attention kernels, which the counter doesn't know on a CPU, are kept out of it."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        out = call()
    return counter.get_total_flops(), out


@pytest.mark.parametrize("name", ["qwen3-omni-30b-a3b", "qwen2.5-omni-7b"])
def test_parameters_of_each_stage_equal_transformers(name):
    card = _catalog(name)
    ours = read_card(card, name=name)
    theirs = _stages(_meta(card))
    assert {item.stage: item.parameters for item in ours.needs} == theirs
    assert ours.unread == ()


@pytest.mark.parametrize("kind", _SMALL)
def test_a_thinker_alone_is_the_same_thinker(kind):
    card = _SMALL[kind]
    whole, thinker = read_card(card, name="w"), card["thinker_config"]
    alone = read_card({**thinker, "model_type": f"{card['model_type']}_thinker"}, name="t")
    assert [item.stage for item in alone.needs] == ["audio", "vision", "thinker"]
    assert all(item.parameters == whole.of(item.stage).parameters for item in alone.needs)
    text = read_card({**thinker["text_config"], "model_type": f"{card['model_type']}_text"}, name="x")
    # Alone, Qwen2.5's text decoder ties its head by default (transformers' configuration says so).
    assert text.parameters in (whole.of("thinker").parameters, whole.of("thinker").parameters - 320 * 96)


@pytest.mark.parametrize("kind", _SMALL)
def test_encoders_have_our_flops(kind):
    card = _SMALL[kind]
    ours, model = read_card(card, name=kind), _small(card).thinker.model
    frames = 400
    theirs, heard = _flops(
        lambda: model.audio_tower(input_features=torch.randn(32, frames), feature_lens=torch.tensor([frames]))
    )
    assert _counted(ours, "audio", Load(new=frames)) == pytest.approx(theirs, rel=0.01)
    rule = ours.of("audio").constraints[0]
    assert rule.rule is Rule.UNITS_MULTIPLE
    assert frames % rule.figure == 0
    window_tokens = heard.last_hidden_state.shape[0] * rule.figure / frames
    assert f"become {window_tokens:.0f} tokens" in rule.words

    grid = torch.tensor([[1, 8, 8]])
    theirs, _ = _flops(lambda: model.visual(torch.randn(64, 3 * 2 * 4 * 4), grid_thw=grid))
    assert _counted(ours, "vision", Load(new=64)) == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("kind", _SMALL)
def test_thinkers_have_our_cache_and_flops(kind):
    card = _SMALL[kind]
    ours, thinker, cache = read_card(card, name=kind), _small(card).thinker, None
    for new, context in ((12, 0), (1, 12)):
        ids = torch.full((2, new), 7)

        def step(ids: torch.Tensor = ids, cache: Any = cache) -> Any:
            out = thinker.model.language_model(input_ids=ids, cache=cache, use_cache=True)
            thinker.lm_head(out.last_hidden_state[:, -1:])
            return out.cache

        theirs, cache = _flops(step)
        assert _counted(ours, "thinker", Load(new=new, context=context, batch=2)) == pytest.approx(theirs, rel=0.01)
        held = 2 * request_bytes(ours.of("thinker").cache, tokens=new + context, dtype=Dtype.F32)
        assert held == peers.cache_bytes(cache)


def test_qwen3s_talker_has_our_cache_and_flops_with_its_code_predictor():
    ours, talker = read_card(_QWEN3, name="small"), _small(_QWEN3).talker
    hidden = torch.randn(2, 12, 96)

    def listen() -> Any:
        out = talker.model(inputs_embeds=talker.text_projection(hidden), use_cache=True)
        return talker.codec_head(out.last_hidden_state[:, -1:]), out

    theirs, (_, out) = _flops(listen)
    assert _counted(ours, "talker", Load(new=12, batch=2)) == pytest.approx(theirs, rel=0.01)

    def speak() -> Any:
        code = torch.full((2, 1), 5)
        embedded = talker.model.codec_embedding(code)
        talker.code_predictor.generate(
            inputs_embeds=torch.cat((out.last_hidden_state[:, -1:], embedded), dim=1),
            max_new_tokens=5,
            min_new_tokens=5,
            do_sample=False,
        )
        embedded = embedded + talker.text_projection(hidden[:, :1])
        then = talker.model(inputs_embeds=embedded, cache=out.cache, use_cache=True)
        talker.codec_head(then.last_hidden_state)
        return then.cache

    theirs, cache = _flops(speak)
    theirs -= 2 * 2 * 64 * 320  # its first inner step works out logits of both positions, of which one is used
    assert _counted(ours, "talker", Load(new=1, context=12, batch=2)) == pytest.approx(theirs, rel=0.01)
    held = 2 * request_bytes(ours.of("talker").cache, tokens=13, dtype=Dtype.F32)
    assert held == peers.cache_bytes(cache)
    rules = {rule.rule: rule.figure for rule in ours.of("talker").constraints}
    assert rules[Rule.LOCKSTEP] == 5


def test_qwen2_5s_talker_has_our_cache_and_flops():
    ours, talker, cache = read_card(_QWEN25, name="small"), _small(_QWEN25).talker, None
    for new, context in ((12, 0), (1, 12)):
        hidden = torch.randn(2, new, 96)

        def step(hidden: torch.Tensor = hidden, cache: Any = cache) -> Any:
            out = talker.model(inputs_embeds=talker.thinker_to_talker_proj(hidden), cache=cache, use_cache=True)
            talker.codec_head(out.last_hidden_state[:, -1:])
            return out.cache

        theirs, cache = _flops(step)
        assert _counted(ours, "talker", Load(new=new, context=context, batch=2)) == pytest.approx(theirs, rel=0.01)
        held = 2 * request_bytes(ours.of("talker").cache, tokens=new + context, dtype=Dtype.F32)
        assert held == peers.cache_bytes(cache)


def test_code2wav_has_our_flops_and_samples():
    ours, wave = read_card(_QWEN3, name="small"), _small(_QWEN3).code2wav
    theirs, sound = _flops(lambda: wave(torch.zeros((1, 6, 200), dtype=torch.long)))
    assert _counted(ours, "code2wav", Load(new=200)) == pytest.approx(theirs, rel=0.01)
    pcm = next(flow for flow in ours.flows if flow.edge.startswith("code2wav-door"))
    codes = next(flow for flow in ours.flows if flow.edge.startswith("talker-code2wav"))
    assert pcm.chunk_units is not None
    assert codes.chunk_units is not None
    # The causal transposed convolutions drop some samples at the end of a chunk.
    assert sound.shape[-1] == pytest.approx(pcm.chunk_units / codes.chunk_units * 200, rel=0.01)


def test_token2wav_has_our_flops_and_samples():
    ours, wave = read_card(_QWEN25, name="small"), _small(_QWEN25).token2wav
    frames, voice = 24, 50  # one block, so that layers that see one block and those that see two do the same

    def denoise() -> Any:
        return wave.code2wav_dit_model(
            hidden_states=torch.randn(1, frames, 20),
            condition_vector=torch.randn(1, voice, 20),
            speaker_embedding=torch.randn(1, frames, 24),
            quantized_code=torch.zeros((1, frames // 2), dtype=torch.long),
            time_step=torch.tensor(0.5),
            apply_cfg=False,
        )

    theirs, _ = _flops(denoise)
    assert _counted(ours, "denoiser", Load(new=frames, context=voice)) == pytest.approx(theirs, rel=0.01)
    theirs, sound = _flops(lambda: wave.code2wav_bigvgan_model(torch.randn(1, 20, 2000)))
    assert _counted(ours, "vocoder", Load(new=2000)) == pytest.approx(theirs, rel=0.01)
    assert sound.shape[-1] == pytest.approx(2000 * 6, rel=0.01)


def test_the_graph_of_qwen3_omni():
    ours = read_card(_catalog("qwen3-omni-30b-a3b"), name="qwen3-omni-30b-a3b")
    found = {(edge.source, edge.target): edge.payload for edge in ours.graph.edges}
    assert found == {
        ("door", "audio"): Payload.FEATURES,
        ("audio", "thinker"): Payload.HIDDEN,
        ("door", "vision"): Payload.FEATURES,
        ("vision", "thinker"): Payload.HIDDEN,
        ("door", "thinker"): Payload.TOKENS,
        ("thinker", "door"): Payload.TOKENS,
        ("thinker", "talker"): Payload.HIDDEN,
        ("talker", "code2wav"): Payload.CODES,
        ("code2wav", "door"): Payload.PCM,
    }
    flows = {flow.edge: flow for flow in ours.flows}
    assert flows["thinker-talker.hidden"].stream
    assert flows["thinker-talker.hidden"].unit_bytes == 2 * 2048
    assert flows["talker-code2wav.codes"].chunk_units == 300
    # 24 kHz from 12.5 frames a second.
    assert flows["code2wav-door.pcm"].chunk_units == 300 * 1920


def test_text_only_answers_need_no_talker():
    ours = read_card({**_QWEN3, "enable_audio_output": False}, name="mute")
    assert [item.stage for item in ours.needs] == ["audio", "vision", "thinker"]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("talker_config", "num_code_groups"), 7, "num_code_groups"),
        (("code2wav_config", "num_quantizers"), 5, "num_quantizers"),
        (("code2wav_config", "decoder_dim"), 97, "decoder_dim"),
        (("thinker_config", "audio_config", "output_dim"), 100, "output_dim"),
        (("thinker_config", "audio_config", "n_window_infer"), 10, "n_window_infer"),
    ],
)
def test_settings_that_do_not_fit_together_are_named(path, value, field):
    card = json.loads(json.dumps(_QWEN3))
    below = card
    for key in path[:-1]:
        below = below[key]
    below[path[-1]] = value
    with pytest.raises(BadInput, match=field):
        read_card(card, name="bad")
