"""The first half of the voice: hibari's phonemes and acoustic model.

In: TEXT deltas. Out: one SPECTRUM chunk for each clause, as soon as the clause is finished: the six
float32 tensors that the vocoder needs, named in `SpectrumMeta`. Invariant: one step speaks one clause.
"""

import codecs
import json
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from accord.run.engines.clauses import Clauses
from accord.run.engines.onnx_session import open_session
from accord.run.engines.options import read_options
from accord.run.engines.plain import WAIT, Inbox, PlainEngine, Work
from accord.run.engines.speakable import english_letters, speakable
from accord.run.payloads import SpectrumMeta, TensorMeta
from accord.run.ports import Emission, Engine, EngineSpec, Job
from accord.terms.errors import BadInput
from accord.terms.graph import Payload

TENSORS = ("lh", "theta", "ln", "lr", "phi", "f0")
BINS = 601
_SPEEDS = (0.25, 4.0)  # the OpenAI API's range; hibari keeps the pace from 0.5 to 2 and does what it can beyond
_PHONEMES_MAX = 240  # some 15 s of speech, 14 MB; a long number has many more phonemes than characters


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text_chars_max: int = 20_000


class Voice:
    """hibari's G2P and acoustic model, voice "heart"."""

    def __init__(self, *, threads: int) -> None:
        from hibari.g2p import G2P
        from hibari.tts import ASSETS
        from hibari.voices import DEFAULT, voice_path

        self._session = open_session(Path(voice_path(DEFAULT)), threads=threads, arena=False)
        self._ids: dict[str, int] = json.loads((Path(ASSETS) / "vocab.json").read_text(encoding="utf-8"))
        self._g2p = G2P()
        # The first word that is in no dictionary loads a model of its own, and the first run fills caches.
        for phonemes in self.phonemes("Hello Accordwright", at_most=_PHONEMES_MAX):
            self.spectrum(phonemes, speed=1.0)

    def phonemes(self, clause: str, *, at_most: int) -> Iterator[str]:
        """A clause in hibari's phonemes, in pieces of `at_most`; none if there is nothing to say."""
        line = self._read(speakable(clause))
        while line:
            end = len(line)
            if end > at_most:
                space = line.rfind(" ", 1, at_most)
                end = space if space > 0 else at_most
            piece, line = line[:end].strip(), line[end:].strip()
            if any(phoneme.isalpha() for phoneme in piece):
                yield piece

    def _read(self, text: str) -> str:
        try:
            line: str = self._g2p(text)
        except (LookupError, TypeError, ValueError):
            # The G2P is made for English prose; rare signs and numbers make it stumble, and must not stop the voice.
            line = self._g2p(english_letters(text))
        return line

    def spectrum(self, phonemes: str, *, speed: float) -> dict[str, NDArray[np.float32]]:
        """The six tensors by name: `f0` is (frames,), the others (601, frames); 80 frames a second."""
        ids = [0, *(self._ids[phoneme] for phoneme in phonemes if phoneme in self._ids), 0]
        inputs: dict[str, NDArray[np.generic]] = {
            "ids": np.asarray([ids], np.int64),
            "speed": np.asarray([speed], np.float32),
        }
        outputs = self._session.run(TENSORS, inputs)
        return {name: np.ascontiguousarray(output[0]) for name, output in zip(TENSORS, outputs, strict=True)}


def load(spec: EngineSpec) -> Engine:
    """A PlainEngine over the voice in the package hibari-tts. Option: `text_chars_max` of one request."""
    options = read_options(spec, _Options)
    return PlainEngine(partial(_work, Voice(threads=spec.threads), options.text_chars_max))


def _work(voice: Voice, text_chars_max: int, job: Job, inbox: Inbox) -> Work:
    speed = _checked_speed(job)
    at_most = int(_PHONEMES_MAX * min(1.0, speed))  # slow speech is long speech
    reading = _Reading(inbox, text_chars_max)
    number = 0
    while True:
        clause = reading.next_clause()
        if clause is None:
            if reading.over:
                return None
            yield WAIT
            continue
        text = clause
        for phonemes in voice.phonemes(clause, at_most=at_most):
            yield (_emission(job.request_id, number, voice.spectrum(phonemes, speed=speed), text),)
            number, text = number + 1, ""


class _Reading:
    """The inbox as clauses."""

    def __init__(self, inbox: Inbox, text_chars_max: int) -> None:
        self._inbox = inbox
        self._left = self._most = text_chars_max
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._clauses = Clauses()
        self._ready: deque[str] = deque()
        self._finished = False

    @property
    def over(self) -> bool:
        """Whether the last clause has been given."""
        return self._finished and not self._ready

    def next_clause(self) -> str | None:
        """None before the next clause is sure, or after the last."""
        while not self._ready and not self._finished:
            chunk = self._inbox.take()
            if chunk is not None:
                piece = self._decoder.decode(bytes(chunk.data))
                chunk.release()
                self._count(piece)
                self._ready.extend(self._clauses.push(piece))
            elif self._inbox.ended:
                self._ready.extend(self._clauses.push(self._decoder.decode(b"", final=True)))
                self._ready.extend(self._clauses.finish())
                self._finished = True
            else:
                return None
        return self._ready.popleft() if self._ready else None

    def _count(self, piece: str) -> None:
        self._left -= len(piece)
        if self._left < 0:
            raise BadInput(
                field="input",
                value=f"{self._most - self._left} characters",
                problem=f"more than the {self._most} that one request may have spoken",
                fix="send the text in several requests",
            )


def _checked_speed(job: Job) -> float:
    slowest, fastest = _SPEEDS
    speed = job.params.speed
    if not slowest <= speed <= fastest:
        raise BadInput(field="speed", value=speed, problem="out of range", fix=f"use {slowest} to {fastest}")
    return speed


def _emission(request_id: int, number: int, tensors: dict[str, NDArray[np.float32]], text: str) -> Emission:
    shapes = tuple(tensor.shape for tensor in tensors.values())
    meta = SpectrumMeta(tensors=TensorMeta(names=tuple(tensors), shapes=shapes), text=text)
    return Emission(
        request_id=request_id,
        payload=Payload.SPECTRUM,
        index=number,
        buffers=tuple(tensor.data.cast("B") for tensor in tensors.values()),
        meta=msgspec.msgpack.encode(meta),
    )
