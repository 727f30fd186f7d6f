"""The console page for every eye and hand: phones, contrast, keyboard, motion.

In: a scripted service behind the real door. Out: verdicts on the page, and screenshots to look at.
"""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from accord.terms.request import ErrorCode
from tests.serve import console_browser
from tests.serve.console_browser import PHONE, TEXT, body_sent, opened, spoken_answer
from tests.serve.console_server import LivelyService, console_at
from tests.serve.fake_service import fail

pytestmark = pytest.mark.asyncio(loop_scope="module")
browser = console_browser.browser

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
    if (!walker.currentNode.data.trim() || !node.checkVisibility()) continue;
    if (node.closest("[aria-disabled=true], noscript")) continue;
    const style = getComputedStyle(node);
    const ink = colour(node instanceof SVGElement ? style.fill : style.color);
    pairs.push([walker.currentNode.data.trim(), ink, behind(node)]);
  }
  return pairs;
}"""


async def test_phone(browser: Browser, tmp_path: Path) -> None:
    service = LivelyService(spoken_answer())
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
    service = LivelyService(spoken_answer(then=fail(ErrorCode.ENGINE, "the engine failed")))
    async with console_at(service) as url, opened(browser, url, scheme=scheme) as page:
        await body_sent(page, "Hello?")
        await expect(page.locator("#error")).to_be_visible()
        await page.locator("summary").click()
        pairs = await page.evaluate(CONTRAST)
        await page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
    assert len(pairs) > 100
    assert [(said, round(ratio(ink, paper), 2)) for said, ink, paper in pairs if ratio(ink, paper) < 4.5] == []


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
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
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
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
        await page.emulate_media(reduced_motion="reduce")
        moving = "nodes => nodes.filter(node => getComputedStyle(node).transitionDuration !== '0s').length"
        assert await page.locator("*").evaluate_all(moving) == 0
