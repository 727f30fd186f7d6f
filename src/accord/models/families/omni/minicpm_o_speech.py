"""MiniCPM-o's speech: a ChatTTS talker, its codec's decoder, and the Vocos vocoder.

In: a `tts_config`. Out: stages and edges. Shapes of the codec and of Vocos are written in the model's code, not in its
card. The unit of `code2wav` is a frame of codes, which is two mel frames.
"""

from accord.models.card import Card
from accord.models.graphs import EdgeDraft, StageDraft
from accord.models.parts.attention import grouped
from accord.models.parts.feedforward import gated
from accord.models.parts.pace import idle, once, paced, repeated, stored_as
from accord.models.parts.parts import Parts, convolution, linear, norm, table, tokens, vector
from accord.terms.architecture import Constraint, Rule, Unit
from accord.terms.graph import DOOR, Batching, Capability, Payload
from accord.terms.tensors import Dtype, Part, Tensor
from accord.terms.work import Lookup, Per

_HOP = 256  # samples of a mel frame, at 24 kHz
_LLAMA_VOCABULARY = 32000  # transformers' default, for a table that ChatTTS leaves unread

_SAMPLING = (
    "audio_bos_token_id", "aug_loss_weight", "do_sample", "model_type", "num_mel_bins", "num_spk_embs",
    "repetition_penalty", "spk_emb_token_id", "streaming", "streaming_text_reserved_len", "text_eos_token_id", "top_k",
    "top_p", "use_llm_hidden_state", "use_speaker_embedding", "use_text", "attn_implementation",
)  # fmt: skip


def speech_stages(card: Card, *, width: int) -> tuple[tuple[StageDraft, ...], tuple[EdgeDraft, ...], str]:
    """The two stages, the edges that lead to them and to the door, and a remark."""
    card.skip(*_SAMPLING)
    groups, chunk = card.size("num_vq", 4), card.size("streaming_audio_chunk_size", 50)
    words = card.size("streaming_text_chunk_size", 10)
    rule = Constraint(
        rule=Rule.UNITS_MAX, figure=chunk, words=f"at most {chunk} frames of codes after each {words} tokens of text"
    )
    stages = (
        StageDraft(
            name="talker",
            capabilities=(Capability.AR,),
            batching=Batching.CONTINUOUS,
            unit=Unit.TOKEN,
            parts=_talker(card, width, groups),
            card=card,
            constraints=(rule,),
            example_units=words,
        ),
        StageDraft(
            name="code2wav",
            capabilities=(Capability.VOCODE,),
            batching=Batching.CHUNKED,
            unit=Unit.FRAME,
            parts=stored_as(codec() + vocos(), Dtype.F32),
            card=card,
            example_units=chunk,
        ),
    )
    remark = "code2wav holds Vocos (13.5 million parameters), a file of its own beside the published weights"
    return stages, _edges(groups=groups, chunk=chunk, words=words, width=width), remark


