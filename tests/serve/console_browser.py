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
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect

from tests.serve.fake_service import Script, Step, sound, text

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
LEVEL = 500
PATIENCE_MS = 20_000  # how long a loaded machine may take; nothing is judged by it


def spoken_answer(*, then: tuple[Step, ...] = ()) -> Script:
    """TEXT, and three chunks of sound, each 0.1 s long and of one level."""
    one, two, three = sound(*[struct.pack("<h", LEVEL) * CHUNK_FRAMES] * 3)
    first, second = text(*TEXT)
    return Script(steps=(first, one, second, two, three, *then))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
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
    page.set_default_timeout(PATIENCE_MS)
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
