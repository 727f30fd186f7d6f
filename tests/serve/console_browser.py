"""A headless Chromium that looks at the console page, and what its tests play to it.

In: a URL. Out: the page, and at its end a verdict. Invariant: a test fails on any console error, uncaught
exception or breach of the content security policy, whatever else it looks at.
"""

import json
import re
import shutil
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from accord.terms.graph import Payload
from accord.terms.request import Done, FinishReason, Output, Usage

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
DESK = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=390, height=844)
TEXT = ("The capital of France", " is Paris.")
CHUNK_FRAMES = 2400  # 0.1 s at 24 kHz


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
