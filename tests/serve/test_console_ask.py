"""Asking on the console page: what leaves it, and what becomes of the answer.

In: a scripted service behind the real door. Out: verdicts on the page in headless Chromium.
"""

import base64
import io
import re
import struct
import wave
from dataclasses import replace
from itertools import pairwise

import pytest
from playwright.async_api import Browser, expect

from accord.models.embedded import graph
from accord.terms.errors import Overloaded
from accord.terms.request import ErrorCode
from tests.serve import console_browser
from tests.serve.conftest import until
from tests.serve.console_browser import LEVEL, TEXT, body_sent, opened, spoken_answer
from tests.serve.console_server import LivelyService, console_at
from tests.serve.fake_service import Script, Wait, fail, text

pytestmark = pytest.mark.asyncio(loop_scope="module")
browser = console_browser.browser

# A 2 x 1 picture, red and blue, as the PNG specification lays it out.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP4z8DAwPAfAAcAAf9+nHb5AAAAAElFTkSuQmCC"
)


def wav(rate_hz: int = 16_000) -> bytes:
    """A quarter of a second of a square wave."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(b"".join(struct.pack("<h", 8000 if at // 20 % 2 else -8000) for at in range(rate_hz // 4)))
    return out.getvalue()


async def test_ask_by_text_streams_the_answer_and_schedules_its_sound(browser: Browser) -> None:
    service = LivelyService(spoken_answer())
    async with console_at(service) as url, opened(browser, url) as page:
        body = await body_sent(page, "What is the capital of France?")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
        await expect(page.locator(".note")).to_contain_text(
            re.compile(r"first text .* · first audio .* · 0\.3 s of speech · 7 tokens · whole answer")
        )
        await expect(page.locator(".answer")).to_have_attribute("aria-busy", "false")
        await expect(page.get_by_label("Your question")).to_have_value("")
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "What is the capital of France?"}]}
    ]
    assert (body["model"], body["stream"], body["modalities"]) == ("embedded-omni", True, ["text", "audio"])
    assert body["audio"]["format"] == "pcm16"
    assert service.requests[0].outputs == {"text", "speech"}


async def test_sound_is_gapless(browser: Browser) -> None:
    """Each chunk must start where the last one ends. The clock stands still, so none can come too late."""
    async with console_at(LivelyService(spoken_answer())) as url, opened(browser, url) as page:
        await page.evaluate(
            """() => {
              window.starts = [];
              Object.defineProperty(BaseAudioContext.prototype, "currentTime", { get: () => 1 });
              const start = AudioBufferSourceNode.prototype.start;
              AudioBufferSourceNode.prototype.start = function (at) {
                window.starts.push([at, this.buffer.duration, this.buffer.getChannelData(0)[0]]);
                return start.call(this, at);
              };
            }"""
        )
        await body_sent(page, "Speak")
        await expect(page.locator(".note")).to_contain_text("whole answer")
        starts = await page.evaluate("window.starts")
    assert [duration for _, duration, _ in starts] == pytest.approx([0.1, 0.1, 0.1])
    assert [level for _, _, level in starts] == pytest.approx([LEVEL / 32768] * 3)
    for (at, duration, _), (following, _, _) in pairwise(starts):
        assert following == pytest.approx(at + duration, abs=1e-9)


async def test_without_speech_only_text_is_asked_for(browser: Browser) -> None:
    service = LivelyService(Script(steps=text("Paris.")))
    async with console_at(service) as url, opened(browser, url) as page:
        await page.get_by_label("speak the answer").uncheck()
        body = await body_sent(page, "Capital?")
        await expect(page.locator(".said")).to_have_text("Paris.")
    assert body["modalities"] == ["text"]
    assert "audio" not in body
    assert service.requests[0].outputs == {"text"}


async def test_ask_by_picture(browser: Browser) -> None:
    service = LivelyService(spoken_answer())
    async with console_at(service) as url, opened(browser, url) as page:
        await page.locator("#file").set_input_files([{"name": "flag.png", "mimeType": "image/png", "buffer": PNG}])
        await expect(page.locator("#attached li")).to_contain_text("flag.png")
        body = await body_sent(page, "What is this?")
        await expect(page.locator(".asked img")).to_be_visible()
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
    picture, question = body["messages"][0]["content"]
    assert picture == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + base64.b64encode(PNG).decode()},
    }
    assert question == {"type": "text", "text": "What is this?"}
    assert [part.data for part in service.requests[0].parts if part.edge == "image"] == [PNG]


async def test_a_picture_that_the_service_does_not_read_is_converted(browser: Browser) -> None:
    gif = base64.b64decode("R0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=")
    async with console_at(LivelyService(spoken_answer())) as url, opened(browser, url) as page:
        await page.locator("#file").set_input_files([{"name": "dot.gif", "mimeType": "image/gif", "buffer": gif}])
        await expect(page.locator("#attached li")).to_contain_text("dot.gif")
        body = await body_sent(page, "")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
    (picture,) = body["messages"][0]["content"]
    assert base64.b64decode(picture["image_url"]["url"].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")


async def test_ask_by_dropped_sound_file(browser: Browser) -> None:
    """A WAV is sent as it is, even under a wrong type."""
    service = LivelyService(spoken_answer())
    async with console_at(service) as url, opened(browser, url) as page:
        await page.evaluate(
            """(data) => {
              const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0));
              const dataTransfer = new DataTransfer();
              dataTransfer.items.add(new File([bytes], "question.wav", { type: "audio/mpeg" }));
              document.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
            }""",
            base64.b64encode(wav()).decode(),
        )
        await expect(page.locator("#attached li")).to_contain_text("question.wav")
        body = await body_sent(page, "")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
    (part,) = body["messages"][0]["content"]
    assert part == {"type": "input_audio", "input_audio": {"data": base64.b64encode(wav()).decode(), "format": "wav"}}
    assert [part.data for part in service.requests[0].parts if part.edge == "audio"] == [wav()]


async def test_recording_is_sent_as_wav(browser: Browser) -> None:
    """Chromium's fake microphone beeps; what leaves must be a WAV of 16-bit mono at 16 kHz."""
    async with console_at(LivelyService(spoken_answer())) as url, opened(browser, url) as page:
        await page.get_by_role("button", name="Record").click()
        await expect(page.locator("#record")).to_have_attribute("aria-pressed", "true")
        await page.wait_for_timeout(1200)
        await page.locator("#record").click()
        await expect(page.locator("#attached li")).to_contain_text("recording.wav")
        body = await body_sent(page, "")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
    data = base64.b64decode(body["messages"][0]["content"][0]["input_audio"]["data"])
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        assert file.getnframes() > 8_000
        assert max(abs(sample) for (sample,) in struct.iter_unpack("<h", file.readframes(file.getnframes()))) > 1000


