"""Gemini Live: what its messages become, what it is told, and what a lost connection costs."""

from __future__ import annotations

import dataclasses
import json
from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.vendors.host import RecordingHost, a_session

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import Resumed
from cordboard.audio.format import SLIN_8K, SLIN_16K, AudioFormat
from cordboard.audio.resample import resample_pcm
from cordboard.tools.payload import DATA_NOTE
from cordboard.tools.tool import Effects, Limits, Status, ToolReply, ToolSpec
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard.vendors.gemini.live.errors import amounts_of, seconds_left
from cordboard.vendors.gemini.live.protocol import GO_ON, GeminiProtocol

PLACE = {
    "type": "object",
    "properties": {"type": {"type": ["string", "null"]}, "days": {"type": "array"}},
    "required": [],
}
SLOW = Limits(timeout_ms=30_000)
WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", PLACE, limits=SLOW)
NEWS = ToolSpec("news", "mcp", "Tells the news.", {"type": "object"}, limits=SLOW)
BOOK = dataclasses.replace(NEWS, name="book", effects=Effects.DESTRUCTIVE)
PAY = dataclasses.replace(BOOK, name="pay")
TOOLS = (WEATHER, NEWS, BOOK, PAY)


def settings(**values: Any) -> GeminiLiveProvider:
    return GeminiLiveProvider.model_validate({"type": "gemini_live", **values})


def reply(call_id: str, message: str = "It is sunny.", **values: Any) -> ToolReply:
    return ToolReply(call_id, "weather", Status.OK, message, **values)


def tone(ms: int, rate: int) -> bytes:
    times = np.arange(rate * ms // 1000) / rate
    return (8000 * np.sin(2 * np.pi * 440 * times)).astype("<i2").tobytes()


def spoken(pcm: bytes, rate: int = 24_000) -> dict[str, Any]:
    blob = {"mimeType": f"audio/pcm;rate={rate}", "data": b64encode(pcm).decode()}
    return {"modelTurn": {"parts": [{"inlineData": blob}]}}


class Call:
    """A protocol with its fake host."""

    def __init__(
        self,
        *,
        ready: bool = True,
        greeting: str = "",
        audio: AudioFormat = SLIN_16K,
        history: tuple[Said, ...] = (),
        **values: Any,
    ) -> None:
        self.host = RecordingHost()
        self.protocol = GeminiProtocol(settings(**values), "the-key")
        self.speaking = False
        session = a_session(greeting=greeting, toolbox=TOOLS, audio_format=audio, history=history)
        self.session = dataclasses.replace(session, speaking=lambda: self.speaking)
        self.protocol.begin(self.session, self.host, None)
        if ready:
            self.say(setupComplete={})

    def say(self, **message: Any) -> None:
        self.protocol.receive_binary(json.dumps(message).encode())

    def content(self, **content: Any) -> None:
        self.say(serverContent=content)

    def caller(self, text: str, **more: Any) -> None:
        self.content(inputTranscription={"text": text, **more})

    def ask(self, *calls: tuple[str, str]) -> None:
        functions = [{"id": call_id, "name": name, "args": {"a": 1}} for call_id, name in calls]
        self.say(toolCall={"functionCalls": functions})

    def handle(self, name: str) -> None:
        self.say(sessionResumptionUpdate={"newHandle": name, "resumable": True})

    def again(self, *, owes: bool = False, history: tuple[Said, ...] = ()) -> None:
        """Another connection; only what is sent on it is kept."""
        self.host.sent.clear()
        self.protocol.begin(self.session, self.host, Resumed(history, owes))
        self.say(setupComplete={})

    def sent(self, kind: str) -> list[Any]:
        return [message[kind] for message in self.host.sent if kind in message]

    def answers(self) -> list[Any]:
        return [each for sent in self.sent("toolResponse") for each in sent["functionResponses"]]

    def words(self) -> list[tuple[str, str]]:
        """What the model was told in words on this connection: role and text."""
        turns = [turn for sent in self.sent("clientContent") for turn in sent["turns"]]
        return [(turn["role"], turn["parts"][0]["text"]) for turn in turns]

    def heard(self) -> int:
        """Messages with the caller's sound."""
        return sum("audio" in message for message in self.sent("realtimeInput"))

    @property
    def names(self) -> list[str]:
        """The reports, but those of words so far."""
        return [entry[0] for entry in self.host.told if entry[0] != "caller_partial"]

    @property
    def ignored(self) -> list[str]:
        return [why for why, _ in self.host.all("ignored")]


# Set-up.


async def test_the_key_is_in_a_header_and_nowhere_else() -> None:
    call = Call(ready=False)
    address = await call.protocol.address()
    assert address.url == (
        "wss://generativelanguage.googleapis.com/ws/"
        "google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
    )
    assert address.headers == {"x-goog-api-key": "the-key"}
    assert "the-key" not in json.dumps(call.host.sent)
    local = GeminiProtocol(settings(base_url="https://localhost:9/x", api_version="v1"), "k")
    assert (await local.address()).url.startswith("wss://localhost:9/x/ws/google.ai.gen")
    assert ".v1." in (await local.address()).url


def test_the_setup_says_what_is_configured_and_nothing_that_closes_the_call() -> None:
    call = Call(
        ready=False,
        voice_name="Kore",
        temperature=0.4,
        realtime_input_config={"automatic_activity_detection": {"silence_duration_ms": 300}},
        extra={"generationConfig": {"seed": 7}},
    )
    setup = call.host.sent[0]["setup"]
    assert setup["model"] == "models/gemini-3.8-live"
    voice = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}
    assert setup["generationConfig"] == {
        "responseModalities": ["AUDIO"],
        "speechConfig": voice,
        "temperature": 0.4,
        "seed": 7,
    }
    assert DATA_NOTE in setup["systemInstruction"]["parts"][0]["text"]
    assert setup["sessionResumption"] == {}
    assert setup["contextWindowCompression"] == {"slidingWindow": {}}
    detection = {"silenceDurationMs": 300}
    assert setup["realtimeInputConfig"] == {"automaticActivityDetection": detection}
    declared = {each["name"]: each for each in setup["tools"][0]["functionDeclarations"]}
    assert declared["weather"]["behavior"] == "NON_BLOCKING"
    assert declared["book"]["behavior"] == "BLOCKING"
    parameters = declared["weather"]["parameters"]
    assert parameters["type"] == "OBJECT"
    assert parameters["properties"]["type"] == {"type": "STRING", "nullable": True}
    assert "required" not in parameters
    assert "parameters" not in declared["news"]
    assert "toolConfig" not in setup


