"""The page of one call: heard, seen and read on one time axis; what one can do with it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot, until
from tests.admin_ui.hotel import PASSWORD, Hotel

Record = Mapping[str, Any]
ASK = "path => fetch(`/api/v1/calls${path}`).then(answer => answer.json())"
CATCH_AUDIO = """
const Plain = window.Audio;
window.Audio = function () { return (window.caught = new Plain()); };
"""
AWAY = """async () => {
  // The view is 10 s wide and nothing in it is folded, so places are times.
  const cursor = document.querySelector("[data-cursor]");
  const width = cursor.parentElement.clientWidth;
  const found = [];
  for (let frame = 0; frame < 30; frame += 1) {
    await new Promise(requestAnimationFrame);
    const { port1, port2 } = new MessageChannel();
    const painted = new Promise((done) => { port1.onmessage = done; });
    port2.postMessage("after all callbacks of this frame");
    await painted;
    const x = new DOMMatrix(cursor.style.transform).m41;
    const began = Number(window.began);
    found.push(Math.abs((x / width) * 10000 - (began + window.caught.currentTime * 1000)));
  }
  return found.sort((a, b) => a - b)[Math.floor(found.length / 4)];
}"""


def by_caller(page: Page) -> dict[str, Record]:
    """The calls of the history in full, by the caller's name."""
    rows = page.evaluate(ASK, "?outcome=completed&outcome=transferred&outcome=failed")["rows"]
    return {row["caller_name"]: page.evaluate(ASK, f"/{row['id']}")["call"] for row in rows}


@pytest.fixture
def calls(open_page: OpenPage) -> dict[str, Record]:
    return by_caller(open_page("admin", "/settings"))


def address(call: Record, search: str = "") -> str:
    return f"/calls/{call['row']['id']}{search}"


def position(page: Page) -> int:
    """The position in whole seconds, as a screen reader hears it."""
    return int(page.get_by_role("slider").get_attribute("aria-valuenow") or -1)


def test_the_sound_the_picture_and_the_words_are_one(
    open_page: OpenPage, calls: dict[str, Record], axe: Axe, shoot: Shoot
) -> None:
    call = calls["Ida Jensen"]
    cut = next(turn for turn in call["turns"] if turn["agent"] and turn["agent"]["cut"])
    page = open_page("admin", address(call))
    page.add_init_script(CATCH_AUDIO)
    page.goto(address(call, "?from=0&to=10000&unfolded=true"))
    transcript = page.get_by_role("region", name="Transcript")
    expect(transcript.locator(".line-through").first).to_contain_text(
        cut["agent"]["text"].split()[-1]
    )
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        expect(page.locator(f"html[data-theme={theme}]")).to_be_attached()
        axe(page)
        shoot(page, f"call-{theme}")
    # A click on a word chooses its turn, and plays from there.
    turn = call["turns"][1]
    line = transcript.locator("li", has_text=turn["caller"]["text"])
    since = time.monotonic()
    line.get_by_text(turn["caller"]["text"].split()[-1]).last.click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    details = page.get_by_role("complementary", name="Details")
    expect(details.get_by_role("heading", name=f"Turn {turn['number']}")).to_be_visible()
    begin, end = (turn["caller"][key] / 1000 for key in ("begin_ms", "end_ms"))
    now, played = position(page), time.monotonic() - since
    assert (begin + end) / 2 - 1 <= now <= end + 1 + played, "the last word is at the end"
    # One beside the words only chooses.
    transcript.get_by_text("Agent", exact=True).first.click()
    expect(details.get_by_role("heading", name="Greeting")).to_be_visible()
    # The line that is heard is lit, and the cursor is where the sound is.
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(transcript.locator("li[aria-current=true]")).to_contain_text("Agent")
    page.wait_for_function("() => window.caught.currentTime > 0.2")
    page.evaluate("began => { window.began = began; }", call["recording"]["began_ms"])
    assert any(page.evaluate(AWAY) <= 20 for _ in range(3))
    page.get_by_role("button", name="Hear Agent").click()
    page.wait_for_function("() => window.caught.src.endsWith('track=caller')")
    page.get_by_label("Speed").select_option("2")
    page.wait_for_function("() => window.caught.playbackRate === 2 && !window.caught.paused")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()


