"""People, their keys and the audit; one's own password and second factor; erasing calls."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Page, expect
from tests.admin_ui.conftest import Axe, OpenPage, keep_messages, was_told
from tests.admin_ui.hotel import PASSWORD, Hotel

from cordboard.accounts.factors import STEP_SECONDS, code_at


def prove(page: Page) -> None:
    """Give the password again."""
    proof = page.get_by_role("dialog", name="Confirm that it is you")
    proof.get_by_label("Password").fill(PASSWORD)
    proof.get_by_role("button", name="Confirm").click()
    expect(proof).to_have_count(0)


def test_a_new_user_gets_a_link_signs_in_and_is_disabled(
    open_page: OpenPage, own_hotel: Hotel, axe: Axe
) -> None:
    page = open_page("admin", "/people", theme="dark", hotel=own_hotel)
    page.get_by_role("button", name="Add user").click()
    form = page.get_by_role("dialog", name="Add a user")
    form.get_by_role("textbox", name="Name").fill("Karen Blix")
    form.get_by_role("button", name="Add user").click()
    prove(page)
    expect(form.get_by_role("alert")).to_contain_text("lower-case letters")
    form.get_by_role("textbox", name="Name").fill("karen")
    form.get_by_label("Role").select_option("operator")
    form.get_by_role("checkbox", name="Listen").check()
    form.get_by_role("textbox", name="Contexts").fill("booking, sales-*")
    axe(page)
    form.get_by_role("button", name="Add user").click()
    link = page.get_by_role("dialog", name="Link for karen").get_by_role("group").inner_text()
    page.get_by_role("button", name="Done").click()
    row = page.get_by_role("row", name="karen")
    expect(row).to_contain_text("booking, sales-*")
    expect(row).to_contain_text("invited, no password yet")

    hers = open_page(None, link.removeprefix(own_hotel.origin), hotel=own_hotel)
    hers.get_by_label("New password").fill("lantern orbit walnut 12")
    hers.get_by_role("button", name="Set password and sign in").click()
    expect(hers).to_have_url(f"{own_hotel.origin}/live")

    page.get_by_role("tab", name="Users").click()
    page.get_by_role("button", name="Actions for karen").click()
    page.get_by_role("menuitem", name="Disable").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Disable").click()
    expect(row).to_contain_text("disabled")
    hers.goto("/live")
    expect(hers.get_by_role("heading", name="Sign in")).to_be_visible()

    page.goto("/audit?who=anna&action=user.&on=karen")
    table = page.get_by_role("table", name="Audit")
    expect(table.get_by_role("row")).to_have_count(3)  # the heads and two entries
    expect(table.get_by_role("row").nth(1)).to_contain_text("user.change")
    expect(table.get_by_role("row").nth(2)).to_contain_text("user.add")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as saved:
        page.get_by_role("menuitem", name="All matching entries as CSV").click()
    exported = saved.value.path().read_text().splitlines()
    assert [line.split(",")[3] for line in exported] == ["action", "user.change", "user.add"]
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_text("In order: lines 1 to")).to_be_visible()
    axe(page)
    table.get_by_role("button").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("disabled: true")


def test_a_key_is_shown_once_and_a_session_of_another_ends(
    open_page: OpenPage, own_hotel: Hotel
) -> None:
    other = open_page("viewer", "/settings", hotel=own_hotel)
    page = open_page("admin", "/people?tab=keys", elevated=True, hotel=own_hotel)
    page.get_by_role("button", name="New key").click()
    form = page.get_by_role("dialog", name="New API key")
    form.get_by_role("textbox", name="Name").fill("wallboard")
    expect(form.get_by_role("button", name="Make key")).to_be_disabled()
    form.get_by_role("checkbox", name="calls.read", exact=True).check()
    form.get_by_role("button", name="Make key").click()
    made = page.get_by_role("dialog", name="The key wallboard")
    key = made.get_by_role("group", name="API key").inner_text()
    page.keyboard.press("Escape")
    asked = """async (key) => (await fetch("/api/v1/calls/live",
      {credentials: "omit", headers: {Authorization: `Bearer ${key}`}})).status"""
    assert page.evaluate(asked, key) == 200
    expect(page.get_by_role("row", name="wallboard")).to_contain_text("calls.read")
    page.get_by_role("button", name="Remove the key wallboard").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No program has a key")).to_be_visible()
    assert page.evaluate(asked, key) == 401

    keep_messages(page)
    page.get_by_role("tab", name="Sessions").click()
    page.get_by_role("button", name="End the session of vera").first.click()
    was_told(page, "The session was ended")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()


def test_ones_own_password_and_second_factor(
    open_page: OpenPage, own_hotel: Hotel, axe: Axe
) -> None:
    other = open_page("operator", "/settings?tab=browser", hotel=own_hotel)
    page = open_page("operator", "/settings", hotel=own_hotel)
    expect(page.get_by_role("table", name="Your other sessions").get_by_role("row")).to_have_count(
        2
    )
    page.get_by_role("button", name="End them all").click()
    expect(page.get_by_text("You are signed in nowhere else.")).to_be_visible()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("Present password").fill("wrong")
    page.get_by_label("New password").fill("copper violin meadow 7")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("alert")).to_have_text("the password is wrong")
    page.get_by_label("New password").fill("short")
    page.get_by_role("button", name="Change password").click()
    short = "At least 12 characters are needed; these are 5."
    expect(page.get_by_role("alert").filter(has_text=short)).to_be_visible()
    page.get_by_label("Present password").fill(PASSWORD)
    page.get_by_label("New password").fill(PASSWORD)
    keep_messages(page)
    page.get_by_role("button", name="Change password").click()
    was_told(page, "Your password was changed")

    page.get_by_role("button", name="Set up").click()
    prove(page)
    dialog = page.get_by_role("dialog", name="Set up an authenticator app")
    secret = dialog.get_by_role("group", name="Key").inner_text().replace(" ", "")
    link = dialog.get_by_role("link", name="Open in an authenticator app")
    expect(link).to_have_attribute("href", re.compile(f"^otpauth://totp/.*otto.*{secret}"))
    axe(page)
    dialog.get_by_label("Code").fill("000000")
    dialog.get_by_role("button", name="Confirm").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Code").fill(code_at(secret, int(time.time()) // STEP_SECONDS))
    dialog.get_by_role("button", name="Confirm").click()
    codes = page.get_by_role("dialog", name="Recovery codes")
    assert len(codes.get_by_role("group").inner_text().split()) == 10
    codes.get_by_role("button", name="I have stored them").click()
    expect(page.get_by_text("asked for at each sign-in")).to_be_visible()
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("asks for the password alone")).to_be_visible()


def test_the_calls_of_a_number_are_erased_after_a_look(
    open_page: OpenPage, own_hotel: Hotel
) -> None:
    page = open_page("admin", "/settings?tab=data", elevated=True, hotel=own_hotel)
    rows = """async () => (await (await fetch("/api/v1/calls")).json()).rows
      .filter(row => row.outcome != "refused").map(row => [row.id, row.caller_number])"""
    before = page.evaluate(rows)
    _, number = before[0]
    gone = {row for row, whose in before if whose == number}
    expect(page.get_by_role("row", name="Audit")).to_contain_text("for ever")
    page.get_by_label("Caller's number").fill(number)
    page.get_by_role("button", name="Show what would go").click()
    for each in gone:
        expect(page.get_by_role("list", name="Calls that would go")).to_contain_text(each)
    assert page.evaluate(rows) == before
    page.get_by_role("button", name="Erase").click()
    confirm = page.get_by_role("alertdialog")
    expect(confirm.get_by_role("button", name="Erase")).to_be_disabled()
    confirm.get_by_label(f"Type {number} to confirm").fill(number)
    confirm.get_by_role("button", name="Erase").click()
    expect(page.get_by_text("erased", exact=False).last).to_be_visible()
    expect(confirm).to_have_count(0)
    assert {row for row, _ in page.evaluate(rows)} == {row for row, _ in before} - gone
