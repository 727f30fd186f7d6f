"""The official OpenAI client judges the door: answers, streams, aborts, sound and errors."""

import asyncio
import base64
import io
import time
from typing import Any

import numpy as np
import openai
import pytest
import soundfile

from accord.run.payloads import StagePart, unpack_prompt
from accord.terms.errors import Overloaded
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode, FinishReason, Output, Usage
from tests.serve.conftest import MODEL, until
from tests.serve.fake_service import Script, Wait, fail, heard, sound, text
from tests.serve.media_samples import audio, b64, data_url, picture, tone, wav

HI: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def client(open_door):
    bound = await open_door()
    async with openai.AsyncOpenAI(base_url=f"{bound.url}/v1", api_key="none", max_retries=0, timeout=20) as made:
        yield made


async def test_chat_whole(client, service):
    service.script = Script(
        steps=text("Hello", " wörld"),
        usage=Usage(prompt_tokens=5, completion_tokens=2, finish_reason=FinishReason.LENGTH),
    )
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "developer", "content": "Be brief."}, *HI],
        max_completion_tokens=9,
        temperature=0.5,
        top_p=0.9,
        seed=-3,
        stop=["a", "b"],
        n=1,
        user="u1",
        metadata={"a": "b"},
        store=False,
        tools=[],
        response_format={"type": "text"},
    )
    assert answer.choices[0].message.content == "Hello wörld"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 2, 7)
    assert answer.model == MODEL
    request = service.requests[0]
    assert (request.params.max_tokens, request.params.temperature, request.params.top_p) == (9, 0.5, 0.9)
    assert (request.params.seed, request.params.stop, request.session) == (-3, ("a", "b"), "u1")
    assert request.outputs == {"text"}
    prompt = unpack_prompt(request.parts[0].data)
    assert [message.role for message in prompt.messages] == ["system", "user"]
    # What the client got can be sent back as history.
    history = [*HI, answer.choices[0].message.model_dump(), *HI]
    again = await client.chat.completions.create(model=MODEL, messages=history, prompt_cache_key="k", user="u1")
    assert again.choices[0].message.content == "Hello wörld"
    assert service.requests[1].session == "k"


