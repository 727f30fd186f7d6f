"""The console page in headless Chromium: what a person sees, and what the page sends.

In: a scripted service behind the real door. Out: verdicts on the page. Invariant: every test fails on any
console error, uncaught exception or breach of the content security policy, whatever else it looks at.
"""

import base64
import io
import json
import re
import shutil
import struct
import wave
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect

from accord.terms.errors import Overloaded
from accord.terms.graph import Payload
from accord.terms.request import Done, ErrorCode, Failed, FinishReason, Output, Usage
from tests.serve.console_server import REPLICAS, ScriptedService, console_at

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]
EDGES = ["audio", "image", "prompt", "say", "heard", "seen", "speak", "spectrum", "transcript", "text", "speech"]
DESK = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=390, height=844)
TEXT = ("The capital of France", " is Paris.")
CHUNK_FRAMES = 2400  # 0.1 s at 24 kHz

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


def text(data: str, index: int) -> Output:
    return Output(edge="text", payload=Payload.TEXT, index=index, data=data.encode())


def sound(index: int) -> Output:
    return Output(edge="speech", payload=Payload.PCM, index=index, data=struct.pack("<h", 500) * CHUNK_FRAMES)


def spoken_answer() -> tuple[Output | Done, ...]:
    usage = Usage(prompt_tokens=20, completion_tokens=9, finish_reason=FinishReason.STOP)
    return (text(TEXT[0], 0), sound(0), text(TEXT[1], 1), sound(1), sound(2), Done(usage=usage, spans=()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    # None lets Playwright look for a browser of its own, and say how to get one.
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        await browser.close()


@asynccontextmanager
async def opened(
    browser: Browser, url: str, *, viewport: ViewportSize = DESK, scheme: str = "light", spoilt: str = "(?!)"
):
    """The page at `url`; afterwards there must have been no complaint, but for those that match `spoilt`."""
    complaints: list[str] = []
    context = await browser.new_context(
        viewport=viewport, color_scheme="dark" if scheme == "dark" else "light", permissions=["microphone"]
    )
    await context.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.violatedDirective, e.blockedURI))"
    )
    page = await context.new_page()
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(10_000)
    try:
        await page.goto(url)
        yield page
    finally:
        await context.close()
    assert [line for line in complaints if not re.search(spoilt, line)] == []


async def body_sent(page: Page, question: str) -> dict:
    """Asks by pressing Enter, and gives the JSON body that left the page."""
    async with page.expect_request("**/v1/chat/completions") as sent:
        await page.get_by_label("Your question").fill(question)
        await page.get_by_label("Your question").press("Enter")
    body = (await sent.value).post_data
    assert body is not None
    return json.loads(body)


async def bar_shares(page: Page, stage: str) -> list[float]:
    """The widths of a stage's first bar as shares of their sum, as the browser laid them out."""
    bar = page.locator(f'[data-stage="{stage}"] .bar').first
    widths = await bar.locator("i").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    return [width / sum(widths) for width in widths]


async def test_graph_shows_every_stage_replica_and_edge(browser: Browser, tmp_path: Path) -> None:
    async with console_at(ScriptedService()) as url, opened(browser, url) as page:
        for stage in ("recognizer", "vision", "language", "acoustic", "vocoder"):
            card = page.get_by_role("article", name=f"Stage {stage}")
            await expect(card).to_be_visible()
            await expect(card.locator(".replica")).to_have_count(sum(1 for name, _ in REPLICAS if name == stage))
        names = await page.locator("svg .label .name").all_text_contents()
        assert names == EDGES
        language = page.locator('[data-stage="language"] [data-replica="1"]')
        await expect(language).to_contain_text(re.compile("busy.*3 active.*96 MiB.*arena 25%.*0 restarts"))
        await expect(page.locator('[data-stage="vocoder"]')).to_contain_text("1 restart")
        await page.screenshot(path=tmp_path / "light.png")


async def test_stages_flow_left_to_right_without_overlap(browser: Browser) -> None:
    async with console_at(ScriptedService()) as url, opened(browser, url) as page:
        boxes = {}
        for stage in ("recognizer", "vision", "language", "acoustic", "vocoder"):
            boxes[stage] = await page.locator(f'[data-stage="{stage}"]').bounding_box()
        ends = [(box["x"], box["x"] + box["width"]) for box in boxes.values()]
        assert ends[0] == ends[1]
        assert all(one[1] < other[0] for one, other in pairwise(ends[1:]))
        assert boxes["recognizer"]["y"] + boxes["recognizer"]["height"] < boxes["vision"]["y"]
        assert max(end for _, end in ends) < 1280


