"""The live calls in a browser: a call appears, is watched, heard, spoken into, and ended."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

from playwright.sync_api import Page, Route, WebSocketRoute, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from tests.admin_ui.conftest import WAIT_MS, Axe, OpenPage, Shoot, until
from tests.admin_ui.hotel import Hotel


def test_a_call_is_watched_spoken_into_and_ended(
    open_page: OpenPage, hotel: Hotel, axe: Axe, shoot: Shoot, complaints: list[str]
) -> None:
    keys: list[str] = []

    def lose_the_first_answer(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        answer = route.fetch()
        if len(keys) == 1:
            route.abort()
        else:
            route.fulfill(response=answer)

    page = open_page("admin", "/live")
    expect(page.get_by_text("No call at this moment")).to_be_visible()
    with hotel.call() as caller:
        row = page.get_by_role("row", name="reception")
        row.click()
        said = page.get_by_role("log")
        expect(said).to_contain_text("Seaview")
        caller.wait_for_silence()
        caller.say("When are you open?")
        expect(said).to_contain_text(re.compile("when are you open", re.IGNORECASE))
        waited = page.get_by_role("region", name="Turn 1: what the caller waited for")
        expect(waited).to_be_visible()
        axe(page)
        shoot(page, "live-call")
        page.get_by_role("button", name="Flag").click()
        page.get_by_label("What is it?").fill("friendly")
        page.keyboard.press("Enter")
        expect(said).to_contain_text("Flag")
        expect(said).to_contain_text("friendly")
        page.route("**/say", lose_the_first_answer)
        page.get_by_role("textbox", name="The agent says").fill("Please hold the line.")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The engine cannot be reached")).to_be_visible()
        expect(page.get_by_role("button", name="Say it")).to_be_enabled()
        page.keyboard.press("Enter")
        expect(page.get_by_role("textbox", name="The agent says")).to_have_value("")
        assert keys == [keys[0]] * 2, "the engine knows that it is the same"
        expect(said.get_by_text("Please hold the line.")).to_have_count(1)
        complaints.clear()
        page.get_by_role("button", name="End", exact=True).click()
        page.get_by_role("button", name="End call").click()
        assert caller.ended() == "them"
    expect(page.get_by_text("The call is over: completed, operator hangup")).to_be_visible()
    expect(page.get_by_text("No call at this moment")).to_be_visible()


KEEP_THE_LOUDEST = """() => {
  window.loudest = { Agent: 0, Caller: 0 };
  setInterval(() => {
    for (const side of Object.keys(loudest)) {
      const meter = document.querySelector(`meter[aria-label=${side}]`);
      loudest[side] = Math.max(loudest[side], meter?.value ?? 0);
    }
  }, 20);
}"""


def test_a_listener_hears_both_sides_late_and_everybody_sees_it(
    open_page: OpenPage, hotel: Hotel
) -> None:
    page, other = open_page("admin", "/live"), open_page("viewer", "/live")
    until(page, "/calls/live", "told.calls.length === 0")
    held: list[Route] = []
    with hotel.call() as caller:
        row = page.get_by_role("row", name="reception")
        row.click()
        page.route("**/listen", lambda route: held.append(route), times=1)
        with page.expect_request("**/listen"):
            page.get_by_role("button", name="Listen", exact=True).click()
        page.keyboard.press("Escape")  # before the engine has answered
        with page.expect_response("**/listen"):
            held[0].continue_()
        row.click()
        expect(page.get_by_role("button", name="Listen", exact=True)).to_be_enabled()
        page.get_by_role("button", name="Listen", exact=True).click()
        expect(page.get_by_text(re.compile(r"\d\.\d s behind"))).to_be_visible()
        expect(other.get_by_role("row", name="1 listening")).to_be_visible()
        page.evaluate(KEEP_THE_LOUDEST)
        for _ in range(6):  # until both have been heard: the agent has perhaps said all it had to
            caller.say("When are you open?")
            with contextlib.suppress(PlaywrightTimeout):
                both = "() => loudest.Agent > 0.3 && loudest.Caller > 0.3"
                page.wait_for_function(both, timeout=WAIT_MS / 6)
                break
        else:
            raise AssertionError(page.evaluate("loudest"))
        page.keyboard.press("Escape")  # whoever leaves the call does not hear it any more
        expect(other.get_by_role("row", name="1 listening")).to_have_count(0)
        call_id = page.evaluate("fetch('/api/v1/calls/live').then(answer => answer.json())")[
            "calls"
        ][0]["call_id"]
    (ledger,) = (hotel.folder / "calls").glob(f"*/{call_id}.jsonl")
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    (listened,) = [line for line in lines if line["type"] == "call.listened"]
    assert listened["who"] == "anna"


def test_a_viewer_without_grants_sees_the_call_and_nothing_to_do(
    open_page: OpenPage, hotel: Hotel, axe: Axe
) -> None:
    page = open_page("viewer", "/live", theme="dark", size=(390, 844))
    with hotel.call():
        page.get_by_role("row").nth(1).click()
        said = page.get_by_role("log")
        expect(said).to_contain_text("words are hidden")
        expect(said).not_to_contain_text("Seaview")
        expect(page.get_by_role("button", name="Flag")).to_be_visible()
        for act in ("End", "Transfer", "Listen", "Say it"):
            expect(page.get_by_role("button", name=act, exact=True)).to_have_count(0)
        axe(page)
        page.get_by_role("button", name="Close").click()
        expect(page.get_by_role("row").nth(1)).to_be_visible()


def live_row(number: int) -> dict[str, Any]:
    return {
        "call_id": f"call-{number}",
        "started_at": f"2026-11-23T10:{number // 60:02}:{number % 60:02}.000+00:00",
        "source": "asterisk",
        "context": ("booking", "sales")[number % 2],
        "provider": "local",
        "config": "c7f3a9",
        "caller_number": f"+4530{number:06}",
        "caller_name": "",
        "called_number": "100",
        "state": "listening",
        "speaking": "nobody",
        "turn": 1,
        "last": None,
        "waiting_since_ms": None,
        "latency": None,
        "tools": {"running": [], "calls": 0, "failed": 0},
        "cost": None,
        "recording": "off",
        "troubles": 0,
        "transport": "rtp",
        "test": False,
        "queued_ms": 0,
        "watched": 0,
        "listened": 0,
        "human": "",
        "operator": "",
    }


class FakeFeed:
    """Stands in for the engine's live feed, to show what a test wants at the moment it wants it."""

    def __init__(self, page: Page) -> None:
        self._socket: WebSocketRoute | None = None
        self._ids: dict[str, int] = {}
        page.route_web_socket("**/api/v1/live", self._opened)

    def _opened(self, socket: WebSocketRoute) -> None:
        self._socket = socket
        socket.on_message(self._asked)

    def _asked(self, message: str | bytes) -> None:
        asked = json.loads(message)
        if (topic := asked.get("topic")) is None:
            return
        self._ids[topic] = asked["id"]
        if topic == "calls":
            self.send(snapshot=[live_row(number) for number in range(100)])
        else:
            self.send(topic, events=[{"type": "caller.started", "at_ms": 900, "speech_ms": 800}])

    def send(self, topic: str = "calls", **frame: Any) -> None:
        assert self._socket is not None
        self._socket.send(json.dumps({"id": self._ids[topic], "seq": 1, **frame}))


