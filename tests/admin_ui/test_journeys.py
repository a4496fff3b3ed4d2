"""Ways through several pages, as people go them."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.admin_ui.conftest import OpenPage
from tests.admin_ui.hotel import PASSWORD, Hotel

from cordboard.accounts.rights import EVERYWHERE, Grant, Role


def heading(page: Page, name: str) -> None:
    expect(page.get_by_role("heading", level=1, name=name, exact=True)).to_be_visible()


def test_by_keyboard_alone(open_page: OpenPage, hotel: Hotel) -> None:
    page = open_page(None, "/insights")
    keyboard = page.keyboard
    expect(page.get_by_label("Name")).to_be_focused()
    keyboard.type("vera")
    keyboard.press("Tab")
    keyboard.type("not the password")
    keyboard.press("Enter")
    expect(page.get_by_text(re.compile("wrong|not right|do not match"))).to_be_visible()
    expect(page.get_by_label("Password")).to_be_focused()
    keyboard.press("Control+A")
    keyboard.type(PASSWORD)
    keyboard.press("Enter")
    heading(page, "Insights")
    expect(page).to_have_url(re.compile(r"/insights"))

    keyboard.press("g")
    keyboard.press("c")
    heading(page, "Calls")
    page.evaluate("document.activeElement.blur()")
    keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()

    keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#content")).to_be_focused()

    keyboard.press("Control+K")
    expect(page.get_by_role("dialog")).to_be_visible()
    keyboard.type("alarm")
    keyboard.press("Enter")
    heading(page, "Alarms")


def test_a_viewer_sees_what_is_missing_and_an_address_is_no_way_around(
    open_page: OpenPage,
) -> None:
    page = open_page("viewer", "/live")
    navigation = page.get_by_role("navigation", name="Pages")
    expect(navigation.get_by_role("link", name="Calls")).to_be_visible()
    expect(navigation.get_by_role("link", name="People")).to_have_count(0)
    for path, permission in (("/people", "people.manage"), ("/audit", "audit.read")):
        page.goto(path)
        expect(page.get_by_role("alert")).to_contain_text(permission)
    page.goto("/nothing")
    expect(page.get_by_text("There is no such page")).to_be_visible()


def test_a_new_person_signs_in_by_a_link_that_works_once(
    open_page: OpenPage, own_hotel: Hotel
) -> None:
    with own_hotel.accounts() as accounts:
        accounts.add("nina", Role.OPERATOR, [Grant.PERSONAL], EVERYWHERE)
        link = f"/#link={accounts.reset('nina')}"
    page = open_page(None, link, hotel=own_hotel)
    page.get_by_label("New password").fill("tram")
    page.get_by_role("button", name="Set password and sign in").click()
    heading(page, "Choose your password")  # the browser itself asks for twelve characters
    page.get_by_label("New password").fill("a lamp under nine rivers")
    page.get_by_role("button", name="Set password and sign in").click()
    heading(page, "Live")
    expect(page.get_by_role("button", name="nina")).to_be_visible()
    assert "link" not in page.url

    again = open_page(None, link, hotel=own_hotel)
    again.get_by_label("New password").fill("a lamp under ten rivers")
    again.get_by_role("button", name="Set password and sign in").click()
    expect(again.get_by_text(re.compile("link"), exact=False).last).to_be_visible()
    heading(again, "Choose your password")

    page.get_by_role("button", name="nina").click()
    page.get_by_role("menuitem", name="Sign out").click()
    heading(page, "Sign in")
