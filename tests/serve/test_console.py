"""The console page: what a person sees of the service.

In: a scripted service behind the real door. Out: verdicts on the page in headless Chromium.
"""

import random
import re
from contextlib import AsyncExitStack
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.serve import console_browser
from tests.serve.console_browser import opened
from tests.serve.console_server import REPLICAS, LivelyService, console_at

pytestmark = pytest.mark.asyncio(loop_scope="module")
browser = console_browser.browser

EDGES = ["audio", "image", "prompt", "say", "heard", "seen", "speak", "spectrum", "transcript", "text", "speech"]


async def bar_shares(page: Page, stage: str) -> list[float]:
    """The widths of a stage's first bar as shares of their sum, as the browser laid them out."""
    bar = page.locator(f'[data-stage="{stage}"] .bar').first
    widths = await bar.locator("i").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().width)")
    return [width / sum(widths) for width in widths]


async def test_graph_shows_every_stage_replica_and_edge(browser: Browser, tmp_path: Path) -> None:
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
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
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
        boxes = {}
        for stage in ("recognizer", "vision", "language", "acoustic", "vocoder"):
            boxes[stage] = await page.locator(f'[data-stage="{stage}"]').bounding_box()
        ends = [(box["x"], box["x"] + box["width"]) for box in boxes.values()]
        assert ends[0] == ends[1]
        assert all(one[1] < other[0] for one, other in pairwise(ends[1:]))
        assert boxes["recognizer"]["y"] + boxes["recognizer"]["height"] < boxes["vision"]["y"]
        assert max(end for _, end in ends) < 1280


def random_graph(seed: int) -> dict:
    """Up to ten stages in a random order, edges that only go forward, and edges from and to the door."""
    dice = random.Random(seed)
    names = [f"s{number}" for number in range(dice.randint(1, 10))]
    pairs = [(a, b) for at, a in enumerate(names) for b in names[at + 1 :] if dice.random() < 0.35]
    pairs += [("door", name) for name in names if dice.random() < 0.4]
    pairs += [(name, "door") for name in names if dice.random() < 0.4]
    dice.shuffle(pairs)
    edges = [{"name": f"e{at}", "source": a, "target": b, "payload": "text"} for at, (a, b) in enumerate(pairs)]
    return {"model": "any", "stages": [{"name": name} for name in dice.sample(names, len(names))], "edges": edges}


async def test_any_graph_is_laid_out_without_overlap(browser: Browser) -> None:
    """Boxes keep apart, and every line runs forward from its source's side to its target's."""
    graphs = [random_graph(seed) for seed in range(60)]
    room = {"main": 1200, "rail": 5, "gapMin": 74, "laneCross": 26, "itemGap": 14}
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
        plans = await page.evaluate(
            """async ([graphs, room]) => {
              const { layout } = await import("/console/layout.js");
              return graphs.map((graph) => {
                const sizes = new Map(graph.stages.map(({ name }, at) => [name, { main: 190, cross: 90 + 40 * at }]));
                const plan = layout(graph, sizes, room);
                const boxes = [...sizes].map(([name, { cross }]) => [name, { ...plan.boxes.get(name), high: cross }]);
                return { ...plan, boxes: Object.fromEntries(boxes) };
              });
            }""",
            [graphs, room],
        )
    for seed, (graph, plan) in enumerate(zip(graphs, plans, strict=True)):
        boxes = plan["boxes"]
        assert set(boxes) == {stage["name"] for stage in graph["stages"]}, f"seed {seed}"
        for (_, one), (_, other) in combinations(boxes.items(), 2):
            apart = abs(one["main"] - other["main"]) >= 190
            above, below = sorted((one, other), key=lambda box: box["cross"])
            assert apart or above["cross"] + above["high"] <= below["cross"] + 1e-6, f"seed {seed}"
        assert len(plan["lines"]) == len(graph["edges"]), f"seed {seed}"
        for line in plan["lines"]:
            source, target = line["edge"]["source"], line["edge"]["target"]
            mains = [main for main, _ in line["path"]]
            assert mains == sorted(mains), f"seed {seed}"
            assert mains[0] == (5 if source == "door" else boxes[source]["main"] + 190), f"seed {seed}"
            assert mains[-1] == (plan["main"] - 5 if target == "door" else boxes[target]["main"]), f"seed {seed}"


async def test_shares_are_differences_between_snapshots(browser: Browser) -> None:
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
        await page.emulate_media(reduced_motion="reduce")  # the bar takes its widths at once
        bar = page.locator('[data-stage="acoustic"] .bar')
        await expect(bar).to_have_attribute("aria-label", "no measurement yet")
        await expect(bar).to_have_attribute(
            "aria-label", "busy 40%, starved 35%, blocked 20%, transferring 5%, idle 0%"
        )
        shares = await bar_shares(page, "acoustic")
        assert shares == pytest.approx([0.40, 0.35, 0.20, 0.05, 0.0], abs=0.03)


async def test_shares_change_with_snapshots(browser: Browser) -> None:
    service = LivelyService()
    async with console_at(service) as url, opened(browser, url) as page:
        bar = page.locator('[data-stage="vision"] .bar')
        await expect(bar).to_have_attribute("aria-label", re.compile("busy 0%.*idle 100%"))
        service.pace = {**service.pace, "vision": (0.0, 0.0, 1.0, 0.0, 0.0)}
        await expect(bar).to_have_attribute("aria-label", re.compile("blocked [1-9]"))
        await expect(page.locator('[data-stage="vision"] .state')).to_have_text("blocked")


async def test_objectives_and_totals(browser: Browser) -> None:
    async with console_at(LivelyService()) as url, opened(browser, url) as page:
        rows = page.locator("#objectives tr")
        await expect(rows.nth(0)).to_contain_text(re.compile("First text.*p50.*≤ 300 ms.*142 ms.*met.*128"))
        await expect(rows.nth(1)).to_contain_text(re.compile("First audio.*p99.*≤ 900 ms.*1.07 s.*missed.*128"))
        await expect(rows.nth(2)).to_contain_text(re.compile("Whole answer.*≤ 8 s.*–.*no sample.*0"))
        totals = {"done": "1,230", "active": "5", "queued": "1", "failed": "3", "cancelled": "4", "refused": "0"}
        for name, value in totals.items():
            await expect(page.locator(f'[data-total="{name}"] dd')).to_have_text(value)


async def test_says_when_the_service_is_gone_and_comes_back(browser: Browser) -> None:
    first = AsyncExitStack()
    url = await first.enter_async_context(console_at(LivelyService()))
    async with first, opened(browser, url, spoilt="net::ERR_") as page:
        state = page.locator("#connection-text")
        await expect(state).to_have_text("Live")
        await first.aclose()
        await expect(state).to_have_text("Not connected")
        await expect(page.get_by_role("alert").filter(has_text="Not connected")).to_contain_text("Trying again in")
        await page.get_by_label("Your question").fill("Are you there?")
        await page.get_by_label("Your question").press("Enter")
        await expect(page.locator("#error")).to_contain_text("can't be reached")
        async with page.expect_request("**/status/stream*"):
            await page.get_by_role("button", name="Try now").click()
        async with console_at(LivelyService(), port=int(url.rstrip("/").rsplit(":", 1)[1])):
            await expect(state).to_have_text("Live")  # by itself
            await expect(page.locator("#lost")).to_be_hidden()


async def test_pauses_while_the_tab_is_hidden(browser: Browser) -> None:
    service = LivelyService()
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
    async with console_at(LivelyService(ready=False)) as url, opened(browser, url) as page:
        await expect(page.locator("#connection-text")).to_have_text("Starting")
