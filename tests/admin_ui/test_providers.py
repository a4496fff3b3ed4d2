"""Providers in a browser: state, chain, check, voices, and secrets that are never shown again."""

from __future__ import annotations

from functools import partial
from typing import Any

from playwright.sync_api import Route, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot
from tests.admin_ui.hotel import PASSWORD, Hotel

PRICES = {
    "currency": "EUR",
    "models": [],
    "budgets": [{"context": "booking", "max_cost_per_call": 0.5, "max_minutes": None}],
}
"""Of a hotel with prices: the one of these tests has only providers that cost nothing."""


def by_context(key: str, *values: float | None) -> dict[str, Any]:
    """A measure with one line."""
    line = {"key": key, "stat": "count", "unit": "", "calls": {}, "values": values, "samples": []}
    return {"measure": "", "about": "", "by": [], "t": [], "left_out": 0, "series": [line]}


def test_a_provider_shows_who_uses_it_and_is_checked_and_heard(
    open_page: OpenPage, hotel: Hotel, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/providers", theme="dark")
    shown = page.get_by_role("region", name="local")
    expect(shown.get_by_role("row", name="whisper")).to_contain_text("not needed")
    expect(shown.get_by_role("list", name="Order of the providers of booking")).to_be_visible()
    expect(shown.get_by_role("img", name="p95 by day")).to_be_visible()
    shown.get_by_role("button", name="Check online").click()
    expect(shown.get_by_text("It runs on this machine")).to_be_visible()
    axe(page)
    shoot(page, "providers")
    page.get_by_role("link", name="cloud").click()
    expect(page.get_by_text("from api_key")).to_be_visible()
    assert "sk-in-clear" not in page.content()
    page.get_by_role("tab", name="Voices").click()
    expect(page.get_by_label("Text")).to_have_value("Hotel Seaview, good day.")
    # An engine on a busy machine refuses samples; its own tests have it speak one.
    spoken = (hotel.lines / "0.wav").read_bytes()
    page.route("**/voices/local/sample", lambda route: route.fulfill(body=spoken))
    with page.expect_request("**/voices/local/sample") as asked:
        page.get_by_role("button", name="Speak").click()
    assert asked.value.post_data_json == {"text": "Hotel Seaview, good day."}
    page.wait_for_function("() => document.querySelector('audio')?.duration > 0.5")
    page.get_by_role("tab", name="Prices").click()
    expect(page.get_by_text("No prices are configured")).to_be_visible()
    page.route("**/api/v1/prices", lambda route: route.fulfill(json=PRICES))
    for measure, told in (
        ("cost", by_context("EUR booking", 0.75, None, 0.25)),
        ("calls", by_context("booking", 3, 0, 1)),
    ):
        answer = partial(Route.fulfill, json=told)
        page.route(f"**/api/v1/analytics/{measure}?*", answer)
    page.reload()
    share = page.get_by_role("meter", name="Mean cost of a call of booking, of its budget")
    expect(share).to_have_js_property("value", 0.25)
    expect(share).to_have_js_property("max", 0.5)
    axe(page)


def test_a_secret_goes_in_after_the_password_and_never_comes_out(
    open_page: OpenPage, hotel: Hotel, axe: Axe
) -> None:
    page = open_page("admin", "/providers?tab=secrets")
    page.get_by_role("button", name="Add a secret").click()
    page.get_by_label("Name", exact=True).fill("SHOP_KEY")
    page.get_by_label("Value", exact=True).fill("never shown 7712")
    page.get_by_role("button", name="Store").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    row = page.get_by_role("row", name="SHOP_KEY")
    expect(row).to_contain_text("stored here")
    assert "never shown 7712" not in page.content()
    assert "never shown 7712" in (hotel.folder / "admin" / "secrets.env").read_text()
    axe(page)
    row.get_by_role("button", name="Remove SHOP_KEY").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)


def test_who_may_only_look_is_offered_no_check_no_sample_and_no_secrets(
    open_page: OpenPage,
) -> None:
    page = open_page("viewer", "/providers")
    expect(page.get_by_role("region", name="local")).to_be_visible()
    expect(page.get_by_role("button", name="Check online")).to_have_count(0)
    expect(page.get_by_role("tab", name="Secrets")).to_have_count(0)
    page.goto("/providers?tab=secrets")
    expect(page.get_by_text("You may not see this")).to_be_visible()
    page.goto("/providers?tab=voices")
    expect(page.get_by_text("you need the role admin")).to_be_visible()
