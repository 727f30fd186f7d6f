"""Encoded files from clients, and audio judged by its header before any stage hears it.

In: base64 text or file bytes. Out: file bytes, and the length of audio within the door's limits, or
BadInput. Invariant: no audio is decoded here, so a small file that unpacks to a huge one costs nothing.
"""

import binascii
import io
from importlib import import_module
from types import ModuleType

from accord.serve.config import DoorConfig
from accord.terms.errors import BadInput, BrokenEdge

# soundfile's names of the containers that the recognizer reads -> the API's words.
_AUDIO_KINDS = (("WAV", "wav"), ("WAVEX", "wav"), ("RF64", "wav"), ("FLAC", "flac"), ("OGG", "ogg"), ("MP3", "mp3"))
_RATE_HZ_MIN, _RATE_HZ_MAX = 4_000, 384_000
_CHANNELS_MAX = 8


def decode_base64(text: str, field: str) -> bytes:
    """Strict base64 (padding included, no white space) -> bytes; BadInput."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        problem = f"not base64: {str(error).lower()}"
        raise BadInput(field=field, value=text[:40], problem=problem, fix="encode the file's bytes in base64") from None
    if not data:
        raise BadInput(field=field, value=text[:40], problem="it is empty", fix="send the bytes of a file")
    return data


def decode_data_url(url: str, field: str) -> bytes:
    """`data:image/png;base64,...` -> bytes; BadInput."""
    head, comma, data = url.partition(",")
    words = head[len("data:") :].lower().split(";")
    if not comma or not words[0].startswith("image/") or words[-1] != "base64":
        raise BadInput(
            field=field,
            value=url[:40],
            problem="not a picture in a base64 data URL",
            fix="send data:image/png;base64,... (or jpeg, webp, gif)",
        )
    return decode_base64(data, field)


def check_audio(data: bytes, *, field: str, kind: str | None, config: DoorConfig) -> float:
    """Judges an audio file by its header and gives its length in seconds; BadInput.

    `kind` is what the client says that it is: wav, mp3, flac or ogg; None if it doesn't say.
    """
    soundfile = _soundfile()
    try:
        info = soundfile.info(io.BytesIO(data))
    except (soundfile.LibsndfileError, ValueError, OSError, OverflowError) as error:
        raise _bad_audio(field, data, f"no audio file can be read from it ({_short(error)})") from None
    real = next((word for name, word in _AUDIO_KINDS if name == info.format), None)
    if real is None:
        raise _bad_audio(field, data, f"its kind, {info.format}, is not taken")
    if kind is not None and kind != real:
        where = field.rpartition(".")[0]
        raise BadInput(
            field=f"{where}.format" if where else field,
            value=kind,
            problem=f"the bytes are {real}",
            fix=f"say {real!r}, or send a file of kind {kind}",
        )
    if not _RATE_HZ_MIN <= info.samplerate <= _RATE_HZ_MAX or not 1 <= info.channels <= _CHANNELS_MAX:
        raise _bad_audio(field, data, f"{info.channels} channels at {info.samplerate} Hz are out of bounds")
    if info.frames <= 0:
        raise _bad_audio(field, data, "it holds no sound")
    if info.frames >= 1 << 62:
        raise _bad_audio(field, data, "its header doesn't state its length")
    if info.duration > config.audio_s_max:
        raise BadInput(
            field=field,
            value=f"{info.duration:.1f} s",
            problem=f"longer than the {config.audio_s_max:g} s that one request may hold",
            fix="split the audio",
        )
    return float(info.duration)


def _bad_audio(field: str, data: bytes, problem: str) -> BadInput:
    return BadInput(field=field, value=data[:12].hex(" "), problem=problem, fix="send a WAV, FLAC, OGG or MP3 file")


def _short(error: Exception) -> str:
    """An error's words without the object addresses that libraries put in them."""
    text = str(error).partition("<_io.")[0].strip().rstrip(":")
    return f"{type(error).__name__}: {text[:80]}"


def _soundfile() -> ModuleType:
    try:
        return import_module("soundfile")
    except ImportError:
        raise BrokenEdge("audio can't be read: soundfile is missing; pip install 'accord-ai[embedded]'") from None
