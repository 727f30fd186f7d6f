"""Sound and time lines as files.

In: bytes. Out: files, and how long a recording is.
Invariant: folders are made as needed; a file appears whole, by one rename.
"""

import io
import os
import wave
from pathlib import Path

from accord.terms.errors import BadInput, BrokenEdge


def save_wav(path: Path, pcm: bytes, *, rate_hz: int) -> None:
    """Writes signed 16-bit little-endian mono samples as a WAV file."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate_hz)
        sound.writeframes(pcm)
    save_bytes(path, buffer.getvalue())


def sound_s(data: bytes) -> float:
    """How many seconds a recording (WAV, FLAC, OGG, MP3) lasts. BadInput if it isn't one."""
    import soundfile

    try:
        return float(soundfile.info(io.BytesIO(data)).duration)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        fix = "use a WAV, FLAC, OGG or MP3 file"
        raise BadInput(
            field="--question", value=f"{len(data)} bytes", problem="no recording can be read from it", fix=fix
        ) from error


def save_bytes(path: Path, data: bytes) -> None:
    """Writes a file. BrokenEdge names the path and the way out."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging.write_bytes(data)
        staging.replace(path)
    except OSError as error:
        raise BrokenEdge(f"{path}: {error.strerror}; choose a folder that is writable with --out") from error
