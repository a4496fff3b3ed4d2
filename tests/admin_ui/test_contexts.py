"""The configuration in a browser: form and text side by side, drafts, publishing, versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, Route, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot, hold
from tests.admin_ui.hotel import PASSWORD, Hotel

GREETING = 'greeting: "Booking desk."   # short on purpose'
NO_EDIT = {"error": {"code": "invalid", "message": "contexts.booking is an alias"}}
END_SESSION = """async () => {
  await fetch("/api/v1/session", { method: "DELETE", headers: { "X-Cordboard": "1" } });
}"""
OPEN_ALL = """async () => {
  for (let depth = 0; depth < 3; depth++) {
    for (const fold of document.querySelectorAll("main button[aria-expanded=false]")) fold.click();
    await new Promise(requestAnimationFrame);
  }
}"""


COMMENT_IS_IN_SIGHT = """line => {
  const range = document.createRange();
  range.selectNodeContents(line);
  const end = [...range.getClientRects()].at(-1);
  return end.right <= line.closest(".cm-scroller").getBoundingClientRect().right;
}"""


@pytest.fixture
def before(own_hotel: Hotel) -> Iterator[str]:
    """The file, as it is left for the next test."""
    text = own_hotel.config.read_text()
    yield text
    own_hotel.config.write_text(text)


def text_of(page: Page) -> Locator:
    """The text of the file; only lines in view are in it."""
    return page.get_by_label("Configuration as YAML")


def click_text(page: Page, words: str) -> None:
    """Click on words of the text, a frame after they were scrolled into view: the editor measures
    wrapped lines first, as it does long before a person's click."""
    found = text_of(page).get_by_text(words)
    found.scroll_into_view_if_needed()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    found.click()


def form_of(page: Page) -> Locator:
    return page.get_by_role("region", name="Form")


def lit(page: Page) -> Locator:
    return page.locator(".cm-lit")


def draft_saved(page: Page) -> None:
    expect(page.get_by_text("Draft saved")).to_be_visible()


def publish(page: Page, why: str) -> None:
    page.get_by_role("button", name="Publish…").click()
    dialog = page.get_by_role("dialog", name="Publish this draft")
    expect(dialog.get_by_role("button", name="Publish", exact=True)).to_be_disabled()
    dialog.get_by_label("Why?").fill(why)
    dialog.get_by_role("button", name="Publish", exact=True).click()


def in_force(page: Page) -> None:
    expect(page.get_by_text("In force as generation")).to_be_visible()
    expect(page).not_to_have_url(re.compile("draft="))


def test_a_long_line_is_seen_whole_unless_a_person_wants_it_on_one_line(
    open_page: OpenPage, own_hotel: Hotel, before: str, axe: Axe
) -> None:
    comment = "# the caller hears the name of the hotel first, and what the desk can do for him"
    own_hotel.config.write_text(before.replace("# short on purpose", comment))
    page = open_page("admin", "/contexts/booking", hotel=own_hotel, size=(1366, 768))
    form_of(page).get_by_label("Greeting", exact=True).focus()
    line = text_of(page).locator(".cm-line").filter(has_text="Booking desk")
    expect(line).to_be_in_viewport()
    one_row = page.evaluate(
        "() => parseFloat(getComputedStyle(document.querySelector('.cm-line')).lineHeight)"
    )
    hold(lambda: line.evaluate(COMMENT_IS_IN_SIGHT))
    box = line.bounding_box()
    assert box is not None
    assert box["height"] > 1.5 * one_row
    wrap = page.get_by_role("button", name="Wrap long lines")
    expect(wrap).to_have_attribute("aria-pressed", "true")
    axe(page)
    wrap.click()
    expect(wrap).to_have_attribute("aria-pressed", "false")
    hold(lambda: not line.evaluate(COMMENT_IS_IN_SIGHT))
    page.reload()
    form_of(page).get_by_label("Greeting", exact=True).focus()
    expect(line).to_be_in_viewport()
    expect(wrap).to_have_attribute("aria-pressed", "false")
    hold(lambda: not line.evaluate(COMMENT_IS_IN_SIGHT))
    wrap.click()
    hold(lambda: line.evaluate(COMMENT_IS_IN_SIGHT))