async def test_chat_stream(client, service):
    service.script = Script(steps=text("Hel", "lo ", "€"))
    stream = await client.chat.completions.create(
        model=MODEL, messages=HI, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello €"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 18
    assert len({chunk.id for chunk in chunks}) == 1


async def test_stream_helper_of_the_client_accumulates(client, service):
    service.script = Script(steps=text("a", "b", "c"))
    async with client.chat.completions.stream(model=MODEL, messages=HI) as stream:
        completion = await stream.get_final_completion()
    assert completion.choices[0].message.content == "abc"


async def test_text_split_inside_a_character(client, service):
    first, second = "€".encode()[:1], "€".encode()[1:]
    halves = tuple(Output(edge="text", payload=Payload.TEXT, index=1, data=half) for half in (first, second))
    service.script = Script(steps=(*text("a"), *halves))
    stream = await client.chat.completions.create(model=MODEL, messages=HI, stream=True)
    assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "a€"


@pytest.mark.parametrize("sound_format", ["wav", "pcm16", "flac", "mp3", "opus"])
async def test_chat_audio_whole(client, service, sound_format):
    pcm = tone(1.0)
    service.script = Script(steps=(*text("Hi ", "you"), *sound(pcm[:20_000], pcm[20_000:])))
    answer = await client.chat.completions.create(
        model=MODEL, messages=HI, modalities=["text", "audio"], audio={"voice": "alloy", "format": sound_format}
    )
    message = answer.choices[0].message
    assert message.content is None
    assert message.audio.transcript == "Hi you"
    assert message.audio.id.startswith("audio_")
    data = base64.b64decode(message.audio.data)
    assert service.requests[0].outputs == {"text", "speech"}
    _assert_sounds_like(data, pcm, "pcm" if sound_format == "pcm16" else sound_format)


def _assert_sounds_like(data: bytes, pcm: bytes, sound_format: str) -> None:
    want = np.frombuffer(pcm, "<i2")
    if sound_format == "pcm":
        assert data == pcm
        return
    got, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == 24_000
    assert abs(len(got) - len(want)) <= (0 if sound_format in ("wav", "flac") else 4_000)
    if sound_format in ("wav", "flac"):
        assert np.array_equal(got, want)
    else:  # lossy: the same 440 Hz still dominate
        spectrum = np.abs(np.fft.rfft(got[4_000:20_000].astype(float)))
        assert abs(np.argmax(spectrum) * rate / 16_000 - 440) < 5


@pytest.mark.parametrize("sound_format", ["pcm16", "wav", "opus"])
async def test_chat_audio_stream_in_openai_s_shape(client, service, sound_format):
    pcm = tone(3.0)
    service.script = Script(steps=(*text("One."), *sound(pcm[:60_000]), *text(" Two."), *sound(pcm[60_000:])))
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=HI,
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": sound_format},
        stream=True,
    )
    deltas = [chunk.choices[0].delta async for chunk in stream]
    sounds = [delta.audio for delta in deltas if delta.audio is not None]
    assert all(not delta.content for delta in deltas)
    assert sounds[0].id.startswith("audio_")
    assert sounds[0].transcript == "One."
    assert sum(item.id is not None for item in sounds) == 1
    assert "".join(item.transcript or "" for item in sounds) == "One. Two."
    assert sounds[-1].expires_at is not None
    data = b"".join(base64.b64decode(item.data) for item in sounds if item.data)
    _assert_sounds_like(data, pcm, "pcm" if sound_format == "pcm16" else sound_format)
    if sound_format != "opus":  # text comes before the sound that speaks it
        first_sound = next(i for i, item in enumerate(sounds) if item.data)
        last_text = max(i for i, item in enumerate(sounds) if item.transcript)
        assert first_sound < last_text


async def test_text_is_there_before_the_sound_ends(client, service):
    service.script = Script(steps=(*text("now"), Wait(seconds=30.0), *sound(tone())))
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=HI,
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "pcm16"},
        stream=True,
    )
    async with asyncio.timeout(10):
        async for chunk in stream:
            if chunk.choices[0].delta.audio and chunk.choices[0].delta.audio.transcript == "now":
                break
    await stream.close()
    await until(lambda: service.tickets[0].cancelled)


async def test_audio_and_pictures_become_parts_and_slots(client, service):
    first, second, png, jpeg = wav(0.5), audio("FLAC"), picture("PNG"), picture("JPEG")
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": data_url(png), "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": b64(first), "format": "wav"}},
        {"type": "image_url", "image_url": {"url": data_url(jpeg, "jpeg")}},
        {"type": "input_audio", "input_audio": {"data": b64(second), "format": "flac"}},
    ]
    await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": content}])
    request = service.requests[0]
    assert [(part.edge, part.data) for part in request.parts[1:]] == [
        ("image", png),
        ("audio", first),
        ("image", jpeg),
        ("audio", second),
    ]
    slots = unpack_prompt(request.parts[0].data).messages[0].parts[1:]
    wanted = (("vision", 0), ("recognizer", 0), ("vision", 1), ("recognizer", 1))
    assert slots == tuple(StagePart(stage=stage, index=index) for stage, index in wanted)


async def test_abort_in_mid_stream_cancels(client, service):
    service.script = Script(steps=(*text("a"), Wait(seconds=60.0)))
    stream = await client.chat.completions.create(model=MODEL, messages=HI, stream=True)
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    await stream.close()
    await until(lambda: service.tickets[0].cancelled)


async def test_abort_of_a_whole_answer_cancels(client, service):
    service.script = Script(steps=(Wait(seconds=60.0),))
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.5).chat.completions.create(model=MODEL, messages=HI)
    await until(lambda: service.tickets[0].cancelled)


