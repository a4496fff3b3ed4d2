"""OpenAI Live's protocol: turns without reports, tasks, and messages that make no sense."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.vendors.host import RecordingHost, a_session

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import Resumed
from cordboard.agent_api.speech import Speech
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAILiveProvider
from cordboard.vendors.openai.live.protocol import OpenAILiveProtocol

KEY = "sk-secret-key"
WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object", "properties": {}})
FRAME = b"\xff" * 160
VOICE = linear_to_ulaw(b"\x00\x10" * 800)
"""100 ms."""
QUIET = linear_to_ulaw(b"\x14\x00\xec\xff" * 400)
"""100 ms of the dither between answers."""


class Call:
    """A protocol with its fake host, and a service that only says what the test has it say."""

    def __init__(self, resumed: Resumed | None = None, greeting: str = "", **values: Any) -> None:
        self.host = RecordingHost()
        settings = OpenAILiveProvider.model_validate({"type": "openai_live", **values})
        self.protocol = OpenAILiveProtocol(settings, KEY)
        self.session = a_session(greeting=greeting, toolbox=(WEATHER,))
        self.protocol.begin(self.session, self.host, resumed)
        self.say("session.started", session={})

    def say(self, kind: str, **values: Any) -> None:
        self.protocol.receive_text(json.dumps({"type": kind, **values}).encode())

    def track(self, *pieces: bytes) -> None:
        for piece in pieces:
            delta = base64.b64encode(piece).decode()
            self.say("session.output_audio.delta", delta=delta)

    def caller(self, text: str, start_ms: int = 0, end_ms: int = 500) -> None:
        at = {"start_ms": start_ms, "end_ms": end_ms}
        self.say("session.input_transcript.delta", delta=text, **at)

    def hears(self, ms: int) -> None:
        for _ in range(ms // 20):
            self.protocol.hear(FRAME)

    def task(self, kind: str, **values: Any) -> None:
        self.say("response.event", delegation_id="d1", event={"type": kind, **values})

    def asks(self, call_id: str, arguments: str = "{}") -> None:
        item = {"type": "function_call", "call_id": call_id, "name": "weather"}
        self.task("response.output_item.done", item={**item, "arguments": arguments})

    def answers(self, call_id: str) -> None:
        self.protocol.answer_tool(ToolReply(call_id, "weather", Status.OK, "Sun."))

    def reports(self) -> list[str]:
        left_out = ("agent_sound", "caller_partial")
        return [entry[0] for entry in self.host.told if entry[0] not in left_out]


def test_a_turn_ends_when_the_model_begins_to_answer() -> None:
    call = Call()
    call.hears(800)
    call.caller("What time", 100, 400)
    call.caller(" is it?", 400, 600)
    call.track(QUIET, VOICE)
    call.say("session.output_transcript.delta", delta="It is nine.", start_ms=0, end_ms=1)
    call.say("session.output_transcript.delta", delta="Good night.", start_ms=0, end_ms=1)
    assert call.host.all("caller_text") == [("What time is it?", 1)]
    assert call.host.all("caller_partial") == [("What time",), ("What time is it?",)]
    ((started,), (stopped,)) = (*call.host.all("caller_started"), *call.host.all("caller_stopped"))
    assert (started, stopped) == pytest.approx((call.host.clock - 0.7, call.host.clock - 0.2))
    assert "".join(words for (words,) in call.host.all("agent_words")) == "It is nine. Good night."


def test_an_answer_ends_after_enough_silence_of_the_track() -> None:
    call = Call()
    call.track(QUIET, QUIET, VOICE, *[QUIET] * 4, VOICE, *[QUIET] * 11)
    assert not call.host.all("answer_done")
    call.track(QUIET)
    assert call.host.all("answer_done") == [()]
    call.track(*[QUIET] * 50)
    pieces = [sound for sound, _ in call.host.all("agent_sound")]
    assert pieces == [VOICE, *[QUIET] * 4, VOICE, *[QUIET] * 5]


def test_an_answer_is_not_over_while_a_task_runs() -> None:
    call = Call()
    call.track(VOICE)
    delegation = {"id": "d1", "target": "responses", "type": "delegation"}
    call.say("session.delegation.created", delegation=delegation)
    call.task("response.created")
    call.track(*[QUIET] * 40)
    assert not call.host.all("answer_done")
    call.task("response.completed", response={})
    call.track(QUIET)
    assert call.host.all("answer_done") == [()]


def test_words_without_an_answer_are_a_turn_after_two_seconds() -> None:
    call = Call()
    call.hears(600)
    call.caller("Hello?", 0, 500)
    call.hears(1880)
    assert not call.host.all("caller_text")
    call.hears(40)
    assert call.host.all("caller_text") == [("Hello?", 1)]


def test_words_over_an_answer_that_goes_on_do_not_cut_it() -> None:
    call = Call()
    call.hears(500)
    call.track(VOICE)
    call.caller("Mm-hm.", 100, 400)
    call.track(*[VOICE] * 20)
    call.hears(2000)
    assert not call.host.all("caller_started")
    assert call.host.all("caller_text") == [("Mm-hm.", None)]


def test_words_over_an_answer_that_stops_are_an_interruption() -> None:
    call = Call()
    call.track(VOICE)
    call.caller("Stop", 100, 400)
    call.track(QUIET, QUIET)
    assert not call.host.all("caller_started")
    call.track(QUIET)
    assert len(call.host.all("caller_started")) == 1
    call.caller(" please.", 400, 700)
    call.track(VOICE)
    assert call.host.all("caller_text") == [("Stop please.", 1)]


def test_closing_punctuation_behind_an_answer_is_no_turn() -> None:
    call = Call()
    call.caller("Hello", 0, 500)
    call.track(VOICE)
    call.caller(".", 480, 520)
    call.hears(3000)
    assert call.host.all("caller_text") == [("Hello", 1)]


def test_a_task_goes_on_when_its_response_is_over_and_all_calls_are_answered() -> None:
    call = Call()
    call.task("response.created")
    call.asks("c1")
    call.answers("c1")
    call.asks("c2")
    assert not call.host.sent_of("response.create")  # it may call more tools
    call.task("response.completed", response={"usage": {"input_tokens": 5, "output_tokens": 2}})
    assert not call.host.sent_of("response.create")
    call.answers("c2")
    assert len(call.host.sent_of("response.create")) == 1
    sent = [each["item"]["call_id"] for each in call.host.sent_of("response.item.create")]
    assert sent == ["c1", "c2"]
    assert call.host.all("used") == [
        ("gpt-5.4-mini", {"input_text_tokens": 5.0, "output_text_tokens": 2.0})
    ]


def test_arguments_that_are_no_object_are_answered_and_not_run() -> None:
    call = Call()
    call.asks("c1", "[1]")
    call.task("response.completed", response={})
    assert not call.host.all("tool_asked")
    assert len(call.host.sent_of("response.create")) == 1


def test_a_handoff_that_breaks_off_cancels_its_calls() -> None:
    call = Call()
    call.asks("c1")
    error = {"code": None, "message": "Responses handoff incomplete.", "type": "server_error"}
    call.say("error", error=error)
    assert call.host.all("tool_cancelled") == [("c1",)]
    assert not call.host.all("failed")


def test_a_task_that_falls_silent_does_not_hold_its_answer_for_ever() -> None:
    call = Call()
    call.track(VOICE)
    call.task("response.created")
    call.track(*[QUIET] * 13)
    call.hears(59_900)
    call.track(QUIET)
    assert not call.host.all("answer_done")
    call.hears(200)
    call.track(QUIET)
    assert call.host.all("answer_done") == [()]
    assert ("warning", "a delegated task has fallen silent") in call.host.all("ignored")
    assert call.protocol.inform("Your table is booked.")


def test_a_task_that_waits_for_a_tool_of_ours_is_not_silent() -> None:
    call = Call()
    call.asks("c1")
    call.hears(120_000)
    call.answers("c1")
    call.task("response.completed", response={})
    assert len(call.host.sent_of("response.create")) == 1
    assert not call.host.all("tool_cancelled")


@given(st.text(min_size=1, max_size=40), st.integers(1, 60))
def test_a_long_text_reaches_the_model_in_pieces_and_whole(part: str, times: int) -> None:
    call, text = Call(), part * times
    assert call.protocol.inform(text)
    told = [each["content"] for each in call.host.sent_of("session.commentary.append")]
    assert "".join(told) == f"Tell the caller now: {text}"
    assert all(len(piece.encode()) <= 500 for piece in told)


def test_a_long_text_is_cut_at_spaces() -> None:
    call = Call()
    call.protocol.inform("rien ne va plus " * 60)
    told = [each["content"] for each in call.host.sent_of("session.commentary.append")]
    assert len(told) == 2
    assert told[1].startswith(" ")


def test_a_new_connection_knows_what_was_said_and_owed() -> None:
    history = (Said("agent", "Hello!"), Said("caller", "What time is it?"))
    call = Call(Resumed(history, owes_answer=True))
    (start,) = call.host.sent_of("session.start")
    assert start["session"]["input"] == [
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hello!"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "What time is it?"}]},
    ]
    (owed,) = call.host.sent_of("session.commentary.append")
    assert "waits for an answer" in owed["content"]


@pytest.mark.parametrize("greeting", ["provider", "engine"])
def test_the_greeting_is_the_models_or_the_engines(greeting: str) -> None:
    host = RecordingHost()
    settings = OpenAILiveProvider.model_validate({"type": "openai_live", "greeting": greeting})
    protocol = OpenAILiveProtocol(settings, KEY)
    protocol.begin(a_session(greeting="Hello!"), host, None)
    protocol.receive_text(b'{"type": "session.started", "session": {}}')
    said = host.sent_of("session.start")[0]["session"]["input"]
    assert bool(said) == (greeting == "engine")
    asked = [each["content"] for each in host.sent_of("session.commentary.append")]
    assert [text.endswith("\n\nHello!") for text in asked] == [True] * (greeting == "provider")


def test_a_session_is_replaced_before_its_stated_end() -> None:
    host = RecordingHost()
    protocol = OpenAILiveProtocol(OpenAILiveProvider(type="openai_live"), KEY)
    protocol.begin(a_session(), host, None)
    started = {"type": "session.started", "session": {"expires_at": time.time() + 900}}
    protocol.receive_text(json.dumps(started).encode())
    second = b"\xff" * 8000
    for _ in range(598):
        protocol.hear(second)
    assert not host.all("reconnect")
    for _ in range(4):
        protocol.hear(second)
    assert len(host.all("reconnect")) == 1


@pytest.mark.parametrize(
    ("reason", "told"),
    [("expired", "reconnect"), ("content", "failed"), ("remote_hangup", "ended")],
)
def test_how_a_session_ends(reason: str, told: str) -> None:
    call = Call()
    call.say("session.closed", reason=reason, usage={"seconds": 3})
    assert told in call.reports()
    assert call.host.all("used") == [("gpt-live-1", {"seconds": 3})]


def test_usage_is_the_difference_of_the_stated_sums() -> None:
    call = Call()
    for seconds in (1.5, 4.0, 4.0):
        call.say("session.usage.updated", usage={"seconds": seconds})
    assert call.host.all("used") == [
        ("gpt-live-1", {"seconds": 1.5}),
        ("gpt-live-1", {"seconds": 2.5}),
    ]


def test_given_words_are_left_to_the_engine() -> None:
    call = Call()
    assert not call.protocol.speak(Speech("One moment.", "filler"))
    assert not call.protocol.listen_aside(True)
    assert call.protocol.inform("Your table is booked.")
    call.track(VOICE)
    assert not call.protocol.inform("And another thing.")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
REAL: list[dict[str, Any]] = [
    {"type": "session.started", "session": {"expires_at": 1.0}},
    {"type": "session.output_audio.delta", "delta": base64.b64encode(VOICE).decode()},
    {"type": "session.output_audio.delta", "delta": base64.b64encode(QUIET * 13).decode()},
    {"type": "session.output_transcript.delta", "delta": "a", "start_ms": 0, "end_ms": 9},
    {"type": "session.input_transcript.delta", "delta": "a", "start_ms": 0, "end_ms": 9},
    {"type": "session.delegation.created", "delegation": {"id": "d1"}},
    {"type": "session.usage.updated", "usage": {"seconds": 3.5}},
    {"type": "session.closed", "reason": "expired", "usage": {"seconds": 4}},
    {"type": "error", "error": {"type": "t", "code": None, "message": "Responses handoff"}},
    *(
        {"type": "response.event", "delegation_id": "d1", "event": event}
        for event in (
            {"type": "response.created"},
            {"type": "response.output_item.done", "item": CALL},
            {"type": "response.completed", "response": {"usage": {"input_tokens": 3}}},
            {"type": "response.failed", "response": {}},
        )
    ),
]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A real message of which one value, anywhere in it, is something else or missing."""
    message = json.loads(json.dumps(draw(st.sampled_from(REAL))))
    place = message
    while True:
        key = draw(st.sampled_from(sorted(place)))
        inner = place[key]
        if isinstance(inner, dict) and inner and draw(st.booleans()):
            place = inner
            continue
        if draw(st.booleans()):
            place[key] = draw(JSON)
        else:
            del place[key]
        return dict(message)


@given(st.lists(st.one_of(st.sampled_from(REAL), mutated()), max_size=15))
def test_nothing_that_arrives_raises_and_no_call_is_asked_twice_at_a_time(
    messages: list[dict[str, Any]],
) -> None:
    call = Call()
    for message in messages:
        call.protocol.receive_text(json.dumps(message).encode("utf-8", "replace"))
        call.protocol.hear(FRAME)
    for call_id, _, _ in call.host.all("tool_asked"):
        call.answers(call_id)
    known = {"malformed", "unknown", "duplicate", "warning"}
    assert {why for why, _ in call.host.all("ignored")} <= known


def test_a_note_is_an_instruction_and_not_a_commentary() -> None:
    call = Call()
    assert call.protocol.take_note("Offer Thursday.")
    (sent,) = call.host.sent_of("session.instructions.append")
    assert sent["content"] == "Offer Thursday."
    assert not call.host.sent_of("session.commentary.append")
