"""The page in a real browser: what it may load and run, and what the fixtures promise of it."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests.admin_ui.conftest import OpenPage
from tests.admin_ui.hotel import Hotel

INJECTED = """() => {
  const script = document.createElement("script");
  script.textContent = "document.title = 'stolen'";
  document.body.append(script);
  const style = document.createElement("style");
  style.textContent = "body { display: none }";
  document.body.append(style);
}"""


def test_what_others_put_into_the_page_does_not_run_and_fails_a_test(
    open_page: OpenPage, complaints: list[str]
) -> None:
    page = open_page("admin", "/calls/a.b?x=1")
    page.evaluate(INJECTED)
    expect(page.locator("body")).to_be_visible()
    expect(page).not_to_have_title("stolen")
    page.evaluate("fetch('https://example.invalid/').catch(() => 0)")
    page.wait_for_function("() => true")
    refused = [
        match[1] for told in complaints if (match := re.match(r"console: policy: (\S+)", told))
    ]
    assert refused == ["script-src-elem", "style-src-elem", "connect-src"]
    complaints.clear()


def test_the_hotel_has_people_and_a_history_of_every_kind(
    open_page: OpenPage, hotel: Hotel
) -> None:
    page = open_page("admin", "/calls")
    ask = "path => fetch(`/api/v1${path}`).then(answer => answer.json())"
    rows = [row for row in page.evaluate(ask, "/calls")["rows"] if not hotel.is_test(row["file"])]
    by_name = {row["caller_name"]: row for row in rows}
    assert by_name["Ida Jensen"]["interruptions"] == 1
    assert by_name["Erik Holm"]["tools"] == ["find_room", "hangup_call"]
    assert by_name["Maja Lund"]["tools_failed"] == ["send_invoice"]
    assert by_name["Otto Berg"]["outcome"] == "transferred"
    assert by_name["Bo"]["outcome"] == "refused"
    named = [row for row in rows if row["caller_name"]]  # callers of other tests have no name
    assert all(row["recorded"] for row in named if row["outcome"] != "refused")
    versions = page.evaluate(ask, "/config/versions")["versions"]
    assert {row["config"] for row in rows} - {""} <= {row["digest"] for row in versions}
    names = {user["name"] for user in page.evaluate(ask, "/users")["users"]}
    assert names == {"anna", "bodil", "otto", "vera"}
    scoped = open_page("booker", "/calls").evaluate(ask, "/calls")["rows"]
    assert {row["context"] for row in scoped} == {"booking"}