async def test_shares_are_differences_between_snapshots(browser: Browser) -> None:
    async with console_at(ScriptedService()) as url, opened(browser, url) as page:
        bar = page.locator('[data-stage="acoustic"] .bar')
        await expect(bar).to_have_attribute("aria-label", "no measurement yet")
        await expect(bar).to_have_attribute(
            "aria-label", "busy 40%, starved 35%, blocked 20%, transferring 5%, idle 0%"
        )
        await page.wait_for_timeout(800)  # the transition of the bar
        shares = await bar_shares(page, "acoustic")
        assert shares == pytest.approx([0.40, 0.35, 0.20, 0.05, 0.0], abs=0.03)


async def test_shares_change_with_snapshots(browser: Browser) -> None:
    service = ScriptedService()
    async with console_at(service) as url, opened(browser, url) as page:
        bar = page.locator('[data-stage="vision"] .bar')
        await expect(bar).to_have_attribute("aria-label", re.compile("busy 0%.*idle 100%"))
        service.pace = {**service.pace, "vision": (0.0, 0.0, 1.0, 0.0, 0.0)}
        await expect(bar).to_have_attribute("aria-label", re.compile("blocked [1-9]"))
        await expect(page.locator('[data-stage="vision"] .state')).to_have_text("blocked")


async def test_objectives_and_totals(browser: Browser) -> None:
    async with console_at(ScriptedService()) as url, opened(browser, url) as page:
        rows = page.locator("#objectives tr")
        await expect(rows.nth(0)).to_contain_text(re.compile("First text.*p50.*≤ 300 ms.*142 ms.*met.*128"))
        await expect(rows.nth(1)).to_contain_text(re.compile("First audio.*p99.*≤ 900 ms.*1.07 s.*missed.*128"))
        await expect(rows.nth(2)).to_contain_text(re.compile("Whole answer.*≤ 8 s.*–.*no sample.*0"))
        totals = {"done": "1,230", "active": "5", "queued": "1", "failed": "3", "cancelled": "4", "refused": "0"}
        for name, value in totals.items():
            await expect(page.locator(f'[data-total="{name}"] dd')).to_have_text(value)


async def test_ask_by_text_streams_the_answer_and_schedules_its_sound(browser: Browser) -> None:
    service = ScriptedService(events=spoken_answer())
    async with console_at(service) as url, opened(browser, url) as page:
        body = await body_sent(page, "What is the capital of France?")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
        await expect(page.locator(".note")).to_contain_text(
            re.compile(r"first text .* · first audio .* · 0\.3 s of speech · 9 tokens · whole answer")
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
    async with console_at(ScriptedService(events=spoken_answer())) as url, opened(browser, url) as page:
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
    assert [level for _, _, level in starts] == pytest.approx([500 / 32768] * 3)
    for (at, duration, _), (following, _, _) in pairwise(starts):
        assert following == pytest.approx(at + duration, abs=1e-9)


async def test_without_speech_only_text_is_asked_for(browser: Browser) -> None:
    service = ScriptedService(events=(text("Paris.", 0), Done(usage=Usage(completion_tokens=2), spans=())))
    async with console_at(service) as url, opened(browser, url) as page:
        await page.get_by_label("speak the answer").uncheck()
        body = await body_sent(page, "Capital?")
        await expect(page.locator(".said")).to_have_text("Paris.")
    assert body["modalities"] == ["text"]
    assert "audio" not in body
    assert service.requests[0].outputs == {"text"}


async def test_ask_by_picture(browser: Browser) -> None:
    service = ScriptedService(events=spoken_answer())
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
    async with console_at(ScriptedService(events=spoken_answer())) as url, opened(browser, url) as page:
        await page.locator("#file").set_input_files([{"name": "dot.gif", "mimeType": "image/gif", "buffer": gif}])
        await expect(page.locator("#attached li")).to_contain_text("dot.gif")
        body = await body_sent(page, "")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
    (picture,) = body["messages"][0]["content"]
    assert base64.b64decode(picture["image_url"]["url"].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")


async def test_ask_by_dropped_sound_file(browser: Browser) -> None:
    """A WAV is sent as it is, even under a wrong type."""
    service = ScriptedService(events=spoken_answer())
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
    async with console_at(ScriptedService(events=spoken_answer())) as url, opened(browser, url) as page:
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
    service = ScriptedService(events=spoken_answer(), hold_after=3)
    async with console_at(service) as url, opened(browser, url) as page:
        await body_sent(page, "A long question")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
        async with page.expect_event("requestfailed"):
            await page.get_by_role("button", name="Stop", exact=True).click()
        await expect(page.locator(".note")).to_contain_text("stopped")
        await expect(page.get_by_role("button", name="Ask", exact=True)).to_be_enabled()
        await expect(page.locator("#stop")).to_be_hidden()
        await service.tickets[0].cancelled.wait()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            {"full": Overloaded("queue: 8 requests wait already; try later", retry_after_s=3.0)},
            "try later (HTTP 429, try again in 3 s)",
        ),
        (
            {"events": (text("Par", 0), Failed(code=ErrorCode.REPLICA_LOST, text="language 0 died; ask again"))},
            "language 0 died; ask again",
        ),
    ],
    ids=["refused", "in mid-stream"],
)
async def test_error_is_shown_and_the_question_kept(browser: Browser, script: dict, said: str) -> None:
    async with console_at(ScriptedService(**script)) as url, opened(browser, url, spoilt="429") as page:
        await body_sent(page, "Hello?")
        await expect(page.get_by_role("alert").filter(has_text=said)).to_be_visible()
        await expect(page.get_by_label("Your question")).to_have_value("Hello?")