@pytest.mark.parametrize(
    "values",
    [
        {"voice": "Kore"},
        {"language_code": "en-US", "model": "gemini-2.5-flash-native-audio"},
        {"realtime_input_config": {"automatic_activity_detection": {"disabled": True}}},
        {"temperature": 3},
        {"proactivity": {"proactive_audio": True}},
        {"thinking_config": {"thinking_level": "low"}},
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(**values)


def test_the_greeting_is_asked_for_word_for_word_once_the_session_is_accepted() -> None:
    call = Call(ready=False, greeting="Good day, this is Ava.")
    assert not call.sent("clientContent")
    call.say(setupComplete={})
    [content] = call.sent("clientContent")
    assert content["turnComplete"] is True
    assert "“Good day, this is Ava.”" in content["turns"][0]["parts"][0]["text"]
    assert call.names == ["ready"]


def test_nothing_counts_before_the_session_is_accepted() -> None:
    call = Call(ready=False)
    call.content(turnComplete=True)
    assert call.ignored == ["out_of_order"]
    call.say(setupComplete={})
    call.say(setupComplete={})
    assert call.ignored[-1] == "duplicate"
    assert call.names.count("ready") == 1


# Sound.


@pytest.mark.parametrize(("audio", "rate"), [(SLIN_16K, 16_000), (SLIN_8K, 8_000)])
def test_the_callers_sound_arrives_at_16_khz_without_seams(audio: AudioFormat, rate: int) -> None:
    call = Call(audio=audio)
    pcm = tone(400, rate)
    size = audio.frame_bytes
    for start in range(0, len(pcm), size):
        call.protocol.hear(pcm[start : start + size])
    blobs = [message["audio"] for message in call.sent("realtimeInput")]
    assert {blob["mimeType"] for blob in blobs} == {"audio/pcm;rate=16000"}
    got = np.frombuffer(b"".join(b64decode(blob["data"]) for blob in blobs), "<i2").astype(int)
    wanted = np.frombuffer(tone(400, 16_000), "<i2").astype(int)[: len(got)]
    assert len(got) > 0.97 * 16 * 400
    assert np.abs(got - wanted)[200:-200].max() < 400  # a filter begun anew clicks by thousands


@pytest.mark.parametrize("audio", [SLIN_16K, SLIN_8K])
def test_an_answer_has_one_filter_and_ends_whole(audio: AudioFormat) -> None:
    call = Call(audio=audio)
    pcm = tone(500, 24_000)
    for start in range(0, len(pcm), 1_234):
        call.content(**spoken(pcm[start : start + 1_234]))
    call.content(generationComplete=True)
    call.content(turnComplete=True)
    got = b"".join(sound for sound, _ in call.host.all("agent_sound"))
    assert got == resample_pcm(pcm, 24_000, audio.rate)
    assert call.names.count("answer_done") == 1


def test_what_is_left_of_an_answer_that_was_cut_is_not_heard_in_the_next() -> None:
    call = Call(audio=SLIN_8K)
    call.content(**spoken(tone(200, 24_000)))
    call.content(interrupted=True)
    call.content(**spoken(tone(40, 24_000)))
    call.content(outputTranscription={"text": " trailing"})
    assert call.ignored == ["late", "late"]
    call.content(turnComplete=True)
    call.host.told.clear()
    pcm = tone(300, 24_000)
    call.content(**spoken(pcm), generationComplete=True)
    got = b"".join(sound for sound, _ in call.host.all("agent_sound"))
    assert got == resample_pcm(pcm, 24_000, 8_000)


# Turns.


def test_a_turn_is_its_words_and_ends_when_the_answer_begins() -> None:
    call = Call()
    call.caller(" What's")
    call.caller(" the weather?")
    call.content(**spoken(tone(20, 24_000)))
    call.content(outputTranscription={"text": "Sunny."})
    call.content(generationComplete=True)
    call.content(turnComplete=True, interactionStatus="IDLE")
    assert call.names == [
        *("ready", "caller_started", "caller_stopped", "caller_text"),
        *("agent_sound", "agent_words", "agent_sound", "answer_done"),
    ]
    assert call.host.all("caller_text") == [(" What's the weather?", 1)]
    assert call.host.all("caller_partial") == [(" What's",), (" What's the weather?",)]


def test_the_services_own_word_on_the_end_of_a_turn_counts() -> None:
    call = Call()
    call.say(voiceActivity={"voiceActivityType": "ACTIVITY_START"})
    call.say(voiceActivity={"voiceActivityType": "ACTIVITY_END"})
    assert call.names == ["ready", "caller_started", "caller_stopped"]
    call.caller("Hello?")
    call.content(**spoken(tone(20, 24_000)))
    assert call.host.all("caller_text") == [("Hello?", 1)]


def test_words_that_come_after_the_answer_began_belong_to_its_turn() -> None:
    call = Call()
    call.say(voiceActivity={"voiceActivityType": "ACTIVITY_START"})
    call.content(**spoken(tone(20, 24_000)))
    call.caller("Good evening.")
    call.content(generationComplete=True)
    call.content(turnComplete=True)
    assert call.host.all("caller_text") == [("Good evening.", 1)]
    assert call.names.count("caller_started") == 1


def test_a_turn_that_the_model_leaves_unanswered_is_over_all_the_same() -> None:
    call = Call()
    call.caller("Mind the dog, Peter!")
    call.content(turnComplete=True)
    assert call.names[-3:] == ["caller_stopped", "caller_text", "answer_done"]


def test_a_service_that_falls_silent_after_a_turn_owes_an_answer() -> None:
    call = Call()
    call.caller("Anybody there?")
    for _ in range(3):
        call.host.clock += 1.0
        call.protocol.hear(bytes(640))
    assert "caller_stopped" not in call.names
    call.host.clock += 1.1
    call.protocol.hear(bytes(640))
    assert call.names[-2:] == ["caller_stopped", "caller_text"]


def test_barge_in_is_the_services_word_and_the_new_turn_has_its_words() -> None:
    call = Call()
    call.content(**spoken(tone(100, 24_000)))
    call.host.clock += 2.0
    call.caller("No, ")
    assert "caller_started" not in call.names
    call.content(interrupted=True)
    assert call.names[-2:] == ["interrupted", "caller_started"]
    call.content(turnComplete=True)
    call.caller("the other one.")
    call.host.clock += 2.0
    call.content(**spoken(tone(100, 24_000)))
    assert call.host.all("caller_text") == [("No, the other one.", 1)]
    assert "answer_done" not in call.names


def test_words_over_an_answer_that_is_complete_but_still_heard_cut_it() -> None:
    call = Call()
    call.content(**spoken(tone(100, 24_000)), generationComplete=True, turnComplete=True)
    call.speaking = True
    call.caller("Stop")
    assert call.names[-1] == "caller_started"  # the shell cuts by this


def test_an_interruption_of_nothing_is_ignored() -> None:
    call = Call()
    call.content(interrupted=True)
    assert call.ignored == ["out_of_order"]
    call.content(**spoken(tone(20, 24_000)))
    assert call.names[-1] == "agent_sound"


def test_a_call_that_the_model_could_not_write_is_asked_for_again_but_not_for_ever() -> None:
    call = Call()
    call.caller("Book it.", finished=True)
    for _ in range(3):
        call.content(turnComplete=True, turnCompleteReason="MALFORMED_FUNCTION_CALL")
    assert len(call.words()) == 2
    assert call.names[-1] == "answer_done"


def test_an_answer_that_the_service_gives_up_is_broken_off_unless_it_was_whole() -> None:
    call = Call()
    call.content(**spoken(tone(100, 24_000)))
    call.content(turnComplete=True, turnCompleteReason="GENERATED_AUDIO_SAFETY")
    assert [n for n in call.names if n.startswith("answer_")] == ["answer_broke", "answer_done"]
    call.content(**spoken(tone(100, 24_000)), generationComplete=True)
    call.content(turnComplete=True, turnCompleteReason="RESPONSE_REJECTED")
    call.content(**spoken(tone(100, 24_000)))
    call.content(turnComplete=True, turnCompleteReason="NEED_MORE_INPUT")
    assert call.names.count("answer_broke") == 1
    assert call.names.count("answer_done") == 3


# Tools.


def test_every_function_call_of_a_message_is_asked_once() -> None:
    call = Call()
    call.caller("Weather and news?")
    call.ask(("1", "weather"), ("2", "news"))
    call.ask(("1", "weather"))
    assert call.host.all("tool_asked") == [("1", "weather", {"a": 1}), ("2", "news", {"a": 1})]
    assert call.ignored == ["duplicate"]
    assert call.names.index("caller_text") < call.names.index("tool_asked")


def test_answers_beside_the_conversation_go_at_once_and_make_it_speak_once() -> None:
    call = Call()
    call.ask(("1", "weather"), ("2", "news"))
    call.protocol.answer_tool(reply("2", "All quiet."))
    call.protocol.answer_tool(reply("1"))
    assert [(each["id"], each["scheduling"]) for each in call.answers()] == [
        ("2", "SILENT"),
        ("1", "INTERRUPT"),
    ]
    assert call.answers()[0]["response"] == {"status": "ok", "message": "All quiet."}


@pytest.mark.parametrize(
    ("behavior", "waits_for"),
    [
        ("by_timeout", {"book", "pay"}),
        ("blocking", {"weather", "news", "book", "pay"}),
        ("non_blocking", set()),
        ("by_effects", {"book", "pay"}),
    ],
)
def test_the_model_waits_for_the_tools_that_the_configuration_says(
    behavior: str, waits_for: set[str]
) -> None:
    [setup] = Call(ready=False, function_behavior=behavior).sent("setup")
    declared = setup["tools"][0]["functionDeclarations"]
    assert {each["name"] for each in declared if each["behavior"] == "BLOCKING"} == waits_for


def test_a_look_up_is_waited_for_unless_it_is_slow() -> None:
    quick = dataclasses.replace(WEATHER, limits=Limits())
    assert quick.effects is Effects.READ_ONLY
    host, protocol = RecordingHost(), GeminiProtocol(settings(), "k")
    protocol.begin(a_session(toolbox=(quick, NEWS), audio_format=SLIN_16K), host, None)
    first, second = host.sent[0]["setup"]["tools"][0]["functionDeclarations"]
    assert (first["behavior"], second["behavior"]) == ("BLOCKING", "NON_BLOCKING")


def test_extended_thinking_has_a_level_and_never_waits_and_takes_no_scheduling() -> None:
    model = {"model": "gemini-3.8-live-extended-thinking"}
    call = Call(function_behavior="blocking", **model)
    [setup] = call.sent("setup")
    assert setup["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "LOW"}
    declared = setup["tools"][0]["functionDeclarations"]
    assert {each["behavior"] for each in declared} == {"NON_BLOCKING"}
    call.ask(("1", "weather"), ("2", "book"))
    call.protocol.hear(bytes(640))
    assert call.heard() == 1
    call.protocol.answer_tool(reply("2"))
    assert not call.answers()
    call.protocol.answer_tool(reply("1"))
    assert [set(each) for each in call.answers()] == [{"id", "name", "response"}] * 2
    more = Call(ready=False, thinking_config={"thinking_level": "high"}, **model).sent("setup")
    assert more[0]["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "HIGH"}


@pytest.mark.parametrize("model", ["gemini-2.5-flash-native-audio", "gemini-3.1-flash-live"])
def test_older_models_wait_without_a_word_about_it(model: str) -> None:
    [setup] = Call(ready=False, model=model).sent("setup")
    declared = {each["name"]: each for each in setup["tools"][0]["functionDeclarations"]}
    assert "behavior" not in declared["book"]
    assert declared["weather"]["behavior"] == "NON_BLOCKING"


def test_an_answer_that_a_result_cuts_has_not_told_the_result() -> None:
    call = Call()
    call.ask(("1", "weather"))
    call.content(**spoken(tone(100, 24_000)), outputTranscription={"text": "I think"})
    call.protocol.answer_tool(reply("1", "It is foggy."))
    call.content(interrupted=True)
    call.content(turnComplete=True)
    assert not call.protocol.inform("The table is booked.")  # it would cut the answer
    lost_1011(call)
    call.again(owes=True)
    assert "It is foggy." in call.words()[0][1]
    call.content(**spoken(tone(100, 24_000)), outputTranscription={"text": "Foggy."})
    call.content(generationComplete=True)
    call.content(turnComplete=True)
    lost_1011(call)
    call.again(owes=True)
    assert call.words() == [("user", GO_ON)]


def test_answers_that_the_model_waits_for_go_together() -> None:
    call = Call()
    call.ask(("1", "book"), ("2", "pay"))
    call.protocol.answer_tool(reply("1"))
    assert not call.answers()
    call.protocol.answer_tool(reply("2"))
    assert [each["id"] for each in call.answers()] == ["1", "2"]
    assert "scheduling" not in call.answers()[0]
    assert len(call.sent("toolResponse")) == 1


def test_words_before_a_tool_that_the_model_waits_for_are_an_answer_that_paused() -> None:
    call = Call()
    call.content(**spoken(tone(100, 24_000)), outputTranscription={"text": "One moment."})
    call.ask(("1", "book"))
    assert call.names[-3:] == ["tool_asked", "agent_sound", "answer_done"]
    call.protocol.answer_tool(reply("1"))
    call.content(**spoken(tone(100, 24_000)), generationComplete=True)
    call.content(turnComplete=True)
    assert call.names.count("answer_done") == 2


def test_the_caller_is_not_sent_while_the_model_waits_and_nothing_is_made_up_for() -> None:
    call = Call(audio=SLIN_8K)
    for _ in range(5):
        call.protocol.hear(bytes(320))
    before = call.heard()
    call.ask(("1", "book"))
    for _ in range(50):
        call.host.clock += 0.02
        call.protocol.hear(bytes(320))
    assert call.heard() == before
    call.protocol.answer_tool(reply("1"))
    call.protocol.hear(bytes(320))
    assert call.heard() == before + 1


def test_the_caller_is_sent_again_when_the_answer_never_comes() -> None:
    call = Call()
    call.ask(("1", "book"))
    call.host.clock += 9.9
    call.protocol.hear(bytes(640))
    assert call.heard() == 0
    call.host.clock += 0.2
    call.protocol.hear(bytes(640))
    assert call.heard() == 1


def test_the_caller_is_sent_while_a_tool_runs_beside_the_conversation() -> None:
    call = Call()
    call.ask(("1", "weather"))
    call.protocol.hear(bytes(640))
    assert call.heard() == 1


def test_a_call_that_was_taken_back_is_never_answered() -> None:
    call = Call()
    call.ask(("1", "book"), ("2", "pay"))
    call.protocol.answer_tool(reply("1"))
    call.say(toolCallCancellation={"ids": ["2", "9"]})
    assert call.host.all("tool_cancelled") == [("2",)]
    assert [each["id"] for each in call.answers()] == ["1"]
    call.protocol.answer_tool(reply("2"))
    assert call.ignored == ["late", "late"]
    assert len(call.answers()) == 1
    call.protocol.hear(bytes(640))
    assert call.heard() == 1


def test_data_of_results_may_be_allowed_and_is_left_out_where_there_are_words() -> None:
    assert GeminiProtocol(settings(), "k").payload.data == "wordless"
    allowed = GeminiProtocol(settings(data="allow"), "k").payload
    assert (allowed.data, allowed.max_bytes) == ("always", 8_192)
    call = Call()
    call.ask(("1", "weather"))
    call.protocol.answer_tool(reply("1", "I found 2 entries.", data={"rows": [1, 2]}))
    assert call.answers()[0]["response"]["data"] == {"rows": [1, 2]}


def test_an_answer_is_never_empty() -> None:
    call = Call()
    call.ask(("1", "weather"))
    call.protocol.answer_tool(reply("1", ""))
    (empty,) = (each["response"] for each in call.answers())
    assert empty["message"]
    assert empty["retryable"] is False


def test_a_call_without_a_name_is_answered_and_one_without_an_id_is_not_asked() -> None:
    call = Call()
    call.say(toolCall={"functionCalls": [{"id": "1"}, {"name": "weather"}, 5]})
    assert call.answers()[0]["response"]["status"] == "error"
    assert call.ignored == ["malformed"] * 3
    assert "tool_asked" not in call.names


def test_what_comes_late_is_told_only_when_it_cuts_nothing() -> None:
    call = Call()
    call.content(**spoken(tone(20, 24_000)))
    assert call.protocol.inform("The table is booked.") is False
    call.content(generationComplete=True)
    call.content(turnComplete=True)
    assert call.protocol.inform("The table is booked.") is True
    assert "The table is booked." in call.words()[0][1]
    assert call.protocol.inform("And more.") is False


# Lost connections.


def lost_1011(call: Call) -> None:
    loss = call.protocol.lost(None, 1011, "received 1011 Internal error")
    assert (loss.kind, loss.again) == ("dropped", True)


def test_an_answer_that_came_while_disconnected_is_told_in_words_to_who_forgot_the_call() -> None:
    call = Call()
    call.handle("h-1")
    call.caller("Book a table.")
    call.ask(("1", "book"))
    call.say(sessionResumptionUpdate={"resumable": False})
    lost_1011(call)
    call.again(owes=True)
    assert call.sent("setup")[0]["sessionResumption"] == {"handle": "h-1"}
    assert "historyConfig" not in call.sent("setup")[0]
    [closed] = call.answers()  # otherwise the words would only end the exchange that was lost
    assert (closed["id"], closed["response"]["status"]) == ("1", "error")
    assert not call.words()
    call.content(turnComplete=True)
    assert "answer_done" not in call.names
    assert call.words() == [("user", "Book a table.")]
    assert call.sent("clientContent")[0]["turnComplete"] is False  # the answer comes with it
    call.protocol.answer_tool(reply("1", "It is booked."))
    assert len(call.answers()) == 1
    assert "It is booked." in call.words()[-1][1]
    assert call.sent("clientContent")[-1]["turnComplete"] is True


def test_an_exchange_that_does_not_end_is_waited_for_a_second_and_no_sound_is_lost() -> None:
    call = Call()
    call.handle("h-1")
    call.caller("Book a table.")
    call.ask(("1", "book"))
    lost_1011(call)
    call.again(owes=True)
    for _ in range(50):
        call.protocol.hear(bytes(640))
        call.host.clock += 0.02
    assert call.heard() == 0
    assert not call.words()
    call.host.clock += 0.02
    call.protocol.hear(bytes(640))
    assert call.words() == [("user", "Book a table.")]
    assert call.heard() == 51


def test_the_kept_sound_is_not_heard_by_a_model_that_waits_for_a_tool() -> None:
    call = Call()
    call.ask(("1", "book"))
    call.handle("h-1")
    call.ask(("2", "pay"))
    lost_1011(call)
    call.again()
    call.protocol.hear(bytes(640))
    call.content(turnComplete=True)
    call.protocol.hear(bytes(640))
    assert call.heard() == 0
    call.protocol.answer_tool(reply("1"))
    call.protocol.hear(bytes(640))
    assert call.heard() == 1


def test_an_exchange_that_has_ended_is_not_ended_again() -> None:
    call = Call()
    call.handle("h-1")
    call.ask(("1", "book"))
    lost_1011(call)
    call.again()
    call.content(turnComplete=True)
    call.handle("h-2")
    lost_1011(call)
    call.again()
    assert not call.answers()


def test_a_model_that_ignores_the_lost_exchange_is_told_at_once() -> None:
    call = Call(model="gemini-2.5-flash-native-audio-preview-12-2025")
    call.handle("h-1")
    call.caller("Book a table.")
    call.ask(("1", "book"))
    lost_1011(call)
    call.again(owes=True)
    assert not call.answers()
    assert call.words() == [("user", "Book a table.")]


def test_an_answer_is_given_by_its_id_to_who_still_waits_for_it() -> None:
    call = Call()
    call.ask(("1", "weather"))
    call.handle("h-2")
    lost_1011(call)
    call.again()
    call.protocol.answer_tool(reply("1"))
    assert [each["id"] for each in call.answers()] == ["1"]
    assert not call.words()


def test_an_answer_that_may_not_have_arrived_is_given_again() -> None:
    call = Call()
    call.ask(("1", "weather"))
    call.handle("h-2")
    call.protocol.answer_tool(reply("1"))
    lost_1011(call)
    call.again(owes=True)
    assert [(each["id"], each["scheduling"]) for each in call.answers()] == [("1", "INTERRUPT")]
    assert not call.words()
    call.content(**spoken(tone(20, 24_000)))
    call.handle("h-3")
    lost_1011(call)
    call.again()
    assert not call.answers()


def test_an_answer_to_a_forgotten_call_that_was_given_is_told_again_with_the_question() -> None:
    call = Call()
    call.handle("h-1")
    call.caller("Book it.")
    call.ask(("1", "book"))
    call.protocol.answer_tool(reply("1", "Booked."))
    lost_1011(call)
    call.again(owes=True)
    [(role, text)] = call.words()
    assert role == "user"
    assert text.startswith("Book it.\n[You had called the function book")
    assert "Booked." in text
    assert text.endswith(GO_ON)
    assert call.sent("clientContent")[0]["turnComplete"] is True


def test_what_a_new_handle_may_not_know_yet_is_told_again() -> None:
    call = Call()
    call.handle("h-1")
    call.caller("Book it.")
    lost_1011(call)
    call.again(owes=True)
    call.handle("h-2")  # given out before the service has read what we told it
    lost_1011(call)
    call.again(owes=True)
    assert call.sent("setup")[0]["sessionResumption"] == {"handle": "h-2"}
    assert call.words() == [("user", f"Book it.\n{GO_ON}")]


def test_answers_taken_back_before_the_loss_are_not_given_after_it() -> None:
    call = Call()
    call.ask(("1", "weather"))
    call.handle("h-1")
    call.say(toolCallCancellation={"ids": ["1"]})
    lost_1011(call)
    call.again()
    call.protocol.answer_tool(reply("1"))
    assert not call.answers()
    assert not call.words()


@pytest.mark.parametrize("code", [1007, 1008])
def test_a_handle_that_is_refused_gives_way_to_a_new_session_with_all_that_was_said(
    code: int,
) -> None:
    call = Call()
    call.handle("h-1")
    call.caller("Book it.")
    call.ask(("1", "book"))
    call.protocol.answer_tool(reply("1", "Booked."))
    lost_1011(call)
    history = (Said("agent", "Hello!"), Said("caller", "Book it."))
    call.protocol.begin(call.session, call.host, Resumed(history, True))
    loss = call.protocol.lost(None, code, "invalid session handle")
    assert loss.again
    call.again(owes=True, history=history)
    setup = call.sent("setup")[0]
    assert setup["sessionResumption"] == {}
    assert setup["historyConfig"] == {"initialHistoryInClientContent": True}
    seed, prompt = call.sent("clientContent")
    assert seed["turnComplete"] is True
    assert [turn["role"] for turn in seed["turns"]] == ["user", "model", "user"]
    assert "Booked." in prompt["turns"][0]["parts"][0]["text"]
    assert prompt["turnComplete"] is True


def test_a_configuration_that_is_refused_is_not_tried_again() -> None:
    call = Call(ready=False)
    loss = call.protocol.lost(None, 1008, "models/x is not found for API version v1")
    assert (loss.kind, loss.again) == ("refused", False)


def test_proactivity_is_sent_to_the_version_that_takes_it_and_never_turned_off() -> None:
    alpha = {"api_version": "v1alpha"}
    [sent] = Call(ready=False, proactivity={"proactive_audio": True}, **alpha).sent("setup")
    assert sent["proactivity"] == {"proactiveAudio": True}
    for values in ({}, {"proactivity": {"proactive_audio": False}, **alpha}):
        assert "proactivity" not in Call(ready=False, **values).sent("setup")[0]


@pytest.mark.parametrize(
    ("status", "code", "problem"),
    [
        (404, None, "not found"),
        (None, 1007, "Unknown name \"historyConfig\" at 'setup'"),
        (None, 1008, "models/x is not found for API version v1, or is not supported"),
    ],
)
def test_a_refusal_that_the_version_may_explain_names_it(
    status: int | None, code: int | None, problem: str
) -> None:
    loss = Call(ready=False, api_version="v1").protocol.lost(status, code, problem)
    assert (loss.kind, loss.again) == ("refused", False)
    assert problem in loss.reason
    assert "`api_version: v1`" in loss.reason
    other = Call(ready=False).protocol.lost(None, 1007, "Requested voice X is not available")
    assert "api_version" not in other.reason


def test_a_session_that_is_closed_again_and_again_at_once_is_given_up() -> None:
    call = Call()
    call.host.clock += 1.0
    assert call.protocol.lost(None, 1007, "invalid argument").again
    call.again()
    call.host.clock += 1.0
    loss = call.protocol.lost(None, 1007, "invalid argument")
    assert (loss.kind, loss.again) == ("refused", False)


def test_a_handle_with_which_nothing_works_is_given_up_first() -> None:
    call = Call()
    for _ in range(2):
        call.handle("h-1")
        assert call.protocol.lost(None, 1008, "policy").again
        call.again()
    assert call.sent("setup")[0]["sessionResumption"] == {}


@pytest.mark.parametrize(
    ("status", "code", "problem", "kind", "again"),
    [
        (401, None, "refused", "auth", False),
        (403, None, "refused", "auth", False),
        (429, None, "too many requests", "quota", True),
        (503, None, "unavailable", "connect", True),
        (404, None, "not found", "refused", False),
        (None, 1007, "API key not valid. Please pass a valid API key.", "auth", False),
        (None, 1011, "You exceeded your current quota", "quota", False),
        (None, 1006, "abnormal", "dropped", True),
        (None, None, "connection reset", "dropped", True),
        (None, 1000, "bye", "dropped", True),
    ],
)
def test_what_a_loss_means(
    status: int | None, code: int | None, problem: str, kind: str, again: bool
) -> None:
    loss = Call().protocol.lost(status, code, problem)
    assert (loss.kind, loss.again) == (kind, again)


def test_a_first_connection_that_is_refused_needs_no_session() -> None:
    protocol = GeminiProtocol(settings(), "k")
    assert protocol.lost(503, None, "busy").again


def test_a_turn_cut_short_by_the_loss_is_answered_on_the_next_connection() -> None:
    call = Call()
    call.handle("h-1")
    call.caller("What time do you")
    lost_1011(call)
    assert call.names[-2:] == ["caller_stopped", "caller_text"]
    call.again(owes=True)
    assert call.words() == [("user", f"What time do you\n{GO_ON}")]


def test_a_greeting_that_was_lost_is_asked_for_again() -> None:
    call = Call(greeting="Good day.")
    lost_1011(call)
    call.again(owes=True)
    assert "“Good day.”" in call.words()[0][1]
    call.content(**spoken(tone(20, 24_000)))
    lost_1011(call)
    call.again(owes=True)
    assert call.words() == [("user", GO_ON)]


def test_a_call_taken_over_from_another_agent_goes_on_where_it_was() -> None:
    history = (Said("caller", "Hi"), Said("agent", "Hello!"), Said("caller", "The weather?"))
    host = RecordingHost()
    protocol = GeminiProtocol(settings(), "k")
    session = a_session(greeting="Hello!", audio_format=SLIN_16K, history=history)
    protocol.begin(session, host, Resumed(history, True))
    protocol.receive_text(b'{"setupComplete": {}}')
    contents = [message["clientContent"] for message in host.sent[1:]]
    assert [turn["role"] for turn in contents[0]["turns"]] == ["user", "model", "user"]
    assert contents[1]["turns"][0]["parts"][0]["text"] == GO_ON


def test_a_service_whose_greeting_was_played_from_memory_knows_it_and_says_no_other() -> None:
    host = RecordingHost()
    protocol = GeminiProtocol(settings(), "k")
    session = a_session(greeting="Good day.", audio_format=SLIN_16K)
    protocol.begin(session, host, Resumed((Said("agent", "Good day."),), False))
    protocol.receive_text(b'{"setupComplete": {}}')
    [message] = host.sent
    assert "“Good day.”" in message["setup"]["systemInstruction"]["parts"][0]["text"]
    assert "historyConfig" not in message["setup"]


def test_the_connection_is_changed_between_turns_when_it_is_to_end() -> None:
    call = Call()
    call.content(**spoken(tone(20, 24_000)))
    call.say(goAway={"timeLeft": "10s"})
    call.protocol.hear(bytes(640))
    assert "reconnect" not in call.names
    call.content(generationComplete=True)
    call.content(turnComplete=True)
    call.protocol.hear(bytes(640))
    call.protocol.hear(bytes(640))
    assert call.names.count("reconnect") == 1


def test_the_connection_is_changed_in_the_middle_when_there_is_no_time() -> None:
    call = Call()
    call.ask(("1", "book"))
    call.say(goAway={"timeLeft": "10s"})
    call.host.clock += 8.1
    call.protocol.hear(bytes(640))
    assert call.names[-1] == "reconnect"


def test_a_goodbye_ends_the_sound_but_never_while_the_model_waits() -> None:
    call = Call()
    call.protocol.goodbye()
    assert call.sent("realtimeInput") == [{"audioStreamEnd": True}]
    call.ask(("1", "book"))
    call.protocol.goodbye()
    assert len(call.sent("realtimeInput")) == 1


# The rest.


def test_tokens_are_told_by_kind_and_cached_ones_once() -> None:
    call = Call()
    call.say(
        usageMetadata={
            "promptTokenCount": 100,
            "promptTokensDetails": [
                {"modality": "TEXT", "tokenCount": 60},
                {"modality": "AUDIO", "tokenCount": 40},
            ],
            "cachedContentTokenCount": 50,
            "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 50}],
            "responseTokenCount": 30,
            "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 30}],
            "thoughtsTokenCount": 5,
        }
    )
    assert call.host.all("used") == [
        (
            "gemini-3.8-live",
            {
                "input_text_tokens": 10.0,
                "input_audio_tokens": 40.0,
                "cached_text_tokens": 50.0,
                "output_text_tokens": 5.0,
                "output_audio_tokens": 30.0,
            },
        )
    ]
    assert amounts_of({"promptTokenCount": "12"}) == {"input_text_tokens": 12.0}


def test_unknown_fields_are_counted_once_and_change_nothing() -> None:
    call = Call()
    for _ in range(3):
        call.say(serverContent={"turnComplete": True, "mood": 1}, weatherReport={})
    assert call.ignored == ["unknown", "unknown"]


@pytest.mark.parametrize("text", ["10s", "9.5s"])
def test_durations(text: str) -> None:
    assert seconds_left(text) == float(text[:-1])
    assert seconds_left({"seconds": 4}) == 0.0


REAL: list[dict[str, Any]] = [
    {"setupComplete": {"sessionId": "s"}},
    {"serverContent": {"inputTranscription": {"text": "Hi", "finished": True}}},
    {"serverContent": {**spoken(b"\0\0" * 50), "outputTranscription": {"text": "Hello"}}},
    {"serverContent": {"interrupted": True}},
    {"serverContent": {"generationComplete": True, "turnComplete": True}},
    {"serverContent": {"turnComplete": True, "turnCompleteReason": "MALFORMED_FUNCTION_CALL"}},
    {"toolCall": {"functionCalls": [{"id": "1", "name": "weather", "args": {}}]}},
    {"toolCall": {"functionCalls": [{"id": "2", "name": "book", "args": {}}]}},
    {"toolCallCancellation": {"ids": ["1", "2"]}},
    {"usageMetadata": {"promptTokenCount": 3, "promptTokensDetails": [{"modality": "AUDIO"}]}},
    {"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}},
    {"goAway": {"timeLeft": "9s"}},
    {"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}},
    {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}},
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A real message, with one value somewhere in it replaced."""
    message = json.loads(json.dumps(draw(st.sampled_from(REAL))))
    at: Any = message
    for _ in range(draw(st.integers(0, 4))):
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if not isinstance(at[key], (dict, list)) or draw(st.booleans()):
            at[key] = draw(json_values)
            break
        at = at[key]
    return json.dumps(message).encode()


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            json_values.map(lambda value: json.dumps(value).encode()),
            st.sampled_from(REAL).map(lambda value: json.dumps(value).encode()),
            mutated(),
        ),
        max_size=12,
    ),
    st.booleans(),
    st.integers(0, 12),
)
def test_whatever_comes_never_raises_and_the_call_goes_on(
    messages: list[bytes], ready: bool, loss_at: int
) -> None:
    call = Call(ready=ready, greeting="Hi")
    for number, message in enumerate(messages):
        call.protocol.receive_text(message)
        call.protocol.hear(bytes(640))
        call.host.clock += 0.7
        call.protocol.answer_tool(reply("1"))
        if number == loss_at:
            call.protocol.lost(None, 1011, "gone")
            call.again(owes=True)
    told = len(call.host.told)
    call.protocol.receive_text(b"{")
    assert call.ignored[-1] == "malformed"
    assert len(call.host.told) == told + 1
    answered = [each["id"] for each in call.answers()]
    assert len(answered) == len(set(answered))


IDS = ("1", "2", "3")
steps = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(IDS), st.sampled_from(["weather", "book"])),
    st.tuples(st.just("answer"), st.sampled_from(IDS), st.just("")),
    st.tuples(st.just("cancel"), st.sampled_from(IDS), st.just("")),
    st.tuples(st.just("handle"), st.just("h"), st.just("")),
    st.tuples(st.just("turn"), st.just(""), st.just("")),
    st.tuples(st.just("lost"), st.just(""), st.just("")),
    st.tuples(st.just("refused"), st.just(""), st.just("")),
)


@given(st.lists(steps, max_size=25))
def test_no_result_is_lost_and_none_is_given_that_was_taken_back(
    history: list[tuple[str, str, str]],
) -> None:
    """Whatever happens in whatever order."""
    call = Call()
    asked: set[str] = set()
    answered: set[str] = set()
    cancelled: set[str] = set()
    for number, (what, name, kind) in enumerate([*history, ("lost", "", ""), ("turn", "", "")]):
        if what == "ask" and name not in asked:
            asked.add(name)
            call.ask((name, kind))
        elif what == "answer" and name in asked - cancelled - answered:
            answered.add(name)
            call.protocol.answer_tool(reply(name, f"Answer {name}."))
        elif what == "cancel" and name in asked - answered:
            cancelled.add(name)
            call.say(toolCallCancellation={"ids": [name]})
        elif what == "handle":
            call.handle(f"h-{number}")
        elif what == "turn":
            call.content(**spoken(tone(20, 24_000)), outputTranscription={"text": "Well."})
            call.content(generationComplete=True)
            call.content(turnComplete=True)
        elif what in ("lost", "refused"):
            lost_1011(call)
            if what == "refused":
                call.protocol.begin(call.session, call.host, Resumed((), True))
                call.protocol.lost(None, 1008, "no such handle")
            call.again(owes=True)
        told = everything_told(call)
        for name in cancelled:
            assert f"Answer {name}." not in told
    for name in asked - answered - cancelled:
        call.protocol.answer_tool(reply(name, f"Answer {name}."))
    for _ in IDS:
        call.content(turnComplete=True)  # what is told in words waits for the floor
    told = everything_told(call)
    assert all(f"Answer {name}." in told for name in asked - answered - cancelled)


def everything_told(call: Call) -> list[str]:
    """The answers that the model was given on this connection, by id or in words."""
    text = json.dumps([call.answers(), call.words()])
    return [f"Answer {name}." for name in IDS if f"Answer {name}." in text]


def test_a_note_waits_until_it_cuts_nothing_and_does_not_make_the_model_speak() -> None:
    call = Call()
    call.content(**spoken(tone(20, 24_000)))
    assert call.protocol.take_note("Offer Thursday.")
    assert call.words() == []
    call.content(generationComplete=True)
    call.content(turnComplete=True)
    assert call.words() == [("user", "Offer Thursday.")]
    assert [sent["turnComplete"] for sent in call.sent("clientContent")] == [False]
    assert call.protocol.inform("The table is booked."), "the model owes nothing for a note"
