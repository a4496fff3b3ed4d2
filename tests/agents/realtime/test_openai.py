"""OpenAI Realtime: what its messages become, and what it is told."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.realtime.host import RecordingHost, a_session

from cordboard.agents.base import AgentSession, Said
from cordboard.agents.realtime.dialect import CutItem, Resumed
from cordboard.agents.realtime.openai import RENEW_SECONDS, OpenAIDialect
from cordboard.audio.format import ALAW_8K
from cordboard.config.providers.openai_realtime import OpenAIRealtimeProvider
from cordboard.tools.payload import DATA_NOTE
from cordboard.tools.tool import Status, ToolReply, ToolSpec

FRAME = b"\x01" * 160
WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object", "properties": {}})
KEY = "sk-secret-key"


def settings(**values: Any) -> OpenAIRealtimeProvider:
    return OpenAIRealtimeProvider.model_validate({"type": "openai_realtime", **values})


def reply(call_id: str, message: str = "It is sunny.", **values: Any) -> ToolReply:
    return ToolReply(call_id, "weather", Status.OK, message, **values)


class Call:
    """A dialect with its fake host, and a service that only says what the test has it say."""

    def __init__(
        self,
        *,
        session: AgentSession | None = None,
        resumed: Resumed | None = None,
        accept: bool = True,
        **values: Any,
    ) -> None:
        self.host = RecordingHost()
        self.dialect = OpenAIDialect(settings(**values), KEY)
        self.session = session or a_session(greeting="", toolbox=(WEATHER,))
        self.dialect.begin(self.session, self.host, resumed)
        self._events = 0
        if accept:
            self.say("session.created", session={})
            self.say("session.updated", session={})

    def say(self, kind: str, **values: Any) -> None:
        self._events += 1
        message = {"type": kind, "event_id": f"event_{self._events}", **values}
        self.dialect.receive_text(json.dumps(message).encode())

    def again(self, resumed: Resumed) -> None:
        """Another connection."""
        self.host.sent.clear()
        self.dialect.begin(self.session, self.host, resumed)
        self.say("session.updated", session={})

    def created(self, response_id: str = "r1", *, asked: bool = False) -> None:
        """A response begins; `asked`: the last one that we asked for."""
        mark = self.creates[-1]["response"]["metadata"] if asked else None
        self.say("response.created", response={"id": response_id, "metadata": mark})

    def sound(self, ms: int = 100, item: str = "i1", response_id: str = "r1") -> None:
        delta = base64.b64encode(b"\x02" * 8 * ms).decode()
        self.say("response.output_audio.delta", response_id=response_id, item_id=item, delta=delta)

    def done(self, response_id: str = "r1", status: str = "completed", **values: Any) -> None:
        self.say("response.done", response={"id": response_id, "status": status, **values})

    def asks(self, call_id: str, response_id: str = "r1", arguments: str = "{}") -> None:
        item = {"type": "function_call", "call_id": call_id, "name": "weather"}
        item |= {"arguments": arguments, "status": "completed"}
        self.say("response.output_item.done", response_id=response_id, item=item)

    def stored(self, call_id: str) -> None:
        item = {"type": "function_call_output", "call_id": call_id, "output": "{}"}
        self.say("conversation.item.added", item=item)

    def turn(self, item: str = "u1") -> None:
        self.say("input_audio_buffer.speech_started", item_id=item, audio_start_ms=0)
        self.say("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=0)

    def error(
        self, code: str, message: str = "No.", event_id: str | None = None, **more: Any
    ) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message, **more}
        self.say("error", error={**error, "event_id": event_id})

    @property
    def creates(self) -> list[dict[str, Any]]:
        return self.host.sent_of("response.create")

    @property
    def outputs(self) -> list[str]:
        items = [message["item"] for message in self.host.sent_of("conversation.item.create")]
        return [item["call_id"] for item in items if item["type"] == "function_call_output"]

    def ignored(self) -> list[str]:
        return [why for why, _ in self.host.all("ignored")]


async def test_the_address_is_the_vendors_own_or_the_one_given() -> None:
    address = await OpenAIDialect(settings(), KEY).address()
    assert address.url == "wss://api.openai.com/v1/realtime?model=gpt-realtime-2.1"
    assert address.headers == {"Authorization": f"Bearer {KEY}"}
    given_one = settings(base_url="http://127.0.0.1:9/v1/", model="my model/1")
    address = await OpenAIDialect(given_one, KEY).address()
    assert address.url == "ws://127.0.0.1:9/v1/realtime?model=my%20model%2F1"
    assert KEY not in repr(address)


def test_the_session_is_what_is_configured_in_the_vendors_own_names() -> None:
    call = Call(
        accept=False,
        voice="voice_42",
        speed=1.2,
        noise_reduction={"type": "far_field"},
        transcription={"language": "de", "keywords": ["Cordboard"]},
        turn_detection={"type": "semantic_vad", "eagerness": "high"},
        reasoning={"effort": "low"},
        parallel_tool_calls=True,
        max_output_tokens=500,
        extra={"tracing": "auto", "audio": {"output": {"speed": 1.4}}},
    )
    (update,) = call.host.sent
    session = update["session"]
    assert session["instructions"] == f"{call.session.prompt}\n\n{DATA_NOTE}"
    (tool,) = session.pop("tools")
    assert (tool["type"], tool["name"]) == ("function", "weather")
    del session["instructions"]
    assert session == {
        "type": "realtime",
        "output_modalities": ["audio"],
        "max_output_tokens": 500,
        "truncation": "auto",
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "low"},
        "tracing": "auto",
        "audio": {
            "input": {
                "format": {"type": "audio/pcmu"},
                "noise_reduction": {"type": "far_field"},
                "transcription": {
                    "model": "gpt-transcribe",
                    "language": "de",
                    "keywords": ["Cordboard"],
                },
                "turn_detection": {
                    "type": "semantic_vad",
                    "eagerness": "high",
                    "create_response": True,
                    "interrupt_response": True,
                },
            },
            "output": {"format": {"type": "audio/pcmu"}, "voice": {"id": "voice_42"}, "speed": 1.4},
        },
    }


def test_without_tools_nothing_is_said_of_tools_and_alaw_is_alaw() -> None:
    call = Call(session=a_session(audio_format=ALAW_8K, greeting=""), accept=False)
    session = call.host.sent[0]["session"]
    assert "tools" not in session
    assert "tool_choice" not in session
    assert session["instructions"] == call.session.prompt
    assert session["audio"]["input"]["format"] == {"type": "audio/pcma"}
    assert session["audio"]["output"]["format"] == {"type": "audio/pcma"}


def test_it_is_ready_when_the_service_has_taken_the_session_and_not_before() -> None:
    call = Call(accept=False)
    call.say("session.created", session={})
    assert not call.host.told
    call.say("session.updated", session={})
    call.say("session.updated", session={})
    assert call.host.told == [("ready",)]
    assert not call.creates


def test_the_greeting_is_asked_for_word_for_word_and_without_tools() -> None:
    call = Call(session=a_session(greeting="Hello, this is Ada.", toolbox=(WEATHER,)))
    (create,) = call.creates
    assert create["response"]["instructions"].endswith("\n\nHello, this is Ada.")
    assert create["response"]["tool_choice"] == "none"
    assert "conversation" not in create["response"]
    call.created(asked=True)
    call.say("response.output_audio_transcript.delta", response_id="r1", delta="Hello, ")
    call.sound(20)
    call.done()
    assert call.host.told[1:] == [
        ("agent_words", "Hello, "), ("agent_sound", b"\x02" * 160, "i1"), ("answer_done",),
    ]  # fmt: skip


def test_a_greeting_by_the_engine_is_only_told_to_the_model() -> None:
    call = Call(session=a_session(greeting="Hello!"), greeting="engine")
    assert not call.dialect.speaks_greeting
    assert not call.creates
    (create,) = call.host.sent_of("conversation.item.create")
    assert create["item"]["content"] == [{"type": "output_text", "text": "Hello!"}]


def test_a_frame_is_sent_as_it_is() -> None:
    call = Call()
    call.dialect.hear(FRAME)
    message = call.host.sent[-1]
    assert message == {
        "type": "input_audio_buffer.append",
        "audio": base64.b64encode(FRAME).decode(),
    }


def test_times_of_the_callers_speech_are_those_of_the_sound() -> None:
    call = Call()
    for _ in range(100):  # 2 s
        call.dialect.hear(FRAME)
    call.host.clock = 50.0
    call.say("input_audio_buffer.speech_started", item_id="u1", audio_start_ms=1200)
    assert call.host.all("caller_started") == [(pytest.approx(50.0 - 0.5),)]  # + 300 ms padding
    for _ in range(50):
        call.dialect.hear(FRAME)
    call.host.clock = 51.0
    call.say("input_audio_buffer.speech_stopped", item_id="u1", audio_end_ms=2900)
    assert call.host.all("caller_stopped") == [(pytest.approx(51.0 - 0.6),)]  # - 500 ms silence


def test_a_semantic_detector_does_not_tell_when_the_speech_ended() -> None:
    call = Call(turn_detection={"type": "semantic_vad"})
    call.turn()
    assert call.host.all("caller_stopped") == [(None,)]


def test_the_words_of_a_turn_are_told_for_that_turn_whenever_they_come() -> None:
    call = Call()
    kind = "conversation.item.input_audio_transcription."
    call.turn("u1")
    call.turn("u2")
    usage = {"type": "tokens", "input_tokens": 14, "output_tokens": 3, "total_tokens": 17}
    usage["input_token_details"] = {"audio_tokens": 12, "text_tokens": 2}
    call.say(kind + "completed", item_id="u2", transcript="Second.", usage=usage)
    call.say(kind + "failed", item_id="u1", error={"code": "audio_unintelligible"})
    call.say(kind + "completed", item_id="u2", transcript="Again.", usage=usage)
    call.say(kind + "completed", item_id="u7", transcript="Whose?")
    assert call.host.all("caller_text") == [("Second.", 2), ("", 1)]
    amounts = {"input_text_tokens": 2, "input_audio_tokens": 12, "output_text_tokens": 3}
    assert call.host.all("used") == [("gpt-transcribe", amounts)]
    assert call.ignored() == ["warning", "duplicate", "unknown"]


def test_transcription_by_the_second_is_counted_in_seconds() -> None:
    call = Call()
    call.turn("u1")
    usage = {"type": "duration", "seconds": 2.5}
    name = "conversation.item.input_audio_transcription.completed"
    call.say(name, item_id="u1", transcript="Yes.", usage=usage)
    assert call.host.all("used") == [("gpt-transcribe", {"seconds": 2.5})]


def test_all_calls_of_a_response_are_answered_before_one_more_response_is_asked_for() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1", arguments='{"place":"Oslo"}')
    call.asks("c2")
    call.done()
    assert call.host.all("tool_asked") == [
        ("c1", "weather", {"place": "Oslo"}), ("c2", "weather", {}),
    ]  # fmt: skip
    call.dialect.answer_tool(reply("c2", data={"t": 4}))
    assert call.outputs == ["c2"]
    assert not call.creates
    call.dialect.answer_tool(reply("c1"))
    assert call.outputs == ["c2", "c1"]
    assert len(call.creates) == 1
    item = call.host.sent_of("conversation.item.create")[0]["item"]
    output = json.loads(item["output"])
    assert output == {"status": "ok", "message": "It is sunny.", "data": {"t": 4}}
    call.created("r2", asked=True)
    call.done("r2")
    assert len(call.creates) == 1
    assert len(call.host.all("answer_done")) == 2


def test_a_result_that_comes_while_the_response_goes_on_waits_for_its_end() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.dialect.answer_tool(reply("c1"))
    call.stored("c1")
    assert call.outputs == ["c1"]
    assert not call.creates
    call.done()
    assert len(call.creates) == 1
    # The answer is still to come: it is not over for the call.
    assert not call.host.all("answer_done")


def test_the_services_own_response_that_knows_the_result_makes_ours_needless() -> None:
    call = Call()
    call.turn("u1")
    call.created()
    call.asks("c1")
    call.done()
    call.say("input_audio_buffer.speech_started", item_id="u2", audio_start_ms=0)
    call.dialect.answer_tool(reply("c1"))
    call.stored("c1")
    call.say("input_audio_buffer.speech_stopped", item_id="u2", audio_end_ms=0)
    assert not call.creates  # the service is about to answer
    call.created("r2")
    call.done("r2")
    assert not call.creates


def test_a_response_that_began_before_the_result_was_there_does_not_know_it() -> None:
    call = Call()
    call.turn("u1")
    call.created()
    call.asks("c1")
    call.done()
    call.turn("u2")
    call.created("r2")
    call.dialect.answer_tool(reply("c1"))
    call.stored("c1")
    assert not call.creates
    call.done("r2")
    assert len(call.creates) == 1


def test_a_request_that_crosses_the_services_own_response_is_made_again_after_it() -> None:
    call = Call()
    call.turn("u1")
    call.created()
    call.asks("c1")
    call.done()
    call.dialect.answer_tool(reply("c1"))
    (create,) = call.creates
    # A turn of the caller was over at the service at the same time.
    call.turn("u2")
    call.created("r2")
    call.stored("c1")
    message = "Conversation already has an active response in progress: r2."
    call.error("conversation_already_has_active_response", message, create["event_id"])
    assert len(call.creates) == 1
    assert not call.host.all("failed")
    call.done("r2")
    assert len(call.creates) == 2
    call.created("r3", asked=True)
    call.done("r3")
    assert len(call.creates) == 2


def test_a_collision_is_known_by_its_words_too_and_by_a_response_never_announced() -> None:
    call = Call(session=a_session(greeting="", history=(Said("caller", "Hello?"),)))
    assert len(call.creates) == 1
    call.say(
        "error",
        error={
            "type": "invalid_request_error",
            "code": None,
            "message": "Conversation already has an active response",
        },
    )
    call.done("r9")
    assert len(call.creates) == 1  # the caller has been answered by that one
    assert call.ignored() == ["warning"]


def test_results_are_still_given_when_the_caller_cuts_in_while_tools_run() -> None:
    call = Call()
    call.turn("u1")
    call.created()
    call.sound()
    call.asks("c1")
    call.asks("c2")
    call.done()
    call.say("input_audio_buffer.speech_started", item_id="u2", audio_start_ms=0)
    call.dialect.interrupted((CutItem("i1", 40),))
    call.dialect.answer_tool(reply("c1"))
    call.say("input_audio_buffer.speech_stopped", item_id="u2", audio_end_ms=0)
    call.created("r2")
    call.dialect.answer_tool(reply("c2"))
    call.stored("c1")
    call.stored("c2")
    call.done("r2")
    assert call.outputs == ["c1", "c2"]
    assert len(call.creates) == 1


def test_arguments_that_are_no_object_are_answered_with_an_error_and_not_run() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1", arguments='{"place": ')
    call.done()
    assert not call.host.all("tool_asked")
    assert call.outputs == ["c1"]
    assert len(call.creates) == 1


def test_a_call_is_reported_once_and_one_that_was_cut_off_not_at_all() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.asks("c1")
    half = {"type": "function_call", "call_id": "c2", "name": "weather", "status": "incomplete"}
    call.say("response.output_item.done", response_id="r1", item={**half, "arguments": '{"a'})
    whole = {"type": "function_call", "call_id": "c3", "name": "weather", "arguments": ""}
    first = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    call.done(output=[first, whole])
    assert [entry[0] for entry in call.host.all("tool_asked")] == ["c1", "c3"]


def test_a_cut_answer_is_truncated_at_what_was_heard_and_never_beyond_its_end() -> None:
    call = Call()
    call.turn("u1")
    call.created()
    call.sound(500, "i1")
    call.sound(300, "i2")
    call.say("input_audio_buffer.speech_started", item_id="u2", audio_start_ms=0)
    call.dialect.interrupted((CutItem("i1", 480), CutItem("i2", 9000), CutItem("old", 5)))
    truncated = call.host.sent_of("conversation.item.truncate")
    assert [(t["item_id"], t["audio_end_ms"]) for t in truncated] == [("i1", 480), ("i2", 300)]
    assert {t["content_index"] for t in truncated} == {0}
    assert not call.host.sent_of("response.cancel")  # the service stops by itself
    before = len(call.host.all("agent_sound"))
    call.sound(100, "i2")
    call.done(status="cancelled", status_details={"type": "cancelled", "reason": "turn_detected"})
    assert len(call.host.all("agent_sound")) == before
    assert not call.host.all("answer_done")
    assert not call.host.all("interrupted")


def test_where_the_service_does_not_stop_by_itself_it_is_told_to() -> None:
    call = Call(turn_detection={"type": "server_vad", "interrupt_response": False})
    call.turn("u1")
    call.created()
    call.sound(500)
    call.say("input_audio_buffer.speech_started", item_id="u2", audio_start_ms=0)
    assert not call.host.sent_of("response.cancel")
    call.dialect.interrupted((CutItem("i1", 100),))
    (cancel,) = call.host.sent_of("response.cancel")
    assert cancel["response_id"] == "r1"
    kinds = [message["type"] for message in call.host.sent[-2:]]
    assert kinds == ["response.cancel", "conversation.item.truncate"]
    call.error("response_cancel_not_active", event_id=cancel["event_id"])
    assert not call.host.all("failed")


def test_a_turn_that_ended_behind_an_answer_which_went_on_is_answered_by_our_asking() -> None:
    call = Call(turn_detection={"type": "server_vad", "interrupt_response": False})
    call.turn("u1")
    call.created()
    call.turn("u2")
    call.done()
    assert len(call.creates) == 1


def test_what_the_service_cuts_by_itself_is_told() -> None:
    call = Call()
    call.turn()
    call.created()
    call.sound()
    call.done(status="cancelled", status_details={"type": "cancelled", "reason": "turn_detected"})
    assert call.host.all("interrupted") == [()]
    assert not call.host.all("answer_done")


def test_an_answer_that_a_key_has_cut_ends_with_its_end_and_the_next_is_heard() -> None:
    call = Call(slow_response="provider")
    call.turn()
    call.created()
    call.sound()
    call.asks("c1")
    call.dialect.interrupted((CutItem("i1", 40),))
    assert call.host.sent_of("response.cancel")[0]["response_id"] == "r1"
    call.done(status="cancelled", status_details={"reason": "client_cancelled"})
    assert len(call.host.all("answer_done")) == 1
    assert call.dialect.speak("One moment.")
    call.created("s1", asked=True)
    call.sound(100, "w1", "s1")
    call.dialect.interrupted((CutItem("w1", 40),))
    call.done("s1", status="cancelled")
    assert len(call.host.all("answer_done")) == 2
    call.dialect.answer_tool(reply("c1"))
    call.created("r2", asked=True)
    call.sound(100, "i2", "r2")
    call.done("r2")
    assert len(call.host.all("agent_sound")) == 3
    assert len(call.host.all("answer_done")) == 3


def test_a_key_that_cuts_the_engines_filler_does_not_cost_the_answer() -> None:
    call = Call()
    call.turn()
    call.created()
    call.dialect.interrupted(())
    call.sound()
    call.done()
    assert not call.host.sent_of("response.cancel")
    assert len(call.host.all("agent_sound")) == 1
    assert len(call.host.all("answer_done")) == 1


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


def test_tokens_are_counted_once_each() -> None:
    call = Call()
    call.turn()
    call.created()
    usage = {
        "total_tokens": 253,
        "input_tokens": 132,
        "output_tokens": 121,
        "input_token_details": {
            "text_tokens": 119,
            "audio_tokens": 13,
            "cached_tokens": 64,
            "cached_tokens_details": {"text_tokens": 60, "audio_tokens": 4, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": 30, "audio_tokens": 91},
    }
    call.done(usage=usage)
    call.done(usage=usage)
    assert call.host.all("used") == [
        (
            "gpt-realtime-2.1",
            {
                "input_text_tokens": 59,
                "input_audio_tokens": 9,
                "cached_text_tokens": 60,
                "cached_audio_tokens": 4,
                "output_text_tokens": 30,
                "output_audio_tokens": 91,
            },
        )
    ]
    assert call.ignored() == ["duplicate"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_api_key", "auth"),
        ("insufficient_quota", "quota"),
        ("rate_limit_exceeded", "quota"),
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
        call.dialect.hear(second)
    call.host.sent.clear()
    assert not call.host.all("reconnect")  # in the middle of an answer
    call.done()
    name = "conversation.item.input_audio_transcription.completed"
    call.say(name, item_id="u1", transcript="Hm.")
    call.dialect.hear(second)
    assert len(call.host.all("reconnect")) == 1


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
    call.dialect.interrupted((CutItem("i1", 50),))
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
    call.dialect.answer_tool(reply("c1", "Rain."))
    event_id = call.host.sent_of("conversation.item.create")[-1]["event_id"]
    call.created("r2", asked=True)
    call.error("invalid_tool_call_id", "Tool call ID 'c1' not found.", event_id)
    item = call.host.sent_of("conversation.item.create")[-1]["item"]
    assert item["role"] == "user"
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
    call.dialect.answer_tool(reply("told", "Sun."))
    call.created("r2", asked=True)
    call.done("r2")
    call.turn("u2")
    call.created("r3")
    call.asks("given")
    call.asks("open")
    call.done("r3")
    call.dialect.answer_tool(reply("given", "Rain."))
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
    call.dialect.answer_tool(reply("open"))
    assert len(call.creates) == 1


def test_results_of_an_answer_that_broke_off_are_told_again() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.done()
    call.dialect.answer_tool(reply("c1"))
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


def test_it_says_given_words_only_where_that_is_wanted_and_nothing_else_is_said() -> None:
    assert not Call().dialect.speak("One moment.")
    call = Call(slow_response="provider")
    call.turn()
    assert not call.dialect.speak("One moment.")  # an answer is about to come
    call.created()
    assert not call.dialect.speak("One moment.")
    call.asks("c1")
    call.done()
    assert call.dialect.speak("One moment.")
    assert not call.dialect.speak("And another.")
    response = call.creates[0]["response"]
    assert (response["conversation"], response["input"]) == ("none", [])
    assert response["instructions"].endswith("\n\nOne moment.")
    call.dialect.answer_tool(reply("c1"))
    call.created("s1", asked=True)
    call.sound(100, "w1", "s1")
    assert len(call.creates) == 1  # the answer waits for the filler's end
    call.done("s1")
    assert len(call.creates) == 2
    assert call.host.all("answer_done") == [(), ()]
    # It is no part of the conversation: it cannot be truncated.
    call.dialect.interrupted((CutItem("w1", 50),))
    assert not call.host.sent_of("conversation.item.truncate")


def test_given_words_stop_when_the_caller_speaks() -> None:
    call = Call(slow_response="provider")
    assert call.dialect.speak("Please hold the line.")
    call.created("s1", asked=True)
    call.sound(100, "w1", "s1")
    call.say("input_audio_buffer.speech_started", item_id="u1", audio_start_ms=0)
    (cancel,) = call.host.sent_of("response.cancel")
    assert cancel["response_id"] == "s1"
    call.dialect.interrupted((CutItem("w1", 50),))
    assert len(call.host.sent_of("response.cancel")) == 1
    call.done("s1", status="cancelled")
    assert not call.host.all("answer_done")


def test_a_late_result_is_told_when_nobody_speaks() -> None:
    call = Call()
    call.turn()
    assert not call.dialect.inform("Your table is booked.")
    call.created()
    assert not call.dialect.inform("Your table is booked.")
    call.done()
    assert call.dialect.inform("Your table is booked.")
    item = call.host.sent_of("conversation.item.create")[0]["item"]
    assert item["content"][0]["text"].endswith("Your table is booked.")
    assert len(call.creates) == 1


def test_a_late_result_is_told_even_if_the_service_had_begun_something_else() -> None:
    call = Call()
    assert call.dialect.inform("Your table is booked.")
    event_id = call.creates[0]["event_id"]
    call.turn("u1")
    call.created("r1")
    call.error("conversation_already_has_active_response", event_id=event_id)
    call.done("r1")
    assert len(call.creates) == 2


def test_while_the_engine_asks_the_model_keeps_silent_and_listens() -> None:
    call = Call()
    call.turn("u1")
    call.created()
    call.asks("c1")
    call.done()
    assert call.dialect.listen_aside(True)
    update = call.host.sent_of("session.update")[-1]["session"]
    detection = update["audio"]["input"]["turn_detection"]
    assert detection["create_response"] is False
    assert detection["interrupt_response"] is False
    assert detection["silence_duration_ms"] == 500
    call.say("session.updated", session=update)
    call.turn("u2")
    call.say(
        "conversation.item.input_audio_transcription.completed", item_id="u2", transcript="Yes"
    )
    assert call.host.all("caller_text") == [("Yes", 2)]
    call.dialect.answer_tool(reply("c1"))
    assert not call.creates
    assert call.dialect.listen_aside(False)
    assert len(call.creates) == 1
    back = call.host.sent_of("session.update")[-1]["session"]
    assert back["audio"]["input"]["turn_detection"]["create_response"] is True


def test_an_answer_that_crosses_the_wish_to_be_silent_is_taken_back() -> None:
    call = Call()
    call.dialect.listen_aside(True)
    call.turn("u1")  # the service has not yet heard of it
    call.created()
    call.sound()
    assert [cancel["response_id"] for cancel in call.host.sent_of("response.cancel")] == ["r1"]
    assert not call.host.all("agent_sound")


def test_a_turn_that_ended_before_the_service_answers_again_is_answered_by_our_asking() -> None:
    call = Call()
    call.dialect.listen_aside(True)
    call.say("session.updated", session=call.host.sent[-1]["session"])
    call.dialect.listen_aside(False)
    call.turn("u1")
    assert len(call.creates) == 1


def test_the_service_may_speak_up_in_a_long_silence() -> None:
    call = Call(turn_detection={"idle_timeout_ms": 6000})
    times = {"audio_start_ms": 0, "audio_end_ms": 6000}
    call.say("input_audio_buffer.timeout_triggered", item_id="u1", **times)
    call.created()
    call.sound()
    call.done()
    name = "conversation.item.input_audio_transcription.completed"
    call.say(name, item_id="u1", transcript="")
    assert not call.host.all("caller_stopped")
    assert len(call.host.all("agent_sound")) == 1


@pytest.mark.parametrize(
    ("status", "code", "problem", "kind", "again"),
    [
        (401, None, "", "auth", False),
        (404, None, "", "refused", False),
        (429, None, "", "quota", True),
        (503, None, "", "connect", True),
        (None, None, "refused", "connect", True),
        (None, 3000, "invalid_request_error.invalid_api_key", "auth", False),
        (None, 1001, "Your session hit the maximum duration of 60 minutes.", "connect", True),
    ],
)
def test_what_a_lost_connection_means(
    status: int | None, code: int | None, problem: str, kind: str, again: bool
) -> None:
    lost = OpenAIDialect(settings(), KEY).lost(status, code, problem + f" {KEY}")
    assert (lost.kind, lost.again) == (kind, again)
    assert KEY not in lost.reason


def test_a_connection_that_had_been_up_is_dropped() -> None:
    assert Call().dialect.lost(None, 1006, "").kind == "dropped"


def test_half_a_character_from_a_tool_does_not_stop_the_call() -> None:
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.done()
    call.dialect.answer_tool(reply("c1", "sunny \ud83d"))
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
    call.dialect.receive_text(text)
    call.dialect.receive_text(text)
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
        call.dialect.receive_text(json.dumps(message).encode("utf-8", "replace"))
        call.dialect.hear(FRAME)
    for call_id, _, _ in call.host.all("tool_asked"):
        call.dialect.answer_tool(reply(call_id))
    call.dialect.interrupted((CutItem("i1", 10),))
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
    call.dialect.receive_text(data)
    call.dialect.receive_binary(data)
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