async def test_abort_while_queued_withdraws(client, service):
    service.script = Script(queue_s=60.0)
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.5).chat.completions.create(model=MODEL, messages=HI, stream=True)
    await until(lambda: service.withdrawn == 1)
    assert service.tickets == []


async def test_one_abort_touches_no_other(client, service):
    service.script = Script(steps=(*text("a"), Wait(seconds=0.5), *text("b")))
    kept = asyncio.ensure_future(client.chat.completions.create(model=MODEL, messages=HI))
    gone = await client.chat.completions.create(model=MODEL, messages=HI, stream=True)
    await gone.close()
    assert (await kept).choices[0].message.content == "ab"
    await until(lambda: sum(ticket.cancelled for ticket in service.tickets) == 1)


async def test_transcription(client, service):
    service.script = Script(steps=heard(" Hello", " there."))
    data = wav(0.5)
    answer = await client.audio.transcriptions.create(model=MODEL, file=("q.wav", data), language="en")
    assert answer.text == " Hello there."
    assert answer.usage.type == "duration"
    assert answer.usage.seconds == 1.5
    assert [(part.edge, part.data) for part in service.requests[0].parts] == [("audio", data)]
    assert service.requests[0].outputs == {"transcript"}
    plain = await client.audio.transcriptions.create(
        model=MODEL, file=("q.ogg", audio("OGG")), response_format="text", temperature=0.25, prompt="names"
    )
    assert plain.strip() == "Hello there."
    assert service.requests[1].params.temperature == 0.25


async def test_transcription_stream(client, service):
    service.script = Script(steps=heard("Hello", " there."))
    stream = await client.audio.transcriptions.create(model=MODEL, file=("q.wav", wav()), stream=True)
    events = [event async for event in stream]
    assert [event.delta for event in events[:-1]] == ["Hello", " there."]
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == "Hello there."


@pytest.mark.parametrize("sound_format", ["wav", "pcm", "flac", "mp3", "opus"])
async def test_speech(client, service, sound_format):
    pcm = tone(2.0)
    service.script = Script(steps=sound(pcm[:30_000], pcm[30_000:]))
    answer = await client.audio.speech.create(
        model=MODEL, input="Good morning", voice="alloy", response_format=sound_format, speed=1.25
    )
    _assert_sounds_like(answer.content, pcm, sound_format)
    request = service.requests[0]
    assert [(part.edge, part.data) for part in request.parts] == [("say", b"Good morning")]
    assert (request.outputs, request.params.speed) == ({"speech"}, 1.25)


async def test_speech_defaults_to_mp3_as_openai_does(client, service):
    service.script = Script(steps=sound(tone(1.0)))
    answer = await client.audio.speech.create(model=MODEL, input="Hi", voice="alloy")
    assert answer.response.headers["content-type"] == "audio/mpeg"
    assert soundfile.info(io.BytesIO(answer.content)).format == "MP3"


async def test_speech_streams_while_it_is_made(client, service):
    pcm = tone(0.5)
    service.script = Script(steps=(*sound(pcm), Wait(seconds=60.0)))
    async with client.audio.speech.with_streaming_response.create(
        model=MODEL, input="Hi", voice="default", response_format="pcm"
    ) as answer:
        got = b""
        async for piece in answer.iter_bytes():
            got += piece
            if len(got) >= len(pcm):
                break
    assert got == pcm
    await until(lambda: service.tickets[0].cancelled)


async def test_models(client):
    assert [model.id async for model in client.models.list()] == [MODEL]
    found = await client.models.retrieve(MODEL)
    assert found.object == "model"
    assert found.created <= time.time()
    with pytest.raises(openai.NotFoundError, match=MODEL):
        await client.models.retrieve("gpt-4o")


def _refused(**changes):
    return Overloaded("the queue is full", **changes)


