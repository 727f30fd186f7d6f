"""Every bad input gets a status and a text that names the field, the value and the fix."""

import asyncio
import io
import json
import struct

import pytest

from tests.serve.conftest import MODEL, chat_body
from tests.serve.media_samples import (
    audio,
    b64,
    data_url,
    endless_flac,
    long_flac,
    picture,
    png_claiming,
    png_text_bomb,
    wav,
)

CHAT, SPEECH, TRANSCRIBE = "/v1/chat/completions", "/v1/audio/speech", "/v1/audio/transcriptions"


async def refused(http, url, body, *, status=400, headers=None):
    """Posts, and returns the error of a well-formed refusal."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with http.post(
        url, data=io.BytesIO(data), headers={"Content-Type": "application/json", **(headers or {})}
    ) as answer:
        text = await answer.text()
        assert answer.status == status, text
        assert answer.content_type == "application/json"
        error = json.loads(text)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


def part(content):
    return chat_body(messages=[{"role": "user", "content": [content]}])


def sound(data, kind="wav"):
    return part({"type": "input_audio", "input_audio": {"data": data, "format": kind}})


def shown(url):
    return part({"type": "image_url", "image_url": {"url": url}})


def form(**fields):
    """A form as curl writes it; a pair is (file name, bytes)."""
    lines = b""
    for name, value in fields.items():
        file = f'; filename="{value[0]}"' if isinstance(value, tuple) else ""
        data = value[1] if isinstance(value, tuple) else str(value).encode()
        lines += f'--B\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + data + b"\r\n"
    return lines + b"--B--\r\n"


HI = [{"role": "user", "content": "x"}]
FIELDS = [
    (chat_body(temperatur=1), "temperatur", "did you mean 'temperature'?"),
    (chat_body(zzzzzz=1), "zzzzzz", "remove it"),
    (chat_body(messages=[{"role": "user", "contents": "x"}]), "messages[0].contents", "did you mean 'content'?"),
    ({"model": MODEL}, "messages", "required"),
    ({"messages": HI}, "model", "required"),
    (chat_body(messages=[]), "messages", "nothing to answer"),
    (chat_body(messages="x"), "messages", "Expected `array`"),
    (chat_body(messages=[{"role": "tool", "content": "x"}]), "messages[0].role", "system, developer, user, assistant"),
    (chat_body(messages=[{"role": "user", "content": None}]), "messages[0].content", "nothing is said"),
    (chat_body(messages=[{"role": "user", "content": []}]), "messages[0].content", "empty"),
    (chat_body(messages=[{"role": "user", "content": 5}]), "messages[0].content", "got `int`"),
    (part({"type": "video_url", "video_url": {}}), "messages[0].content[0].type", "input_audio"),
    (part({"type": "text", "text": 7}), "messages[0].content[0].text", "7"),
    (chat_body(messages=[{"role": "assistant", "audio": {"id": "audio_1"}}]), "messages[0].audio", "transcript"),
    (chat_body(messages=[{"role": "assistant", "tool_calls": [{}]}]), "messages[0].tool_calls", "doesn't offer"),
    (chat_body(temperature=-1), "temperature", "-1"),
    (chat_body(temperature=2.5), "temperature", "2.5"),
    (chat_body(temperature="warm"), "temperature", "warm"),
    (chat_body(temperature=True), "temperature", "bool"),
    (chat_body(top_p=-0.1), "top_p", "-0.1"),
    (chat_body(top_p=1.5), "top_p", "1.5"),
    (chat_body(max_tokens=0), "max_tokens", "0"),
    (chat_body(max_tokens=-5), "max_tokens", "-5"),
    (chat_body(max_tokens=1.5), "max_tokens", "1.5"),
    (chat_body(max_tokens=3, max_completion_tokens=4), "max_tokens", "one of the two"),
    (chat_body(seed=2**64), "seed", str(2**64)),
    (chat_body(seed="x"), "seed", "x"),
    (chat_body(stop=["a"] * 5), "stop", "four"),
    (chat_body(stop=""), "stop", "non-empty"),
    (chat_body(stop=5), "stop", "5"),
    (chat_body(stop=["x" * 5000]), "stop", "shorter"),
    (chat_body(n=2), "n", "send 1"),
    (chat_body(tools=[{"type": "function"}]), "tools", "remove it"),
    (chat_body(logprobs=True), "logprobs", "false"),
    (chat_body(top_logprobs=3), "top_logprobs", "0"),
    (chat_body(response_format={"type": "json_object"}), "response_format", "text"),
    (chat_body(logit_bias={"50256": -100}), "logit_bias", "{}"),
    (chat_body(frequency_penalty=0.5), "frequency_penalty", "0"),
    (chat_body(presence_penalty=0.5), "presence_penalty", "0"),
    (chat_body(prediction={"type": "content", "content": "x"}), "prediction", "remove it"),
    (chat_body(web_search_options={}), "web_search_options", "remove it"),
    (chat_body(modalities=[]), "modalities", "nothing"),
    (chat_body(modalities=["video"]), "modalities[0]", "text, audio"),
    (chat_body(modalities=["text", "audio"]), "audio", "needed"),
    (chat_body(modalities=["audio"], audio={"voice": "zoe", "format": "wav"}), "audio.voice", "default"),
    (chat_body(modalities=["audio"], audio={"voice": "alloy", "format": "aac"}), "audio.format", "wav"),
    (chat_body(modalities=["audio"], audio={"voice": "alloy", "format": "au"}), "audio.format", "pcm16"),
    (chat_body(modalities=["audio"], audio={"format": "mp3"}, stream=True), "audio.format", "pcm16, wav or opus"),
    (chat_body(stream="yes"), "stream", "yes"),
    (chat_body(stream_options={"usage": True}), "stream_options.usage", "include_usage"),
    (chat_body(user="x" * 600), "user", "512"),
    (sound("%%%"), "messages[0].content[0].input_audio.data", "not base64"),
    (sound(""), "messages[0].content[0].input_audio.data", "empty"),
    (sound("ä"), "messages[0].content[0].input_audio.data", "not base64"),
    (sound(b64(wav())[:-1]), "messages[0].content[0].input_audio.data", "padding"),
    (sound(b64(b"RIFF....WAVEjunk")), "messages[0].content[0].input_audio.data", "WAV, FLAC, OGG or MP3"),
    (sound(b64(wav()[:20])), "messages[0].content[0].input_audio.data", "WAV, FLAC, OGG or MP3"),
    (sound(b64(wav(0))), "messages[0].content[0].input_audio.data", "no sound"),
    (sound(b64(audio("AIFF"))), "messages[0].content[0].input_audio.data", "AIFF"),
    (sound(b64(audio("FLAC")), "wav"), "messages[0].content[0].input_audio.format", "the bytes are flac"),
    (sound(b64(wav()), "mp3"), "messages[0].content[0].input_audio.format", "say 'wav'"),
    (sound(b64(wav()), "aac"), "messages[0].content[0].input_audio.format", "wav, mp3, flac, ogg"),
    (sound(b64(endless_flac()), "flac"), "messages[0].content[0].input_audio.data", "state its length"),
    (sound(b64(long_flac(10)), "flac"), "messages[0].content[0].input_audio.data", "36000.0 s"),
    (shown("http://169.254.169.254/latest/meta-data"), "messages[0].content[0].image_url.url", "fetches nothing"),
    (shown("https://example.com/a.png"), "messages[0].content[0].image_url.url", "fetches nothing"),
    (shown("file:///etc/passwd"), "messages[0].content[0].image_url.url", "fetches nothing"),
    (shown("gopher://127.0.0.1:6379/_INFO"), "messages[0].content[0].image_url.url", "fetches nothing"),
    (shown(""), "messages[0].content[0].image_url.url", "fetches nothing"),
    (shown("data:text/html;base64,AAAA"), "messages[0].content[0].image_url.url", "data:image/png"),
    (shown("data:image/png,rawbytes"), "messages[0].content[0].image_url.url", "base64"),
    (shown("data:image/png;base64,!!"), "messages[0].content[0].image_url.url", "not base64"),
    (shown(data_url(picture("BMP"))), "messages[0].content[0].image_url.url", "PNG, JPEG, WebP or GIF"),
    (shown(data_url(picture()[:20])), "messages[0].content[0].image_url.url", "send the whole file"),
    (shown(data_url(png_claiming(20_000, 10_000))), "messages[0].content[0].image_url.url", "scale the picture down"),
    (shown(data_url(png_claiming(7_000, 7_000))), "messages[0].content[0].image_url.url", "7000x7000"),
    (
        shown(data_url(png_claiming(2**31 - 1, 2**31 - 1))),
        "messages[0].content[0].image_url.url",
        "scale the picture down",
    ),
]


@pytest.mark.parametrize(("body", "param", "says"), FIELDS, ids=lambda value: str(value)[:40])
async def test_the_error_names_field_and_fix(open_door, http, service, *, body, param, says):
    bound = await open_door()
    error = await refused(http, bound.url + CHAT, body)
    assert error["param"] == param
    assert error["message"].startswith(f"{param}: ")
    assert says in error["message"]
    assert error["type"] == "invalid_request_error"
    assert len(error["message"]) < 600
    assert service.requests == []


BROKEN = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"5",
    b'"x"',
    b'{"model": NaN}',
    json.dumps(chat_body()).encode() + b" x",
    json.dumps(chat_body()).encode()[:-1],
    b"\xff\xfe{}",
    b'{"model": "\xff"}',
    json.dumps(chat_body()).encode("utf-16"),
    b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}',
    b'{"model":"embedded-omni","messages":[{"role":"user","content":"x"}],"temperature":1e999}',
    b'{"model":"embedded-omni","messages":[{"role":"user","content":"x"}],"temperature":-Infinity}',
    b"[" * 200_000,
    b'{"messages":' + b"[" * 200_000,
    b'{"a":' * 100_000,
    b'{"model":"embedded-omni","messages":[{"role":"user","content":"x"}],"tools":' + b"[" * 9999 + b"]" * 9999 + b"}",
]


@pytest.mark.parametrize("body", BROKEN, ids=lambda value: repr(value[:30]))
async def test_what_is_not_json(open_door, http, service, body):
    bound = await open_door()
    await refused(http, bound.url + CHAT, body)
    await refused(http, bound.url + SPEECH, body)
    assert service.requests == []


async def test_a_million_messages(open_door, http, service):
    bound = await open_door()
    one = b'{"role":"user","content":"a"}'
    head = b'{"model":"embedded-omni","messages":['
    error = await refused(http, bound.url + CHAT, head + b",".join([one] * 1_000_000) + b"]}")
    assert error["param"] == "messages"
    assert "1000000" in error["message"]
    error = await refused(http, bound.url + CHAT, chat_body(messages=HI * 1025))
    assert "1024 messages" in error["message"]
    many = [{"type": "text", "text": "a"}] * 5000
    error = await refused(http, bound.url + CHAT, chat_body(messages=[{"role": "user", "content": many}]))
    assert error["param"] == "messages"
    assert service.requests == []


async def test_too_much_text_and_too_many_pictures(open_door, http, service):
    bound = await open_door(prompt_bytes_max=10_000, media_parts_max=2)
    error = await refused(http, bound.url + CHAT, chat_body(messages=[{"role": "user", "content": "x" * 20_000}]))
    assert "10000" in error["message"]
    shows = [{"type": "image_url", "image_url": {"url": data_url(picture())}}] * 3
    error = await refused(http, bound.url + CHAT, chat_body(messages=[{"role": "user", "content": shows}]))
    assert error["param"] == "messages[0].content[2].image_url.url"
    assert service.requests == []


async def test_a_text_bomb_in_a_png_costs_nothing(open_door, http):
    bound = await open_door()
    bomb = png_text_bomb()
    assert len(bomb) < 100_000
    # Its pixels are few, and the door unpacks nothing.
    body = json.dumps(shown(data_url(bomb))).encode()
    async with http.post(bound.url + CHAT, data=body, headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 200


async def test_the_number_of_samples_is_believed_only_within_the_file(open_door, http):
    bound = await open_door(audio_s_max=1.0)
    claims_ten_hours = bytearray(wav(0.5))
    claims_ten_hours[40:44] = struct.pack("<I", 16_000 * 2 * 36_000)
    body = json.dumps(sound(b64(bytes(claims_ten_hours)))).encode()
    async with http.post(bound.url + CHAT, data=body, headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 200
    error = await refused(http, bound.url + CHAT, sound(b64(wav(1.5))))
    assert "1.5 s" in error["message"]
    assert "split" in error["message"]


async def test_wrong_paths_methods_and_kinds(open_door, http):
    bound = await open_door()
    error = await refused(http, bound.url + "/v1/completions", chat_body(), status=404)
    assert "/v1/completions" in error["message"]
    async with http.get(bound.url + CHAT) as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "POST"
        assert "POST" in (await answer.json())["error"]["message"]
    error = await refused(http, bound.url + CHAT, chat_body(), status=415, headers={"Content-Type": "text/plain"})
    assert "application/json" in error["message"]
    await refused(http, bound.url + CHAT, chat_body(), status=415, headers={"Content-Encoding": "gzip"})
    error = await refused(http, bound.url + CHAT, chat_body(model="gpt-4o"), status=404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert MODEL in error["message"]


async def test_bodies_are_bounded(open_door, http):
    bound = await open_door(body_bytes_max=1000)
    too_long = json.dumps(chat_body(messages=[{"role": "user", "content": "x" * 2000}])).encode()
    error = await refused(http, bound.url + CHAT, too_long, status=413)
    assert "1000" in error["message"]

    async def pieces():
        for start in range(0, len(too_long), 100):
            yield too_long[start : start + 100]

    async with http.post(bound.url + CHAT, data=pieces(), headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 413


async def test_all_bodies_together_are_bounded(open_door, http):
    bound = await open_door(bodies_bytes_max=1500, body_s_max=5.0)
    body = json.dumps(chat_body(messages=[{"role": "user", "content": "x" * 1000}])).encode()
    host, port = bound.host, bound.port
    _, slow = await asyncio.open_connection(host, port)
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    slow.write(head.encode() + body[:900])
    await asyncio.sleep(0.1)
    error = await refused(http, bound.url + CHAT, body, status=429)
    assert "other requests" in error["message"]
    slow.close()
    await slow.wait_closed()
    await asyncio.sleep(0.05)
    async with http.post(bound.url + CHAT, data=body, headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 200


async def test_a_slow_body_has_a_deadline(open_door):
    bound = await open_door(body_s_max=0.2)
    reader, writer = await asyncio.open_connection(bound.host, bound.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n{"
    )
    async with asyncio.timeout(5):
        assert b" 408 " in await reader.readline()
    writer.close()


async def test_slow_headers_have_a_deadline(open_door):
    bound = await open_door(keepalive_s=0.3)
    reader, writer = await asyncio.open_connection(bound.host, bound.port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: loc")
    async with asyncio.timeout(5):
        await reader.read()
    writer.close()


async def test_broken_framing(open_door, http):
    bound = await open_door()
    for raw in (
        b"GARBAGE\r\n\r\n",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ):
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(raw)
        async with asyncio.timeout(5):
            assert b" 400 " in await reader.readline()
        writer.close()
    async with http.get(bound.url + "/healthz") as answer:
        assert answer.status == 200


SPEECHES = [
    ({"model": MODEL, "voice": "alloy"}, "input", "required"),
    ({"model": MODEL, "input": " \n", "voice": "alloy"}, "input", "white space"),
    ({"model": MODEL, "input": "x" * 5000, "voice": "alloy"}, "input", "5000"),
    ({"model": MODEL, "input": "x", "voice": "zoe"}, "voice", "default"),
    ({"model": MODEL, "input": "x", "speed": 9}, "speed", "9"),
    ({"model": MODEL, "input": "x", "response_format": "aac"}, "response_format", "wav"),
    ({"model": MODEL, "input": "x", "response_format": "zip"}, "response_format", "opus"),
    ({"model": MODEL, "input": "x", "stream_format": "sse"}, "stream_format", "pcm"),
    ({"model": MODEL, "input": "x", "instructions": "whisper"}, "instructions", "leave it out"),
    ({"model": MODEL, "input": "x", "format": "wav"}, "format", "did you mean"),
]


@pytest.mark.parametrize(("body", "param", "says"), SPEECHES, ids=lambda value: str(value)[:60])
async def test_bad_speech(open_door, http, service, *, body, param, says):
    bound = await open_door()
    error = await refused(http, bound.url + SPEECH, body)
    assert error["param"] == param
    assert says in error["message"]
    assert service.requests == []


async def test_a_model_without_ears_or_mouth(open_door, http, service):
    text_only = tuple(edge for edge in service.graph.edges if edge.name in ("prompt", "text"))
    service.graph = type(service.graph)(model="words", stages=service.graph.stages, edges=text_only)
    bound = await open_door()
    error = await refused(http, bound.url + CHAT, sound(b64(wav())))
    assert "doesn't take audio" in error["message"]
    error = await refused(http, bound.url + CHAT, shown(data_url(picture())))
    assert "doesn't take pictures" in error["message"]
    error = await refused(http, bound.url + CHAT, chat_body(modalities=["audio"], audio={"format": "wav"}))
    assert error["param"] == "modalities"
    await refused(http, bound.url + SPEECH, {"model": MODEL, "input": "x"})
    await refused(
        http,
        bound.url + TRANSCRIBE,
        form(file=("a.wav", wav()), model=MODEL),
        headers={"Content-Type": "multipart/form-data; boundary=B"},
    )