def _talker(card: Card, width: int, groups: int) -> Parts:
    """A Llama over text and codes; a frame's codes are drawn at once, and the voice is one vector of the thinker's."""
    hidden, heads = card.size("hidden_size", 768), card.size("num_attention_heads", 12)
    card.divides("hidden_size", hidden, heads, by="num_attention_heads")
    layers = tuple(range(card.layers(default=20)))
    if card.size("llm_dim", 2560) != width:
        card.wrong("llm_dim", problem=f"the thinker's width is {width}", fix=f"write {width}")
    voice = linear("voice.1", width, hidden, bias=card.flag("use_mlp", True), quantizable=False)
    if card.flag("use_mlp", True):
        voice += linear("voice.2", hidden, hidden, bias=True, quantizable=False)
    codes = card.size("num_audio_tokens", 626)
    books = Tensor(name="embed_codes", part=Part.EMBEDDING, rows=codes, columns=hidden, copies=groups)
    return (
        once(voice, 1)
        + tokens(card.size("num_text_tokens", 21178), hidden, name="embed_text")
        + Parts(tensors=(books,), operators=(Lookup(weight=books),))
        + idle(table("embed_tokens", _LLAMA_VOCABULARY, hidden))
        + norm("input_norm", hidden, layers)
        + norm("post_norm", hidden, layers)
        + grouped(layers, hidden=hidden, heads=heads, kv_heads=heads, head_dim=hidden // heads)
        + gated(layers, hidden=hidden, width=card.size("intermediate_size", 3072))
        + norm("norm", hidden)
        + linear("head", hidden, codes, copies=groups, per=Per.SEQUENCE, part=Part.HEAD, quantizable=False)
        + vector("head.scale", codes, copies=groups, part=Part.HEAD)
    )


def codec() -> Parts:
    """ChatTTS's codec; its encoder is stored, but only for voices to imitate."""
    encoder = (
        convolution("encoder.conv1", 100, 512, kernel=3, rate=2)
        + convolution("encoder.conv2", 512, 512, kernel=4, rate=1)
        + _blocks("encoder", inputs=512, outputs=1024)
        + repeated(linear("quantizer.in", 512, 4, bias=True), 2)
    )
    decoder = repeated(linear("quantizer.out", 4, 512, bias=True), 2) + paced(
        _blocks("decoder", inputs=512, outputs=512) + convolution("out", 512, 100, kernel=3, rate=1, bias=False), 2
    )
    return vector("scale", 100) + idle(encoder) + decoder


def vocos() -> Parts:
    """Vocos (arXiv 2306.00814): eight ConvNeXt blocks over mel frames, and an inverse Fourier transform."""
    block = _convnext("vocos", 512, 1536)
    parts = (
        convolution("vocos.in", 100, 512, kernel=7, rate=1)
        + norm("vocos.norm_in", 512, bias=True)
        + repeated(block, 8)
        + norm("vocos.norm_out", 512, bias=True)
        + linear("vocos.out", 512, 1024 + 2, bias=True, quantizable=False)
    )
    return paced(parts, 2)


def _blocks(name: str, *, inputs: int, outputs: int) -> Parts:
    return (
        convolution(f"{name}.in1", inputs, 128, kernel=3, rate=1)
        + convolution(f"{name}.in2", 128, 256, kernel=3, rate=1)
        + repeated(_convnext(name, 256, 1024), 12)
        + convolution(f"{name}.out", 256, outputs, kernel=1, rate=1, bias=False)
    )


def _convnext(name: str, hidden: int, width: int) -> Parts:
    return (
        convolution(f"{name}.depthwise", hidden, hidden, kernel=7, rate=1, groups=hidden)
        + norm(f"{name}.norm", hidden, bias=True)
        + linear(f"{name}.up", hidden, width, bias=True, quantizable=False)
        + linear(f"{name}.down", width, hidden, bias=True, quantizable=False)
        + vector(f"{name}.scale", hidden)
    )


def _edges(*, groups: int, chunk: int, words: int, width: int) -> tuple[EdgeDraft, ...]:
    return (
        EdgeDraft(source="thinker", target="talker", payload=Payload.HIDDEN, unit=Unit.TOKEN, unit_bytes=2 * width),
        EdgeDraft(
            source="thinker",
            target="talker",
            payload=Payload.TOKENS,
            unit=Unit.TOKEN,
            unit_bytes=4,
            stream=True,
            chunk_units=words,
            required=True,
        ),
        EdgeDraft(
            source="talker",
            target="code2wav",
            payload=Payload.CODES,
            unit=Unit.FRAME,
            unit_bytes=4 * groups,
            stream=True,
            chunk_units=chunk,
            required=True,
        ),
        EdgeDraft(
            source="code2wav",
            target=DOOR,
            payload=Payload.PCM,
            unit=Unit.SAMPLE,
            unit_bytes=2,
            stream=True,
            chunk_units=2 * _HOP * chunk,
        ),
    )
