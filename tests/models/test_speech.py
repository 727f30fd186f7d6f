"""Speech synthesis against transformers: CSM with the Mimi codec, FastSpeech 2 with HiFi-GAN."""

import json
from importlib.resources import files
from typing import Any

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from accord.estimate.cache import request_bytes
from accord.estimate.work import step_flops
from accord.models.read import read_card
from accord.terms.architecture import Rule
from accord.terms.errors import BadInput
from accord.terms.tensors import Dtype
from accord.terms.work import Load
from tests.models import peers

_CSM: dict[str, Any] = {
    "model_type": "csm", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_codebooks": 6, "vocab_size": 51, "text_vocab_size": 320, "pad_token_id": 0,
    "depth_decoder_config": {"backbone_hidden_size": 64, "hidden_size": 48, "intermediate_size": 96,
                             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                             "num_codebooks": 6, "vocab_size": 51, "max_position_embeddings": 7},
    "codec_config": {"model_type": "mimi", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                     "num_attention_heads": 4, "num_key_value_heads": 4, "sliding_window": 10, "num_filters": 4,
                     "codebook_size": 64, "codebook_dim": 16, "num_quantizers": 6, "upsample_groups": 32,
                     "vector_quantization_hidden_dimension": 16},
}  # fmt: skip
_FAST: dict[str, Any] = {
    "model_type": "fastspeech2_conformer_with_hifigan",
    "model_config": {"hidden_size": 48, "encoder_layers": 2, "decoder_layers": 3, "encoder_linear_units": 96,
                     "decoder_linear_units": 64, "num_mel_bins": 20, "duration_predictor_channels": 32,
                     "pitch_predictor_channels": 24, "energy_predictor_channels": 40,
                     "speech_decoder_postnet_units": 16, "num_speakers": 3, "num_languages": 2},
    "vocoder_config": {"model_in_dim": 20, "upsample_initial_channel": 32, "upsample_rates": [4, 2],
                       "upsample_kernel_sizes": [8, 4], "resblock_kernel_sizes": [3, 5],
                       "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5]]},
}  # fmt: skip
_PARTS: dict[str, Any] = {
    "csm": transformers.CsmForConditionalGeneration,
    "fastspeech2_conformer_with_hifigan": transformers.FastSpeech2ConformerWithHifiGan,
}


def _catalog(name: str) -> dict[str, Any]:
    return json.loads((files("accord.models") / "cards" / f"{name}.json").read_text())["card"]


def _model(card: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    return _PARTS[card["model_type"]]._from_config(peers.config_of(card), attn_implementation="eager").eval()


def _flops(call: Any) -> tuple[int, Any]:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        out = call()
    return counter.get_total_flops(), out


@pytest.mark.parametrize("card", [_catalog("csm-1b"), {"model_type": "csm"}, _CSM])
def test_parameters_of_each_stage_of_csm_equal_transformers(card):
    ours = read_card(card, name="csm")
    with torch.device("meta"):
        model = _PARTS["csm"](peers.config_of(card))
    codec = model.codec_model
    assert ours.parameters == peers.parameters_of(model)
    assert ours.of("talker").parameters == peers.parameters_of(model) - peers.parameters_of(codec)
    # The projections of the quantizers stand with the half that uses them: in with the encoder, out with the decoder.
    sides = peers.parameters_of(codec.quantizer) // 2
    assert ours.of("audio").parameters == peers.parameters_of(codec.encoder) + sides
    assert ours.of("code2wav").parameters == peers.parameters_of(codec.decoder) + sides
    assert ours.unread == ()


def test_untied_codebooks_are_held_twice():
    card = {**_CSM, "tie_codebooks_embeddings": False}
    assert read_card(card, name="csm").parameters == peers.parameters_of(_model(card))


def test_csms_talker_has_our_cache_and_flops_with_its_depth_decoder():
    ours, model = read_card(_CSM, name="csm"), _model(_CSM)

    def listen() -> Any:
        out = model.backbone_model(inputs_embeds=torch.randn(2, 12, 64), use_cache=True)
        model.lm_head(out.last_hidden_state[:, -1:])
        return out

    theirs, out = _flops(listen)
    counted = step_flops(ours.of("talker").operators, Load(new=12, batch=2), rectangle=True)
    assert counted == pytest.approx(theirs, rel=0.01)

    def speak() -> Any:
        model.depth_decoder.generate(
            input_ids=torch.tensor([[0, 5], [0, 6]]),
            backbone_last_hidden_state=out.last_hidden_state[:, -1],
            max_new_tokens=5,
            min_new_tokens=5,
            do_sample=False,
        )
        then = model.backbone_model(inputs_embeds=torch.randn(2, 1, 64), cache=out.cache, use_cache=True)
        model.lm_head(then.last_hidden_state)
        return then.cache

    theirs, cache = _flops(speak)
    counted = step_flops(ours.of("talker").operators, Load(new=1, context=12, batch=2), rectangle=True)
    assert counted == pytest.approx(theirs, rel=0.01)
    held = 2 * request_bytes(ours.of("talker").cache, tokens=13, dtype=Dtype.F32)
    assert held == peers.cache_bytes(cache)
    assert ours.of("talker").constraints[0].rule is Rule.LOCKSTEP


def test_mimi_has_our_flops():
    ours, codec = read_card(_CSM, name="csm"), _model(_CSM).codec_model
    frames, samples = 40, 1920
    theirs, out = _flops(lambda: codec.encode(torch.randn(1, 1, frames * samples)))
    assert out.audio_codes.shape == (1, 6, frames)
    # torch's counter passes over the distances to the entries of the codebooks, which are a matrix multiply each.
    theirs += frames * 6 * 2 * 64 * 16
    counted = step_flops(ours.of("audio").operators, Load(new=frames), rectangle=True)
    assert counted == pytest.approx(theirs, rel=0.01)

    theirs, out = _flops(lambda: codec.decode(out.audio_codes))
    assert out.audio_values.shape[-1] == frames * samples
    counted = step_flops(ours.of("code2wav").operators, Load(new=frames), rectangle=True)
    assert counted == pytest.approx(theirs, rel=0.01)
    assert ours.flows[-1].chunk_units == samples


@pytest.mark.parametrize(
    "card",
    [
        _catalog("fastspeech2-conformer-hifigan"),
        _FAST,
        {**_FAST, "model_config": {**_FAST["model_config"], "speaker_embed_dim": 8, "use_cnn_in_conformer": False}},
        {**_FAST, "model_config": {"use_macaron_style_in_conformer": False, "encoder_concat_after": True,
                                   "num_mel_bins": 20}},
    ],
)  # fmt: skip
def test_parameters_of_fastspeech_equal_transformers(card):
    ours = read_card(card, name="fast")
    with torch.device("meta"):
        model = _PARTS["fastspeech2_conformer_with_hifigan"](peers.config_of(card))
    assert ours.of("acoustic").parameters == peers.parameters_of(model.model)
    assert ours.of("vocoder").parameters == peers.parameters_of(model.vocoder)
    assert ours.unread == ()


def test_fastspeech_has_our_flops():
    ours, model = read_card(_FAST, name="fast"), _model(_FAST)
    # Seven mel frames for each phoneme, as in ours: exp(log 8) - 1.
    model.model.duration_predictor.linear.weight.data.zero_()
    model.model.duration_predictor.linear.bias.data.fill_(torch.log(torch.tensor(8.0)).item())
    theirs, out = _flops(lambda: model.model(torch.full((1, 30), 5), return_dict=True))
    assert out.spectrogram.shape[1] == 30 * 7
    counted = step_flops(ours.of("acoustic").operators, Load(new=30))
    assert counted == pytest.approx(theirs, rel=0.01)

    theirs, out = _flops(lambda: model.vocoder(torch.randn(1, 300, 20)))
    assert step_flops(ours.of("vocoder").operators, Load(new=300)) == pytest.approx(theirs, rel=0.01)


def test_an_acoustic_model_alone_gives_spectra():
    ours = read_card({**_FAST["model_config"], "model_type": "fastspeech2_conformer"}, name="fast")
    assert [edge.target for edge in ours.graph.edges] == ["acoustic", "door"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"vocoder_config": {"model_in_dim": 30}}, "model_in_dim"),
        ({"vocoder_config": {"model_in_dim": 20, "upsample_rates": [4, 2]}}, "upsample_kernel_sizes"),
        ({"model_config": {"hidden_size": 49, "num_mel_bins": 80}, "vocoder_config": {}}, "hidden_size"),
    ],
)
def test_settings_that_do_not_fit_together_are_named(change, field):
    with pytest.raises(BadInput, match=field):
        read_card({**_FAST, **change}, name="bad")
