"""Server-sent events of the sound endpoints, read as bytes: shapes, ends and errors."""

import base64
import io
import json
import wave

import aiohttp
import pytest

from accord.terms.request import ErrorCode
from tests.serve.conftest import MODEL, chat_body, until
from tests.serve.fake_service import Script, Wait, fail, heard, sound, text
from tests.serve.media_samples import tone, wav

SAY = {"model": MODEL, "input": "Hi", "voice": "alloy"}


async def events(answer):
    """The data of each event; the body must consist of events only."""
    body = (await answer.text()).split("\n\n")
    assert body.pop() == ""
    assert all(event.startswith("data: ") and "\n" not in event for event in body)
    return [event.removeprefix("data: ") for event in body]


async def test_speech_as_events(open_door, http, service):
    pcm = tone(0.5)
    service.script = Script(steps=sound(pcm[:8000], pcm[8000:]))
    bound = await open_door()
    body = {**SAY, "response_format": "wav", "stream_format": "sse"}
    async with http.post(bound.url + "/v1/audio/speech", json=body) as answer:
        assert answer.content_type == "text/event-stream"
        seen = [json.loads(event) for event in await events(answer)]
    assert [event["type"] for event in seen[:-1]] == ["speech.audio.delta"] * (len(seen) - 1)
    data = b"".join(base64.b64decode(event["audio"]) for event in seen[:-1])
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert file.readframes(1 << 20) == pcm
    assert seen[-1] == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18},
    }


async def test_failures_in_the_middle(open_door, http, service):
    bound = await open_door()
    lost = fail(ErrorCode.REPLICA_LOST, "vocoder 0 was lost; ask again")
    service.script = Script(steps=(*sound(tone(0.1)), *lost))
    spoken = chat_body(modalities=["audio"], audio={"format": "opus"}, stream=True)
    for path, body in (
        ("/v1/audio/speech", {**SAY, "response_format": "pcm", "stream_format": "sse"}),
        ("/v1/chat/completions", spoken),
    ):
        async with http.post(bound.url + path, json=body) as answer:
            assert answer.status == 200
            last = json.loads((await events(answer))[-1])
        assert last["error"]["code"] == "replica_lost"
        assert last["error"]["message"].startswith("vocoder 0")
    service.script = Script(steps=(*heard("a"), *lost))
    form = aiohttp.FormData({"model": MODEL, "stream": "true"})
    form.add_field("file", wav(), filename="a.wav")
    async with http.post(bound.url + "/v1/audio/transcriptions", data=form) as answer:
        first, last = map(json.loads, await events(answer))
    assert first == {"type": "transcript.text.delta", "delta": "a"}
    assert last["error"]["code"] == "replica_lost"
    async with http.get(bound.url + "/metrics") as answer:
        page = await answer.text()
    for path in ("/v1/audio/speech", "/v1/chat/completions", "/v1/audio/transcriptions"):
        assert f'accord_http_requests_total{{endpoint="{path}",outcome="failed"}} 1.0' in page


@pytest.mark.parametrize("sound_format", ["flac", "mp3"])
async def test_a_file_that_fails_is_an_error_and_not_half_a_file(open_door, http, service, sound_format):
    service.script = Script(steps=(*sound(tone(0.1)), *fail(ErrorCode.ENGINE, "broken; try again")))
    bound = await open_door()
    body = {**SAY, "response_format": sound_format}
    async with http.post(bound.url + "/v1/audio/speech", json=body) as answer:
        assert answer.status == 500
        assert (await answer.json())["error"]["code"] == "engine_error"


async def test_leaving_in_the_middle_of_encoded_sound(open_door, http, service):
    service.script = Script(steps=(*sound(tone(4.0)), Wait(seconds=60.0)))
    bound = await open_door()
    body = {**SAY, "response_format": "opus"}
    async with http.post(bound.url + "/v1/audio/speech", json=body) as answer:
        assert answer.content_type == "audio/ogg"
        assert (await answer.content.readexactly(4)) == b"OggS"
    await until(lambda: service.tickets[0].cancelled)


async def test_every_event_of_a_chat_is_one_line_of_json(open_door, http, service):
    service.script = Script(steps=text("line\nline", "\r\n", "data: x\n\n", "\u2028"))
    bound = await open_door()
    async with http.post(bound.url + "/v1/chat/completions", json=chat_body(stream=True)) as answer:
        *chunks, done = await events(answer)
    assert done == "[DONE]"
    said = [json.loads(chunk)["choices"][0]["delta"].get("content") or "" for chunk in chunks]
    assert "".join(said) == "line\nline\r\ndata: x\n\n\u2028"
