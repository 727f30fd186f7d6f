"""Random and mutated bodies: never a 500, always a well-formed error, and the server lives on."""

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.serve.config import DoorConfig
from accord.serve.server import Bound, serve
from tests.serve.conftest import MODEL
from tests.serve.fake_service import FakeService, Script, heard, sound, text
from tests.serve.media_samples import audio, b64, data_url, picture, tone, wav

# The door silences these when it opens, but pytest sets the filters anew for each test.
pytestmark = [
    pytest.mark.filterwarnings("ignore::aiohttp.BadContentDispositionHeader"),
    pytest.mark.filterwarnings("ignore::aiohttp.BadContentDispositionParam"),
]
EXAMPLES = 4 * settings().max_examples
JSON = {"Content-Type": "application/json"}

CHATS: tuple[Any, ...] = (
    {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What?"},
                    {"type": "input_audio", "input_audio": {"data": b64(wav(0.05)), "format": "wav"}},
                    {"type": "image_url", "image_url": {"url": data_url(picture()), "detail": "auto"}},
                ],
            },
            {"role": "assistant", "content": "That.", "refusal": None, "audio": None, "tool_calls": None},
        ],
        "modalities": ["text", "audio"],
        "audio": {"voice": "alloy", "format": "wav"},
        "stream": False,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 10,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 1,
        "stop": ["x"],
        "n": 1,
        "user": "u",
        "logit_bias": {},
        "response_format": {"type": "text"},
        "metadata": {"a": "b"},
    },
)
SPEECHES: tuple[Any, ...] = (
    {"model": MODEL, "input": "Hi", "voice": "alloy", "response_format": "pcm", "speed": 1.0, "stream_format": "sse"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A door in a thread of its own, as hypothesis' tests are synchronous."""

    bound: Bound
    service: FakeService


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    started: Future[Live] = Future()
    stop: Future[asyncio.Event] = Future()

    async def main() -> None:
        service = FakeService(Script(steps=(*text("a"), *heard("b"), *sound(tone(0.01)))))
        over = asyncio.Event()
        async with serve(service, DoorConfig(model=MODEL, port=0, body_s_max=5.0)) as bound:
            stop.set_result(over)
            started.set_result(Live(bound=bound, service=service))
            await over.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
    thread.start()
    yield started.result(timeout=20)
    loop.call_soon_threadsafe(stop.result().set)
    thread.join(timeout=20)
    assert not thread.is_alive()
    loop.close()


def judge(live: Live, path: str, body: bytes, headers: dict[str, str]) -> int:
    """Posts; checks that any refusal is well-formed, that nothing is a 500, and that all requests have ended."""
    connection = http.client.HTTPConnection(live.bound.host, live.bound.port, timeout=20)
    try:
        connection.request("POST", path, body=body, headers=headers)
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        error = json.loads(data)["error"]
        assert answer.status in (400, 404, 413, 415), (answer.status, error)
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"] == error["message"].encode().decode()
        assert len(error["message"]) < 2000
    return answer.status


odd_numbers = st.sampled_from((-1, 0, 2**31, 2**63, 2**64, -(2**63), 10**400, 1e308, -0.0, 5e-324, 0.1))
odd_words = st.sampled_from(
    ("", " ", "\x00", "data:", "data:image/png;base64,", "\ufeff", "á", "🙂", "wav", "../", "%s")
)
leaves = st.none() | st.booleans() | odd_numbers | odd_words | st.text(max_size=20) | st.floats(allow_nan=True)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, item in inner for path in paths(item, (*here, key)))]


