"""The live feed: rows, events, masks, scopes, slow viewers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cordboard.accounts.rights import Grant, Role
from cordboard.admin import live_feed, live_topics
from cordboard.admin.live import PROTOCOL
from cordboard.admin.live_calls import without_personal
from cordboard.calls import events
from cordboard.calls.floor import Floor, Owed
from cordboard.calls.history import CallHistory
from cordboard.calls.ledger_file import encode_event
from cordboard.errors import RequestRefused
from cordboard.history.masking import mask
from cordboard.observe.logging import KeptLog
from cordboard_testkit.patience import PATIENCE, until

from .conftest import Browser, LiveCall, Room, Visit, code

NUMBER = "+4930123456"


@dataclasses.dataclass
class Playout:
    speaking: bool = False
    queued_ms: int = 0


@dataclasses.dataclass
class Talk:
    floor: Floor = dataclasses.field(default_factory=Floor)
    playout: Playout = dataclasses.field(default_factory=Playout)
    partial: str = ""


class Calls:
    """Calls whose events a test writes, to the ledger's file and to the feed."""

    def __init__(self, room: Room, folder: Path) -> None:
        self.room = room
        self.folder = folder
        self.sent: dict[str, int] = {}

    def begin(self, call_id: str, context: str = "demo") -> LiveCall:
        call = LiveCall(call_id, context)
        call.conversation = Talk()
        call.ledger_path = self.folder / f"{call_id}.jsonl"
        self.room.calls[call_id] = call
        self.take(call_id, 0, events.Offered(call_id, "t", "sip", NUMBER, "Erika", "1000"))
        return call

    def take(self, call_id: str, at_ms: int, *made: events.LedgerEvent) -> None:
        for event in made:
            with self.room.calls[call_id].ledger_path.open("ab") as file:
                file.write(encode_event(at_ms, event))
            self.room.services.feed.take(call_id, at_ms, event)

    def end(self, call_id: str) -> None:
        self.take(call_id, 9_000, events.Ended("completed", "caller_hangup", 9_000))
        del self.room.calls[call_id]


