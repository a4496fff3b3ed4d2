"""Insights: from the measures of a period to the calls behind a point; the address is the state."""

from __future__ import annotations

import datetime
import re

from playwright.sync_api import expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot
from tests.admin_ui.hotel import Hotel


def test_a_measure_is_chosen_compared_and_followed_to_its_calls(
    open_page: OpenPage, hotel: Hotel, axe: Axe, shoot: Shoot
) -> None:
    # The page's own zone is ahead, so its last day may not have begun for the engine.
    last = datetime.datetime.now(datetime.UTC).date()
    first = last - datetime.timedelta(days=29)
    page = open_page("viewer", f"/insights?from={first}&to={last}")
    measures = page.get_by_role("navigation", name="Measures")
    of_calls = measures.get_by_role("link", name="Calls", exact=False).first

    def told() -> int:
        expect(of_calls).to_have_text(re.compile(r"^Calls\d+$"))
        ask = "path => fetch(`/api/v1${path}`).then(answer => answer.json())"
        rows = page.evaluate(ask, "/calls?limit=200")["rows"]
        return sum(row["outcome"] != "refused" and not hotel.is_test(row["file"]) for row in rows)

    calls = -1
    while (now := told()) != calls:  # calls of other tests come into the history a little later
        calls = now
        page.reload()
    expect(of_calls).to_have_text(f"Calls{calls}")
    today = page.get_by_role("table", name="Calls").get_by_role("row").nth(1)
    expect(today.get_by_role("link")).to_have_text(str(calls))
    shoot(page, "insights")
    axe(page)

    measures.get_by_role("link", name="Wait for a sound").click()
    lines = page.get_by_role("list", name="Lines").get_by_role("listitem")
    expect(lines).to_have_count(3)
    expect(page.get_by_text("The caller's wait for a first sound")).to_be_visible()
    page.get_by_label("Separate by").select_option("stage")
    expect(page).to_have_url(re.compile("measure=wait&by=stage"))
    brain = lines.filter(has_text="brain").get_by_role("button")
    brain.click()
    expect(brain).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("columnheader", name="brain")).to_have_count(0)
    page.get_by_label("Compare with the period before").check()
    expect(page).to_have_url(re.compile("hidden=brain&compare=true"))
    page.reload()
    expect(page.get_by_label("Separate by")).to_have_value("stage")
    expect(brain).to_have_attribute("aria-pressed", "false")

    page.get_by_label("Separate by").select_option("")
    expect(lines).to_have_count(3)
    chart = page.get_by_role("application", name="Chart of Wait for a sound")
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    expect(
        page.get_by_role("status").filter(has_text=re.compile(r", p95: .*, of \d+"))
    ).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/calls\?.*since=.*until=.*waited_over_ms=\d+"))
    page.go_back()
    expect(chart).to_be_visible()


def test_a_scope_a_phone_and_the_dark_theme(open_page: OpenPage, axe: Axe, shoot: Shoot) -> None:
    page = open_page("booker", "/insights?by=context", theme="dark", size=(390, 844))
    lines = page.get_by_role("list", name="Lines").get_by_role("listitem")
    expect(lines).to_have_count(1)
    expect(lines).to_contain_text("booking")
    page.get_by_label("Measure", exact=True).select_option("tools")
    expect(page.get_by_role("heading", name="Tool calls")).to_be_visible()
    shoot(page, "insights-phone")
    axe(page)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    page.goto("/insights?from=2020-01-01&to=2020-01-31")
    expect(page.get_by_text("Nothing was counted in this period")).to_be_visible()
