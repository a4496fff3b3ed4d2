"""Deepgram Voice Agent: what its messages become, and what it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.vendors.host import RecordingHost, a_session

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import CutItem, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import ALAW_8K, ULAW_8K, AudioFormat
from cordboard.tools.payload import DATA_NOTE
from cordboard.tools.tool import Effects, Status, ToolReply, ToolSpec
from cordboard.vendors.deepgram.agent.protocol import BAD_ARGUMENTS, GO_ON, DeepgramProtocol
from cordboard.vendors.deepgram.config import DeepgramAgentProvider

FRAME = b"\xff" * 160
WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object", "properties": {}})
BOOK = ToolSpec(
    "book",
    "http",
    "Books a table.",
    {"type": "object", "properties": {"people": {"type": "integer", "default": 2}}},
    effects=Effects.DESTRUCTIVE,
)
HANG_UP = ToolSpec(
    "hangup_call", "builtin", "Hangs up.", {"type": "object"}, effects=Effects.IDEMPOTENT
)


def settings(**values: Any) -> DeepgramAgentProvider:
    return DeepgramAgentProvider.model_validate({"type": "deepgram_agent", **values})


def reply(call_id: str, message: str = "It is sunny.", **values: Any) -> ToolReply:
    return ToolReply(call_id, "weather", Status.OK, message, **values)


class Call:
    """A protocol with its fake host."""

    def __init__(self, *, ready: bool = True, session: Any = None, **values: Any) -> None:
        self.host = RecordingHost()
        self.protocol = DeepgramProtocol(settings(**values), "the-key")
        self.session = session or a_session(toolbox=(WEATHER, BOOK, HANG_UP))
        self.protocol.begin(self.session, self.host, None)
        if ready:
            self.accept()

    def accept(self) -> None:
        self.say("Welcome", request_id="r-1")
        self.say("SettingsApplied")

    def say(self, kind: str, **values: Any) -> None:
        self.protocol.receive_text(json.dumps({"type": kind, **values}).encode())

    def user(self, text: str) -> None:
        self.say("UserStartedSpeaking")
        self.say("ConversationText", role="user", content=text)

    def agent(self, text: str) -> None:
        self.say("ConversationText", role="assistant", content=text)

    def ask(self, *functions: dict[str, Any]) -> None:
        self.say("FunctionCallRequest", functions=list(functions))

    def again(self, *history: Said, owes: bool = False) -> None:
        self.protocol.begin(self.session, self.host, Resumed(history, owes))
        self.accept()

    @property
    def ignored(self) -> list[str]:
        return [why for why, _ in self.host.all("ignored")]

    @property
    def introduction(self) -> dict[str, Any]:
        return self.host.sent_of("Settings")[-1]


def function(call_id: str, arguments: object = "{}", **values: Any) -> dict[str, Any]:
    given = {"id": call_id, "name": "weather", "arguments": arguments, "client_side": True}
    return {**given, **values}


class TestIntroduction:
    async def test_the_address_carries_the_key_in_a_header_only(self) -> None:
        address = await DeepgramProtocol(settings(), "the-key").address()
        assert address.url == "wss://agent.deepgram.com/v1/agent/converse"
        assert address.headers == {"Authorization": "Token the-key"}
        assert "the-key" not in repr(address)

    async def test_another_address_may_be_given(self) -> None:
        protocol = DeepgramProtocol(settings(base_url="http://127.0.0.1:80/"), "k")
        assert (await protocol.address()).url == "ws://127.0.0.1:80/v1/agent/converse"

    def test_nothing_is_sent_before_welcome_and_no_sound_before_the_settings_are_applied(
        self,
    ) -> None:
        call = Call(ready=False)
        call.protocol.hear(FRAME)
        call.protocol.keep_alive()
        assert not call.host.sent
        call.say("Welcome", request_id="r")
        call.protocol.hear(FRAME)
        call.protocol.keep_alive()
        assert [message["type"] for message in call.host.sent] == ["Settings"]
        assert not call.host.sound
        assert not call.host.all("ready")
        call.say("SettingsApplied")
        assert call.host.all("ready") == [()]
        call.protocol.hear(FRAME)
        call.protocol.keep_alive()
        assert call.host.sent[-1] == {"type": "KeepAlive"}
        assert call.host.sound == [FRAME, FRAME]  # and silence

    @pytest.mark.parametrize(("audio_format", "encoding"), [(ULAW_8K, "mulaw"), (ALAW_8K, "alaw")])
    def test_with_only_a_key_the_settings_are_whole(
        self, audio_format: AudioFormat, encoding: str
    ) -> None:
        sound = {"encoding": encoding, "sample_rate": 8000}
        call = Call(session=a_session(audio_format=audio_format))
        assert call.introduction == {
            "type": "Settings",
            "audio": {"input": sound, "output": {**sound, "container": "none"}},
            "agent": {
                "listen": {
                    "provider": {"version": "v2", "type": "deepgram", "model": "flux-general-en"}
                },
                "think": {
                    "provider": {"type": "open_ai", "model": "gpt-5.4-mini"},
                    "prompt": "You are a helpful telephone agent.",
                },
                "speak": {"provider": {"type": "deepgram", "model": "aura-2-thalia-en"}},
                "greeting": "Hello!",
            },
        }

    def test_all_settings_go_under_deepgrams_own_names(self) -> None:
        call = Call(
            language="de",
            listen={"provider": {"version": "v1", "keyterms": ["Avinor"], "smart_format": True}},
            think={
                "provider": {"type": "anthropic", "model": "some-model", "temperature": 0.5},
                "endpoint": {"url": "https://models.example", "headers": {"x-key": "s3cret"}},
                "context_length": "max",
            },
            think_fallbacks=[{"provider": {"model": "gpt-5-nano", "reasoning_mode": "low"}}],
            speak={"provider": {"type": "deepgram", "model": "flux-kit-en", "speed": 1.1}},
            speak_fallbacks=[{"provider": {"type": "open_ai", "model": "m", "voice": "nova"}}],
            tags=["front-desk"],
            mip_opt_out=True,
            extra={"flags": {"history": False}, "agent": {"listen": {"provider": {"x": 1}}}},
        )
        message, agent = call.introduction, call.introduction["agent"]
        assert agent["language"] == "de"
        assert agent["listen"]["provider"] == {
            "version": "v1",
            "type": "deepgram",
            "model": "nova-3",
            "keyterms": ["Avinor"],
            "smart_format": True,
            "x": 1,
        }
        first, second = agent["think"]
        assert first["endpoint"] == {
            "url": "https://models.example",
            "headers": {"x-key": "s3cret"},
        }
        assert first["context_length"] == "max"
        assert second["provider"]["reasoning_mode"] == "low"
        assert first["functions"] == second["functions"]
        assert agent["speak"][0]["provider"]["version"] == "v2"
        assert agent["speak"][1]["provider"]["voice"] == "nova"
        assert message["tags"] == ["front-desk"]
        assert message["mip_opt_out"] is True
        assert message["flags"] == {"history": False}
        assert "experimental" not in message

    def test_bedrock_is_reached_with_its_credentials(self) -> None:
        credentials = {"type": "iam", "region": "r", "access_key_id": "a", "secret_access_key": "s"}
        provider = {"type": "aws_bedrock", "model": "m", "credentials": credentials}
        endpoint = {"url": "https://bedrock.example"}
        call = Call(think={"provider": provider, "endpoint": endpoint})
        assert call.introduction["agent"]["think"]["provider"] == provider

    def test_functions_are_ours_and_wait_for_a_sure_turn_if_they_do_anything(self) -> None:
        think = Call().introduction["agent"]["think"]
        weather, book, hang_up = think["functions"]
        assert weather == {
            "name": "weather",
            "description": "Tells the weather.",
            "parameters": {"type": "object", "properties": {}},
        }
        assert book["defer_until_eot"] is True
        assert hang_up["defer_until_eot"] is True
        assert "default" not in book["parameters"]["properties"]["people"]
        assert not any({"endpoint", "client_side"} & set(each) for each in think["functions"])
        assert think["prompt"].endswith(DATA_NOTE)

    def test_who_takes_over_does_not_greet_and_answers_what_the_caller_has_said_last(self) -> None:
        history = (Said("agent", "Hello!"), Said("caller", "Is it sunny?"))
        call = Call(session=a_session(history=history))
        agent = call.introduction["agent"]
        assert "greeting" not in agent
        assert agent["context"]["messages"] == [
            {"type": "History", "role": "assistant", "content": "Hello!"}
        ]
        assert call.host.sent[-1] == {"type": "InjectUserMessage", "content": "Is it sunny?"}

    def test_refused_settings_end_it_with_deepgrams_own_words(self) -> None:
        call = Call(ready=False)
        call.say("Welcome", request_id="r")
        call.say("Error", code="INVALID_SETTINGS", description="no such model for the-key")
        ((kind, reason),) = call.host.all("failed")
        assert kind == "refused"
        assert reason == "Deepgram: INVALID_SETTINGS: no such model for ***"
        assert call.protocol.lost(None, 1011, "closed").again is False

    def test_a_busy_service_is_tried_again(self) -> None:
        call = Call(ready=False)
        call.say("Welcome", request_id="r")
        call.say("Error", code="INTERNAL_SERVER_ERROR", description="oh")
        assert not call.host.all("failed")
        assert not call.host.all("reconnect")
        lost = call.protocol.lost(None, 1011, "closed")
        assert (lost.kind, lost.again) == ("connect", True)


class TestTurns:
    def test_a_turn(self) -> None:
        call = Call()
        call.user("Is it sunny?")
        call.agent("Yes.")
        call.protocol.receive_binary(FRAME)
        call.agent("Very.")
        call.protocol.receive_binary(FRAME)
        call.say("AgentAudioDone")
        assert [entry for entry in call.host.told if entry[0] != "used"] == [
            ("ready",),
            ("caller_started", None),
            ("caller_stopped", None),
            ("caller_text", "Is it sunny?", 1),
            ("agent_words", "Yes."),
            ("agent_sound", FRAME, ""),
            ("agent_words", " Very."),
            ("agent_sound", FRAME, ""),
            ("answer_done",),
        ]

    def test_more_of_the_callers_words_belong_to_their_turn(self) -> None:
        call = Call()
        call.user("Is it sunny")
        call.say("ConversationText", role="user", content="in Oslo?")
        assert call.host.all("caller_text") == [("Is it sunny", 1), ("in Oslo?", None)]

    def test_what_is_left_of_an_answer_that_the_service_cut_is_dropped(self) -> None:
        call = Call()
        call.user("Tell me a story.")
        call.agent("Once upon a time.")
        call.protocol.receive_binary(b"1" * 160)
        call.say("UserStartedSpeaking")
        call.protocol.receive_binary(b"2" * 160)
        assert call.host.told[-2:] == [("caller_started", None), ("interrupted",)]
        call.say("ConversationText", role="user", content="Stop.")
        call.agent("All right.")
        call.protocol.receive_binary(b"3" * 160)
        call.say("AgentAudioDone")
        sounds = [sound[:1] for sound, _ in call.host.all("agent_sound")]
        assert sounds == [b"1", b"3"]
        assert call.host.all("answer_done") == [()]

    def test_the_end_of_a_cut_answer_is_not_the_end_of_the_next_one(self) -> None:
        call = Call()
        call.agent("Once upon a time.")
        call.say("UserStartedSpeaking")
        call.say("AgentAudioDone")
        assert not call.host.all("answer_done")
        call.say("ConversationText", role="user", content="Stop.")
        call.protocol.receive_binary(FRAME)
        call.say("AgentAudioDone")
        assert call.host.all("answer_done") == [()]

    def test_nothing_more_is_heard_of_an_answer_that_we_cut_until_it_is_over(self) -> None:
        call = Call()
        call.agent("Once upon a time.")
        call.protocol.receive_binary(b"1" * 160)
        call.protocol.interrupted((CutItem("", 10),))
        call.agent("There was a king.")
        call.say("AgentStartedSpeaking", total_latency=1.0, tts_latency=0.5, ttt_latency=0.5)
        call.protocol.receive_binary(b"2" * 160)
        call.say("AgentAudioDone")
        call.agent("Anything else?")
        call.protocol.receive_binary(b"3" * 160)
        assert call.host.all("agent_words") == [("Once upon a time.",), ("Anything else?",)]
        assert [sound[:1] for sound, _ in call.host.all("agent_sound")] == [b"1", b"3"]

    def test_a_cut_after_all_has_arrived_drops_nothing_of_the_next_answer(self) -> None:
        call = Call()
        call.agent("Once.")
        call.say("AgentAudioDone")
        call.protocol.interrupted((CutItem("", 10),))
        call.agent("Next.")
        assert call.host.all("agent_words") == [("Once.",), ("Next.",)]


class TestFunctions:
    def test_all_functions_of_a_request_are_asked_and_each_is_answered_once(self) -> None:
        call = Call()
        call.ask(function("a", '{"city": "Oslo"}'), function("b"))
        call.ask(function("b"), function("c", client_side=False))
        assert call.host.all("tool_asked") == [
            ("a", "weather", {"city": "Oslo"}),
            ("b", "weather", {}),
        ]
        assert call.ignored == ["duplicate"]
        call.protocol.answer_tool(reply("b", "Rain.", data={"mm": 3}))
        call.protocol.answer_tool(reply("a"))
        call.protocol.answer_tool(reply("a"))
        first, second = call.host.sent_of("FunctionCallResponse")
        assert (first["id"], first["name"]) == ("b", "weather")
        assert json.loads(first["content"]) == {
            "status": "ok",
            "message": "Rain.",
            "data": {"mm": 3},
        }
        assert second["id"] == "a"
        assert call.ignored == ["duplicate", "late"]

    @pytest.mark.parametrize("arguments", ["{", "[1]", "7", "nonsense"])
    def test_arguments_that_are_no_object_are_answered_at_once(self, arguments: str) -> None:
        call = Call()
        call.ask(function("a", arguments), function("b"))
        assert call.host.all("tool_asked") == [("b", "weather", {})]
        (response,) = call.host.sent_of("FunctionCallResponse")
        assert response["id"] == "a"
        assert json.loads(response["content"]) == {"status": "error", "message": BAD_ARGUMENTS}

    @pytest.mark.parametrize("arguments", ["", "  ", None, {}])
    def test_no_arguments_are_none(self, arguments: object) -> None:
        call = Call()
        call.ask(function("a", arguments))
        assert call.host.all("tool_asked") == [("a", "weather", {})]

    def test_a_cancelled_call_is_given_up_and_its_late_answer_is_not_sent(self) -> None:
        call = Call()
        call.say("UserStartedSpeaking")
        call.ask(function("a"), function("b"))
        call.say("UserStartedSpeaking")
        call.say(
            "FunctionCallCancelled",
            functions=[{"id": "a", "name": "weather"}, {"id": "x", "name": "weather"}],
        )
        assert call.host.all("tool_cancelled") == [("a",)]
        call.protocol.answer_tool(reply("a"))
        call.protocol.answer_tool(reply("b"))
        assert [message["id"] for message in call.host.sent_of("FunctionCallResponse")] == ["b"]
        assert call.ignored == ["late", "late"]

    def test_half_a_character_in_a_result_does_no_harm(self) -> None:
        call = Call()
        call.ask(function("a"))
        call.protocol.answer_tool(reply("a", "half \ud800"))
        (response,) = call.host.sent_of("FunctionCallResponse")
        assert json.loads(response["content"])["message"] == "half \ud800"


class TestWords:
    def test_a_filler_waits_for_what_the_service_is_saying(self) -> None:
        call = Call()
        call.user("Is it sunny?")
        call.ask(function("a"))
        assert call.protocol.speak(Speech("One moment.", "filler"))
        assert call.host.sent[-1] == {
            "type": "InjectAgentMessage",
            "message": "One moment.",
            "behavior": "queue",
        }
        call.agent("One moment.")
        assert call.host.all("agent_words") == [("One moment.",)]
        assert call.host.all("agent_speech") == [("One moment.",)]
        call.agent("One moment.")  # now the model's own
        assert len(call.host.all("agent_speech")) == 1

    def test_not_while_the_caller_speaks(self) -> None:
        call = Call()
        call.say("UserStartedSpeaking")
        assert not call.protocol.speak(Speech("One moment.", "filler"))
        assert not call.protocol.inform("The table is booked.")
        assert not call.host.sent_of("InjectAgentMessage")

    def test_noise_that_becomes_no_words_does_not_silence_the_service_for_ever(self) -> None:
        call = Call()
        call.say("UserStartedSpeaking")
        call.host.clock += 59
        assert not call.protocol.speak(Speech("Are you still there?", "filler"))
        call.host.clock += 2
        assert call.protocol.speak(Speech("Are you still there?", "filler"))

    @pytest.mark.parametrize(
        "refusal",
        [
            {"kind": "InjectionRefused", "message": "no"},
            {"kind": "Warning", "code": "INJECT_AGENT_MESSAGE_DURING_AGENT_SPEECH"},
        ],
    )
    def test_once_refused_it_is_handed_back_and_not_asked_again_in_this_turn(
        self, refusal: dict[str, str]
    ) -> None:
        call = Call()
        assert call.protocol.speak(Speech("One moment.", "filler"))
        call.say(**refusal)
        assert call.ignored == ["warning"]
        assert call.host.all("unsaid") == [("One moment.",)]
        assert not call.protocol.speak(Speech("One more moment.", "filler"))
        call.user("Hello?")
        assert call.protocol.speak(Speech("One moment.", "filler"))

    def test_a_refusal_that_is_reported_twice_hands_back_one_sentence(self) -> None:
        call = Call()
        for text in ("One moment.", "Goodbye."):
            assert call.protocol.speak(Speech(text, "farewell"))
        call.say("Warning", code="INJECT_AGENT_MESSAGE_DURING_USER_SPEECH")
        call.say("InjectionRefused", message="no")
        assert call.host.all("unsaid") == [("One moment.",)]
        call.agent("Goodbye.")
        assert call.host.all("agent_speech") == [("Goodbye.",)]

    def test_a_sentence_that_nothing_follows_is_handed_back_and_blocks_no_other(self) -> None:
        call = Call()
        assert call.protocol.speak(Speech("One moment.", "filler"))
        call.host.clock += 1.9
        call.protocol.hear(FRAME)
        assert not call.host.all("unsaid")
        call.host.clock += 0.2
        call.protocol.hear(FRAME)
        assert call.host.all("unsaid") == [("One moment.",)]
        assert call.protocol.speak(Speech("Goodbye.", "farewell"))
        call.agent("Goodbye.")
        assert call.host.all("agent_speech") == [("Goodbye.",)]

    @pytest.mark.parametrize("second", ["said", "refused", "ignored"])
    def test_a_refusal_that_comes_late_does_not_blame_the_next_sentence(self, second: str) -> None:
        call = Call()
        assert call.protocol.speak(Speech("One moment.", "farewell"))
        call.host.clock += 2.1
        call.protocol.hear(FRAME)
        assert call.protocol.speak(Speech("Goodbye.", "farewell"))
        call.say("Warning", code="INJECT_AGENT_MESSAGE_DURING_USER_SPEECH")
        call.say("InjectionRefused", message="no")
        assert call.host.all("unsaid") == [("One moment.",)]
        if second == "said":
            call.agent("Goodbye.")
            assert call.host.all("agent_speech") == [("Goodbye.",)]
            return
        if second == "refused":
            call.say("InjectionRefused", message="no")
        else:
            call.host.clock += 2.1
            call.protocol.hear(FRAME)
        assert call.host.all("unsaid") == [("One moment.",), ("Goodbye.",)]

    def test_a_sentence_waits_for_the_end_of_the_answer(self) -> None:
        call = Call()
        call.agent("Once upon a time.")
        call.protocol.receive_binary(FRAME)
        assert call.protocol.speak(Speech("Goodbye.", "farewell"))
        call.host.clock += 10
        call.protocol.hear(FRAME)
        call.say("AgentAudioDone")
        call.host.clock += 1.9
        call.protocol.hear(FRAME)
        assert not call.host.all("unsaid")
        call.agent("Goodbye.")
        call.host.clock += 10
        call.protocol.hear(FRAME)
        assert not call.host.all("unsaid")

    def test_a_filler_is_not_said_after_the_answer_that_it_was_to_fill_the_time_before(
        self,
    ) -> None:
        call = Call()
        assert call.protocol.speak(Speech("One moment.", "filler"))
        call.agent("It is sunny.")
        call.say("AgentAudioDone")
        call.host.clock += 3
        call.protocol.hear(FRAME)
        assert not call.host.all("unsaid")

    def test_over_an_answer_that_we_cut_it_speaks_at_once(self) -> None:
        call = Call()
        call.agent("Once upon a time.")
        call.protocol.interrupted((CutItem("", 10),))
        assert call.protocol.speak(Speech("Goodbye.", "filler"))
        assert call.host.sent[-1]["behavior"] == "interrupt"
        call.agent("There was a king.")
        call.agent("Goodbye.")
        call.protocol.receive_binary(FRAME)
        assert call.host.all("agent_words") == [("Once upon a time.",), ("Goodbye.",)]
        assert call.host.all("agent_sound") == [(FRAME, "")]

    def test_the_model_is_told_in_the_callers_place_which_is_not_the_callers_text(self) -> None:
        call = Call()
        assert call.protocol.inform("The table is booked.")
        assert call.host.sent[-1] == {
            "type": "InjectUserMessage",
            "content": "The table is booked.",
        }
        call.say("ConversationText", role="user", content="The table is booked.")
        assert not call.host.all("caller_text")
        call.user("The table is booked.")
        assert call.host.all("caller_text") == [("The table is booked.", 1)]

    def test_the_caller_cannot_be_heard_aside(self) -> None:
        assert not Call().protocol.listen_aside(on=True)


class TestAgain:
    def test_the_conversation_goes_on_where_it_was(self) -> None:
        call = Call()
        call.again(Said("agent", "Hello!"), Said("caller", "Is it sunny?"), owes=True)
        agent = call.introduction["agent"]
        assert "greeting" not in agent
        assert [entry["content"] for entry in agent["context"]["messages"]] == ["Hello!"]
        assert call.host.sent[-1] == {"type": "InjectUserMessage", "content": "Is it sunny?"}

    def test_nothing_is_asked_for_when_nothing_is_owed(self) -> None:
        call = Call()
        call.again(Said("caller", "Hi."), Said("agent", "Hello!"))
        assert call.host.sent[-1]["type"] == "Settings"

    def test_when_the_agent_spoke_last_it_is_asked_to_go_on(self) -> None:
        call = Call()
        call.again(Said("caller", "Is it sunny?"), Said("agent", "Let me see."), owes=True)
        assert call.host.sent[-1] == {"type": "InjectUserMessage", "content": GO_ON}

    def test_results_that_the_lost_connection_was_told_are_part_of_the_conversation(self) -> None:
        call = Call()
        call.user("Is it sunny?")
        call.ask(function("a", '{"city": "Oslo"}'))
        call.protocol.answer_tool(reply("a"))
        call.again(Said("caller", "Is it sunny?"), owes=True)
        (entry,) = call.introduction["agent"]["context"]["messages"]
        ((called),) = entry["function_calls"]
        assert called["arguments"] == '{"city": "Oslo"}'
        assert json.loads(called["response"])["message"] == "It is sunny."
        assert call.host.sent[-1] == {"type": "InjectUserMessage", "content": "Is it sunny?"}

    def test_results_that_come_later_are_told_at_once_and_nothing_is_run_twice(self) -> None:
        call = Call()
        call.user("Is it sunny?")
        call.ask(function("a"), function("b", name="book"))
        call.again(Said("caller", "Is it sunny?"), owes=True)
        assert call.host.sent[-1]["type"] == "Settings"
        history = call.introduction["agent"]["context"]["messages"]
        assert history[-1]["content"] == "Is it sunny?"
        call.protocol.answer_tool(reply("b", "Booked."))
        assert call.host.sent[-1]["type"] == "Settings"
        call.protocol.answer_tool(reply("a"))
        told = call.host.sent[-1]
        assert told["type"] == "InjectUserMessage"
        assert "It is sunny." in told["content"]
        assert "Booked." in told["content"]
        assert not call.host.sent_of("FunctionCallResponse")

    def test_what_was_looked_up_for_an_earlier_turn_is_not_told_again(self) -> None:
        call = Call()
        call.user("Is it sunny?")
        call.ask(function("a"))
        call.protocol.answer_tool(reply("a"))
        call.user("Thank you.")
        call.again(Said("caller", "Thank you."), owes=True)
        assert "context" not in call.introduction["agent"]

    def test_an_error_replaces_the_connection(self) -> None:
        call = Call()
        call.say("Error", code="SERVER_GOING_AWAY", description="bye")
        call.say("Error", code="SERVER_GOING_AWAY", description="bye")
        assert call.host.all("reconnect") == [("Deepgram: SERVER_GOING_AWAY: bye",)]

    def test_a_model_that_cannot_think_is_no_use(self) -> None:
        call = Call()
        call.say("Error", code="FAILED_TO_THINK", description="all failed")
        assert call.host.all("failed") == [("refused", "Deepgram: FAILED_TO_THINK: all failed")]

    def test_a_session_about_to_end_is_replaced_while_nobody_speaks(self) -> None:
        call = Call()
        call.agent("Once upon a time.")
        call.say("Warning", code="MAXIMUM_SESSION_LENGTH_APPROACHING", description="")
        assert not call.host.all("reconnect")
        call.say("AgentAudioDone")
        assert call.host.all("reconnect") == [("MAXIMUM_SESSION_LENGTH_APPROACHING",)]

    @pytest.mark.parametrize(
        ("status", "code", "ready", "kind", "again"),
        [
            (401, None, False, "auth", False),
            (403, None, False, "auth", False),
            (402, None, False, "quota", False),
            (429, None, False, "quota", True),
            (400, None, False, "refused", False),
            (503, None, False, "connect", True),
            (None, None, False, "connect", True),
            (None, 1008, False, "refused", False),
            (None, 1008, True, "dropped", True),
            (None, 1011, True, "dropped", True),
            (None, None, True, "dropped", True),
        ],
    )
    def test_what_a_lost_connection_means(
        self, status: int | None, code: int | None, ready: bool, kind: str, again: bool
    ) -> None:
        lost = Call(ready=ready).protocol.lost(status, code, "gone")
        assert (lost.kind, lost.again) == (kind, again)
        assert lost.reason


class TestUse:
    def test_the_time_of_all_connections_is_accounted_for(self) -> None:
        call = Call()
        call.host.clock += 9
        call.protocol.hear(FRAME)
        assert not call.host.all("used")
        call.host.clock += 2  # also while nobody speaks: a budget is to be kept
        call.protocol.hear(FRAME)
        assert call.host.all("used") == [("gpt-5.4-mini", {"seconds": 11.0})]
        call.host.clock += 5
        call.protocol.lost(None, 1011, "gone")
        call.host.clock += 3
        call.again()
        call.host.clock += 2
        call.protocol.goodbye()
        call.protocol.goodbye()
        assert [amounts["seconds"] for _, amounts in call.host.all("used")] == [11.0, 5.0, 2.0]


_KINDS = (
    *("Welcome", "SettingsApplied", "ConversationText", "UserStartedSpeaking", "AgentThinking"),
    *("AgentStartedSpeaking", "AgentAudioDone", "LatencyReport", "FunctionCallRequest"),
    *("FunctionCallCancelled", "FunctionCallResponse", "InjectionRefused", "History", "Warning"),
    *("Error", "Surprise"),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("id", "name", "arguments", "client_side")) | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
_FUNCTION = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(("a", "b")) | _JSON,
        "name": st.just("weather") | _JSON,
        "arguments": st.sampled_from(("{}", "{", "")) | _JSON,
        "client_side": st.booleans() | _JSON,
    },
)
_MESSAGE = st.fixed_dictionaries(
    {"type": st.sampled_from(_KINDS)},
    optional={
        "role": st.sampled_from(("user", "assistant")) | _JSON,
        "content": st.text(max_size=10) | _JSON,
        "functions": st.lists(_FUNCTION | _JSON, max_size=3) | _JSON,
        "code": st.sampled_from(("INTERNAL_SERVER_ERROR", "FAILED_TO_THINK")) | _JSON,
        "description": _JSON,
    },
)
_ARRIVING = st.one_of(
    st.binary(max_size=40),
    _JSON.map(lambda value: json.dumps(value).encode()),
    _MESSAGE.map(lambda value: json.dumps(value).encode()),
)


class TestAnything:
    @given(
        st.lists(_ARRIVING | st.binary(max_size=8).map(lambda data: (data,)), max_size=15),
        st.booleans(),
    )
    def test_whatever_arrives_in_whatever_order_nothing_is_raised(
        self, arriving: list[bytes | tuple[bytes]], ready: bool
    ) -> None:
        call = Call(ready=ready)
        asked = 0
        for message in arriving:
            told = len(call.host.told)
            if isinstance(message, tuple):
                call.protocol.receive_binary(message[0])
                continue
            call.protocol.receive_text(message)
            try:
                event = json.loads(message)
            except ValueError:
                event = None
            if not isinstance(event, dict) or event.get("type") not in _KINDS:
                assert call.host.told[told:] == [("ignored", *_outcome(call.host.told[-1]))]
            for call_id, *_ in call.host.all("tool_asked")[asked:]:
                asked += 1
                call.protocol.answer_tool(reply(call_id))
        ids = [entry[0] for entry in call.host.all("tool_asked")]
        assert len(ids) == len(set(ids))
        answered = [message["id"] for message in call.host.sent_of("FunctionCallResponse")]
        assert len(answered) == len(set(answered))
        if not call.host.all("ready"):
            assert not call.host.sound
            assert {message["type"] for message in call.host.sent} <= {"Settings"}


def _outcome(entry: tuple[Any, ...]) -> tuple[str, str]:
    assert entry[0] == "ignored"
    assert entry[1] in ("malformed", "unknown")
    return entry[1], entry[2]


def test_notes_go_with_the_whole_prompt_which_may_be_replaced() -> None:
    call = Call()
    [settings] = call.host.sent_of("Settings")
    prompt = settings["agent"]["think"]["prompt"]
    assert call.protocol.take_note("Offer Thursday.")
    assert call.protocol.take_note("Or Friday.")
    assert [message["prompt"] for message in call.host.sent_of("UpdatePrompt")] == [
        f"{prompt}\n\nOffer Thursday.",
        f"{prompt}\n\nOffer Thursday.\n\nOr Friday.",
    ]
    assert not call.host.sent_of("InjectUserMessage")