COUNT_CHANGES = """() => {
  window.changed = new Set();
  window.changedAt = performance.now();
  new MutationObserver(found => {
    for (const { target } of found) {
      const element = target.nodeType === 1 ? target : target.parentElement;
      const row = element?.closest("[data-index]");
      // Clocks run in each row; they write their own text and nothing else.
      const clock = target.nodeName === "SPAN" && /^\\d+:/.test(target.textContent);
      if (row && !clock) {
        window.changed.add(row.dataset.index);
        window.changedAt = performance.now();
      }
    }
  }).observe(document.querySelector("[role=grid]"),
    { subtree: true, childList: true, characterData: true, attributes: true });
}"""


def test_of_a_hundred_calls_only_the_rows_that_changed_are_rendered_and_words_grow(
    open_page: OpenPage,
) -> None:
    page = open_page("viewer", "/settings")
    feed = FakeFeed(page)
    page.goto("/live?order=newest")
    expect(page.get_by_text("100 calls", exact=True)).to_be_visible()
    assert page.locator("[data-index]").count() <= 80
    page.evaluate(COUNT_CHANGES)
    page.wait_for_function("() => performance.now() > changedAt + 500")  # all rows are rendered
    page.evaluate("changed.clear()")
    feed.send(rows=[{"call_id": "call-97", "state": "thinking", "waiting_since_ms": 1}])
    expect(page.get_by_role("row", name="+4530000097")).to_contain_text("thinking")
    assert page.evaluate("[...window.changed]") == ["2"]
    feed.send(gone=["call-99"])
    expect(page.get_by_text("99 calls", exact=True)).to_be_visible()
    page.get_by_role("button", name="Context").click()
    page.get_by_role("menuitemcheckbox", name="sales").click()
    expect(page.get_by_text("49 of 99 calls")).to_be_visible()
    expect(page).to_have_url(re.compile("context=sales"))
    page.get_by_role("row", name="+4530000097").click()
    said = page.get_by_role("log")
    expect(said).to_contain_text("The caller speaks…")
    feed.send("call", partial="I would li")
    expect(said).to_contain_text("I would li …")
    words = {"type": "caller.text", "at_ms": 2_000, "turn": 1, "text": "I would like a room."}
    feed.send("call", events=[words])
    expect(said).not_to_contain_text("…")
    expect(said).to_contain_text("I would like a room.")
