"""OpenAI Realtime: the session, the caller's turns, the engine's wishes."""

from __future__ import annotations

import base64

import pytest
from tests.vendors.host import a_session

from cordboard.agent_api.service_protocol import CutItem
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import ALAW_8K
from cordboard.tools.payload import DATA_NOTE
from cordboard.vendors.openai.realtime.protocol import OpenAIProtocol

from .openai_call import FRAME, KEY, WEATHER, Call, reply, settings


async def test_the_address_is_the_vendors_own_or_the_one_given() -> None:
    address = await OpenAIProtocol(settings(), KEY).address()
    assert address.url == "wss://api.openai.com/v1/realtime?model=gpt-realtime-2.1"
    assert address.headers == {"Authorization": f"Bearer {KEY}"}
    given_one = settings(base_url="http://127.0.0.1:9/v1/", model="my model/1")
    address = await OpenAIProtocol(given_one, KEY).address()
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
    assert not call.protocol.speaks_greeting
    assert not call.creates
    (create,) = call.host.sent_of("conversation.item.create")
    assert create["item"]["content"] == [{"type": "output_text", "text": "Hello!"}]


def test_a_frame_is_sent_as_it_is() -> None:
    call = Call()
    call.protocol.hear(FRAME)
    message = call.host.sent[-1]
    assert message == {
        "type": "input_audio_buffer.append",
        "audio": base64.b64encode(FRAME).decode(),
    }


def test_times_of_the_callers_speech_are_those_of_the_sound() -> None:
    call = Call()
    for _ in range(100):  # 2 s
        call.protocol.hear(FRAME)
    call.host.clock = 50.0
    call.say("input_audio_buffer.speech_started", item_id="u1", audio_start_ms=1200)
    assert call.host.all("caller_started") == [(pytest.approx(50.0 - 0.5),)]  # + 300 ms padding
    for _ in range(50):
        call.protocol.hear(FRAME)
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


def test_the_words_so_far_are_those_of_the_last_turn_until_they_are_final() -> None:
    call = Call()
    kind = "conversation.item.input_audio_transcription."
    call.turn("u1")
    call.say(kind + "delta", item_id="u1", delta="Fir")
    call.say(kind + "delta", item_id="u1", delta="st.")
    call.say("input_audio_buffer.speech_started", item_id="u2", audio_start_ms=1)
    call.say(kind + "delta", item_id="u1", delta=" More of it")
    call.say(kind + "delta", item_id="u2", delta="Second")
    call.say(kind + "delta", item_id="u2")  # damaged
    call.say(kind + "completed", item_id="u1", transcript="First.")
    call.say("input_audio_buffer.speech_stopped", item_id="u2", audio_end_ms=2)
    call.say(kind + "completed", item_id="u2", transcript="Second.")
    call.say(kind + "delta", item_id="u2", delta=" late")
    assert [text for (text,) in call.host.all("caller_partial")] == [
        *("Fir", "First."),
        *("Second", "Second"),
    ]
    assert call.host.all("caller_text") == [("First.", 1), ("Second.", 2)]


def test_transcription_by_the_second_is_counted_in_seconds() -> None:
    call = Call()
    call.turn("u1")
    usage = {"type": "duration", "seconds": 2.5}
    name = "conversation.item.input_audio_transcription.completed"
    call.say(name, item_id="u1", transcript="Yes.", usage=usage)
    assert call.host.all("used") == [("gpt-transcribe", {"seconds": 2.5})]


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


