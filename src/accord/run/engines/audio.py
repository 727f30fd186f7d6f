"""Encoded audio files into windows that a recognizer can take.

In: the bytes of one WAV, FLAC, OGG or MP3 file. Out: mono 16 kHz float32 windows of at most 20 s, in
order. Invariant: only one window is in memory, however long the file is or says that it is; what can't
be read is BadInput on `input_audio`.
"""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from accord.run.engines.mel import RATE_HZ
from accord.terms.errors import BadInput

if TYPE_CHECKING:
    from soundfile import SoundFile

_WINDOW = 20 * RATE_HZ  # whisper takes 30 s, but others wait for the step that hears it
_CUT_FROM = 14 * RATE_HZ
_CUT_GRAIN = RATE_HZ // 20
_FORMATS = frozenset({"WAV", "WAVEX", "FLAC", "OGG", "MP3"})
_CHANNELS_MAX = 8
_RATES_HZ = (1_000, 384_000)
_BLOCK_SAMPLES = 1 << 17
_LOUDEST = 1e6  # keeps the spectrum's power far from overflow; nan and infinities fail the same test

Samples = NDArray[np.float32]


def windows(data: bytes, *, audio_s_max: float) -> Iterator[Samples]:
    """(n,) windows, 0 < n <= 320,000, cut at the quietest moment of their last 6 s.

    Raises BadInput, at the latest when the faulty place is reached.
    """
    held = np.zeros(0, np.float32)
    heard = False
    for block in _resampled(data, audio_s_max=audio_s_max):
        held = np.concatenate((held, block))
        heard = heard or block.size > 0
        while held.size > _WINDOW:
            cut = _quiet_cut(held)
            yield held[:cut]
            held = held[cut:]
    if not heard:
        raise _bad(data, "it has no samples", "send a recording that isn't empty")
    if held.size:
        yield held


def _quiet_cut(held: Samples) -> int:
    """Where to cut, so that words stay whole: the middle of the quietest 50 ms."""
    grains = held[_CUT_FROM:_WINDOW].reshape(-1, _CUT_GRAIN)
    quietest = int(np.argmin(np.square(grains).sum(axis=1)))
    return _CUT_FROM + quietest * _CUT_GRAIN + _CUT_GRAIN // 2


def _resampled(data: bytes, *, audio_s_max: float) -> Iterator[Samples]:
    import soundfile
    import soxr

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            _check_header(data, file, audio_s_max=audio_s_max)
            stream = soxr.ResampleStream(file.samplerate, RATE_HZ, 1, dtype="float32")
            for block in _mono_blocks(data, file, audio_s_max=audio_s_max):
                yield stream.resample_chunk(block)
            yield stream.resample_chunk(np.zeros(0, np.float32), last=True)
    except soundfile.LibsndfileError as error:
        raise _bad(data, f"it can't be read ({error.error_string})", "send a WAV, FLAC, OGG or MP3 file") from error


def _check_header(data: bytes, file: "SoundFile", *, audio_s_max: float) -> None:
    low_hz, high_hz = _RATES_HZ
    if file.format not in _FORMATS:
        raise _bad(data, f"its format is {file.format}", "send a WAV, FLAC, OGG or MP3 file")
    if not low_hz <= file.samplerate <= high_hz:
        raise _bad(data, f"its rate is {file.samplerate} Hz", f"send audio of {low_hz} to {high_hz} Hz")
    if file.channels > _CHANNELS_MAX:
        raise _bad(data, f"it has {file.channels} channels", f"send at most {_CHANNELS_MAX}")
    if file.frames > audio_s_max * file.samplerate:
        raise _too_long(data, audio_s_max=audio_s_max)


def _mono_blocks(data: bytes, file: "SoundFile", *, audio_s_max: float) -> Iterator[Samples]:
    left = int(audio_s_max * file.samplerate)
    frames = _BLOCK_SAMPLES // file.channels
    while True:
        block = file.read(frames, dtype="float32", always_2d=True)
        if not len(block):
            return
        left -= len(block)
        if left < 0:  # headers of compressed files may promise less than they hold
            raise _too_long(data, audio_s_max=audio_s_max)
        mono = np.ascontiguousarray(block.mean(axis=1, dtype=np.float32))
        if not float(np.abs(mono).max()) < _LOUDEST:
            raise _bad(data, "it has samples that are no numbers, or absurdly loud", "send samples from -1 to 1")
        yield mono


def _too_long(data: bytes, *, audio_s_max: float) -> BadInput:
    return _bad(data, f"it is longer than the {audio_s_max:g} s that may be heard", "send a shorter recording")


def _bad(data: bytes, problem: str, fix: str) -> BadInput:
    return BadInput(field="input_audio", value=f"{len(data)} bytes", problem=problem, fix=fix)
