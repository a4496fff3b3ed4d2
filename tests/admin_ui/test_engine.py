"""The engine and its alarms: drained and filled again, reloaded, its log followed, its state saved,
tried by a test call; a firing alarm seen by a person."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.admin_ui.conftest import Axe, OpenPage, Shoot, until
from tests.admin_ui.hotel import Hotel

RULE = "    tools-fail: {measure: tool_failures, above: 0}\n"
TIME_OF_THE_END = """async call => {
  for (;;) {
    const { lines } = await (await fetch(`/api/v1/engine/log?call=${call}`)).json();
    const end = lines.find(line => line.event === "call_ended");
    if (end) return new Date(end.timestamp).toLocaleTimeString("en-GB");
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}"""
RELOAD = """fetch("/api/v1/engine/reload", {
  method: "POST", headers: {"X-Cordboard": "1", "Content-Type": "application/json"}})"""
NEWEST_LINE_IS_SEEN = """height => {
  const log = document.querySelector("[role=grid]");
  const newest = log.querySelector(`[data-index="${log.ariaRowCount - 1}"]`);
  const [box, line] = [log.getBoundingClientRect(), newest?.getBoundingClientRect()];
  return innerHeight === height && line?.bottom <= box.bottom + 1;
}"""
LINES_ARE_THERE = "least => document.querySelector('[role=grid]').ariaRowCount >= least"
MORE = """\
    any-call: {measure: calls, above: 0, today: true, note: Tell the night porter.}
    disk: {measure: disk_free, below: 0.001}

reload: {watch: false}
"""


@pytest.fixture(scope="module")
def busy(own_hotel: Hotel) -> Hotel:
    """A hotel with an alarm that fires from the beginning; it reads its file when it is told to."""
    own_hotel.stop()
    text = own_hotel.config.read_text()
    own_hotel.config.write_text(text.replace(RULE, RULE + MORE))
    own_hotel.start()
    return own_hotel


def test_a_drain_counts_the_calls_and_ends(
    open_page: OpenPage, busy: Hotel, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/engine", hotel=busy)
    expect(page.get_by_text("Ready for calls", exact=True)).to_be_visible()
    expect(page.get_by_role("table", name="Configurations in force")).to_contain_text("new calls")
    expect(page.get_by_role("table", name="Disks")).to_contain_text(str(busy.folder))
    with busy.call():
        expect(page.get_by_text("1 of 100", exact=True)).to_be_visible()
        page.get_by_role("button", name="Drain").click()
        page.get_by_role("alertdialog").get_by_role("button", name="Drain").click()
        banner = page.get_by_role("status").filter(has_text="new calls are refused")
        expect(banner).to_contain_text("1 call left")
        expect(page.get_by_text("Not ready for calls")).to_be_visible()
        shoot(page, "engine-draining")
        axe(page)
    expect(banner).to_contain_text("No call is left")
    page.get_by_role("button", name="Take calls again").click()
    expect(page.get_by_text("Ready for calls", exact=True)).to_be_visible()
    expect(banner).to_have_count(0)


def test_a_reload_says_what_it_did(open_page: OpenPage, busy: Hotel) -> None:
    page = open_page("admin", "/engine", hotel=busy)
    before = busy.config.read_text()

    def reload() -> None:
        page.get_by_role("button", name="Reload").click()
        page.get_by_role("alertdialog").get_by_role("button", name="Reload").click()

    busy.config.write_text(before.replace("Hotel Seaview, good day.", "Seaview, good evening."))
    reload()
    report = page.get_by_role("dialog")
    expect(report).to_contain_text("contexts.reception.greeting")
    page.keyboard.press("Escape")
    expect(report).to_have_count(0)
    expect(page.get_by_role("button", name="Reload")).to_be_focused()
    busy.config.write_text(before + "nonsense: 1\n")
    reload()
    expect(page.get_by_role("dialog")).to_contain_text("nothing has changed")
    expect(page.get_by_role("dialog")).to_contain_text("nonsense")
    busy.config.write_text(before)


def test_the_log_is_followed_filtered_and_saved_with_all_else(
    open_page: OpenPage, busy: Hotel, axe: Axe, shoot: Shoot, tmp_path: Path
) -> None:
    page = open_page("admin", "/engine?tab=log", hotel=busy, theme="dark")
    log = page.get_by_role("grid", name="Log of the engine")
    expect(log.get_by_role("row").first).to_be_visible()
    shoot(page, "engine-log")
    axe(page)
    page.set_viewport_size({"width": 1000, "height": 480})
    for _ in range(12):
        page.evaluate(RELOAD)
    expect(log.get_by_role("row", name="reloaded").nth(11)).to_be_attached()  # the last of them
    log.get_by_role("row").last.focus()
    page.keyboard.press("Home")
    paused = page.get_by_role("status").filter(has_text="Paused")
    expect(paused).to_be_visible()
    until(page, "/calls/live", "told.calls.length === 0")
    with busy.call():
        until(page, "/calls/live", "told.calls.length === 1")
        expect(paused).to_have_text(re.compile(r"Paused, \d+ new line"))
        live = page.evaluate("fetch('/api/v1/calls/live').then(answer => answer.json())")
        call_id = live["calls"][0]["call_id"]
    expect(log.get_by_role("row", name="http_listening").first).to_be_visible()
    page.get_by_role("button", name="To the newest line").click()
    expect(page.get_by_text("Following", exact=True)).to_be_visible()
    page.set_viewport_size({"width": 1440, "height": 900})
    ended = log.get_by_role("row", name=page.evaluate(TIME_OF_THE_END, call_id))
    ended.filter(has_text="call_ended").click()
    page.get_by_role("button", name="Only this call").click()
    expect(page).to_have_url(re.compile(f"call={call_id}"))
    expect(log.get_by_role("row", name="engine_ready")).to_have_count(0)
    page.get_by_label("Find in these lines").fill("call_ended")
    expect(log.get_by_role("row")).to_have_count(1)
    assert _scrolls_inside(page)

    page.get_by_role("tab", name="Support").click()
    expect(page.get_by_text("config.yaml", exact=True)).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").click()
    saved = tmp_path / "bundle.zip"
    started.value.save_as(saved)
    with zipfile.ZipFile(io.BytesIO(saved.read_bytes())) as bundle:
        text = "".join(bundle.read(name).decode() for name in bundle.namelist())
    assert "Hotel Seaview" in text
    assert "sk-in-clear" not in text


def test_the_log_shows_its_newest_line_in_a_smaller_window(
    open_page: OpenPage, busy: Hotel
) -> None:
    page = open_page("admin", "/engine?tab=log", hotel=busy)
    log = page.get_by_role("grid", name="Log of the engine")
    expect(log.get_by_role("row").first).to_be_visible()
    before = int(log.get_attribute("aria-rowcount") or 0)
    for _ in range(20):  # more than a small window shows
        page.evaluate(RELOAD)
    page.wait_for_function(LINES_ARE_THERE, arg=before + 20)
    for height in (480, 800, 500):
        page.set_viewport_size({"width": 1000, "height": height})
        page.wait_for_function(NEWEST_LINE_IS_SEEN, arg=height)
        expect(page.get_by_text("Following", exact=True)).to_be_visible()


def _scrolls_inside(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollHeight <= innerHeight"))


def test_a_firing_alarm_is_seen_and_leads_on(
    open_page: OpenPage, busy: Hotel, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("operator", "/alarms", hotel=busy)
    alarm = page.get_by_role("article", name="any-call")
    expect(alarm).to_contain_text("Tell the night porter.")
    expect(alarm).to_contain_text("Calls above 0 today")
    expect(page.get_by_role("table", name="Rules")).to_contain_text("free disk below 0.001 %")
    expect(page.get_by_role("button", name="Send a test message")).to_have_count(0)
    alarm.get_by_role("button", name="Acknowledge").click()
    page.get_by_label("Note").fill("The porter knows.")
    page.get_by_label("Remind again").select_option("hour")
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(alarm).to_contain_text("Seen by otto")
    expect(alarm).to_contain_text("The porter knows.")
    shoot(page, "alarms")
    axe(page)
    alarm.get_by_role("link", name="Show the measure").click()
    expect(page).to_have_url(re.compile(r"/insights\?measure=calls&range=24h"))


def test_the_set_up_ends_with_a_test_call(
    open_page: OpenPage, hotel: Hotel, axe: Axe, shoot: Shoot
) -> None:
    page = open_page("admin", "/setup")
    steps = page.get_by_role("listitem")
    expect(steps.filter(has_text="Stasis application")).to_contain_text("the engine that runs")
    page.get_by_label("Context", exact=True).select_option("weather")
    page.get_by_role("button", name="Place a test call").click()
    expect(page.get_by_text("Its caller asks: “Hello, can you hear me?”")).to_be_visible()
    result = page.get_by_text("The caller was greeted and understood, and got an answer after")
    expect(result).to_be_visible()
    shoot(page, "setup-test-call")
    axe(page)
    page.get_by_role("link", name="Open the call").click()
    expect(page).to_have_url(re.compile(r"/calls/[0-9a-f-]{36}$"))
    expect(page.get_by_role("main")).to_contain_text("Weather desk.")


def test_a_viewer_looks_and_a_scope_sees_its_own(
    open_page: OpenPage, hotel: Hotel, axe: Axe
) -> None:
    page = open_page("viewer", "/engine")
    expect(page.get_by_text("Ready for calls", exact=True)).to_be_visible()
    for name in ("Drain", "Reload", "Check the set-up"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.get_by_role("tab", name="Support").click()
    expect(page.get_by_text("needs the permission engine.control")).to_be_visible()
    scoped = open_page("booker", "/engine?tab=log", size=(390, 844))
    expect(scoped.get_by_text("Your scope is limited to some.")).to_be_visible()
    scoped.get_by_role("tab", name="Overview").click()
    expect(scoped.get_by_role("table", name="Components")).to_be_visible()
    axe(scoped)