def test_it_says_given_words_only_where_that_is_wanted_and_nothing_else_is_said() -> None:
    assert not Call().protocol.speak(Speech("One moment.", "filler"))
    call = Call(slow_response="provider")
    call.turn()
    assert not call.protocol.speak(Speech("One moment.", "filler"))  # an answer is about to come
    call.created()
    assert not call.protocol.speak(Speech("One moment.", "filler"))
    call.asks("c1")
    call.done()
    assert call.protocol.speak(Speech("One moment.", "filler"))
    assert not call.protocol.speak(Speech("And another.", "filler"))
    response = call.creates[0]["response"]
    assert (response["conversation"], response["input"]) == ("none", [])
    assert response["instructions"].endswith("\n\nOne moment.")
    call.protocol.answer_tool(reply("c1"))
    call.created("s1", asked=True)
    call.sound(100, "w1", "s1")
    assert len(call.creates) == 1  # the answer waits for the filler's end
    call.done("s1")
    assert len(call.creates) == 2
    assert call.host.all("answer_done") == [(), ()]
    # It is no part of the conversation: it cannot be truncated.
    call.protocol.interrupted((CutItem("w1", 50),))
    assert not call.host.sent_of("conversation.item.truncate")


def test_given_words_stop_when_the_caller_speaks() -> None:
    call = Call(slow_response="provider")
    assert call.protocol.speak(Speech("Please hold the line.", "filler"))
    call.created("s1", asked=True)
    call.sound(100, "w1", "s1")
    call.say("input_audio_buffer.speech_started", item_id="u1", audio_start_ms=0)
    (cancel,) = call.host.sent_of("response.cancel")
    assert cancel["response_id"] == "s1"
    call.protocol.interrupted((CutItem("w1", 50),))
    assert len(call.host.sent_of("response.cancel")) == 1
    call.done("s1", status="cancelled")
    assert not call.host.all("answer_done")


def test_a_late_result_is_told_when_nobody_speaks() -> None:
    call = Call()
    call.turn()
    assert not call.protocol.inform("Your table is booked.")
    call.created()
    assert not call.protocol.inform("Your table is booked.")
    call.done()
    assert call.protocol.inform("Your table is booked.")
    item = call.host.sent_of("conversation.item.create")[0]["item"]
    assert item["content"][0]["text"].endswith("Your table is booked.")
    assert len(call.creates) == 1


def test_a_late_result_is_told_even_if_the_service_had_begun_something_else() -> None:
    call = Call()
    assert call.protocol.inform("Your table is booked.")
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
    assert call.protocol.listen_aside(True)
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
    call.protocol.answer_tool(reply("c1"))
    assert not call.creates
    assert call.protocol.listen_aside(False)
    assert len(call.creates) == 1
    back = call.host.sent_of("session.update")[-1]["session"]
    assert back["audio"]["input"]["turn_detection"]["create_response"] is True


def test_an_answer_that_crosses_the_wish_to_be_silent_is_taken_back() -> None:
    call = Call()
    call.protocol.listen_aside(True)
    call.turn("u1")  # the service has not yet heard of it
    call.created()
    call.sound()
    assert [cancel["response_id"] for cancel in call.host.sent_of("response.cancel")] == ["r1"]
    assert not call.host.all("agent_sound")


def test_a_result_that_only_an_unheard_answer_knew_is_told_later() -> None:
    call = Call()
    call.turn("u1")
    call.created()
    call.asks("c1")
    call.done()
    call.protocol.listen_aside(True)
    call.protocol.answer_tool(reply("c1"))
    call.stored("c1")
    call.turn("u2")
    call.created("r2")  # taken back at once
    call.done("r2", status="cancelled", status_details={"reason": "client_cancelled"})
    call.protocol.listen_aside(False)
    assert len(call.creates) == 1


def test_a_turn_that_ended_before_the_service_answers_again_is_answered_by_our_asking() -> None:
    call = Call()
    call.protocol.listen_aside(True)
    call.say("session.updated", session=call.host.sent[-1]["session"])
    call.protocol.listen_aside(False)
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


def test_a_note_is_a_system_message_that_asks_for_no_answer() -> None:
    call = Call()
    assert call.protocol.take_note("Offer Thursday.")
    (sent,) = call.host.sent_of("conversation.item.create")
    assert sent["item"] == {
        "type": "message",
        "role": "system",
        "content": [{"type": "input_text", "text": "Offer Thursday."}],
    }
    assert not call.creates
