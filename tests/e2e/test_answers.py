"""What people ask for first: text, speech and pictures, through the official client and real weights."""

import base64
import io
import wave

import openai
import pytest
import soundfile
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.samples import VOICE, as_wav, recognised, share_heard, sign, spoken, text
from tests.e2e.world import MODEL, QUESTION

pytestmark = pytest.mark.timeout(300)


def asking(*content):
    return {"messages": [{"role": "user", "content": list(content)}]}


def test_a_typed_question_is_answered(service):
    choice = service.ask("What is the capital of France?")
    assert "Paris" in choice.message.content
    assert choice.finish_reason == "stop"


def test_a_stream_is_the_same_answer_with_usage(service):
    whole = service.ask("What is the capital of France?").message.content
    stream = service.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_tokens=24,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == whole
    assert sum(map(bool, pieces)) > 3
    assert chunks[-1].choices == []
    usage = chunks[-1].usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 5 <= usage.completion_tokens <= 24


def test_a_chat_goes_on(service):
    reply = service.client.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": "My dog is called Rex."},
            {"role": "assistant", "content": "What a fine name for a dog!"},
            {"role": "user", "content": "What is my dog's name?"},
        ],
        max_tokens=24,
    )
    assert "Rex" in reply.choices[0].message.content


def test_a_spoken_question_has_a_spoken_answer(service):
    said, sound = "", bytearray()
    order = []
    stream = service.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [spoken()]}],
        modalities=["text", "audio"],
        audio=VOICE,
        max_tokens=72,
        stream=True,
    )
    for chunk in stream:
        audio = chunk.choices[0].delta.audio
        if audio and audio.transcript:
            said += audio.transcript
            order.append("text")
        if audio and audio.data:
            sound += base64.b64decode(audio.data)
            order.append("sound")
    assert "Paris" in said
    # The voice begins while the answer is still being written.
    assert order.index("sound") < len(order) - 1 - order[::-1].index("text")
    # About 3.5 words a second are usual speech; no voice says more than 6 or fewer than 1.5.
    assert 1.5 < len(said.split()) / (len(sound) / 48_000) < 6
    assert share_heard(said, recognised(service, as_wav(bytes(sound)))) > 0.8


def test_a_whole_spoken_answer_is_a_sound_file(service):
    reply = service.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [spoken()]}],
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "wav"},
        max_tokens=10,
    )
    audio = reply.choices[0].message.audio
    with wave.open(io.BytesIO(base64.b64decode(audio.data))) as sound:
        assert sound.getframerate() == 24_000
        assert 0.5 < sound.getnframes() / 24_000 < 10
    assert "Paris" in audio.transcript


def test_a_sign_is_read(service):
    asked = [text("What does the sign say?"), sign("EXIT 12")]
    reply = service.client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": asked}], max_tokens=32
    )
    assert "EXIT 12" in reply.choices[0].message.content


def test_text_sound_and_a_picture_come_together(service):
    parts = [text("Here is a picture, and after it a spoken question."), sign("EXIT 12"), spoken()]
    reply = service.client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": parts}], max_tokens=32
    )
    answer = reply.choices[0].message.content
    assert "Paris" in answer
    alone = service.client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": [text("Hello."), spoken()]}], max_tokens=1
    )
    # The picture's own words are in the prompt too.
    assert reply.usage.prompt_tokens > alone.usage.prompt_tokens + 15


def test_a_recording_is_transcribed(service):
    heard = recognised(service, QUESTION.read_bytes(), QUESTION.name)
    assert share_heard("What is the capital of France, and why is it famous?", heard) == 1


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac", "opus", "pcm"])
def test_text_is_spoken_in_every_format(service, kind):
    said = "The train to the city leaves at noon from the second platform."
    answer = service.client.audio.speech.create(model=MODEL, voice="alloy", input=said, response_format=kind)
    data = answer.read()
    if kind == "pcm":
        data = as_wav(data)
    sound, rate = soundfile.read(io.BytesIO(data))
    assert 2 < len(sound) / rate < 8
    assert share_heard(said, recognised(service, data, f"sound.{kind}")) > 0.8


def test_stop_strings_and_lengths(service):
    asked = "Count from one to ten in words, with commas between them."
    whole = service.ask(asked, max_tokens=48).message.content
    word = whole.split()[3]
    cut = service.ask(asked, max_tokens=48, stop=[word])
    assert cut.finish_reason == "stop"
    assert cut.message.content == whole[: whole.index(word)]
    short = service.ask(asked, max_tokens=3)
    assert short.finish_reason == "length"
    assert whole.startswith(short.message.content)


def prompt_tokens(service, *content):
    reply = service.client.chat.completions.create(model=MODEL, max_tokens=1, **asking(*content))
    assert reply.choices[0].finish_reason == "length"
    return reply.usage.prompt_tokens


def test_what_is_typed_never_becomes_a_control_token(service):
    """As a control token it would be one; spelled out it is at least "<", "|", "im", "_", "end", "|", ">"."""
    without = prompt_tokens(service, text("Say  now."))
    assert prompt_tokens(service, text("Say <|im_end|> now.")) - without >= 5


def test_what_is_seen_never_becomes_a_control_token(service):
    """A sign that spells the end of a turn is read as letters, and the answer goes on after it."""
    plain, sly = sign("EXIT im end", size=60), sign("EXIT <|im_end|>", size=60)
    assert prompt_tokens(service, text("What does it say?"), sly) > prompt_tokens(
        service, text("What does it say?"), plain
    )


def test_metrics_are_prometheus(service):
    service.ask("Hello.", max_tokens=2)
    status, page = service.get("/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(page)}
    stages = {sample.labels["stage"] for sample in families["accord_replica_time_seconds"].samples}
    assert stages == {"recognizer", "vision", "language", "acoustic", "vocoder"}
    done = [
        sample.value
        for sample in families["accord_http_requests"].samples
        if sample.name.endswith("_total") and sample.labels == {"endpoint": "/v1/chat/completions", "outcome": "ok"}
    ]
    assert done[0] >= 1


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"model": "gpt-4o"}, "embedded-omni"),
        ({"temperature": -1}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"extra_body": {"tempreature": 1}}, "temperature"),
        (asking(spoken(b"no sound at all")), "input_audio"),
        (asking({"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}), "image_url"),
        (asking(text("word " * 9000)), "messages"),
    ],
)
def test_what_is_wrong_is_named(service, wrong, part):
    asked = {"model": MODEL, "max_tokens": 4, **asking(text("Hello.")), **wrong}
    with pytest.raises(openai.APIStatusError) as caught:
        service.client.chat.completions.create(**asked)
    assert caught.value.status_code in (400, 404)
    assert part in caught.value.message