def test_form_and_text_light_each_other_and_only_the_line_of_a_value_changes(
    open_page: OpenPage, own_hotel: Hotel, before: str, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/contexts/booking", hotel=own_hotel)
    greeting = form_of(page).get_by_label("Greeting", exact=True)
    greeting.focus()
    expect(lit(page)).to_have_text([re.compile("Booking desk")])
    greeting.fill("Good day, bookings.")
    expect(lit(page)).to_have_text([re.compile('greeting: "Good day, bookings."   # short')])
    expect(form_of(page).get_by_text("next call")).to_be_visible()
    unset = form_of(page).get_by_label("Provider", exact=True).locator("option:checked")
    expect(unset).to_have_text("From default_provider: local")
    shoot(page, "contexts-form-and-text")

    # A line of another part: its field comes into view.
    click_text(page, "calls_per_minute")
    expect(page).to_have_url(re.compile("at=audiosocket"))
    expect(form_of(page).get_by_label("Calls per minute", exact=True)).to_be_in_viewport()
    expect(lit(page)).to_contain_text(["calls_per_minute"])
    click_text(page, "calls_per_minute")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.type("x")
    expect(page.get_by_role("status").filter(has_text="1 error")).to_be_visible()
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
    page.get_by_role("button", name="Problems").click()
    problem = page.get_by_role("list", name="Problems")
    expect(problem).to_contain_text("audiosocket.calls_per_minute: expected a whole number")
    axe(page)

    # One history: the typing in the text, then the change of the form. A narrow window only reads.
    page.set_viewport_size({"width": 700, "height": 900})
    expect(text_of(page)).to_have_attribute("aria-readonly", "true")
    page.set_viewport_size({"width": 1440, "height": 900})
    undo = page.get_by_role("button", name="Undo")
    undo.click()
    expect(page.get_by_text("No problems")).to_be_visible()
    undo.click()
    page.get_by_role("navigation", name="Parts").get_by_role("button", name="booking").click()
    expect(greeting).to_have_value("Booking desk.")
    page.get_by_role("button", name="Redo").click()
    expect(greeting).to_have_value("Good day, bookings.")

    # An edit that the engine refuses is no reason not to publish the others.
    page.route("**/api/v1/config/edit", lambda route: route.fulfill(status=422, json=NO_EDIT))
    form_of(page).get_by_label("Prompt", exact=True).fill("Never mind.")
    expect(page.get_by_role("status").filter(has_text="is an alias")).to_be_visible()
    draft_saved(page)
    publish(page, "Sounds kinder")
    in_force(page)
    hear = page.get_by_role("link", name="Hear it by a call")
    expect(hear).to_have_attribute("href", "/try?mode=call&context=booking")
    after = own_hotel.config.read_text()
    assert after == before.replace("Booking desk.", "Good day, bookings.")
    assert GREETING.replace("Booking desk.", "Good day, bookings.") in after

    page.get_by_role("button", name="Versions").click()
    newest = page.get_by_role("row", name="Sounds kinder")
    expect(newest).to_contain_text("anna")
    expect(newest).to_contain_text("in force")
    older = page.get_by_role("row", name="unknown hand").first
    older.get_by_role("button", name="Compare").click()
    difference = page.get_by_role("region", name="Differences from")
    expect(difference).to_contain_text("Booking desk.")
    expect(difference).to_contain_text("Good day, bookings.")
    axe(page)
    older.get_by_role("button", name="Restore…").click()
    page.get_by_label("Why?").fill("The old one was fine")
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.get_by_role("row", name="The old one was fine")).to_contain_text("restored")
    assert own_hotel.config.read_text() == before