@pytest.mark.parametrize(
    ("script", "error", "status", "code"),
    [
        (Script(refusal=_refused(retry_after_s=1.2)), openai.RateLimitError, 429, "overloaded"),
        (Script(refusal=_refused(retry_after_s=2, serving=False)), openai.InternalServerError, 503, "not_serving"),
        (Script(steps=fail(ErrorCode.BAD_INPUT, "audio: x")), openai.BadRequestError, 400, "bad_input"),
        (Script(steps=fail(ErrorCode.DEADLINE, "late")), openai.InternalServerError, 504, "deadline_exceeded"),
        (Script(steps=fail(ErrorCode.REPLICA_LOST, "gone")), openai.InternalServerError, 503, "replica_lost"),
        (Script(steps=fail(ErrorCode.ENGINE, "broken")), openai.InternalServerError, 500, "engine_error"),
        (Script(steps=fail(ErrorCode.CANCELLED, "drained")), openai.InternalServerError, 503, "cancelled"),
        (Script(steps=fail(ErrorCode.OVERLOADED, "full")), openai.RateLimitError, 429, "overloaded"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_failures_before_the_first_output(client, service, *, script, error, status, code, stream):
    service.script = script
    with pytest.raises(error) as caught:
        await client.chat.completions.create(model=MODEL, messages=HI, stream=stream)
    assert caught.value.status_code == status
    assert caught.value.code == code
    if status == 429:
        assert int(caught.value.response.headers["retry-after"]) >= 1


async def test_the_client_s_own_retry_waits_and_succeeds(client, service):
    answers = iter((Script(refusal=Overloaded("full", retry_after_s=0.05)), Script(steps=text("in"))))
    service.script = lambda _request: next(answers)
    answer = await client.with_options(max_retries=2).chat.completions.create(model=MODEL, messages=HI)
    assert answer.choices[0].message.content == "in"


async def test_failure_in_mid_stream_is_an_error_event(client, service):
    service.script = Script(steps=(*text("a"), *fail(ErrorCode.REPLICA_LOST, "language 0 was lost; ask again")))
    stream = await client.chat.completions.create(model=MODEL, messages=HI, stream=True)
    assert [(await anext(stream)).choices[0].delta.content for _ in range(2)] == ["", "a"]
    with pytest.raises(openai.APIError, match="language 0 was lost") as caught:
        await anext(stream)
    assert caught.value.code == "replica_lost"


async def test_failure_in_mid_speech_breaks_the_transfer(client, service):
    service.script = Script(steps=(*sound(tone()), *fail(ErrorCode.ENGINE, "broken")))
    with pytest.raises(openai.APIConnectionError):
        await client.audio.speech.create(model=MODEL, input="Hi", voice="alloy", response_format="pcm")


async def test_wrong_model_and_wrong_key(client, open_door):
    with pytest.raises(openai.NotFoundError, match=MODEL):
        await client.chat.completions.create(model="gpt-4o", messages=HI)
    bound = await open_door(api_key="s3same")
    for key, outcome in (("wrong", openai.AuthenticationError), ("s3same", None)):
        async with openai.AsyncOpenAI(base_url=f"{bound.url}/v1", api_key=key, max_retries=0) as guarded:
            if outcome is None:
                await guarded.chat.completions.create(model=MODEL, messages=HI)
            else:
                with pytest.raises(outcome):
                    await guarded.chat.completions.create(model=MODEL, messages=HI)


async def test_synchronous_client(open_door, service):
    bound = await open_door()
    service.script = Script(steps=text("a", "b"))

    def ask():
        with openai.OpenAI(base_url=f"{bound.url}/v1", api_key="none", max_retries=0, timeout=20) as client:
            whole = client.chat.completions.create(model=MODEL, messages=HI).choices[0].message.content
            stream = client.chat.completions.create(model=MODEL, messages=HI, stream=True)
            return whole, "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    assert await asyncio.to_thread(ask) == ("ab", "ab")


async def test_200_streams_at_once(client, service):
    service.script = Script(steps=(*text("a"), Wait(seconds=0.2), *text("b")), repeat=3)

    async def ask() -> str:
        stream = await client.chat.completions.create(model=MODEL, messages=HI, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert await asyncio.gather(*(ask() for _ in range(200))) == ["ababab"] * 200
    assert not any(ticket.cancelled for ticket in service.tickets)