@st.composite
def mutated(draw: st.DrawFn, bases: tuple[Any, ...]) -> bytes:
    """A valid body with one to three changes; sometimes its bytes are damaged, too."""
    body = json.loads(json.dumps(draw(st.sampled_from(bases))))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths(body)))
        if not path:
            continue
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        match draw(st.sampled_from(("replace", "delete", "add", "repeat"))):
            case "replace":
                holder[path[-1]] = draw(values)
            case "delete":
                del holder[path[-1]]
            case "add" if isinstance(holder, dict):
                holder[draw(st.text(max_size=12))] = draw(values)
            case _:
                if isinstance(holder, list):
                    holder.append(holder[path[-1]])
    raw = bytearray(json.dumps(body).encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 3)))):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(raw[: draw(st.sampled_from((len(raw), len(raw), len(raw), len(raw) // 2)))])


@settings(max_examples=EXAMPLES)
@given(body=mutated(CHATS))
def test_mutated_chats(live, body):
    judge(live, "/v1/chat/completions", body, JSON)


@settings(max_examples=EXAMPLES)
@given(body=mutated(SPEECHES))
def test_mutated_speeches(live, body):
    judge(live, "/v1/audio/speech", body, JSON)


@settings(max_examples=EXAMPLES)
@given(body=st.binary(max_size=300), path=st.sampled_from(("/v1/chat/completions", "/v1/audio/speech")))
def test_random_bytes(live, body, path):
    assert judge(live, path, body, JSON) == 400


FILES = (wav(0.05), audio("FLAC", 0.05), audio("OGG", 0.05), audio("MP3", 0.05))
PICTURES = tuple((picture(kind), kind.lower()) for kind in ("PNG", "JPEG", "WEBP"))


@st.composite
def damaged(draw: st.DrawFn, files: tuple[Any, ...]) -> Any:
    """A file with some bytes changed, mostly in its header, and sometimes cut."""
    chosen = draw(st.sampled_from(files))
    data, *rest = chosen if isinstance(chosen, tuple) else (chosen,)
    raw = bytearray(data)
    for _ in range(draw(st.integers(1, 6))):
        raw[draw(st.integers(0, min(len(raw), 96) - 1))] = draw(st.integers(0, 255))
    cut = bytes(raw[: draw(st.integers(1, len(raw)))]) if draw(st.booleans()) else bytes(raw)
    return (cut, *rest) if rest else cut


@settings(max_examples=EXAMPLES)
@given(file=damaged(FILES), kind=st.sampled_from(("wav", "mp3", "flac", "ogg")))
def test_damaged_audio(live, file, kind):
    content = [{"type": "input_audio", "input_audio": {"data": b64(file), "format": kind}}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}]}
    judge(live, "/v1/chat/completions", json.dumps(body).encode(), JSON)


@settings(max_examples=EXAMPLES)
@given(shown=damaged(PICTURES))
def test_damaged_pictures(live, shown):
    content = [{"type": "image_url", "image_url": {"url": data_url(*shown)}}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}]}
    judge(live, "/v1/chat/completions", json.dumps(body).encode(), JSON)


FORM = (
    b'--B\r\nContent-Disposition: form-data; name="model"\r\n\r\nembedded-omni\r\n'
    b'--B\r\nContent-Disposition: form-data; name="temperature"\r\n\r\n0.5\r\n'
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    + wav(0.01)
    + b"\r\n--B--\r\n"
)


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_mutated_forms(live, data):
    raw = bytearray(FORM)
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(("change", "insert", "delete"))):
            case "change":
                raw[at] = data.draw(st.integers(0, 255))
            case "insert":
                raw[at:at] = data.draw(st.sampled_from((b"\r\n", b"--B", b"\r\n--B\r\n", b'"', b"\0", b";", b"\xff")))
            case _:
                del raw[at : at + data.draw(st.integers(1, 40))]
    headers = {"Content-Type": data.draw(st.sampled_from(("multipart/form-data; boundary=B",) * 5 + ODD_TYPES))}
    judge(live, "/v1/audio/transcriptions", bytes(raw), headers)


ODD_TYPES = (
    "multipart/form-data",
    "multipart/form-data; boundary=",
    "multipart/form-data; boundary=" + "B" * 100,
    'multipart/form-data; boundary="',
    "multipart/mixed; boundary=B",
    "text/plain",
)


def test_the_server_still_works_and_holds_nothing(live):
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
    assert judge(live, "/v1/chat/completions", json.dumps(body).encode(), JSON) == 200
    assert all(ticket.last is not None for ticket in live.service.tickets)