async def test_wrong_files_are_refused_with_a_reason(browser: Browser) -> None:
    async with console_at(ScriptedService()) as url, opened(browser, url) as page:
        await page.locator("#file").set_input_files(
            [{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}]
        )
        await expect(page.locator("#error")).to_contain_text("notes.txt: neither a picture nor a sound; attach a PNG")
        await page.get_by_role("button", name="Ask", exact=True).click()
        await expect(page.locator("#error")).to_contain_text("Type a question")


async def test_key_is_asked_for_only_when_it_is_needed(browser: Browser) -> None:
    async with console_at(ScriptedService()) as url, opened(browser, url) as page:
        await expect(page.locator("#connection-text")).to_have_text("Live")
        await expect(page.locator("#key-form")).to_be_hidden()
    service = ScriptedService(events=spoken_answer())
    async with console_at(service, api_key="opensesame") as url, opened(browser, url, spoilt="401") as page:
        for key in ("guessed", "opensesame"):
            await page.get_by_label(re.compile("API key")).fill(key)
            await page.get_by_role("button", name="Use key").click()
        await expect(page.locator("#connection-text")).to_have_text("Live")
        await body_sent(page, "Hello?")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))


async def test_says_when_the_service_is_gone_and_comes_back(browser: Browser) -> None:
    first = AsyncExitStack()
    url = await first.enter_async_context(console_at(ScriptedService()))
    async with first, opened(browser, url, spoilt="net::ERR_") as page:
        state = page.locator("#connection-text")
        await expect(state).to_have_text("Live")
        await first.aclose()
        await expect(state).to_have_text("Not connected")
        await expect(page.get_by_role("alert").filter(has_text="Not connected")).to_contain_text("Trying again in")
        await page.get_by_label("Your question").fill("Are you there?")
        await page.get_by_label("Your question").press("Enter")
        await expect(page.locator("#error")).to_contain_text("can't be reached")
        async with console_at(ScriptedService(), port=int(url.rstrip("/").rsplit(":", 1)[1])):
            await page.get_by_role("button", name="Try now").click()
            await expect(state).to_have_text("Live")
            await expect(page.locator("#lost")).to_be_hidden()


async def test_pauses_while_the_tab_is_hidden(browser: Browser) -> None:
    service = ScriptedService()
    async with console_at(service) as url, opened(browser, url) as page:
        await expect(page.locator("#connection-text")).to_have_text("Live")
        async with page.expect_event("requestfailed", predicate=lambda request: "status/stream" in request.url):
            await hide(page, True)
        await expect(page.locator("#connection-text")).to_contain_text("Paused")
        async with page.expect_request("**/status/stream*"):
            await hide(page, False)
        await expect(page.locator("#connection-text")).to_have_text("Live")


