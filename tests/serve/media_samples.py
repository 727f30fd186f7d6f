"""Small real files, written by other libraries than the ones under test."""

import base64
import io
import struct
import wave
import zlib

import numpy as np
import soundfile
from PIL import Image


def tone(seconds: float = 0.5, rate_hz: int = 24_000) -> bytes:
    """A 440 Hz sine as signed 16-bit PCM."""
    at = np.arange(int(seconds * rate_hz)) / rate_hz
    return (12_000 * np.sin(2 * np.pi * 440 * at)).astype("<i2").tobytes()


def wav(seconds: float = 0.5, rate_hz: int = 16_000) -> bytes:
    """A WAV file by the standard library."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(tone(seconds, rate_hz))
    return out.getvalue()


def audio(container: str, seconds: float = 0.5) -> bytes:
    """FLAC, OGG or MP3 by libsndfile."""
    out = io.BytesIO()
    soundfile.write(out, np.frombuffer(tone(seconds), "<i2"), 24_000, format=container)
    return out.getvalue()


def long_flac(hours: float) -> bytes:
    """A short FLAC file whose STREAMINFO states hours of samples (a 36-bit number that ends at byte 26)."""
    data = bytearray(audio("FLAC"))
    samples = int(hours * 3600 * 24_000)
    data[21] = data[21] & 0xF0 | samples >> 32
    data[22:26] = (samples & 0xFFFFFFFF).to_bytes(4, "big")
    return bytes(data)


def endless_flac() -> bytes:
    """A FLAC file whose STREAMINFO leaves the number of samples open, as piped encoders write it."""
    data = bytearray(audio("FLAC"))
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    return bytes(data)


def picture(kind: str = "PNG", size: tuple[int, int] = (8, 8)) -> bytes:
    """A small picture by Pillow."""
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, kind)
    return out.getvalue()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_claiming(width: int, height: int, *, extra: bytes = b"") -> bytes:
    """A PNG whose header claims any size; `extra` chunks follow the header."""
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + extra + _chunk(b"IDAT", zlib.compress(b"\0" * 100)) + _chunk(b"IEND", b"")


def png_text_bomb() -> bytes:
    """A PNG with a compressed text chunk of 64 MiB of zeros."""
    return png_claiming(8, 8, extra=_chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(64 << 20), 9)))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{b64(data)}"