@pytest.fixture
def calls(room: Room, tmp_path: Path) -> Calls:
    room.calls.clear()
    return Calls(room, tmp_path)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks without waiting: order and content are tested here."""
    monkeypatch.setattr(live_feed, "TICK_SECONDS", 0.01)


async def watching(browser: Browser, **topic: Any) -> Visit:
    visit = await browser.connect("/live", PROTOCOL)
    assert visit.status == 101
    visit.send({"op": "subscribe", "id": 1, **topic})
    return visit


def viewer(room: Room, *grants: Grant, scope: tuple[str, ...] = ("*",)) -> Browser:
    name = f"vera{len(room.accounts.users())}"
    room.add(name, Role.VIEWER, grants, scope)
    return room.browser(name)


async def test_rows_come_whole_then_by_changed_fields_and_ended_calls_are_gone(
    room: Room, calls: Calls
) -> None:
    calls.begin("one")
    visit = await watching(viewer(room, Grant.PERSONAL), topic="calls")
    first = await visit.frame()
    (row,) = first["snapshot"]
    assert (row["call_id"], row["state"], row["last"]) == ("one", "listening", None)
    assert (row["caller_number"], row["caller_name"]) == (NUMBER, "Erika Mustermann")
    call = calls.room.calls["one"]
    calls.take("one", 1_000, events.SpeechBegan(900))
    call.conversation.floor.caller_speaks = True
    changed = await visit.frame()
    assert changed["rows"] == [{"call_id": "one", "speaking": "caller"}]
    assert changed["seq"] > first["seq"]
    call.conversation.floor.caller_speaks = False
    call.conversation.floor.owed = Owed.ANSWER
    calls.take("one", 2_000, events.TurnEnded(1, 1_900), events.Heard(1, "wether", 0.9, "weather"))
    (changed,) = (await visit.frame())["rows"]
    assert changed == {
        "call_id": "one",
        "state": "thinking",
        "speaking": "nobody",
        "turn": 1,
        "waiting_since_ms": 1_900,
        "last": {"who": "caller", "text": "weather", "at_ms": 2_000},
    }
    calls.end("one")
    assert (await visit.frame())["gone"] == ["one"]


async def test_a_row_follows_tools_waits_recording_and_troubles(room: Room, calls: Calls) -> None:
    calls.begin("one")
    calls.take(
        "one",
        1_000,
        events.ToolCalled(1, "a1", "weather", "", {}),
        events.ToolCalled(1, "a2", "trains", "", {}),
        events.ToolAnswered("a2", "trains", "timeout", "late", 10),
        events.Latency(1, 1, 1, 1, 1, 1, 500),
        events.Latency(2, 1, 1, 1, 1, 1, 200, filler=True),
        events.Answered(2, 900),
        events.Trouble("agent", "slow"),
    )
    calls.room.calls["one"].recording = "paused"
    visit = await watching(viewer(room), topic="calls")
    (row,) = (await visit.frame())["snapshot"]
    assert row["tools"] == {"running": ["weather"], "calls": 2, "failed": 1}
    assert row["latency"] == {"last_ms": 900, "p50_ms": 500, "worst_ms": 900}
    assert (row["recording"], row["troubles"], row["state"]) == ("paused", 1, "tool")
    assert row["cost"] == {"amount": "0.250000", "currency": "EUR"}


async def test_a_row_tells_who_watches_and_listens_and_how_much_sound_waits(
    room: Room, calls: Calls
) -> None:
    call = calls.begin("one")
    rows = await watching(viewer(room), topic="calls")
    (row,) = (await rows.frame())["snapshot"]
    quiet = {"transport": "asterisk", "test": False, "queued_ms": 0, "watched": 0, "listened": 0}
    quiet |= {"human": "", "operator": "", "direction": "in"}
    assert {name: row[name] for name in quiet} == quiet
    follower = await watching(viewer(room), topic="call", call="one")
    assert (await rows.frame())["rows"] == [{"call_id": "one", "watched": 1}]
    call.operator.listened, call.conversation.playout.queued_ms = 1, 501
    assert (await rows.frame())["rows"] == [{"call_id": "one", "queued_ms": 1_000, "listened": 1}]
    call.conversation.playout.queued_ms = 1_000
    follower.send({"op": "unsubscribe", "id": 1})
    assert (await rows.frame())["rows"] == [{"call_id": "one", "watched": 0}]


async def test_a_row_tells_who_else_is_on_the_line(room: Room, calls: Calls) -> None:
    calls.begin("one")
    calls.take("one", 100, events.TransferStep("anna", "ringing"))
    rows = await watching(viewer(room), topic="calls")
    (row,) = (await rows.frame())["snapshot"]
    assert (row["human"], row["operator"]) == ("", "")
    for event, changed in (
        (events.TransferStep("anna", "briefing"), {"human": "anna"}),
        (events.ConferenceStep("otto", "joined"), {"operator": "otto"}),
        (events.TransferStep("anna", "returning"), {"human": ""}),
        (events.ConferenceStep("otto", "over"), {"operator": ""}),
    ):
        calls.take("one", 200, event)
        assert (await rows.frame())["rows"] == [{"call_id": "one", **changed}]


async def test_many_changes_between_two_looks_are_one_frame(
    room: Room, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_feed, "TICK_SECONDS", 0.1)
    calls.begin("one")
    visit = await watching(viewer(room, Grant.PERSONAL), topic="calls")
    await visit.frame()
    for turn in range(1, 50):
        calls.take("one", turn, events.TurnEnded(turn, turn), events.Heard(turn, f"w{turn}", 1.0))
    (row,) = (await visit.frame())["rows"]
    assert (row["turn"], row["last"]["text"]) == (49, "w49")


async def test_a_scope_has_its_rows_alone_and_no_trace_of_the_others(
    room: Room, calls: Calls
) -> None:
    calls.begin("mine", "demo")
    calls.begin("theirs", "sales")
    visit = await watching(viewer(room, scope=("demo",)), topic="calls")
    assert [row["call_id"] for row in (await visit.frame())["snapshot"]] == ["mine"]
    calls.take("theirs", 1, events.TurnEnded(1, 1))
    calls.end("theirs")
    calls.take("mine", 1, events.TurnEnded(1, 1))
    following = await visit.frame()
    assert "theirs" not in json.dumps(following)
    assert [row["call_id"] for row in following["rows"]] == ["mine"]
    outside = await watching(viewer(room, scope=("sales",)), topic="call", call="mine")
    assert (await outside.frame())["error"]["code"] == "not_there"


async def test_without_the_grant_no_number_and_no_word_is_sent(room: Room, calls: Calls) -> None:
    calls.begin("one")
    calls.take("one", 1, events.Heard(1, "my secret", 1.0), events.Answering(1, "your secret"))
    browser = viewer(room)
    rows, call = (
        await watching(browser, topic="calls"),
        await watching(browser, topic="call", call="one"),
    )
    sent = [await rows.frame(), await call.frame()]
    calls.take("one", 2, events.ToolCalled(1, "a", "look", "", {"who": "secret"}))
    sent += [await rows.frame(), await call.frame()]
    text = json.dumps(sent)
    for hidden in ("secret", "Erika", "493012"):
        assert hidden not in text
    assert "*******3456" in text
    assert [line["type"] for line in sent[1]["events"]] == [
        "call.offered",
        "caller.text",
        "agent.text",
    ]
    assert room.entries() == []


OPEN_FIELDS = {
    "audio", "audio_sha256", "text_sha256",
    "call_id", "started_at", "source", "called_number", "external_id", "config", "reason", "error",
    "context", "provider", "tools", "missing_tools", "problems", "steps", "why", "kind", "ask_id",
    "name", "tool", "parent", "answer", "by", "status", "path", "format", "destination", "model",
    "amounts", "currency", "where", "outcome", "trial", "said_by", "who", "act",
    "rule", "proof", "direction", "engine", "step", "at", "way", "agent", "to", "music", "trunk",
}  # fmt: skip
"""Texts and data of events that are shown to everyone; `error` is that of a refused offer."""


@pytest.mark.parametrize("kind", events.EVENTS, ids=lambda kind: kind.type)
def test_each_text_of_an_event_is_either_shown_to_all_or_hidden(
    kind: type[events.LedgerEvent],
) -> None:
    """A new field of an event must be decided about here."""
    filled: dict[str, Any] = {"type": kind.type, "at_ms": 1}
    for each in dataclasses.fields(kind):  # type: ignore[arg-type]
        kinds = {"str": "said", "dict": {"said": "said"}, "list": ["said"]}
        name = str(each.type).partition("[")[0]
        filled[each.name] = kinds.get(name, 1)
    shown = without_personal(filled)
    assert shown.keys() == filled.keys()
    said = {name for name, value in shown.items() if "said" in str(value)}
    assert said - {"caller_number", "caller_name"} <= OPEN_FIELDS
    if kind is not events.Refused:  # it is no line of a call
        assert not said & {"caller_name", "text", "heard", "arguments", "sent", "message"}


def test_the_record_of_a_call_hides_all_that_the_live_feed_hides() -> None:
    """The feed masks lines, the record what was made of them: two lists of the same fields."""
    lines = []
    for kind in sorted(events.EVENTS, key=lambda kind: kind.type != "tool.asked"):
        line: dict[str, Any] = {"type": kind.type, "at_ms": 1}
        for each in dataclasses.fields(kind):  # type: ignore[arg-type]
            said = f"<{kind.type}.{each.name}>"
            kinds = {"str": said, "dict": {"said": said}, "list": [said]}
            line[each.name] = kinds.get(str(each.type).partition("[")[0], 1)
        one = {"ask_id": "a", "said_by": ""}  # of one tool, and the caller's own words
        lines.append(line | {name: one[name] for name in one.keys() & line.keys()})
    history = CallHistory.from_lines(lines)
    hidden = [
        f"<{line['type']}.{name}>"
        for line in lines
        for name, value in without_personal(line).items()
        if value != line[name]
    ]
    whole = str(dataclasses.asdict(history))
    assert {"<caller.text.text>", "<tool.asked.arguments>"} <= {
        each for each in hidden if each in whole
    }
    mask(history)
    masked = str(dataclasses.asdict(history))
    assert [each for each in hidden if each in masked] == []


@pytest.mark.parametrize("after", range(7))
async def test_the_events_of_a_call_come_from_the_file_then_live_without_gap_or_double(
    room: Room, calls: Calls, after: int
) -> None:
    calls.begin("one")
    for turn in range(1, 4):
        calls.take("one", turn * 10, events.TurnEnded(turn, turn))
    visit = await watching(viewer(room), topic="call", call="one", after=after)
    calls.take("one", 40, events.TurnEnded(4, 4))
    numbers: list[int] = []
    for turn in range(5, 8):
        calls.take("one", turn * 10, events.TurnEnded(turn, turn))
        await asyncio.sleep(0.005)
    calls.end("one")
    while not (frame := await visit.frame()).get("over"):
        numbers += [event.get("turn", 0) for event in frame["events"]]
    assert numbers == [*range(8), 0][after:]
    assert frame["seq"] == 9


async def test_events_before_a_time_are_left_out_and_words_are_in_the_audit(
    room: Room, calls: Calls
) -> None:
    calls.begin("one")
    calls.take("one", 100, events.Heard(1, "old", 1.0))
    calls.take("one", 200, events.Heard(2, "new", 1.0))
    visit = await watching(viewer(room, Grant.PERSONAL), topic="call", call="one", from_ms=150)
    assert [line["text"] for line in (await visit.frame())["events"]] == ["new"]
    (entry,) = room.entries()
    assert (entry["action"], entry["on"], entry["context"]) == ("call.watched", "one", "demo")


async def test_who_calls_from_the_browser_sees_the_words_of_that_call_and_nobody_else_does(
    room: Room, calls: Calls
) -> None:
    room.add("otto", Role.OPERATOR)
    page = room.browser("otto")
    given = (await page.post("/browser-calls", {"context": "demo"})).json()
    path = given["url"].removeprefix("/api/v1")
    await page.connect(path, "cordboard.call.v1", f"ticket.{given['ticket']}")
    calls.begin(given["id"])
    calls.take(given["id"], 100, events.Heard(1, "my words", 1.0))
    calls.begin("of another")
    calls.take("of another", 100, events.Heard(1, "their words", 1.0))
    for browser, call, words in (
        (page, given["id"], "my words"),
        (page, "of another", ""),
        (viewer(room), given["id"], ""),
    ):
        visit = await watching(browser, topic="call", call=call)
        assert (await visit.frame())["events"][1]["text"] == words
    assert "call.watched" not in [line["action"] for line in room.entries()]


async def test_words_that_may_still_change_are_for_those_who_may_see_words(
    room: Room, calls: Calls
) -> None:
    call = calls.begin("one")
    may, may_not = [
        await watching(viewer(room, *grants), topic="call", call="one")
        for grants in ((Grant.PERSONAL,), ())
    ]
    for visit in (may, may_not):
        assert len((await visit.frame())["events"]) == 1
    call.conversation.partial = "I would li"
    assert (await may.frame())["partial"] == "I would li"
    call.conversation.partial = ""
    calls.take("one", 100, events.Heard(1, "I would like", 1.0))
    assert (await may.frame())["events"][0]["text"] == "I would like"
    assert (await may.frame())["partial"] == ""
    assert (await may_not.frame())["events"][0]["text"] == ""


async def test_a_viewer_who_does_not_read_costs_nothing_and_misses_nothing(
    room: Room, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.begin("one")
    visit = await watching(viewer(room), topic="call", call="one")
    assert len((await visit.frame())["events"]) == 1
    visit.stop_reading()
    for turn in range(1, 1_001):
        calls.take("one", turn, events.TurnEnded(turn, turn))
        if turn % 100 == 0:
            await asyncio.sleep(0.002)
    facts = room.services.feed.live.facts("one")
    assert facts is not None
    assert len(facts.tail) <= 256
    visit.resume_reading()
    turns: list[int] = []
    while len(turns) < 1_000:
        turns += [event["turn"] for event in (await visit.frame())["events"]]
    assert turns == [*range(1, 1_001)]


async def test_a_viewer_who_misses_too_much_too_often_is_disconnected(
    room: Room, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.begin("one")
    visit = await watching(viewer(room), topic="call", call="one")
    facts = room.services.feed.live.facts("one")
    assert facts is not None
    for _ in range(4):  # the first burst comes from the file anyway
        calls.take("one", 1, events.TurnEnded(1, 1))
        while (await visit.frame())["seq"] < facts.events:
            pass
        for turn in range(600):  # at once: the viewer has no time to take any
            calls.take("one", turn, events.TurnEnded(turn, turn))
    assert await visit.closed() == 4408
    await until(lambda: len(room.services.sockets) == 0, "its end")


async def test_ended_calls_that_were_missed_make_the_rows_begin_again(
    room: Room, calls: Calls
) -> None:
    live = room.services.feed.live
    rights = viewer(room)
    visit = await watching(rights, topic="calls")
    await visit.frame()
    calls.begin("stays")
    while not (await visit.frame()).get("rows"):
        pass
    for number in range(1_100):  # without a pause in which the viewer gets a frame
        calls.begin(f"call-{number}")
        live.refresh()
        calls.end(f"call-{number}")
        live.refresh()
    while not (frame := await visit.frame()).get("restart"):
        pass
    assert [row["call_id"] for row in frame["snapshot"]] == ["stays"]


async def test_the_state_of_engine_servers_and_alarms_comes_when_it_changes(
    room: Room, calls: Calls
) -> None:
    clock = [0]
    room.services.feed.second = lambda: clock[0]  # type: ignore[method-assign]
    shown = room.alarms.alarms()
    room.alarms.alarms = lambda: shown  # type: ignore[method-assign]
    visit = await watching(viewer(room), topic="alarms")
    before = (await visit.frame())["snapshot"]["alarms"]
    assert [each["id"] for each in before] == [each.name for each in shown]
    visit.send({"op": "subscribe", "id": 2, "topic": "engine"})
    assert (await visit.frame())["snapshot"]["version"] == "1.2.3"
    visit.send({"op": "subscribe", "id": 3, "topic": "mcp"})
    assert (await visit.frame())["snapshot"]["servers"][0]["server"] == "atis"
    shown = [replace(each, since="2026-11-23T10:00:00Z") for each in shown]
    clock[0] = 1
    changed = await visit.frame()
    assert (changed["id"], changed["seq"]) == (1, 2)
    assert changed["snapshot"]["alarms"][0]["since"] == "2026-11-23T10:00:00Z"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "invalid"),
        ("[]", "invalid"),
        ({"op": "subscribe", "id": 1, "topic": "nothing"}, "invalid"),
        ({"op": "subscribe", "topic": "calls"}, "invalid"),
        ({"op": "subscribe", "id": 1, "topic": "calls", "more": 1}, "invalid"),
        ({"op": "subscribe", "id": 1, "topic": "call", "call": "none"}, "not_there"),
        ({"op": "unsubscribe"}, "invalid"),
    ],
)
async def test_a_bad_frame_is_answered_and_the_socket_goes_on(
    room: Room, calls: Calls, frame: Any, code: str
) -> None:
    visit = await watching(viewer(room), topic="calls")
    await visit.frame()
    visit.send(frame)
    assert (await visit.frame())["error"]["code"] == code
    calls.begin("one")
    assert (await visit.frame())["rows"][0]["call_id"] == "one"


async def test_a_topic_ends_when_asked_and_topics_are_limited(room: Room, calls: Calls) -> None:
    visit = await watching(viewer(room), topic="calls")
    await visit.frame()
    visit.send({"op": "unsubscribe", "id": 1})
    for number in range(2, 35):
        visit.send({"op": "subscribe", "id": number, "topic": "calls"})
    found = [await visit.frame() for _ in range(33)]
    assert sorted(frame["id"] for frame in found) == [*range(2, 35)]
    assert [frame["id"] for frame in found if "error" in frame] == [34]
    calls.begin("one")
    assert (await visit.frame())["id"] == 2


async def test_nothing_is_done_for_no_viewer_and_nothing_is_left_of_one(
    room: Room, calls: Calls
) -> None:
    feed = room.services.feed
    calls.begin("one")
    await asyncio.sleep(0.05)
    assert feed.live.version == 0, "no row was made"
    visit = await watching(viewer(room), topic="call", call="one")
    await visit.frame()
    facts = feed.live.facts("one")
    assert facts is not None
    assert facts.followers == 1
    await visit.leave()
    assert (facts.followers, feed._viewers, feed._timer) == (0, set(), None)
    calls.end("one")
    assert feed.live.facts("one") is None


async def test_at_load_rows_come_once_a_second(room: Room, calls: Calls) -> None:
    feed = room.services.feed
    feed._load_level = lambda: 1
    visit = await watching(viewer(room), topic="calls")
    await visit.frame()
    now = asyncio.get_running_loop().time

    def wait() -> float:
        assert feed._timer is not None
        return feed._timer.when() - now()

    await until(lambda: wait() > 0.5, "the wait for the next frame")
    assert wait() <= 1


async def test_viewers_with_the_same_rights_share_a_state(room: Room, calls: Calls) -> None:
    made: list[str] = []
    shown = room.alarms.alarms()

    def alarms() -> Any:
        made.append("alarms")
        return shown

    room.alarms.alarms = alarms  # type: ignore[method-assign]
    room.services.feed.second = lambda: 7  # type: ignore[method-assign]
    for _ in range(3):
        visit = await watching(viewer(room), topic="alarms")
        assert len((await visit.frame())["snapshot"]["alarms"]) == len(shown)
    assert made == ["alarms"]
    limited = await watching(viewer(room, scope=("sales",)), topic="alarms")
    assert len((await limited.frame())["snapshot"]["alarms"]) < len(shown)


async def test_a_written_conversation_is_no_call(room: Room, calls: Calls) -> None:
    room.services.feed.take("chat", 0, events.Offered("chat", "t", "chat", "", "", ""))
    visit = await watching(viewer(room), topic="calls")
    assert (await visit.frame())["snapshot"] == []


@pytest.fixture
async def sse(room: Room) -> AsyncIterator[Any]:
    """Reads the lines of the twin from the application itself."""
    tasks: list[asyncio.Task[None]] = []

    async def read(browser: Browser, query: str) -> asyncio.Queue[Any]:
        found: asyncio.Queue[Any] = asyncio.Queue()
        headers = {
            **browser.headers,
            "cookie": f"{browser.cookie}={browser.cookies[browser.cookie]}",
        }
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/live/sse",
            "query_string": query.encode(),
            "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
            "client": ("127.0.0.1", 1),
            "asgi": {"spec_version": "2.4"},
        }

        async def send(message: Any) -> None:
            found.put_nowait(message)

        tasks.append(asyncio.create_task(room.app(scope, asyncio.Event().wait, send)))  # type: ignore[arg-type]
        return found

    yield read
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_twin_for_curl_has_the_same_frames_and_takes_no_place_of_requests(
    room: Room, calls: Calls, sse: Any
) -> None:
    calls.begin("one")
    browser = viewer(room)
    found = await sse(browser, "topics=calls,call:one")

    async def frame() -> Any:
        message = await asyncio.wait_for(found.get(), PATIENCE)
        return json.loads(message["body"].removeprefix(b"data: "))

    start = await asyncio.wait_for(found.get(), PATIENCE)
    assert start["status"] == 200
    frames = [await frame(), await frame()]
    assert [each["id"] for each in frames] == [0, 1]
    assert frames[0]["snapshot"][0]["call_id"] == "one"
    assert (room.app._answering, len(room.services.sockets)) == (0, 1)
    name = next(each.user.name for each in room.accounts.sessions())
    room.accounts.change(name, Role.VIEWER, (), ("demo",), disabled=False)
    await until(lambda: len(room.services.sockets) == 0, "its end")
    while (last := await asyncio.wait_for(found.get(), PATIENCE)).get("more_body"):
        pass
    assert last == {"type": "http.response.body", "body": b"", "more_body": False}
    for query in ("topics=nothing", "topics=call:none", "topics=", "x=1"):
        assert (await browser.get(f"/live/sse?{query}")).status_code in (404, 422), query


@pytest.mark.parametrize(
    ("error", "counted"),
    [(RequestRefused(408, "too_slow", "too slow"), []), (ValueError("a defect"), ["live"])],
)
async def test_an_error_in_the_stream_of_the_twin_ends_it_and_a_defect_is_counted(
    room: Room, calls: Calls, sse: Any, monkeypatch: pytest.MonkeyPatch,
    error: Exception, counted: list[str],
) -> None:  # fmt: skip
    async def failing(self: Any) -> None:
        raise error

    monkeypatch.setattr(live_topics.Rows, "next", failing)
    found = await sse(viewer(room), "topics=calls")
    messages = [await asyncio.wait_for(found.get(), PATIENCE) for _ in range(2)]
    assert [each["type"] for each in messages] == ["http.response.start", "http.response.body"]
    assert not messages[1]["more_body"]
    assert room.errors == counted


async def test_a_twin_too_many_is_refused_as_json(
    room: Room, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room.services.sockets, "_most_of_one", 0)
    refused = await viewer(room).get("/live/sse?topics=calls")
    assert (refused.status_code, code(refused)) == (503, "busy")
    assert refused.headers["retry-after"]


async def test_rights_withdrawn_while_watching_close_the_socket(room: Room, calls: Calls) -> None:
    browser = viewer(room, Grant.PERSONAL)
    visit = await watching(browser, topic="calls")
    await visit.frame()
    (session,) = room.accounts.sessions()
    room.accounts.change(session.user.name, Role.VIEWER, (), ("*",), disabled=False)
    assert await visit.closed() == 4403


async def test_an_id_too_large_for_an_answer_is_refused_and_the_socket_goes_on(
    room: Room, calls: Calls
) -> None:
    visit = await watching(viewer(room), topic="calls")
    await visit.frame()
    visit.send('{"op": "subscribe", "id": 99999999999999999999999999, "topic": "calls"}')
    refused = await visit.frame()
    assert (refused["id"], refused["error"]["code"]) == (None, "invalid")
    calls.begin("one")
    assert (await visit.frame())["rows"][0]["call_id"] == "one"


async def test_the_log_comes_as_it_is_written_by_call_and_level(room: Room) -> None:
    assert room.services.log is not None

    def write(event: str, level: str, call_id: str = "") -> None:
        assert room.services.log is not None
        room.services.log(None, level, {"event": event, "level": level, "call_id": call_id})

    write("engine_ready", "info")
    visit = await watching(viewer(room, Grant.PERSONAL), topic="log", level="warning")
    assert (await visit.frame())["lines"] == []
    visit.send({"op": "subscribe", "id": 2, "topic": "log", "call": "one"})
    assert (await visit.frame())["lines"] == []
    write("call_slow", "warning", "one")
    write("call_slow", "warning", "two")
    lines: dict[int, list[str]] = {1: [], 2: []}
    while len(lines[1]) < 2 or not lines[2]:
        frame = await visit.frame()
        lines[frame["id"]] += [line["call_id"] for line in frame.get("lines", [])]
    assert lines == {1: ["one", "two"], 2: ["one"]}


async def test_without_the_grant_the_log_has_no_words(room: Room) -> None:
    assert room.services.log is not None
    line = {"event": "sentence_unsaid", "level": "error", "call_id": "one", "text": "I am ill"}
    room.services.log(None, "", line)
    shown = line | {"text": "..."}
    for grants, expected in (((), shown), ((Grant.PERSONAL,), line)):
        browser = viewer(room, *grants)
        visit = await watching(browser, topic="log")
        assert (await visit.frame())["lines"] == [expected]
        assert (await browser.get("/engine/log")).json()["lines"] == [expected]
        assert (await browser.get("/engine/log?after=0")).json()["lines"] == [expected]


async def test_a_viewer_of_the_log_of_the_engine_before_begins_again(room: Room) -> None:
    room.services.log = log = KeptLog(begin=1_000)
    log(None, "", {"event": "engine_ready", "level": "info"})
    visit = await watching(viewer(room), topic="log", after=900)
    frame = await visit.frame()
    assert (frame["restart"], frame["seq"], len(frame["lines"])) == (True, 1_001, 1)


async def test_the_log_is_for_the_scope_of_all(room: Room) -> None:
    room.add("limited", Role.ADMIN, scope=("demo",))
    visit = await watching(room.browser("limited"), topic="log")
    assert (await visit.frame())["error"]["code"] == "forbidden"
    answer = await room.browser("limited").get("/engine/log")
    assert (answer.status_code, code(answer)) == (403, "forbidden")