async def hide(page: Page, hidden: bool) -> None:
    """Headless tabs are never hidden, so the page is told that it is."""
    await page.evaluate(
        """(hidden) => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


async def test_a_service_that_starts_says_so(browser: Browser) -> None:
    async with console_at(ScriptedService(ready=False)) as url, opened(browser, url) as page:
        await expect(page.locator("#connection-text")).to_have_text("Starting")


async def test_phone(browser: Browser, tmp_path: Path) -> None:
    service = ScriptedService(events=spoken_answer())
    async with console_at(service) as url, opened(browser, url, viewport=PHONE) as page:
        await expect(page.locator("#drawing")).to_have_attribute("data-flow", "down")
        vocoder = await page.locator('[data-stage="vocoder"]').bounding_box()
        acoustic = await page.locator('[data-stage="acoustic"]').bounding_box()
        assert vocoder is not None
        assert acoustic is not None
        assert vocoder["y"] > acoustic["y"] + acoustic["height"]
        await body_sent(page, "Hello?")
        await expect(page.locator(".said")).to_have_text("".join(TEXT))
        assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        assert await page.evaluate(
            "document.querySelector('.scroller').scrollWidth <= document.querySelector('.scroller').clientWidth"
        )
        await page.screenshot(path=tmp_path / "phone.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_contrast_is_aa(browser: Browser, scheme: str, tmp_path: Path) -> None:
    """Every visible text against what is painted behind it: at least 4.5 to 1 (WCAG 2.2, 1.4.3)."""
    service = ScriptedService(events=(*spoken_answer()[:-1], Failed(code=ErrorCode.ENGINE, text="the engine failed")))
    async with console_at(service) as url, opened(browser, url, scheme=scheme) as page:
        await body_sent(page, "Hello?")
        await expect(page.locator("#error")).to_be_visible()
        await page.locator("summary").click()
        pairs = await page.evaluate(CONTRAST)
        await page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
    assert len(pairs) > 100
    assert [(said, round(ratio(ink, paper), 2)) for said, ink, paper in pairs if ratio(ink, paper) < 4.5] == []


# [text, its colour, the first opaque background around it], colours as [r, g, b].
CONTRAST = """() => {
  const colour = (text) => text.match(/[0-9.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const paint = colour(getComputedStyle(at).backgroundColor);
      if (paint.length === 3 || paint[3] === 1) return paint.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const pairs = [];
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility() || node.closest(":disabled, noscript")) continue;
    const style = getComputedStyle(node);
    const ink = colour(node instanceof SVGElement ? style.fill : style.color);
    pairs.push([walker.currentNode.data.trim(), ink, behind(node)]);
  }
  return pairs;
}"""


def ratio(one: list[float], other: list[float]) -> float:
    """The contrast ratio of two sRGB colours, by the formula of WCAG 2.2."""

    def luminance(colour: list[float]) -> float:
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (c / 255 for c in colour)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


async def test_keyboard_reaches_every_control(browser: Browser) -> None:
    async with console_at(ScriptedService()) as url, opened(browser, url) as page:
        await expect(page.locator("#connection-text")).to_have_text("Live")
        reached = []
        for _ in range(10):
            await page.keyboard.press("Tab")
            reached.append(
                await page.evaluate("document.activeElement.id || document.activeElement.tagName.toLowerCase()")
            )
        controls = ["summary", "question", "attach", "record", "speak", "send"]
        assert [each for each in reached if each in controls] == controls
        unnamed = """nodes => nodes.filter(node => node.checkVisibility() &&
          !(node.labels?.length || node.textContent.trim() || node.ariaLabel)).map(node => node.id)"""
        assert await page.locator("button, input, textarea").evaluate_all(unnamed) == []


async def test_motion_is_off_for_those_who_ask(browser: Browser) -> None:
    async with console_at(ScriptedService()) as url, opened(browser, url) as page:
        await page.emulate_media(reduced_motion="reduce")
        moving = "nodes => nodes.filter(node => getComputedStyle(node).transitionDuration !== '0s').length"
        assert await page.locator("*").evaluate_all(moving) == 0
