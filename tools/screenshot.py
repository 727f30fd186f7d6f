"""Takes the picture of the console in docs/, from a running `accord up`.

In: the page's URL. Out: a PNG of at most 200 KB. Invariant: what it shows is what that service said at that
moment; nothing is made up or retouched.

    .venv/bin/accord up examples/voice-assistant.yaml
    .venv/bin/python tools/screenshot.py http://127.0.0.1:8077/ --load 3 --watch-s 60
"""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--mute-audio",
]
QUESTION = "What is the capital of France, and why is it famous?"
BYTES_MAX = 200_000
ANSWER_MS_MAX = 120_000


def main() -> int:
    """Exit status 0 if the picture was written; 3 if it would be too large."""
    words = argparse.ArgumentParser(description="Take docs/console.png from a running `accord up`.")
    words.add_argument("url", help="the console page, such as http://127.0.0.1:8077/")
    words.add_argument("--out", type=Path, default=Path("docs/console.png"))
    words.add_argument("--scheme", choices=("light", "dark"), default="light")
    words.add_argument("--phone", action="store_true", help="390 x 844, the whole page")
    words.add_argument("--question", default=QUESTION)
    words.add_argument("--sound", type=Path, help="a WAV, FLAC, OGG or MP3 file to ask with")
    words.add_argument("--load", type=int, default=0, help="how many other pages ask meanwhile, again and again")
    words.add_argument("--watch-s", type=int, default=5, help="how long to watch before asking; the ribbons hold 60")
    chosen = words.parse_args()
    picture = take(chosen)
    if len(picture) > BYTES_MAX:
        print(f"{chosen.out}: {len(picture)} bytes; the most is {BYTES_MAX}", file=sys.stderr)
        return 3
    chosen.out.write_bytes(picture)
    print(f"{chosen.out}: {len(picture)} bytes")
    return 0


def take(chosen: argparse.Namespace) -> bytes:
    """Opens the page, asks, waits for the answer's end, and gives the PNG."""
    size = ViewportSize(width=390, height=844) if chosen.phone else ViewportSize(width=1280, height=800)
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        context = browser.new_context(viewport=size, color_scheme=chosen.scheme)
        others = [context.new_page() for _ in range(chosen.load)]
        page = context.new_page()
        page.goto(chosen.url)
        expect(page.locator("#connection-text")).to_have_text("Live", timeout=ANSWER_MS_MAX)
        for other in others:
            other.goto(chosen.url)
        for _ in range(chosen.watch_s):
            keep_asking(others, chosen)
            page.wait_for_timeout(1000)
        ask(page, chosen)
        expect(page.locator(".answer")).to_have_attribute("aria-busy", "false", timeout=ANSWER_MS_MAX)
        picture = page.screenshot(full_page=chosen.phone)
        browser.close()
    return picture


def keep_asking(others: list[Page], chosen: argparse.Namespace) -> None:
    """Lets each page that has its answer ask again."""
    for other in others:
        if other.locator("#send").get_attribute("aria-disabled") != "true":
            ask(other, chosen)


def ask(page: Page, chosen: argparse.Namespace) -> None:
    """Puts the question, with the sound file if there is one."""
    if chosen.sound:
        page.locator("#file").set_input_files(chosen.sound)
        expect(page.locator("#attached li")).to_have_count(1)
    page.get_by_label("Your question").fill("" if chosen.sound else chosen.question)
    page.get_by_role("button", name="Ask", exact=True).click()


if __name__ == "__main__":
    raise SystemExit(main())
