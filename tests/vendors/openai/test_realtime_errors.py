"""OpenAI Realtime: errors, lost connections, and messages that make no sense."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.vendors.host import a_session

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import CutItem, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.vendors.openai.realtime.protocol import RENEW_SECONDS, OpenAIProtocol

from .openai_call import FRAME, KEY, WEATHER, Call, reply, settings


def test_a_response_that_begins_when_the_caller_speaks_is_taken_back() -> None:
    call = Call(session=a_session(greeting="Hello!"))
    call.say("input_audio_buffer.speech_started", item_id="u1", audio_start_ms=0)
    call.created(asked=True)
    (cancel,) = call.host.sent_of("response.cancel")
    assert cancel["response_id"] == "r1"
    call.sound()
    call.done(status="cancelled", status_details={"reason": "client_cancelled"})
    assert not call.host.all("agent_sound")
    assert not call.host.all("answer_done")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_api_key", "auth"),
        ("insufficient_quota", "quota"),
        ("credit_balance_exhausted", "quota"),
        ("model_not_found", "refused"),
    ],
)
def test_errors_after_which_nothing_can_go_on(code: str, kind: str) -> None:
    for response in (False, True):
        call = Call()
        message = f"Incorrect API key provided: {KEY}. See sk-abc123."
        if response:
            call.turn()
            call.created()
            error = {"type": "invalid_request_error", "code": code, "message": message}
            call.done(status="failed", status_details={"type": "failed", "error": error})
        else:
            call.error(code, message)
        ((failure, reason),) = call.host.all("failed")
        assert failure == kind
        assert "sk-" not in reason


@pytest.mark.parametrize(
    ("code", "message", "seconds"),
    [
        ("rate_limit_exceeded", "on tokens per min (TPM). Please try again in 644ms. Visit", 0.644),
        ("rate_limit_exceeded", "on requests. Please try again in 1.2s.", 1.2),
        ("rate_limit_exceeded", "Please try again in 3s.", 2.0),
        ("inference_rate_limit_exceeded", "Too many requests.", 1.0),
    ],
)
def test_a_rate_limit_is_waited_for_twice(code: str, message: str, seconds: float) -> None:
    error = {"type": "tokens", "code": code, "message": message}
    call = Call()
    call.turn()
    call.created("r0")
    for count in range(3):
        call.done(f"r{count}", status="failed", status_details={"type": "failed", "error": error})
        if count == 2:
            break
        assert not call.protocol.speak(Speech("One moment.", "filler"))
        call.host.clock += seconds - 0.01
        call.protocol.hear(FRAME)
        assert len(call.creates) == count
        call.host.clock += 0.02
        call.protocol.hear(FRAME)
        assert len(call.creates) == count + 1
        assert not call.host.all("failed")
        call.created(f"r{count + 1}", asked=True)
    assert [kind for kind, _ in call.host.all("failed")] == ["quota"]


def test_a_rate_limit_of_minutes_is_not_waited_for() -> None:
    call = Call()
    call.turn()
    call.created()
    error = {"code": "rate_limit_exceeded", "message": "Please try again in 1m26.4s."}
    call.done(status="failed", status_details={"type": "failed", "error": error})
    assert [kind for kind, _ in call.host.all("failed")] == ["quota"]


def test_an_expired_session_is_replaced() -> None:
    call = Call()
    call.error("session_expired", "Your session hit the maximum duration of 60 minutes.")
    assert len(call.host.all("reconnect")) == 1
    assert not call.host.all("failed")


def test_a_session_is_replaced_before_its_hour_when_all_is_quiet() -> None:
    call = Call()
    call.turn()
    call.created()
    second = b"\xff" * 8000
    for _ in range(RENEW_SECONDS + 1):
        call.protocol.hear(second)
    call.host.sent.clear()
    assert not call.host.all("reconnect")  # in the middle of an answer
    call.done()
    name = "conversation.item.input_audio_transcription.completed"
    call.say(name, item_id="u1", transcript="Hm.")
    call.protocol.hear(second)
    assert len(call.host.all("reconnect")) == 1


@pytest.mark.parametrize(("lives", "renewed_after"), [(1800, 1500), (60, 3300), (None, 3300)])
def test_the_stated_end_of_a_session_counts(lives: int | None, renewed_after: int) -> None:
    call = Call(accept=False)
    expires_at = None if lives is None else time.time() + lives
    call.say("session.created", session={"expires_at": expires_at})
    call.say("session.updated", session={})
    second = b"\xff" * 8000
    for _ in range(renewed_after - 2):
        call.protocol.hear(second)
    assert not call.host.all("reconnect")
    for _ in range(4):
        call.protocol.hear(second)
    assert call.host.all("reconnect")


def test_a_session_that_is_not_taken_is_a_failure_that_says_why() -> None:
    call = Call(accept=False)
    event_id = call.host.sent[0]["event_id"]
    call.error("invalid_value", "Invalid value: 'nobody'. Supported: 'marin'.", event_id)
    ((kind, reason),) = call.host.all("failed")
    assert kind == "refused"
    assert "nobody" in reason


def test_harmless_errors_are_counted_and_nothing_else() -> None:
    call = Call()
    call.turn()
    call.created()
    call.sound(100)
    call.protocol.interrupted((CutItem("i1", 50),))
    event_id = call.host.sent_of("conversation.item.truncate")[0]["event_id"]
    call.error("invalid_value", "Audio content of 40ms is already shorter than 50ms", event_id)
    assert call.ignored() == ["warning"]
    assert not call.host.all("failed")


def test_a_result_whose_call_the_service_does_not_know_is_told_in_words() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.done()
    call.protocol.answer_tool(reply("c1", "Rain."))
    event_id = call.host.sent_of("conversation.item.create")[-1]["event_id"]
    call.created("r2", asked=True)
    call.error("invalid_tool_call_id", "Tool call ID 'c1' not found.", event_id)
    item = call.host.sent_of("conversation.item.create")[-1]["item"]
    assert item["role"] == "user"
    assert "Rain." in item["content"][0]["text"]
    call.done("r2")
    assert len(call.creates) == 2


def test_a_result_for_an_unknown_call_is_refused_without_naming_our_message() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.done()
    call.protocol.answer_tool(reply("c1", "Rain."))
    call.created("r2", asked=True)
    call.error("invalid_tool_call_id", "Tool call ID 'c1' not found in conversation.")
    item = call.host.sent_of("conversation.item.create")[-1]["item"]
    assert "Rain." in item["content"][0]["text"]
    call.done("r2")
    assert len(call.creates) == 2


def test_a_response_that_failed_is_asked_for_once_more_and_then_another_connection() -> None:
    call = Call(session=a_session(greeting="Hello!"))
    details = {"type": "failed", "error": {"type": "server_error", "message": "Sorry."}}
    call.created("r1", asked=True)
    call.done("r1", status="failed", status_details=details)
    assert len(call.creates) == 2
    assert (
        call.creates[1]["response"]["instructions"] == call.creates[0]["response"]["instructions"]
    )
    call.created("r2", asked=True)
    call.done("r2", status="failed", status_details=details)
    assert len(call.creates) == 2
    assert len(call.host.all("reconnect")) == 1


@pytest.mark.parametrize("status", ["failed", "incomplete"])
def test_an_answer_that_ends_in_its_middle_is_broken_off(status: str) -> None:
    call = Call()
    call.turn()
    call.created()
    call.sound()
    call.done(status=status, status_details={"reason": "max_output_tokens", "error": {}})
    assert call.host.all("answer_broke") == [()]
    call = Call()
    call.turn()
    call.created()
    call.done(status=status, status_details={"reason": "max_output_tokens", "error": {}})
    assert not call.host.all("answer_broke"), "there was nothing of it"


def test_a_filtered_answer_leaves_no_silence() -> None:
    call = Call()
    call.turn()
    call.created()
    call.done(status="incomplete", status_details={"reason": "content_filter"})
    assert "cannot help" in call.creates[0]["response"]["instructions"]
    call.created("r2", asked=True)
    call.done("r2", status="incomplete", status_details={"reason": "content_filter"})
    assert len(call.creates) == 1
    assert call.host.all("answer_done") == [()]


def test_an_answer_that_became_too_long_is_over() -> None:
    call = Call()
    call.turn()
    call.created()
    call.sound()
    call.done(status="incomplete", status_details={"reason": "max_output_tokens"})
    assert call.host.all("answer_done") == [()]
    assert not call.creates


def test_a_new_connection_is_told_what_was_said_and_what_tools_were_asked() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("told")
    call.done()
    call.protocol.answer_tool(reply("told", "Sun."))
    call.created("r2", asked=True)
    call.done("r2")
    call.turn("u2")
    call.created("r3")
    call.asks("given")
    call.asks("open")
    call.done("r3")
    call.protocol.answer_tool(reply("given", "Rain."))
    history = (Said("caller", "And tomorrow?"), Said("agent", "One moment."))
    call.again(Resumed(history, owes_answer=False))
    items = [message["item"] for message in call.host.sent_of("conversation.item.create")]
    assert [(item["type"], item.get("call_id", item.get("role"))) for item in items] == [
        ("function_call", "told"), ("function_call_output", "told"),
        ("message", "user"), ("message", "assistant"),
        ("function_call", "given"), ("function_call_output", "given"), ("function_call", "open"),
    ]  # fmt: skip
    assert items[2]["content"] == [{"type": "input_text", "text": "And tomorrow?"}]
    assert items[3]["content"] == [{"type": "output_text", "text": "One moment."}]
    assert not call.creates
    call.protocol.answer_tool(reply("open"))
    assert len(call.creates) == 1


def test_results_of_an_answer_that_broke_off_are_told_again() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.done()
    call.protocol.answer_tool(reply("c1"))
    call.created("r2", asked=True)
    call.sound(response_id="r2")
    call.again(Resumed((Said("caller", "Weather?"),), owes_answer=True))
    assert call.outputs == ["c1"]
    assert len(call.creates) == 1


def test_an_owed_answer_or_greeting_is_asked_for_on_a_new_connection() -> None:
    call = Call(session=a_session(greeting="Hello!"))
    call.again(Resumed((), owes_answer=True))
    assert call.creates[0]["response"]["instructions"].endswith("Hello!")
    call.again(Resumed((Said("caller", "Yes?"),), owes_answer=True))
    assert "instructions" not in call.creates[0]["response"]
    call.again(Resumed((Said("agent", "Hello!"),), owes_answer=False))
    assert not call.creates


@pytest.mark.parametrize(
    ("status", "code", "problem", "kind", "again"),
    [
        (401, None, "", "auth", False),
        (404, None, "", "refused", False),
        (429, None, "", "quota", True),
        (503, None, "", "connect", True),
        (None, 3000, "invalid_request_error.invalid_api_key", "auth", False),
        (None, 1001, "Your session hit the maximum duration of 60 minutes.", "dropped", True),
    ],
)
def test_what_a_lost_connection_means(
    status: int | None, code: int | None, problem: str, kind: str, again: bool
) -> None:
    lost = OpenAIProtocol(settings(), KEY).lost(status, code, problem + f" {KEY}")
    assert (lost.kind, lost.again) == (kind, again)
    assert KEY not in lost.reason


def test_a_connection_that_had_been_up_is_dropped() -> None:
    assert Call().protocol.lost(None, 1006, "").kind == "dropped"


def test_half_a_character_from_a_tool_does_not_stop_the_call() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.done()
    call.protocol.answer_tool(reply("c1", "sunny \ud83d"))
    assert len(call.creates) == 1


def test_late_and_unannounced_parts_of_answers() -> None:
    call = Call()
    call.turn()
    call.sound(20, "i1", "r1")  # response.created never came
    assert len(call.host.all("agent_sound")) == 1
    call.sound(20, "i9", "r9")  # there is another one active
    call.done("r1")
    call.sound(20, "i1", "r1")
    call.say("response.done", response={"id": "r0"})
    assert len(call.host.all("agent_sound")) == 1
    assert call.ignored() == ["out_of_order", "out_of_order", "late", "out_of_order"]


def test_a_message_that_comes_twice_counts_once() -> None:
    call = Call()
    call.turn()
    call.created()
    delta = base64.b64encode(FRAME).decode()
    message = {"type": "response.output_audio.delta", "event_id": "e", "response_id": "r1"}
    text = json.dumps({**message, "item_id": "i1", "delta": delta}).encode()
    call.protocol.receive_text(text)
    call.protocol.receive_text(text)
    assert len(call.host.all("agent_sound")) == 1
    assert call.ignored() == ["duplicate"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
ITEM: dict[str, Any] = {
    "id": "i1",
    "type": "function_call",
    "call_id": "c1",
    "name": "weather",
    "arguments": "{}",
    "status": "completed",
}
DETAILS = {"text_tokens": 1, "audio_tokens": 2, "cached_tokens": 1, "cached_tokens_details": {}}
REAL: list[dict[str, Any]] = [
    {"type": "session.updated", "session": {"audio": {"input": {"turn_detection": {}}}}},
    {
        "type": "error",
        "error": {"type": "t", "code": "server_error", "message": "m", "event_id": "x"},
    },
    {"type": "input_audio_buffer.speech_started", "item_id": "u1", "audio_start_ms": 5},
    {"type": "input_audio_buffer.speech_stopped", "item_id": "u1", "audio_end_ms": 5},
    {"type": "input_audio_buffer.timeout_triggered", "item_id": "u1", "audio_end_ms": 5},
    {
        "type": "conversation.item.input_audio_transcription.completed",
        "item_id": "u1",
        "transcript": "x",
        "usage": {"type": "tokens", "input_tokens": 3, "input_token_details": DETAILS},
    },
    {"type": "conversation.item.input_audio_transcription.failed", "item_id": "u1", "error": {}},
    {"type": "conversation.item.added", "item": {**ITEM, "type": "function_call_output"}},
    {"type": "response.created", "response": {"id": "r1", "metadata": {"request": "cordboard_2"}}},
    {"type": "response.output_audio.delta", "response_id": "r1", "item_id": "i1", "delta": "AAAA"},
    {"type": "response.output_audio_transcript.delta", "response_id": "r1", "delta": "a"},
    {"type": "response.output_item.done", "response_id": "r1", "item": ITEM},
    {
        "type": "response.done",
        "response": {
            "id": "r1",
            "status": "completed",
            "status_details": {"reason": "content_filter", "error": {}},
            "output": [ITEM],
            "usage": {"input_tokens": 3, "input_token_details": DETAILS, "output_tokens": 4},
        },
    },
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


@given(
    st.lists(
        st.one_of(st.sampled_from(REAL), mutated(), st.builds(dict, type=st.text())), max_size=12
    )
)
def test_nothing_that_arrives_raises_and_no_call_is_asked_twice(
    messages: list[dict[str, Any]],
) -> None:
    call = Call(session=a_session(toolbox=(WEATHER,)), slow_response="provider")
    for message in messages:
        call.protocol.receive_text(json.dumps(message).encode("utf-8", "replace"))
        call.protocol.hear(FRAME)
    for call_id, _, _ in call.host.all("tool_asked"):
        call.protocol.answer_tool(reply(call_id))
    call.protocol.interrupted((CutItem("i1", 10),))
    asked = [entry[0] for entry in call.host.all("tool_asked")]
    assert len(asked) == len(set(asked))
    # Never a request for a response while one of ours is not answered.
    known = {"malformed", "unknown", "late", "duplicate", "out_of_order", "warning"}
    assert set(call.ignored()) <= known


@given(
    st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode("utf-8", "replace"))
)
def test_arbitrary_bytes_are_counted_and_nothing_else(data: bytes) -> None:
    call = Call()
    call.protocol.receive_text(data)
    call.protocol.receive_binary(data)
    assert {entry[0] for entry in call.host.told} == {"ready", "ignored"}


COUNT = st.integers(0, 50)


@given(COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, st.booleans())
def test_no_token_stands_in_two_units(
    text: int, audio: int, other: int, said: int, spoken: int, cached: int, in_parts: bool
) -> None:
    """Whatever is cached, and whether or not the service tells of what."""
    call = Call()
    call.created()
    cached = min(cached, text + audio)
    details: dict[str, Any] = {"text_tokens": text, "audio_tokens": audio, "cached_tokens": cached}
    if in_parts:
        of_audio = min(audio, cached)
        parts = {"audio_tokens": of_audio, "text_tokens": cached - of_audio}
        details["cached_tokens_details"] = parts
    total = text + audio + other, said + spoken
    usage = {"input_tokens": total[0], "output_tokens": total[1], "total_tokens": sum(total)}
    usage |= {"input_token_details": details}  # type: ignore[dict-item]
    usage |= {"output_token_details": {"text_tokens": said, "audio_tokens": spoken}}  # type: ignore[dict-item]
    call.done(usage=usage)
    amounts = call.host.all("used")[0][1] if sum(total) else {}
    assert sum(amounts.values()) == sum(total)
    assert sum(amounts.get(f"cached_{kind}_tokens", 0) for kind in ("text", "audio")) == cached