def test_where_the_time_went_is_in_the_picture_the_table_and_the_address(
    open_page: OpenPage, calls: dict[str, Record], shoot: Shoot
) -> None:
    call = calls["Erik Holm"]
    page = open_page("admin", address(call))
    details = page.get_by_role("complementary", name="Details")
    waits = {turn["number"]: turn["answer_ms"] for turn in call["turns"] if turn["answer_ms"]}
    longest = max(waits, key=lambda number: waits[number])
    expect(details.get_by_role("listitem").first).to_contain_text(f"Turn {longest}")
    # The lane of tools shows the slow one: a click there opens it.
    (tool,) = (each for each in call["tools"] if each["name"] == "find_room")
    page.get_by_role("slider").focus()
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile(r"[?&]turn="))
    page.get_by_role("button", name="Zoom to it").click()
    expect(page).to_have_url(re.compile(r"from=\d+.*to=\d+"))
    transcript = page.get_by_role("region", name="Transcript")
    transcript.locator("li", has_text="find_room").get_by_role("button").click()
    expect(page).to_have_url(re.compile(r"tab=tools"))
    expect(details.locator("li > details[open]")).to_contain_text("find_room")
    expect(details.get_by_role("group", name="Arguments")).to_contain_text(
        str(next(iter(tool["arguments"].values())))
    )
    shoot(page, "call-tool")
    kept = page.url
    page.reload()
    expect(details.locator("li > details[open]")).to_contain_text("find_room")
    assert page.url == kept
    # The picture is drawn: the wait is there in the middle of its lane.
    drawn = page.evaluate(
        """() => {
          const canvas = document.querySelector("canvas");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const colours = new Set();
          for (let at = 0; at < data.length; at += 4) {
            if (data[at + 3] > 200) colours.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
          }
          return colours.size;
        }"""
    )
    assert drawn > 5
    # The table has every number of the picture, also for those who do not see it.
    expect(page.get_by_role("table", name="The call as a table")).to_be_attached()
    page.get_by_label("Table").check()
    rows = page.get_by_role("table", name="The call as a table").get_by_role("row")
    for turn in call["turns"]:
        row = rows.nth(turn["number"] + 1)
        cells = [cell.strip() for cell in row.get_by_role("cell").all_inner_texts()]
        for stage, ms in turn["waited"].items():
            shown = ms - turn["waited"]["vad"] if stage == "endpoint" else ms
            hidden_by_answer = stage == "total" and turn["filler_first"]
            assert str(shown) in cells or shown == 0 or hidden_by_answer, (stage, cells)
    expect(page.get_by_role("table", name="Tools and events as a table")).to_contain_text(
        "find_room"
    )


