"""Ways through several pages, as people go them."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.admin_ui.conftest import OpenPage, Shoot, go
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

    go(page, "c", "Calls")
    expect(page.get_by_role("heading", level=1, name="Calls", exact=True)).to_be_focused()
    page.reload()
    heading(page, "Calls")
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


def test_a_new_person_signs_in_by_a_link_and_ends_a_call_that_appears(
    open_page: OpenPage, own_hotel: Hotel, shoot: Shoot
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
    heading(page, "Live calls")
    assert "link" not in page.url
    expect(page.get_by_text("0 calls", exact=True)).to_be_visible()

    with own_hotel.call() as caller:
        row = (
            page.get_by_role("grid", name="Live calls")
            .get_by_role("row")
            .filter(has_text="reception")
        )
        row.click()
        call = page.get_by_role("complementary")
        expect(call).to_contain_text("This call is recorded. Hotel Seaview")
        caller.wait_for_silence()
        caller.say("When are you open?")
        expect(call).to_contain_text("When are you open?")
        expect(call).to_contain_text("Our restaurant is open from seven")
        shoot(page, "live")
        call.get_by_role("button", name="End").click()
        page.get_by_role("alertdialog").get_by_role("button", name="End call").click()
        assert caller.ended() == "them"
        expect(call).to_contain_text("The call is over")
    call.get_by_role("link", name="Whole call").first.click()
    expect(page).to_have_url(re.compile(r"/calls/[0-9a-f-]+"))
    expect(page.get_by_role("main")).to_contain_text("When are you open?")

    again = open_page(None, link, hotel=own_hotel)
    again.get_by_label("New password").fill("a lamp under ten rivers")
    again.get_by_role("button", name="Set password and sign in").click()
    expect(again.get_by_role("alert").or_(again.get_by_text("The link"))).to_be_visible()
    heading(again, "Choose your password")

    page.get_by_role("button", name="nina").click()
    page.get_by_role("menuitem", name="Sign out").click()
    heading(page, "Sign in")


def test_what_is_published_is_what_the_next_caller_hears(
    open_page: OpenPage, own_hotel: Hotel
) -> None:
    page = open_page("admin", "/contexts/reception", hotel=own_hotel)
    before = own_hotel.config.read_text()
    greeting = page.get_by_role("textbox", name="Greeting", exact=True)
    expect(greeting).to_have_value("Hotel Seaview, good day.")
    with own_hotel.call() as caller:
        greeting.fill("Hotel Seaview, good evening.")
        page.get_by_role("button", name="Publish…").click()
        dialog = page.get_by_role("dialog", name="Publish this draft")
        dialog.get_by_role("textbox").fill("It is late")
        dialog.get_by_role("button", name="Publish", exact=True).click()
        expect(dialog).to_have_count(0)
        expect(page.get_by_role("banner")).to_contain_text("1 call still on an older one")
        caller.hang_up()
    after = before.replace("good day", "good evening")
    assert own_hotel.config.read_text() == after, "comments and spacing are as before"
    expect(page.get_by_role("banner")).to_contain_text("by anna")
    page.get_by_role("link", name="Live").click()
    with own_hotel.call():
        calls = page.get_by_role("grid", name="Live calls")
        expect(calls).to_contain_text("Hotel Seaview, good evening.")
