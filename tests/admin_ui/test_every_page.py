"""What holds for all pages: axe finds nothing in either theme, nor in the person's own colours, and
they fit on 320 pixels."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot

PAGES = {
    "live": "/live",
    "calls": "/calls",
    "call": "/calls/{call}",
    "outbound": "/outbound",
    "contexts": "/contexts",
    "context": "/contexts/reception",
    "try": "/try",
    "tools": "/tools",
    "tool": "/tools/find_room",
    "mcp": "/mcp",
    "providers": "/providers",
    "insights": "/insights",
    "alarms": "/alarms",
    "engine": "/engine",
    "cluster": "/cluster",
    "setup": "/setup",
    "people": "/people",
    "audit": "/audit",
    "settings": "/settings",
}
"""Addresses by name."""
PICTURES = PAGES.keys() - {"cluster", "live", "outbound", "contexts", "audit"}
"""Shown in the documentation; test_journeys takes that of a live call, test_outbound its own."""
NEWEST_RECORDED = """async () => {
  const answer = await fetch("/api/v1/calls?recorded=yes&interrupted=yes");
  return (await answer.json()).rows[0].id;
}"""
WIDER_THAN_THE_WINDOW = """() => [...document.querySelectorAll("body *")]
  .filter(each => document.documentElement.scrollWidth > innerWidth
    && each.getBoundingClientRect().right > innerWidth + 1)
  .map(each => each.outerHTML.slice(0, 160))"""
LOOK_OF_A_SWITCH = """each => {
  const knob = getComputedStyle(each, "::before");
  return knob.backgroundColor === getComputedStyle(each).backgroundColor ? "none"
    : `${knob.backgroundColor} ${knob.translate}`;
}"""
"""The colours of a switch as they are painted."""


def addresses(page: Page) -> dict[str, str]:
    call = page.evaluate(NEWEST_RECORDED)
    return {name: path.format(call=call) for name, path in PAGES.items()}


def settled(page: Page) -> None:
    """Wait until the page has its heading and all its answers."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


@pytest.mark.parametrize(
    ("theme", "size"), [("light", (1440, 900)), ("dark", (320, 800))], ids=["light", "dark-narrow"]
)
def test_each_page_is_accessible_and_fits(
    open_page: OpenPage,
    axe: Axe,
    shoot: Shoot,
    theme: Literal["light", "dark"],
    size: tuple[int, int],
) -> None:
    page = open_page("admin", "/live", theme=theme, size=size)
    faults = []
    for name, path in addresses(page).items():
        page.goto(path)
        settled(page)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        if theme == "light" and name in PICTURES:
            shoot(page, name)
        try:
            axe(page)
        except AssertionError as found:
            faults.append(str(found))
        wide = page.evaluate(WIDER_THAN_THE_WINDOW)
        faults += [f"{path} at {size[0]} pixels: too wide: {each}" for each in wide]
    page.emulate_media(forced_colors="active")
    page.goto("/settings?tab=browser")
    settled(page)
    switch = page.get_by_role("switch").first
    before = switch.evaluate(LOOK_OF_A_SWITCH)
    switch.click()
    assert switch.evaluate(LOOK_OF_A_SWITCH) != before, "it is told from one that is off"
    switch.click()
    axe(page)
    shoot(page, "forced-colors")
    assert not faults, "\n".join(faults)