def test_what_one_may_not_see_or_cannot_hear_says_why(
    open_page: OpenPage, own_hotel: Hotel, axe: Axe, shoot: Shoot
) -> None:
    admin = open_page("admin", "/settings", hotel=own_hotel)
    calls = by_caller(admin)
    failed = calls["Maja Lund"]
    page = open_page("viewer", address(failed), hotel=own_hotel, size=(390, 844))
    expect(page.get_by_text("The sound takes the grant recordings.")).to_be_visible()
    expect(page.get_by_text("that takes the grant personal")).to_be_visible()
    expect(page.get_by_role("tab", name="Ledger")).to_be_hidden()
    expect(page.get_by_role("region", name="Transcript")).to_contain_text("send_invoice")
    expect(page.get_by_role("region", name="Transcript")).to_contain_text("(hidden)")
    expect(page.locator("body")).not_to_contain_text("invoice.", use_inner_text=True)
    axe(page)
    shoot(page, "call-phone")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    page.get_by_role("button", name="More").click()
    assert [each.strip() for each in page.get_by_role("menuitem").all_inner_texts()] == [
        "Download picture"
    ]
    # Its file is gone: the page says so, and everything but the sound is there.
    (own_hotel.folder / "calls" / failed["row"]["file"]).with_suffix(".wav").unlink()
    admin.goto(address(failed))
    expect(admin.get_by_text("The recording was deleted.")).to_be_visible()
    expect(admin.get_by_role("button", name="Play", exact=True)).to_be_hidden()
    admin.keyboard.press(".")
    expect(admin).to_have_url(re.compile(r"at=\d+"))
    assert position(admin) == pytest.approx(failed["tools"][0]["begin_ms"] / 1000, abs=1)


def test_people_add_notes_make_a_test_and_erase(
    open_page: OpenPage, own_hotel: Hotel, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/settings", hotel=own_hotel)
    calls = by_caller(page)
    call = calls["Otto Berg"]
    page.goto(address(call, "?tab=notes"))
    other = open_page("operator", address(call, "?tab=notes"), hotel=own_hotel)
    expect(other.get_by_role("tab", name="Notes")).to_be_visible()
    page.get_by_label("Review").select_option("bad")
    page.get_by_label("Why").fill("The caller asked twice.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("by anna").first).to_be_visible()
    axe(page)
    # The other one has seen the call without the review: nothing is overwritten.
    other.get_by_label("Add tag").fill("manners")
    other.get_by_role("button", name="Add").first.click()
    expect(other.get_by_text("Somebody else has changed the notes")).to_be_visible()
    expect(other.get_by_label("Why")).to_have_value("The caller asked twice.")
    other.get_by_role("button", name="Add").first.click()
    expect(other.get_by_role("button", name="Remove tag manners")).to_be_visible()
    # A test is made of it.
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Make this a test").click()
    page.get_by_label("Name").fill("to-housekeeping")
    page.get_by_role("button", name="Make test").click()
    expect(page.get_by_role("group", name="Scenario")).to_contain_text("housekeeping")
    axe(page)
    shoot(page, "call-scenario")
    assert (own_hotel.folder / "admin" / "evaluations" / "to-housekeeping.yaml").exists()
    page.get_by_role("button", name="Done").click()
    # The next one without a review is another call.
    page.get_by_role("button", name="Next unreviewed").click()
    expect(page).not_to_have_url(re.compile(call["row"]["id"]))
    # Erasing asks for the password, says what would go, and does it.
    page.goto(address(call))
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Erase call").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("alertdialog")).to_contain_text(re.compile(r"\d+ files? and all rows"))
    assert left(own_hotel, call), "nothing has gone yet"
    page.get_by_role("button", name="Erase call").click()
    expect(page).to_have_url(re.compile("/calls$"))
    assert not left(own_hotel, call)


def left(hotel: Hotel, call: Record) -> list[Path]:
    return [*(hotel.folder / "calls").glob(f"*/{call['row']['id']}*")]


def test_a_running_call_grows_on_the_page(open_page: OpenPage, hotel: Hotel) -> None:
    page = open_page("admin", "/settings")
    until(page, "/calls/live", "told.calls.length === 0")
    with hotel.call() as caller:
        caller.wait_for_silence()
        (live,) = page.evaluate(ASK, "/live")["calls"]
        page.goto(f"/calls/{live['call_id']}")
        transcript = page.get_by_role("region", name="Transcript")
        expect(transcript.get_by_role("listitem")).to_have_count(1)
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        expect(page.get_by_text("can be played when the call is over")).to_be_visible()
        caller.say("When are you open?")
        expect(transcript).to_contain_text("Caller")
        caller.hang_up()
        expect(page.get_by_text("completed")).to_be_visible()
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