async def test_stop_aborts_the_request(browser: Browser) -> None:
    service = LivelyService(spoken_answer(then=(Wait(seconds=60),)))
    async with console_at(service) as url, opened(browser, url) as page:
        await body_sent(page, "A long question")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
        async with page.expect_event("requestfailed"):
            await page.get_by_role("button", name="Stop", exact=True).click()
        await expect(page.locator(".note")).to_contain_text("stopped")
        await expect(page.get_by_role("button", name="Ask", exact=True)).to_be_enabled()
        await expect(page.locator("#stop")).to_be_hidden()
        await until(lambda: service.tickets[0].cancelled)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            Script(refusal=Overloaded("queue: 8 requests wait already; try later", retry_after_s=3.0)),
            "try later (HTTP 429, try again in 3 s)",
        ),
        (
            Script(steps=(*text("Par"), *fail(ErrorCode.REPLICA_LOST, "language 0 died; ask again"))),
            "language 0 died; ask again",
        ),
    ],
    ids=["refused", "in mid-stream"],
)
async def test_error_is_shown_and_the_question_kept(browser: Browser, script: Script, said: str) -> None:
    async with console_at(LivelyService(script)) as url, opened(browser, url, spoilt="429") as page:
        await body_sent(page, "Hello?")
        await expect(page.get_by_role("alert").filter(has_text=said)).to_be_visible()
        await expect(page.get_by_label("Your question")).to_have_value("Hello?")


async def test_wrong_files_are_refused_with_a_reason(browser: Browser) -> None:
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
        await page.locator("#file").set_input_files(
            [{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}]
        )
        await expect(page.locator("#error")).to_contain_text("notes.txt: neither a picture nor a sound; attach a PNG")
        await page.get_by_role("button", name="Ask", exact=True).click()
        await expect(page.locator("#error")).to_contain_text("Type a question")


async def test_key_is_asked_for_only_when_it_is_needed(browser: Browser) -> None:
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
        await expect(page.locator("#connection-text")).to_have_text("Live")
        await expect(page.locator("#key-form")).to_be_hidden()
    service = LivelyService(spoken_answer())
    async with console_at(service, api_key="opensesame") as url, opened(browser, url, spoilt="401") as page:
        for key in ("guessed", "opensesame"):
            await page.get_by_label(re.compile("API key")).fill(key)
            await page.get_by_role("button", name="Use key").click()
        await expect(page.locator("#connection-text")).to_have_text("Live")
        await body_sent(page, "Hello?")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))


async def test_speech_is_offered_only_by_a_model_that_speaks(browser: Browser) -> None:
    service = LivelyService(Script(steps=text("Paris.")))
    whole = graph()
    mute = replace(whole, edges=tuple(edge for edge in whole.edges if edge.name != "speech"))
    service.graph = mute
    async with console_at(service) as url, opened(browser, url) as page:
        await expect(page.locator("#connection-text")).to_have_text("Live")
        await expect(page.get_by_label("speak the answer")).to_be_hidden()
        body = await body_sent(page, "Capital?")
        await expect(page.locator(".said")).to_have_text("Paris.")
    assert body["modalities"] == ["text"]
