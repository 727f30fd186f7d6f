"""PCM from the vocoder -> the audio format that a client asked for.

In: chunks of signed 16-bit little-endian mono samples at 24 kHz. Out: encoded bytes, as soon as the
format allows. Invariant: the joined outputs of `feed` and `finish` are one readable file. FLAC and MP3
state their length in a header at the front, so theirs come in one piece from `finish`.
"""

import io
import struct
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, assert_never

from accord.run.payloads import PCM_RATE_HZ
from accord.terms.errors import BadInput, BrokenEdge

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The names of OpenAI's voices. The embedded model has one voice, and answers to all of them.
VOICES = (
    "default", "alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse",
    "marin", "cedar",
)  # fmt: skip
_UNKNOWN_LENGTH = 0xFFFFFFFF


class SoundFormat(StrEnum):
    """What the door can write."""

    PCM = "pcm"
    WAV = "wav"
    OPUS = "opus"
    FLAC = "flac"
    MP3 = "mp3"


class Encoder(Protocol):
    """One answer's sound on its way out."""

    def feed(self, pcm: bytes) -> bytes:
        """Encoded bytes that are ready; may be none."""
        ...

    def finish(self) -> bytes:
        """The rest of the file."""
        ...


def format_named(word: str, *, field: str) -> SoundFormat:
    """The API's word -> format; BadInput for one that this server can't write."""
    if word == "pcm16":
        return SoundFormat.PCM
    try:
        return SoundFormat(word)
    except ValueError:
        names = ", ".join(SoundFormat)
        raise BadInput(field=field, value=word, problem="not written here", fix=f"use one of {names}") from None


def check_voice(voice: str, *, field: str) -> None:
    """BadInput for a voice that nobody knows."""
    if voice not in VOICES:
        raise BadInput(field=field, value=voice, problem="no such voice", fix="use 'default', the model's one voice")


def flows(sound_format: SoundFormat) -> bool:
    """Whether the format can be sent while it is made."""
    return sound_format in (SoundFormat.PCM, SoundFormat.WAV, SoundFormat.OPUS)


def media_type(sound_format: SoundFormat) -> str:
    """The Content-Type of a file of this format."""
    match sound_format:
        case SoundFormat.PCM:
            return "audio/pcm"
        case SoundFormat.WAV:
            return "audio/wav"
        case SoundFormat.OPUS:
            return "audio/ogg"
        case SoundFormat.FLAC:
            return "audio/flac"
        case SoundFormat.MP3:
            return "audio/mpeg"
        case _:
            assert_never(sound_format)


def make_encoder(sound_format: SoundFormat) -> Encoder:
    """A fresh encoder; BrokenEdge if the library that writes the format is missing."""
    match sound_format:
        case SoundFormat.PCM:
            return _Pcm()
        case SoundFormat.WAV:
            return _Wav()
        case SoundFormat.OPUS:
            return _Library("OGG", "OPUS")
        case SoundFormat.FLAC:
            return _Library("FLAC", "PCM_16", whole=True)
        case SoundFormat.MP3:
            return _Library("MP3", "MPEG_LAYER_III", whole=True)
        case _:
            assert_never(sound_format)


def encode_whole(pcm: bytes, sound_format: SoundFormat) -> bytes:
    """A whole answer at once; a WAV file then states its true length."""
    if sound_format is SoundFormat.WAV:
        return _wav_header(len(pcm)) + pcm
    encoder = make_encoder(sound_format)
    return encoder.feed(pcm) + encoder.finish()


def _wav_header(data_bytes: int) -> bytes:
    """The 44 bytes of a RIFF header (Microsoft's WAVE format, PCM); all ones stand for "until the end"."""
    riff_bytes = min(36 + data_bytes, _UNKNOWN_LENGTH)
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, PCM_RATE_HZ, PCM_RATE_HZ * 2, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", riff_bytes, b"WAVE") + fmt + struct.pack("<4sI", b"data", data_bytes)


class _Pcm:
    def feed(self, pcm: bytes) -> bytes:
        return pcm

    def finish(self) -> bytes:
        return b""


class _Wav:
    def __init__(self) -> None:
        self._head = _wav_header(_UNKNOWN_LENGTH)

    def feed(self, pcm: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + pcm

    def finish(self) -> bytes:
        return self.feed(b"")


class _Sink(io.RawIOBase):
    """A file that can be emptied from the front while it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._start = 0
        self._at = 0
        self._kept = bytearray()

    def write(self, data: "ReadableBuffer", /) -> int:
        piece = bytes(memoryview(data))
        offset = self._at - self._start
        if offset >= 0:  # what has been sent can't be rewritten
            self._kept[offset : offset + len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._start + len(self._kept)}
        self._at = base[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def take(self) -> bytes:
        """All that has been written since the last call."""
        taken = bytes(self._kept)
        self._start += len(taken)
        self._kept.clear()
        return taken


class _Library:
    """An encoder of libsndfile. `whole`: give nothing before the end, when the header is final."""

    def __init__(self, container: str, codec: str, *, whole: bool = False) -> None:
        try:
            import soundfile
        except ImportError:
            raise BrokenEdge(
                f"{container} can't be written: soundfile is missing; pip install 'accord-ai[embedded]', or ask for wav"
            ) from None
        self._sink = _Sink()
        self._file = soundfile.SoundFile(self._sink, "w", PCM_RATE_HZ, 1, codec, format=container)
        self._whole = whole

    def feed(self, pcm: bytes) -> bytes:
        self._file.buffer_write(pcm, dtype="int16")
        return b"" if self._whole else self._sink.take()

    def finish(self) -> bytes:
        self._file.close()
        return self._sink.take()
