"""The interface in a real browser: `python -m bench admin --only page`.

    first page   a new browser with a slowed processor: first paint, page usable, bytes, requests
    history      a list of 10,000 calls that is scrolled through: frames, long tasks, rows
    live         the list of 100 calls in progress: processor time of the browser
    one call     the page of a call of 60 minutes, until its waveform can be played

It needs Chromium and the built interface, so it is measured only if it is asked for by name.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psutil
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from bench.engine_process import ROOT
from bench.report import Report, Summary, Target
from cordboard.admin.page import ASSETS, INDEX
from cordboard.errors import KitError

SLOWED = 4
"""Times by which the processor is slowed for the first page."""
OPENINGS = 5
SCROLL_SECONDS = 5
LIVE_SECONDS = 20
_FIRST = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  usable: performance.now(),
  files: performance.getEntriesByType("resource")
    .map(({name, encodedBodySize}) => [name, encodedBodySize]),
})"""
_SCROLL = """async ([seconds]) => {
  const list = [...document.querySelectorAll("[role=grid], [role=grid] *")]
    .find((each) => each.scrollHeight > each.clientHeight + 1000);
  const found = {frames: 0, longest: 0, rows: 0};
  new PerformanceObserver((list) => {
    for (const {duration} of list.getEntries()) found.longest = Math.max(found.longest, duration);
  }).observe({type: "longtask"});
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end) {
    await new Promise(requestAnimationFrame);
    list.scrollTop += 120;
    found.frames += 1;
    found.rows = Math.max(found.rows, document.querySelectorAll("[role=row]").length);
  }
  return {...found, depth: list.scrollTop};
}"""


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser, and the session that it brings along."""

    browser: Browser
    address: str
    cookie: dict[str, str]

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        """A page of a browser without a cache."""
        context: BrowserContext = await self.browser.new_context(
            base_url=self.address, viewport={"width": 1440, "height": 900}
        )
        await context.add_cookies([{**self.cookie, "url": self.address}])  # type: ignore[list-item]
        yield await context.new_page()
        await context.close()


@asynccontextmanager
async def visitor(address: str, cookie: dict[str, str]) -> AsyncIterator[Visitor]:
    """Start Chromium. Raises `KitError` without one, or without the built interface."""
    if not (ASSETS / INDEX).exists():
        raise KitError("the interface is not built: make admin-ui")
    command = [str(ROOT / "scripts" / "install-chromium"), "--print"]
    found = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise KitError(found.stderr)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found.stdout.strip(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield Visitor(browser, address, cookie)
        await browser.close()


async def first_page(visitor: Visitor, report: Report) -> None:
    """Open the live calls with a slowed processor and an empty cache."""
    paints, usables = [], []
    for _ in range(OPENINGS):
        async with visitor.page() as page:
            session = await page.context.new_cdp_session(page)
            await session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
            await page.goto("/live")
            await page.get_by_role("heading", level=1).wait_for()
            seen: dict[str, Any] = await page.evaluate(_FIRST)
        paints.append(seen["paint"])
        usables.append(seen["usable"])
    files = [(name, size) for name, size in seen["files"] if "/assets/" in name]
    script = sum(size for name, size in files if name.endswith(".js")) / 1000
    style = sum(size for name, size in files if name.endswith(".css")) / 1000
    report.targets += [
        Target("first paint, median", Summary.of(paints).median, 600, "ms"),
        Target("page usable, median", Summary.of(usables).median, 1_200, "ms"),
        Target("scripts before it is usable", script, 180, "kB"),
        Target("styles before it is usable", style, 20, "kB"),
        Target("files before it is usable", len(files), 8, "files"),
    ]
    report.figures["first page"] = {"paint_ms": paints, "usable_ms": usables, "files": files}


async def history(visitor: Visitor, report: Report) -> None:
    """Scroll through the list of calls."""
    async with visitor.page() as page:
        await page.goto("/calls")
        await page.get_by_role("row").nth(5).wait_for()
        seen: dict[str, Any] = await page.evaluate(_SCROLL, [SCROLL_SECONDS])
    report.targets += [
        Target("frames while scrolling", seen["frames"] / SCROLL_SECONDS, 55, "/s", at_least=True),
        Target("longest task while scrolling", seen["longest"], 50, "ms"),
        Target("rows in the DOM", seen["rows"], 80, "rows"),
    ]
    report.figures["history"] = seen


async def live(visitor: Visitor, report: Report, calls: int) -> None:
    """Watch the list of calls in progress."""
    async with visitor.page() as page:
        await page.goto("/live")
        await page.get_by_role("row").nth(5).wait_for()
        await asyncio.sleep(2)
        before = await asyncio.to_thread(_spent)
        await asyncio.sleep(LIVE_SECONDS)
        share = 100 * (await asyncio.to_thread(_spent) - before) / LIVE_SECONDS
    report.targets.append(Target(f"browser with {calls} live calls", share, 15, "% of a core"))
    report.figures["live"] = {"calls": calls, "percent": share}


async def one_call(visitor: Visitor, report: Report, call_id: str, minutes: int) -> None:
    """Open a long call until it can be played."""
    times = []
    for _ in range(OPENINGS):
        async with visitor.page() as page:
            await page.goto(f"/calls/{call_id}")
            await page.get_by_role("button", name="Play").first.wait_for()
            times.append(await page.evaluate("performance.now()"))
    name = f"call of {minutes} minutes interactive, median"
    report.targets.append(Target(name, Summary.of(times).median, 500, "ms"))
    report.figures["one call"] = times


def _spent() -> float:
    """Processor seconds of all browser processes of this one."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "chrom" in process.name():
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total
