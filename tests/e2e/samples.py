"""What the end-to-end tests show and play to the service, and how they read its answers.

In: nothing. Out: message parts of the OpenAI API, drawn and recorded; sounds and words of answers.
"""

import base64
import io
import re
import wave

from tests.e2e.world import MODEL, QUESTION, Up

VOICE = {"voice": "alloy", "format": "pcm16"}


def text(words: str) -> dict:
    return {"type": "text", "text": words}


def spoken(data: bytes | None = None, kind: str = "flac") -> dict:
    """A recording as a message part: the question about the capital of France, or another."""
    recording = QUESTION.read_bytes() if data is None else data
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(recording).decode(), "format": kind}}


def sign(words: str, *, size: int = 90) -> dict:
    """A white sign with black words on it."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (60 + size * len(words) * 2 // 3, 240), "white")
    ImageDraw.Draw(image).text((40, 60), words, fill="black", font=ImageFont.load_default(size))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    url = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def as_wav(pcm: bytes) -> bytes:
    """Samples as the service gives them -> a WAV file."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setparams((1, 2, 24_000, 0, "NONE", ""))
        sound.writeframes(pcm)
    return buffer.getvalue()


def recognised(up: Up, sound: bytes, name: str = "sound.wav") -> str:
    """What the service hears in a recording."""
    return up.client.audio.transcriptions.create(model=MODEL, file=(name, sound)).text


def words_of(sentence: str) -> list[str]:
    """Small words, without signs."""
    return re.findall(r"[a-z]+", sentence.lower())


def share_heard(said: str, heard: str) -> float:
    """The share of the words said that were heard."""
    wanted, got = words_of(said), set(words_of(heard))
    return sum(word in got for word in wanted) / len(wanted)
