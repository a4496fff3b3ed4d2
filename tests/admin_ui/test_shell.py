"""The shell around all pages: signing in, the palette, shortcuts, themes, the engine's state."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests.admin_ui.conftest import Axe, OpenPage, go, keep_messages, was_told
from tests.admin_ui.hotel import PASSWORD, Hotel


def test_a_link_to_a_page_survives_the_sign_in_and_nothing_is_left_after_the_sign_out(
    open_page: OpenPage, axe: Axe
) -> None:
    page = open_page(None, "/settings?tab=about", theme="dark")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    axe(page)
    page.get_by_label("Name").fill("vera")
    page.get_by_label("Password").fill("not her password")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("name, password or code are wrong")
    expect(page.get_by_label("Name")).to_have_value("vera")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="About")).to_have_attribute("aria-selected", "true")
    assert page.url.endswith("/settings?tab=about")
    navigation = page.get_by_role("navigation", name="Pages")
    expect(navigation.get_by_role("link", name="Live")).to_be_visible()
    expect(navigation.get_by_role("link", name="People")).to_have_count(0)

    page.goto("/people")
    expect(page.get_by_text("You may not see this")).to_be_visible()
    expect(page.get_by_text("people.manage")).to_be_visible()
    page.get_by_role("button", name="Your account: vera").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto("/live")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_everything_is_found_and_reached_by_keyboard(open_page: OpenPage, axe: Axe) -> None:
    page = open_page("admin", "/settings")
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search and commands")
    expect(field).to_be_focused()
    expect(page.get_by_role("option", name="booking context", exact=True)).to_be_visible()
    axe(page)
    field.fill("find_ro")
    expect(page.get_by_role("option").first).to_contain_text("find_room")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/tools/find_room$"))

    go(page, "p", "Providers")
    page.keyboard.press("?")
    shortcuts = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(shortcuts.get_by_text("Go to Calls")).to_be_visible()
    shortcuts.get_by_role("switch", name="Shortcuts of single keys").press("Space")
    page.keyboard.press("Tab")
    expect(shortcuts.get_by_role("button", name="Close")).to_be_focused()
    expect(page.get_by_text("Close", exact=True)).to_be_visible()  # the tooltip
    page.keyboard.press("Escape")
    expect(shortcuts).to_have_count(0)
    page.keyboard.press("?")
    page.keyboard.press("Control+k")
    expect(field).to_be_focused()
    expect(shortcuts).to_have_count(0)
    field.fill("dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("heading", level=1)).to_have_text("Providers")  # the page is there
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()


def test_the_focus_goes_to_the_heading_of_another_page_and_stays_within_one(
    open_page: OpenPage,
) -> None:
    page = open_page("admin", "/engine")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Engine")
    expect(heading).not_to_be_focused()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()

    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Settings").click()
    expect(page.get_by_role("heading", level=1, name="Settings")).to_be_focused()
    about = page.get_by_role("tab", name="About")
    about.click()
    expect(page).to_have_url(re.compile("tab=about"))
    expect(about).to_be_focused()  # the same page
    page.go_back()
    page.go_back()
    expect(page).to_have_url(re.compile("/engine"))
    expect(page.get_by_role("heading", level=1, name="Engine")).to_be_focused()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search and commands").fill("find_ro")
    expect(page.get_by_role("option").first).to_contain_text("find_room")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/tools/find_room$"))
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_a_call_is_ended_from_the_palette(open_page: OpenPage, hotel: Hotel) -> None:
    page = open_page("operator", "/settings")
    bar = page.get_by_role("banner")
    expect(bar.get_by_text("Ready")).to_be_visible()
    keep_messages(page)
    with hotel.call() as caller:
        expect(bar.get_by_text("1 of ")).to_be_visible()
        page.keyboard.press("Control+k")
        page.get_by_role("combobox").fill("end call reception")
        option = page.get_by_role("option").first
        expect(option).to_contain_text("reception")
        option.click()
        confirm = page.get_by_role("alertdialog")
        expect(confirm.get_by_role("button", name="Cancel")).to_be_focused()
        confirm.get_by_role("button", name="End call").click()
        assert caller.ended() == "them"
    was_told(page, "The call was ended")
    expect(bar.get_by_text("0 of ")).to_be_visible()


def test_the_bar_says_when_the_engine_is_gone_and_when_it_is_back(
    open_page: OpenPage, own_hotel: Hotel, complaints: list[str]
) -> None:
    page = open_page("viewer", "/settings", hotel=own_hotel)
    bar = page.get_by_role("banner")
    expect(bar.get_by_text("Ready")).to_be_visible()
    own_hotel.stop()
    expect(bar.get_by_text("No connection")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    own_hotel.start()
    expect(bar.get_by_text("Ready")).to_be_visible()
    assert all("ERR_CONNECTION_REFUSED" in each or "/api/v1/live" in each for each in complaints)
    complaints.clear()
