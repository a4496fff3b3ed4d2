"""OpenAI Realtime: tools, cut answers, and who may speak."""

from __future__ import annotations

import json

from tests.vendors.host import a_session

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import CutItem
from cordboard.agent_api.speech import Speech

from .openai_call import FRAME, Call, reply


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
    call.protocol.answer_tool(reply("c2", data={"t": 4}))
    assert call.outputs == ["c2"]
    assert not call.creates
    call.protocol.answer_tool(reply("c1"))
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
    call.protocol.answer_tool(reply("c1"))
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
    call.protocol.answer_tool(reply("c1"))
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
    call.protocol.answer_tool(reply("c1"))
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
    call.protocol.answer_tool(reply("c1"))
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


def test_a_collision_with_a_response_that_is_over_does_not_block_the_floor() -> None:
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
    call.host.clock += 0.2
    call.protocol.hear(FRAME)
    assert len(call.creates) == 1
    assert not call.protocol.speak(Speech("One moment.", "filler"))  # it would be refused, too
    call.host.clock += 0.1
    call.protocol.hear(FRAME)
    assert len(call.creates) == 2
    assert call.ignored() == ["warning"]


def test_a_result_is_spoken_about_though_its_request_was_refused_as_busy() -> None:
    """The first request, and the two that follow, come just too early; the line gives no sound."""
    call = Call()
    call.turn()
    call.created()
    call.asks("c1")
    call.done()
    call.protocol.answer_tool(reply("c1"))
    for count in (1, 2, 3):
        assert len(call.creates) == count
        event_id = call.creates[-1]["event_id"]
        call.error("conversation_already_has_active_response", event_id=event_id)
        assert call.protocol.keep_alive_s
        call.host.clock += 0.5
        call.protocol.keep_alive()
    call.created("r2", asked=True)
    call.done("r2")
    assert len(call.creates) == 4
    assert not call.protocol.keep_alive_s
    assert not call.host.all("reconnect")


def test_a_service_that_is_always_busy_is_replaced() -> None:
    call = Call(session=a_session(greeting="Hello!"))
    for _ in range(4):
        event_id = call.creates[-1]["event_id"]
        call.error("conversation_already_has_active_response", event_id=event_id)
        call.host.clock += 0.5
        call.protocol.keep_alive()
    assert len(call.host.all("reconnect")) == 1
    assert len(call.creates) == 4


def test_an_answer_in_writing_is_asked_for_in_sound_and_taken_out_of_the_conversation() -> None:
    call = Call()
    call.turn()
    call.created()
    call.say("response.output_text.delta", response_id="r1", item_id="i1", delta="It is nine.")
    written = {"id": "i1", "type": "message", "role": "assistant", "status": "completed"}
    written["content"] = [{"type": "output_text", "text": "It is nine."}]  # type: ignore[assignment]
    call.done(output=[written])
    assert not call.host.all("answer_done")
    (delete,) = call.host.sent_of("conversation.item.delete")
    assert delete["item_id"] == "i1"
    wanted = call.creates[0]["response"]
    assert wanted["output_modalities"] == ["audio"]
    assert wanted["instructions"].endswith("It is nine.")
    call.created("r2", asked=True)
    call.done("r2", output=[written])
    assert len(call.host.all("reconnect")) == 1


def test_a_written_answer_with_a_tool_call_waits_for_the_result() -> None:
    call = Call()
    call.turn()
    call.created()
    item = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    written = {"id": "i1", "type": "message", "content": [{"type": "output_text", "text": "Hm."}]}
    call.done(output=[written, item])
    assert not call.creates
    call.protocol.answer_tool(reply("c1"))
    assert len(call.creates) == 1


def test_a_sentence_of_the_engine_that_stays_unspoken_is_given_back() -> None:
    call = Call(slow_response="provider")
    assert call.protocol.speak(Speech("One moment.", "filler"))
    call.created("r1", asked=True)
    call.done("r1")
    assert call.host.all("unsaid") == [("One moment.",)]


def test_a_demanded_tool_is_not_demanded_again_after_its_result() -> None:
    call = Call(tool_choice="required")
    call.turn()
    call.created()
    call.asks("c1")
    call.done()
    call.protocol.answer_tool(reply("c1"))
    assert call.creates[0]["response"]["tool_choice"] == "auto"


def test_results_are_still_given_when_the_caller_cuts_in_while_tools_run() -> None:
    call = Call()
    call.turn("u1")
    call.created()
    call.sound()
    call.asks("c1")
    call.asks("c2")
    call.done()
    call.say("input_audio_buffer.speech_started", item_id="u2", audio_start_ms=0)
    call.protocol.interrupted((CutItem("i1", 40),))
    call.protocol.answer_tool(reply("c1"))
    call.say("input_audio_buffer.speech_stopped", item_id="u2", audio_end_ms=0)
    call.created("r2")
    call.protocol.answer_tool(reply("c2"))
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
    call.protocol.interrupted((CutItem("i1", 480), CutItem("i2", 9000), CutItem("old", 5)))
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
    call.protocol.interrupted((CutItem("i1", 100),))
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
    call.protocol.interrupted((CutItem("i1", 40),))
    assert call.host.sent_of("response.cancel")[0]["response_id"] == "r1"
    call.done(status="cancelled", status_details={"reason": "client_cancelled"})
    assert len(call.host.all("answer_done")) == 1
    assert call.protocol.speak(Speech("One moment.", "filler"))
    call.created("s1", asked=True)
    call.sound(100, "w1", "s1")
    assert call.host.all("agent_speech") == [("One moment.",)], "known by its response"
    call.protocol.interrupted((CutItem("w1", 40),))
    call.done("s1", status="cancelled")
    assert len(call.host.all("answer_done")) == 2
    call.protocol.answer_tool(reply("c1"))
    call.created("r2", asked=True)
    call.sound(100, "i2", "r2")
    call.done("r2")
    assert len(call.host.all("agent_sound")) == 3
    assert len(call.host.all("answer_done")) == 3
    assert len(call.host.all("agent_speech")) == 1, "the answer is the model's own"


def test_a_key_that_cuts_the_engines_filler_does_not_cost_the_answer() -> None:
    call = Call()
    call.turn()
    call.created()
    call.protocol.interrupted(())
    call.sound()
    call.done()
    assert not call.host.sent_of("response.cancel")
    assert len(call.host.all("agent_sound")) == 1
    assert len(call.host.all("answer_done")) == 1