def test_what_is_not_published_outlives_the_session_of_the_same_person_alone(
    open_page: OpenPage, own_hotel: Hotel, before: str, axe: Axe
) -> None:
    page = open_page("admin", "/contexts/booking", hotel=own_hotel)
    form_of(page).get_by_label("Greeting", exact=True).fill("Good day, bookings.")
    draft_saved(page)
    page.get_by_role("button", name="Publish…").click()
    page.get_by_role("dialog", name="Publish this draft").get_by_label("Why?").fill("Kinder")
    page.evaluate(END_SESSION)
    sign_in = page.get_by_role("dialog", name="Sign in")
    expect(sign_in.get_by_label("Name")).to_be_focused()
    expect(page.get_by_role("dialog", name="Publish this draft")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(sign_in).to_be_visible()
    # Behind it the page is neither seen, nor read aloud, nor reached by the keyboard.
    expect(page.get_by_role("heading", name="Contexts")).to_have_count(0)
    expect(page.get_by_role("button", name="Publish", exact=True)).to_have_count(0)
    for _ in range(6):
        page.keyboard.press("Tab")
        expect(sign_in.locator(":focus")).to_have_count(1)
    axe(page)

    sign_in.get_by_label("Name").fill("anna")
    sign_in.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Publish this draft")
    expect(dialog.get_by_label("Why?")).to_have_value("Kinder")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    in_force(page)
    assert own_hotel.config.read_text() == before.replace("Booking desk.", "Good day, bookings.")

    form_of(page).get_by_label("Greeting", exact=True).fill("Nobody else's words.")
    draft_saved(page)
    page.evaluate(END_SESSION)
    sign_in.get_by_label("Name").fill("vera")
    sign_in.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Your account: vera")).to_be_visible()
    expect(page.get_by_text("Nobody else's words.")).to_have_count(0)


def test_a_literal_secret_is_never_shown_and_is_one_character_to_the_editor(
    open_page: OpenPage, own_hotel: Hotel
) -> None:
    page = open_page("admin", "/contexts?at=providers.cloud", hotel=own_hotel)
    expect(form_of(page)).to_contain_text("A literal secret stands here")
    hole = page.locator(".cm-hole")
    expect(hole).to_have_text("secret 1")
    assert "sk-in-clear" not in page.content()
    click_text(page, "cloud:")
    page.keyboard.press("End")
    page.keyboard.press("Backspace")  # the brace
    page.keyboard.press("Backspace")
    expect(hole).to_have_count(0)
    page.keyboard.press("ControlOrMeta+z")
    expect(hole).to_have_count(1)


def test_of_two_editors_the_second_gets_both_changes_and_decides_where_they_clash(
    open_page: OpenPage, own_hotel: Hotel, before: str, axe: Axe, shoot: Shoot
) -> None:
    mine = open_page("admin", "/contexts/weather", hotel=own_hotel)
    theirs = open_page("admin", "/contexts/weather", hotel=own_hotel)
    for page, greeting in ((mine, "Mine."), (theirs, "Theirs.")):
        form_of(page).get_by_label("Greeting", exact=True).fill(greeting)
        draft_saved(page)
    theirs.get_by_role("navigation", name="Parts").get_by_role("button", name="booking").click()
    form_of(theirs).get_by_label("Greeting", exact=True).fill("Rooms.")
    expect(text_of(theirs)).to_contain_text("Rooms.")
    publish(theirs, "I was first")
    in_force(theirs)

    publish(mine, "I was second")
    dialog = mine.get_by_role("dialog", name="Somebody was faster")
    expect(dialog).to_contain_text("anna published a version")
    expect(dialog).to_contain_text("1 place was changed by both")
    take = dialog.get_by_role("button", name="Take the merged text")
    expect(take).to_be_disabled()
    merged = dialog.get_by_role("textbox", name="Your text after merging")
    dialog.get_by_label("Yours", exact=True).check()
    expect(merged).to_contain_text("Mine.")
    axe(mine)
    shoot(mine, "contexts-conflict")
    take.click()
    again = mine.get_by_role("dialog", name="Publish this draft")
    again.get_by_role("button", name="Close").click()
    mine.get_by_role("button", name="Undo").click()  # must not take the other's change back
    publish(mine, "Both of us")
    in_force(mine)
    expected = before.replace("Booking desk.", "Rooms.").replace(
        "Weather desk. Which aerodrome?", "Mine."
    )
    assert own_hotel.config.read_text() == expected


def test_texts_whose_secrets_differ_are_merged_by_hand_from_the_file_as_it_is(
    open_page: OpenPage, own_hotel: Hotel, before: str
) -> None:
    """The number of a secret in the draft may mean another one in the file."""
    of_windows = before.replace("\n", "\r\n")
    own_hotel.config.write_text(of_windows, newline="")
    page = open_page("admin", "/contexts/weather", hotel=own_hotel)
    form_of(page).get_by_label("Greeting", exact=True).fill("Mine.")
    draft_saved(page)
    theirs = of_windows.replace("sk-in-clear-4f2a9", "sk-of-somebody-else-77c1")
    own_hotel.config.write_text(theirs, newline="")
    publish(page, "I was second")
    dialog = page.get_by_role("dialog", name="Somebody was faster")
    expect(dialog.get_by_role("textbox", name="Your draft")).to_contain_text("Mine.")
    merged = dialog.get_by_role("textbox", name="Your text after merging")
    expect(merged).to_contain_text("Weather desk.")
    take = dialog.get_by_role("button", name="Take the merged text")
    expect(take).to_be_disabled()
    merged.locator(".cm-changedLine").click()
    page.keyboard.press("End")
    page.keyboard.type("  # by hand")
    take.click()
    page.get_by_label("Why?").fill("Both")
    page.get_by_role("button", name="Publish", exact=True).click()
    in_force(page)
    greeting = 'greeting: "Weather desk. Which aerodrome?"'
    expected = theirs.replace(greeting, f"{greeting}  # by hand")
    assert own_hotel.config.read_bytes().decode() == expected, "its line ends too"


def test_an_edit_that_is_under_way_is_not_lost_when_the_page_is_left(
    open_page: OpenPage, own_hotel: Hotel
) -> None:
    page = open_page("operator", "/contexts/reception", hotel=own_hotel)
    held: list[Route] = []
    page.route("**/api/v1/config/edit", lambda route: held.append(route))
    with page.expect_request("**/api/v1/config/edit"):
        form_of(page).get_by_label("Prompt", exact=True).fill("Be brief.")
    # The places in a list are old until the answer is here.
    form_of(page).get_by_role("button", name="More actions: transfer").click()
    for act in ("Move up", "Remove"):
        expect(page.get_by_role("menuitem", name=act)).to_be_disabled()
    page.keyboard.press("Escape")
    expect(form_of(page).get_by_label("Add: Tools")).to_be_visible()
    page.get_by_role("link", name="Live").click()
    for route in held:
        route.continue_()
    leave = page.get_by_role("dialog", name="Leave with an unpublished draft?")
    expect(leave).to_contain_text("The draft stays saved")
    leave.get_by_role("button", name="Discard the draft").click()
    expect(page).to_have_url(re.compile("/live$"))


def test_a_draft_outlives_its_tab_and_is_not_left_behind_unnoticed(
    open_page: OpenPage, own_hotel: Hotel
) -> None:
    first = open_page("operator", "/contexts/reception", hotel=own_hotel)
    form_of(first).get_by_label("Prompt", exact=True).fill("You are brief.")
    draft_saved(first)
    first.close()

    page = open_page("operator", "/contexts/reception", hotel=own_hotel)
    expect(page.get_by_text("You have a draft that is not published")).to_be_visible()
    page.get_by_role("button", name="Continue").click()
    prompt = form_of(page).get_by_label("Prompt", exact=True)
    expect(prompt).to_have_value("You are brief.")
    page.get_by_role("button", name="Publish…").click()
    expect(page.get_by_text("Publishing needs the grant publish")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("link", name="Try this draft")).to_have_attribute(
        "href", re.compile("draft=d[0-9a-f]+&context=reception")
    )

    page.get_by_role("link", name="Live").click()
    leave = page.get_by_role("dialog", name="Leave with an unpublished draft?")
    leave.get_by_role("button", name="Stay").click()
    expect(prompt).to_have_value("You are brief.")
    page.get_by_role("link", name="Live").click()
    leave.get_by_role("button", name="Discard the draft").click()
    expect(page).to_have_url(re.compile("/live$"))
    page.get_by_role("link", name="Contexts").click()
    expect(form_of(page)).to_be_visible()
    expect(page.get_by_text("You have a draft")).to_have_count(0)


def test_the_prompt_editor_completes_the_variables_of_a_call(
    open_page: OpenPage, hotel: Hotel, axe: Axe
) -> None:
    page = open_page("operator", "/contexts/booking")
    form_of(page).get_by_role("button", name="Open Prompt in the prompt editor").click()
    editor = page.get_by_role("dialog").get_by_role("textbox")
    expect(editor).to_be_focused()
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.type(" Call {caller_na")
    page.get_by_role("option", name="caller_name").click()
    expect(editor).to_have_text("You book rooms. Call {caller_name}")
    expect(page.get_by_text(re.compile(r"about \d+ tokens"))).to_be_visible()
    axe(page)
    page.get_by_role("button", name="Done").click()
    expect(form_of(page).get_by_label("Prompt", exact=True)).to_have_value(
        "You book rooms. Call {caller_name}"
    )
    expect(text_of(page)).to_contain_text("{caller_name}")
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Discard").click()
    expect(form_of(page).get_by_label("Prompt", exact=True)).to_have_value("You book rooms.")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_part_of_the_file_has_a_form_that_a_viewer_may_read(
    open_page: OpenPage, axe: Axe, theme: Literal["light", "dark"]
) -> None:
    page = open_page("viewer", "/contexts", theme=theme)
    parts = page.get_by_role("navigation", name="Parts").get_by_role("button")
    expect(parts.first).to_be_visible()
    names = parts.all_inner_texts()
    assert {"reception", "cloud", "find_room", "General", "MCP", "Alarms"} <= {*names}
    for part in parts.all():
        part.click()
        expect(part).to_have_attribute("aria-current", "page")
        page.evaluate(OPEN_ALL)
    expect(page.get_by_text("You may read the configuration")).to_be_visible()
    expect(page.get_by_role("button", name="Publish…")).to_have_count(0)
    expect(text_of(page)).to_have_attribute("aria-readonly", "true")
    axe(page)


def test_a_limited_scope_sees_the_values_of_its_contexts_and_no_text(
    open_page: OpenPage, shoot: Shoot
) -> None:
    page = open_page("booker", "/contexts", size=(390, 844))
    expect(form_of(page).get_by_label("Greeting", exact=True)).to_have_value("Booking desk.")
    expect(page.get_by_text("Your scope is some contexts")).to_be_visible()
    expect(text_of(page)).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    shoot(page, "contexts-phone")
