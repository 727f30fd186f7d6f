"""Whisper: an encoder of half a minute of sound, and a decoder that attends to it.

In: its card. Out: `Architecture` with the stages `encoder` and `decoder`. Shapes follow transformers'
WhisperForConditionalGeneration. The encoder's unit is a mel frame (10 ms); two make one of its positions.
"""

from accord.models.card import Card
from accord.models.graphs import EdgeDraft, StageDraft, architecture, text_in, text_out
from accord.models.parts.audio import attend, cross, encoder_layers
from accord.models.parts.feedforward import ACTIVATIONS, plain
from accord.models.parts.pace import paced
from accord.models.parts.parts import Parts, convolution, head, norm, table, tokens
from accord.terms.architecture import Architecture, Constraint, Rule, Unit
from accord.terms.graph import DOOR, Batching, Capability, Payload
from accord.terms.work import Reach

FAMILY = "whisper"
STRIDE = 2  # of the second convolution

# Spec augmentation, a classifier's head and what the tokenizer suppresses: training and sampling only.
_TRAINING = (
    "apply_spec_augment", "begin_suppress_tokens", "classifier_proj_size", "decoder_layerdrop", "encoder_layerdrop",
    "forced_decoder_ids", "is_encoder_decoder", "mask_feature_length", "mask_feature_min_masks", "mask_feature_prob",
    "mask_time_length", "mask_time_min_masks", "mask_time_prob", "median_filter_width", "num_hidden_layers",
    "suppress_tokens", "use_weighted_layer_sum",
)  # fmt: skip


def build(card: Card, name: str) -> Architecture:
    """The architecture of a Whisper of any size."""
    card.choice("activation_function", ACTIVATIONS, "gelu")
    card.skip(*_TRAINING)
    hidden, bins = card.size("d_model", 384), card.size("num_mel_bins", 80)
    positions, context = card.size("max_source_positions", 1500), card.size("max_target_positions", 448)
    frames = STRIDE * positions
    return architecture(
        card,
        name=name,
        family=FAMILY,
        stages=(
            StageDraft(
                name="encoder",
                capabilities=(Capability.ENCODE,),
                batching=Batching.PLAIN,
                unit=Unit.FRAME,
                parts=encoder(card, hidden=hidden, bins=bins, positions=positions),
                card=card,
                constraints=(
                    Constraint(
                        rule=Rule.UNITS_MULTIPLE,
                        figure=frames,
                        words=f"sound is padded or cut to {frames} mel frames, and encoded as a whole",
                    ),
                ),
                example_units=frames,
            ),
            StageDraft(
                name="decoder",
                capabilities=(Capability.AR,),
                batching=Batching.CONTINUOUS,
                unit=Unit.TOKEN,
                parts=decoder(card, hidden=hidden, keys=positions, context=context),
                card=card,
                example_units=4,  # start, language, task, no time stamps
            ),
        ),
        edges=(
            EdgeDraft(
                source=DOOR,
                target="encoder",
                payload=Payload.FEATURES,
                unit=Unit.FRAME,
                unit_bytes=4 * bins,
                required=True,
            ),
            EdgeDraft(
                source="encoder",
                target="decoder",
                payload=Payload.HIDDEN,
                unit=Unit.FRAME,
                unit_bytes=2 * hidden // STRIDE,
                required=True,
            ),
            text_in("decoder"),
            text_out("decoder"),
        ),
        context_max=context,
    )


def encoder(card: Card, *, hidden: int, bins: int, positions: int) -> Parts:
    """Two convolutions over time, learnt positions, and layers that see everything."""
    heads = card.size("encoder_attention_heads", 6)
    card.divides("d_model", hidden, heads, by="encoder_attention_heads")
    layers = tuple(range(card.layers("encoder_layers", 4)))
    stack = encoder_layers(
        layers, hidden=hidden, heads=heads, width=card.size("encoder_ffn_dim", 1536), key_bias=False
    ) + norm("norm", hidden, bias=True)
    return (
        convolution("conv1", bins, hidden, kernel=3, rate=1)
        + convolution("conv2", hidden, hidden, kernel=3, rate=1 / STRIDE)
        + table("positions", positions, hidden)
        + paced(stack, 1 / STRIDE)
    )


def decoder(card: Card, *, hidden: int, keys: int, context: int) -> Parts:
    """Layers with attention to what was said, and to what was heard."""
    heads = card.size("decoder_attention_heads", 6)
    card.divides("d_model", hidden, heads, by="decoder_attention_heads")
    layers = tuple(range(card.layers("decoder_layers", 4)))
    vocabulary = card.size("vocab_size", 51865)
    embedding = tokens(vocabulary, hidden)
    tied = embedding.tensors[0] if card.flag("tie_word_embeddings", True) else None
    return (
        embedding
        + table("positions", context, hidden)
        + norm("attention_norm", hidden, layers, bias=True)
        + attend(layers, hidden=hidden, heads=heads, key_bias=False, reach=Reach.CAUSAL)
        + norm("cross_norm", hidden, layers, bias=True)
        + cross(
            layers,
            hidden=hidden,
            heads=heads,
            head_dim=hidden // heads,
            source=hidden,
            keys=keys,
            key_bias=False,
        )
        + norm("mlp_norm", hidden, layers, bias=True)
        + plain(layers, hidden=hidden, width=card.size("decoder_ffn_dim", 1536))
        + norm("norm", hidden, bias=True)
        + head(vocabulary, hidden, tied=tied)
    )
