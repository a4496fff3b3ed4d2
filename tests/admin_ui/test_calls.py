"""The history of calls in a browser: finding calls, columns, views, two calls compared, export."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from playwright.sync_api import Locator, Page, Route, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot

MOST_ROWS = 80
"""Rows of a list in the document at a time."""


def rows(page: Page) -> Locator:
    """The calls of the list, without its head."""
    return page.get_by_role("grid").locator("[data-index]")


def test_filters_find_calls_and_the_address_says_which(
    open_page: OpenPage, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/calls")
    expect(rows(page).filter(has_text="refused")).to_contain_text("Bo")
    axe(page)
    shoot(page, "calls")
    failed = page.get_by_role("group", name="Tool failed")
    failed.get_by_role("checkbox", name="send_invoice 1").check()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("Maja Lund")
    expect(page.get_by_text("1 call", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(r"tool_failed=send_invoice"))
    page.reload()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Remove the filter Tool failed: send_invoice").click()
    expect(page.get_by_role("row", name="Anna Falk")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("restaurant")
    page.get_by_label("Said by").select_option("by the caller")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("Ida Jensen")
    expect(page).to_have_url(re.compile("(?=.*text=restaurant)(?=.*who=caller)"))
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("searchbox", name="number").fill("3456")
    expect(rows(page)).to_have_count(1)
    rows(page).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/calls/[0-9a-f-]{36}"))
    page.go_back()
    expect(rows(page)).to_contain_text("Otto Berg")


def test_columns_and_filters_are_a_view_that_can_be_opened_again(
    open_page: OpenPage, axe: Axe
) -> None:
    page = open_page("admin", "/calls?context=booking", theme="dark")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("menuitemcheckbox", name="Turns").click()
    expect(page.get_by_role("columnheader", name="Turns")).to_be_visible()
    page.get_by_role("button", name="Views").click()
    page.get_by_role("menuitem", name="Save as a view…").click()
    page.get_by_role("textbox", name="Name").fill("Bookings")
    axe(page)
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("button", name="Bookings")).to_be_visible()
    page.goto("/calls")
    expect(page.get_by_role("columnheader", name="Turns")).to_have_count(0)
    page.get_by_role("button", name="Views").click()
    page.get_by_role("menuitemcheckbox", name="Bookings").click()
    expect(page.get_by_role("columnheader", name="Turns")).to_be_visible()
    expect(page.get_by_role("button", name="Remove the filter Context: booking")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("button", name="Bookings, changed").click()
    page.get_by_role("menuitem", name="Delete “Bookings”…").click()
    page.get_by_role("button", name="Delete view").click()
    expect(page.get_by_role("button", name="Views")).to_be_visible()


def test_two_calls_are_compared_by_their_numbers(open_page: OpenPage, axe: Axe) -> None:
    page = open_page("admin", "/calls?reason=&outcome=completed&outcome=transferred")
    for name in ("Ida Jensen", "Otto Berg"):
        page.get_by_role("checkbox", name=f"Choose the call of {name} to compare").check()
    page.get_by_role("button", name="Compare").click()
    interruptions = page.get_by_role("row", name="Interruptions")
    expect(interruptions).to_have_text(re.compile(r"Interruptions10\W1"))
    expect(page.get_by_role("row", name="End", exact=False).first).to_contain_text("transferred")
    axe(page)
    page.get_by_role("button", name="Swap").click()
    expect(interruptions).to_have_text("Interruptions01+1")
    page.get_by_role("button", name="Back to the list").click()
    expect(page.get_by_role("grid")).to_be_visible()


def test_what_is_shown_can_be_exported_and_only_by_who_may(
    open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page("admin", "/calls?context=weather")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as begun:
        page.get_by_role("menuitem", name="All matching calls as CSV").click()
    begun.value.save_as(tmp_path / "calls.csv")
    head, *lines = (tmp_path / "calls.csv").read_text().splitlines()
    assert "caller_number" in head
    assert sum("Anna Falk" in line for line in lines) == 1
    assert not any("Ida Jensen" in line for line in lines), "of another context"
    plain = open_page("viewer", "/calls")
    expect(plain.get_by_role("row", name="******2233")).to_be_visible()
    expect(plain.get_by_role("grid")).not_to_contain_text("Ida Jensen")
    expect(plain.get_by_label("Search what was said")).to_be_disabled()
    expect(plain.get_by_role("button", name="Export")).to_have_count(0)


def serve_many(page: Page, pages: int) -> None:
    """Answer the page with a history of many calls, all like the newest real one."""
    ask = "fetch('/api/v1/calls?limit=1').then(answer => answer.json())"
    (pattern,) = page.evaluate(ask)["rows"]

    def answer(route: Route) -> None:
        given = parse_qs(urlparse(route.request.url).query)
        if given["limit"] != ["200"]:
            route.continue_()
            return
        place = int(given.get("cursor", ["0"])[0] or 0)
        names = [f"Caller {place * 200 + number}" for number in range(200)]
        found = [{**pattern, "id": name, "caller_name": name} for name in names]
        following = str(place + 1) if place + 1 < pages else ""
        route.fulfill(json={"rows": found, "next": following, "took_ms": 1, "up_to_date": True})

    page.route("**/api/v1/calls?*", answer)


def test_a_search_in_encrypted_calls_says_how_far_it_is_and_goes_on(open_page: OpenPage) -> None:
    page = open_page("admin", "/settings")
    (pattern,) = page.evaluate("fetch('/api/v1/calls?limit=1').then(answer => answer.json())")[
        "rows"
    ]
    pages = {
        "": {"rows": [], "next": "older", "searched_to_ms": pattern["started_ms"]},
        "older": {"rows": [{**pattern, "caller_name": "Caller 7"}], "next": ""},
    }
    common = {"took_ms": 1, "up_to_date": True, "unreadable": 2, "searched_to_ms": None}

    def answer(route: Route) -> None:
        given = parse_qs(urlparse(route.request.url).query)
        found = pages[given.get("cursor", [""])[0]]
        route.fulfill(json={**common, **(found if given["limit"] == ["200"] else pages[""])})

    page.route("**/api/v1/calls?*", answer)
    page.goto("/calls?text=piano")
    expect(page.get_by_text("Encrypted calls were searched back to")).to_be_visible()
    expect(page.get_by_role("grid")).to_have_count(0)
    page.get_by_role("button", name="Search further").click()
    expect(rows(page).first).to_contain_text("Caller 7")
    expect(page.get_by_role("button", name="Search further")).to_have_count(0)
    expect(page.get_by_text("2 calls cannot be read now")).to_be_visible()


def test_a_long_list_loads_as_it_is_read_and_keeps_few_rows_in_the_page(
    open_page: OpenPage,
) -> None:
    page = open_page("admin", "/settings")
    serve_many(page, pages=3)
    page.goto("/calls")
    expect(rows(page).first).to_contain_text("Caller 0")
    rows(page).first.focus()
    page.keyboard.press("j")
    expect(page.locator("[data-index='1']")).to_be_focused()
    for loaded in (200, 400, 600):
        expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", f"{loaded + 1}")
        page.keyboard.press("End")
        expect(page.locator(f"[data-index='{loaded - 1}']")).to_be_focused()
        assert rows(page).count() <= MOST_ROWS
    expect(rows(page).last).to_contain_text("Caller 599")
    expect(page.get_by_text("No earlier calls")).to_be_visible()


def test_the_history_on_a_phone(open_page: OpenPage, axe: Axe, shoot: Shoot) -> None:
    page = open_page("admin", "/calls", size=(390, 844))
    expect(page.get_by_role("row", name="Ida Jensen")).to_be_visible()
    width = page.evaluate("document.querySelector('[role=grid]').scrollWidth")
    assert width <= 390
    page.get_by_role("button", name="Filters").click()
    page.get_by_role("checkbox", name="refused 1").check()
    axe(page)
    page.get_by_role("button", name="Show calls").click()
    expect(rows(page)).to_have_count(1)
    shoot(page, "calls-phone")
