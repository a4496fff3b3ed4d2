"""ElevenLabs' protocol without sockets: what it says to the service and tells the call."""

from __future__ import annotations

import base64
import dataclasses
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vendors.host import RecordingHost, a_session

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agent_api.service_protocol import Resumed
from cordboard.audio.format import SLIN_8K, ULAW_8K
from cordboard.tools.payload import DATA_NOTE
from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.elevenlabs.agent.answers import QUIET_S
from cordboard.vendors.elevenlabs.agent.messages import QUIET
from cordboard.vendors.elevenlabs.agent.protocol import COUNT_S, ElevenLabsProtocol
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.vendors.elevenlabs.errors import QUEUE_FULL
from cordboard_testkit.emulators.elevenlabs import wire

KEY = "xi-secret-key"
TOOL = ToolSpec("get_atis", "http", "The weather.", {"type": "object", "properties": {}})
FRAME = b"\x7f" * 160


def provider(**more: Any) -> ElevenLabsAgentProvider:
    return ElevenLabsAgentProvider.model_validate(
        {"type": "elevenlabs_agent", "agent_id": "agent_1"} | more
    )


def begun(
    session: AgentSession | None = None, resumed: Resumed | None = None, **more: Any
) -> tuple[ElevenLabsProtocol, RecordingHost]:
    protocol, host = ElevenLabsProtocol(provider(**more), KEY), RecordingHost()
    protocol.begin(session or a_session(toolbox=(TOOL,)), host, resumed)
    return protocol, host


def talking(**more: Any) -> tuple[ElevenLabsProtocol, RecordingHost]:
    protocol, host = begun(**more)
    protocol.receive_text(metadata())
    host.told.clear()
    return protocol, host


def event(kind: str, key: str, **content: Any) -> bytes:
    return json.dumps({"type": kind, key: content}).encode()


def metadata(output: Any = "ulaw_8000", heard: Any = "ulaw_8000") -> bytes:
    return event(
        "conversation_initiation_metadata",
        "conversation_initiation_metadata_event",
        conversation_id="conv_1",
        agent_output_audio_format=output,
        user_input_audio_format=heard,
    )


def sound(number: int, ms: int = 100) -> bytes:
    coded = base64.b64encode(bytes([number % 256]) * (8 * ms)).decode()
    return event("audio", "audio_event", audio_base_64=coded, event_id=number)


def words(text: str, number: int = 1) -> bytes:
    key = "agent_response_event"
    return event("agent_response", key, agent_response=text, event_id=number)


def transcript(text: str, number: int = 1) -> bytes:
    key = "user_transcription_event"
    return event("user_transcript", key, user_transcript=text, event_id=number)


def interruption(number: int) -> bytes:
    return event("interruption", "interruption_event", event_id=number)


def tool_call(call_id: str = "c1", name: str = "get_atis", parameters: Any = None) -> bytes:
    given = {"icao": "ENGM"} if parameters is None else parameters
    return event(
        "client_tool_call",
        "client_tool_call",
        tool_name=name,
        tool_call_id=call_id,
        parameters=given,
        event_id=3,
    )


def reply(call_id: str = "c1", status: Status = Status.OK, **more: Any) -> ToolReply:
    return ToolReply(call_id, "get_atis", status, "It is sunny.", {"wind": 7}, **more)


# The beginning.


def test_the_context_is_what_the_agent_is_told_to_be() -> None:
    session = dataclasses.replace(a_session(toolbox=(TOOL,)), variables={"caller_number": "6001"})
    _, host = begun(
        session,
        language="de",
        llm="gpt-5.2",
        tts={"voice_id": "v1", "speed": 1.1},
        dynamic_variables={"shop": "Oslo", "open": True},
        call_variables=["caller_number", "caller_name"],
        extra={"user_id": "u1", "conversation_config_override": {"tts": {"stability": 0.3}}},
    )
    (message,) = host.sent
    assert message.pop("source_info")["source"] == "unknown"
    assert message == {
        "type": "conversation_initiation_client_data",
        "conversation_config_override": {
            "agent": {
                "prompt": {
                    "prompt": f"You are a helpful telephone agent.\n\n{DATA_NOTE}",
                    "llm": "gpt-5.2",
                },
                "first_message": "Hello!",
                "language": "de",
            },
            "tts": {"voice_id": "v1", "speed": 1.1, "stability": 0.3},
        },
        "dynamic_variables": {
            "shop": "Oslo",
            "open": True,
            "caller_number": "6001",
            "caller_name": "",
        },
        "user_id": "u1",
    }
    assert wire.problem_of(host.sent[0] | {"source_info": {}}, 1) == ""


def test_what_the_agent_does_not_permit_is_not_sent() -> None:
    protocol, host = begun(overrides=[])
    assert host.sent[0]["conversation_config_override"] == {}
    assert not protocol.speaks_greeting  # the engine does, and the agent is told
    protocol.receive_text(metadata())
    assert "You: Hello!" in host.sent[-1]["text"]
    assert ElevenLabsProtocol(provider(), KEY).speaks_greeting


def test_it_is_ready_when_the_formats_fit() -> None:
    protocol, host = begun()
    assert host.told == []
    protocol.receive_text(metadata())
    assert host.told == [("ready",)]


def test_sound_passes_untouched() -> None:
    protocol, host = talking()
    protocol.hear(FRAME)
    assert host.sent[-1] == {"user_audio_chunk": base64.b64encode(FRAME).decode()}
    protocol.receive_text(sound(1))
    assert host.all("agent_sound") == [(b"\x01" * 800, "")]


@pytest.mark.parametrize(("theirs", "samples"), [("pcm_8000", 160), ("pcm_16000", 320)])
def test_an_agent_of_another_format_is_understood(theirs: str, samples: int) -> None:
    protocol, host = begun()
    protocol.receive_text(metadata(theirs, theirs))
    assert ("ready",) in host.told
    assert "sync" in host.all("ignored")[0][1]
    for _ in range(10):
        protocol.hear(FRAME)
    chunks = [base64.b64decode(m["user_audio_chunk"]) for m in host.sent if len(m) == 1]
    assert abs(sum(map(len, chunks)) - 10 * 2 * samples) < 2 * samples
    coded = base64.b64encode(bytes(2 * samples * 5)).decode()
    protocol.receive_text(event("audio", "audio_event", audio_base_64=coded, event_id=1))
    (given, _), *_ = host.all("agent_sound")
    assert abs(len(given) - 800) <= 160
    assert set(given) <= {0xFF, 0x7F}


@pytest.mark.parametrize("theirs", ["pcm_44100", "mp3", 7, None])
def test_a_format_nobody_can_convert_is_said_to_be(theirs: Any) -> None:
    protocol, host = begun()
    protocol.receive_text(metadata(output=theirs))
    ((kind, reason),) = host.all("failed")
    assert kind == "refused"
    assert f"output format is {theirs}, expected ulaw_8000" in reason
    assert "cordboard elevenlabs sync" in reason
    assert not host.all("ready")


def test_the_callers_format_may_be_linear() -> None:
    protocol, host = begun(a_session(audio_format=SLIN_8K))
    protocol.receive_text(metadata())
    protocol.hear(bytes(320))
    assert len(base64.b64decode(host.sent[-1]["user_audio_chunk"])) == 160
    protocol.receive_text(sound(1))
    assert len(host.all("agent_sound")[0][0]) == 1600


# Turns.


def test_a_turn_and_its_answer() -> None:
    protocol, host = talking()
    protocol.receive_text(transcript(" What is new? "))
    protocol.receive_text(words("Nothing."))
    protocol.receive_text(sound(2, 200))
    assert host.told == [
        ("caller_text", "What is new?", None),
        ("agent_words", "Nothing. "),
        ("agent_sound", b"\x02" * 1600, ""),
    ]


def test_an_answer_is_over_when_it_has_been_heard_and_no_more_comes() -> None:
    protocol, host = talking()
    protocol.receive_text(words("Nothing."))
    protocol.receive_text(sound(2, 200))
    protocol.receive_text(sound(3, 300))
    host.clock += 0.5 + QUIET_S - 0.01
    protocol.hear(FRAME)
    assert not host.all("answer_done")
    host.clock += 0.02
    protocol.hear(FRAME)
    protocol.hear(FRAME)
    assert host.all("answer_done") == [()]


def test_an_answer_with_too_little_sound_for_its_words_is_not_over() -> None:
    protocol, host = talking()
    protocol.receive_text(
        words("[slowly] It takes me <break time='1s'/> some time to say all this.")
    )
    protocol.receive_text(sound(2, 900))
    host.clock += 5
    protocol.hear(FRAME)
    assert not host.all("answer_done"), "38 characters want 1.7 s at least"
    protocol.receive_text(sound(3, 900))
    host.clock += 5
    protocol.hear(FRAME)
    assert host.all("answer_done") == [()]


def test_the_caller_is_heard_when_an_answer_has_broken_off() -> None:
    protocol, host = talking()
    protocol.receive_text(words("It takes me some time to say all this."))
    protocol.receive_text(sound(2, 200))
    host.clock += 5
    key = "tentative_user_transcription_event"
    protocol.receive_text(event("tentative_user_transcript", key, user_transcript="Hello?"))
    assert host.all("caller_started") == [(None,)]
    protocol.receive_text(transcript("Hello?"))
    protocol.receive_text(words("Yes.", 5))
    protocol.receive_text(sound(6, 200))
    host.clock += 2
    protocol.hear(FRAME)
    assert host.all("answer_done") == [()]


def test_an_answer_is_over_when_the_service_says_so() -> None:
    protocol, host = talking()
    complete = event("agent_response_complete", "agent_response_complete_event", event_id=1)
    protocol.receive_text(words("Nothing."))
    protocol.receive_text(complete)
    assert not host.all("answer_done")  # its sound is still to come
    protocol.receive_text(sound(2))
    protocol.receive_text(complete)
    protocol.receive_text(complete)
    assert host.all("answer_done") == [()]


def test_an_answer_with_too_little_sound_for_its_words_is_broken_off() -> None:
    protocol, host = talking()
    complete = event("agent_response_complete", "agent_response_complete_event", event_id=1)
    protocol.receive_text(words("This call is recorded, and a machine talks with you all along."))
    protocol.receive_text(sound(2, 400))
    protocol.receive_text(complete)
    assert [name for name, *_ in host.told if name.startswith("answer")] == [
        "answer_broke",
        "answer_done",
    ]


def test_an_interruption_cuts_what_was_on_its_way() -> None:
    protocol, host = talking()
    protocol.receive_text(words("A long story."))
    protocol.receive_text(sound(4))
    protocol.receive_text(interruption(5))
    protocol.receive_text(sound(5))
    protocol.receive_text(interruption(5))
    protocol.receive_text(sound(6))
    protocol.interrupted(())
    assert host.all("caller_started") == [(None,)]
    assert [given[0][0] for given in host.all("agent_sound")] == [4, 6]
    assert [why for why, _ in host.all("ignored")] == ["late", "duplicate"]


def test_the_words_of_an_answer_that_was_cut_are_no_answer_to_the_next_turn() -> None:
    protocol, host = talking()
    protocol.receive_text(sound(236))
    protocol.receive_text(interruption(274))
    protocol.receive_text(words("A long sto...", 236))
    complete = event("agent_response_complete", "agent_response_complete_event", event_id=236)
    protocol.receive_text(complete)
    protocol.receive_text(transcript("Stop.", 280))
    host.clock += 5
    protocol.hear(FRAME)
    assert [entry for entry in host.told if entry[0] != "agent_sound"] == [
        ("caller_started", None),
        ("ignored", "late", "words of an answer that was cut"),
        ("ignored", "late", "the end of an answer that was cut"),
        ("caller_text", "Stop.", None),
    ]
    protocol.receive_text(sound(281))
    protocol.receive_text(words("All right.", 281))
    assert host.all("agent_words") == [("All right. ",)]


def test_directions_for_the_voice_are_no_words_of_the_agent() -> None:
    protocol, host = talking()
    protocol.receive_text(words("[laughs softly] Runway [2] and [ENGM], [sighs] yes."))
    assert host.all("agent_words") == [("Runway [2] and [ENGM], yes. ",)]


def queue(status: str) -> bytes:
    return event("queue_status", "queue_status_event", status=status)


def test_the_music_of_the_queue_is_heard_and_is_no_answer() -> None:
    protocol, host = talking()
    protocol.receive_text(queue("waiting"))
    protocol.receive_text(sound(1))
    host.clock += 5
    protocol.hear(FRAME)
    assert [name for name, *_ in host.told] == ["ignored", "waiting_sound"]
    protocol.receive_text(queue("admitted"))
    assert host.told[-1] == ("interrupted",)  # what is left of the music is not heard
    protocol.receive_text(sound(2))
    protocol.receive_text(words("Hello!", 2))
    host.clock += 2
    protocol.hear(FRAME)
    assert host.all("answer_done") == [()]


@pytest.mark.parametrize(
    ("ready", "more", "status"),
    [
        (True, {"queue": "leave"}, "waiting"),
        (True, {}, "timed_out"),
        (False, {}, "waiting"),  # nothing would be heard
    ],
)
def test_a_queue_that_helps_the_caller_no_further_is_left(
    ready: bool, more: dict[str, Any], status: str
) -> None:
    _, host = pair = talking(**more) if ready else begun(**more)
    pair[0].receive_text(queue(status))
    assert host.all("failed") == [("quota", QUEUE_FULL)]


def test_an_interruption_by_our_own_message_is_no_turn_of_the_caller() -> None:
    protocol, host = talking()
    protocol.receive_text(words("A long story."))
    protocol.receive_text(sound(4))
    assert protocol.inform("The table is booked.")
    protocol.receive_text(interruption(4))
    protocol.receive_text(transcript(host.sent[-1]["text"]))
    assert host.all("interrupted") == [()]
    assert not host.all("caller_started")
    assert not host.all("caller_text")


def test_a_tentative_transcript_tells_that_the_caller_speaks() -> None:
    protocol, host = talking()
    key = "tentative_user_transcription_event"
    tentative = event("tentative_user_transcript", key, user_transcript="What", event_id=1)
    longer = event("tentative_user_transcript", key, user_transcript="What is", event_id=1)
    protocol.receive_text(tentative)
    protocol.receive_text(longer)
    protocol.receive_text(transcript("What?"))
    protocol.receive_text(words("Yes?"))
    protocol.receive_text(sound(3))
    protocol.receive_text(tentative)  # the agent speaks: it may be its echo
    assert host.all("caller_partial") == [("What",), ("What is",)]
    names = [entry[0] for entry in host.told if entry[0] != "caller_partial"]
    assert names == ["caller_started", "caller_text", "agent_words", "agent_sound"]


def test_pings_are_answered_at_once_even_before_the_conversation() -> None:
    protocol, host = begun()
    protocol.receive_text(event("ping", "ping_event", event_id=7, ping_ms=50))
    assert host.sent[-1] == {"type": "pong", "event_id": 7}


def test_seconds_are_counted() -> None:
    protocol, host = talking()
    host.clock += COUNT_S
    protocol.hear(FRAME)
    protocol.hear(FRAME)
    host.clock += 3
    protocol.goodbye()
    assert host.all("used") == [("agent", {"seconds": 10.0}), ("agent", {"seconds": 3.0})]


def test_the_agent_may_hang_up() -> None:
    protocol, host = talking()
    protocol.receive_text(words("Goodbye."))
    protocol.receive_text(sound(1))
    key = "agent_tool_response"
    ending = {"tool_name": "end_call", "tool_call_id": "t", "tool_type": "system"}
    protocol.receive_text(event(key, key, **ending, is_error=False, is_called=True, event_id=2))
    assert not host.all("ended")
    host.clock += 5
    protocol.hear(FRAME)
    assert host.told[-2:] == [("answer_done",), ("ended", "the agent has ended the conversation")]


# Tools.


def test_a_tool_is_asked_and_answered() -> None:
    protocol, host = talking()
    protocol.receive_text(tool_call())
    protocol.receive_text(tool_call())
    assert host.all("tool_asked") == [("c1", "get_atis", {"icao": "ENGM"})]
    assert host.all("ignored") == [("duplicate", "a tool call")]
    protocol.answer_tool(reply())
    message = host.sent[-1]
    assert message == {
        "type": "client_tool_result",
        "tool_call_id": "c1",
        "result": message["result"],
        "is_error": False,
    }
    assert json.loads(message["result"]) == {
        "status": "ok",
        "message": "It is sunny.",
        "data": {"wind": 7},
    }


@pytest.mark.parametrize(
    ("status", "is_error"),
    [(Status.ERROR, True), (Status.TIMEOUT, True), (Status.REFUSED, False)],
)
def test_errors_are_marked_and_refusals_are_readable(status: Status, is_error: bool) -> None:
    protocol, host = talking()
    protocol.receive_text(tool_call())
    protocol.answer_tool(reply(status=status))
    assert host.sent[-1]["is_error"] is is_error
    assert json.loads(host.sent[-1]["result"])["message"] == "It is sunny."


def test_a_call_that_makes_no_sense_is_answered_with_an_error() -> None:
    protocol, host = talking()
    protocol.receive_text(tool_call(parameters=[1]))
    assert host.sent[-1]["is_error"] is True
    assert host.all("ignored") == [("malformed", "client_tool_call")]
    assert not host.all("tool_asked")


def test_an_answer_that_nothing_waits_for_is_kept_from_the_service() -> None:
    protocol, host = talking()
    before = len(host.sent)
    protocol.answer_tool(reply("unknown"))
    assert len(host.sent) == before
    assert host.all("ignored")[0][0] == "late"


# Losses.

HISTORY = (Said("agent", "Hello!"), Said("caller", "The weather in Oslo?"))


def test_a_new_connection_is_told_the_conversation() -> None:
    protocol, host = talking()
    protocol.begin(a_session(), host, Resumed(HISTORY, owes_answer=True))
    first = host.sent[-1]["conversation_config_override"]["agent"]["first_message"]
    assert first == ""  # no second greeting
    protocol.receive_text(metadata())
    history, question = host.sent[-2:]
    assert history["type"] == "contextual_update"
    assert "You: Hello!" in history["text"]
    assert "weather" not in history["text"]
    assert question == {"type": "user_message", "text": "The weather in Oslo?"}


def test_a_result_for_a_lost_connection_is_told_to_the_new_one() -> None:
    protocol, host = talking()
    protocol.receive_text(tool_call("c1"))
    protocol.receive_text(tool_call("c2"))
    assert protocol.lost(None, 1011, "closed").again
    protocol.begin(a_session(), host, Resumed(HISTORY, owes_answer=False))
    protocol.receive_text(metadata())
    assert not host.sent_of("user_message")
    protocol.answer_tool(reply("c1"))
    assert not host.sent_of("user_message")
    protocol.answer_tool(reply("c2"))
    assert not host.sent_of("client_tool_result")
    updates = [m["text"] for m in host.sent_of("contextual_update")]
    assert sum("It is sunny." in text for text in updates) == 2
    assert host.sent_of("user_message") == [
        {"type": "user_message", "text": "The weather in Oslo?"}
    ]


def test_a_result_that_may_not_have_arrived_is_told_again() -> None:
    protocol, host = talking()
    protocol.receive_text(tool_call("c1"))
    protocol.answer_tool(reply("c1"))
    protocol.lost(None, None, "reset")
    protocol.begin(a_session(), host, Resumed(HISTORY, owes_answer=True))
    protocol.receive_text(metadata())
    kinds = [message["type"] for message in host.sent[-3:]]
    assert kinds == ["contextual_update", "contextual_update", "user_message"]
    assert "It is sunny." in host.sent[-2]["text"]


@pytest.mark.parametrize(
    ("ready", "status", "code", "problem", "kind", "again"),
    [
        (False, 401, None, "", "auth", False),
        (False, 404, None, "", "refused", False),
        (False, 429, None, "", "quota", True),
        (False, 503, None, "", "connect", True),
        (False, None, None, "cannot be reached", "connect", True),
        (False, None, 1008, "Override for field 'voice_id' is not allowed", "refused", False),
        (False, None, 1008, "Could not authorize the conversation.", "auth", False),
        (False, None, 3000, "Request error", "connect", True),
        (True, None, 1002, "This request exceeds your quota limit.", "quota", False),
        (True, None, 1008, "Missing required dynamic variables: city", "refused", False),
        (True, None, 4300, "", "quota", False),
        (False, None, 4300, "", "quota", False),
        (True, None, 1011, "Unexpected server error.", "dropped", True),
        (True, None, None, "reset", "dropped", True),
        (True, None, 1000, "", "dropped", False),
    ],
)
def test_what_a_loss_means(
    ready: bool, status: int | None, code: int | None, problem: str, kind: str, again: bool
) -> None:
    protocol, _ = talking() if ready else begun()
    lost = protocol.lost(status, code, f"{problem} {KEY}")
    assert (lost.kind, lost.again) == (kind, again)
    assert KEY not in lost.reason


def test_a_message_that_is_refused_in_the_middle_of_a_call_costs_only_the_connection() -> None:
    protocol, host = talking()
    host.clock += 60
    lost = protocol.lost(None, 1008, "Invalid message.")
    assert (lost.kind, lost.again) == ("dropped", True)


def test_a_normal_end_is_told_as_one() -> None:
    protocol, host = talking()
    protocol.lost(None, 1000, "")
    assert host.all("ended") == [("the agent has ended the conversation",)]


def test_what_the_service_complains_of_explains_the_loss() -> None:
    protocol, host = begun()
    problem = "Override for field 'first_message' is not allowed by config."
    told = {"code": 1008, "error_type": "override_error", "message": problem}
    protocol.receive_text(event("error", "error_event", **told))
    lost = protocol.lost(None, 1008, "closed")
    assert lost.kind == "refused"
    assert "'first_message'" in lost.reason
    assert "cordboard elevenlabs sync" in lost.reason
    assert host.all("ignored") == [("warning", "the service reports an error: override_error")]
    protocol, host = talking()
    flat = {"type": "error", "message": "received 1002 This request exceeds your quota limit."}
    protocol.receive_text(json.dumps(flat).encode())
    assert protocol.lost(None, 1002, "closed").kind == "quota"


# Whatever arrives.

REAL = (
    metadata(), sound(3), words("Hello."), transcript("Hi."), interruption(2), tool_call(),
    event("ping", "ping_event", event_id=4, ping_ms=None),
    event("agent_response_complete", "agent_response_complete_event", event_id=1),
    event("agent_tool_response", "agent_tool_response", tool_name="skip_turn", is_error=False),
    event("error", "error_event", code=1002, error_type="llm_error"),
    event("vad_score", "vad_score_event", vad_score=0.9),
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
HANDLED = tuple(json.loads(message)["type"] for message in REAL)


def mutated(message: bytes, seed: int) -> bytes:
    """A real message with something of it missing, replaced or cut."""
    chance = random.Random(seed)
    whole = json.loads(message)
    inner = next((value for value in whole.values() if isinstance(value, dict)), whole)
    if inner and chance.random() < 0.7:
        name = chance.choice(sorted(inner))
        odd = (None, [], {}, -1, "", "%%", 2**70, 1.5, True, "\ud800")
        inner[name] = chance.choice(odd)
        if chance.random() < 0.3:
            del inner[name]
    text = json.dumps(whole).encode()
    return text[: chance.randrange(len(text))] if chance.random() < 0.1 else text


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(REAL), st.integers(0, 10**6)), max_size=12), st.booleans()
)
def test_mutated_messages_in_any_order_never_raise(
    messages: list[tuple[bytes, int]], ready: bool
) -> None:
    protocol, host = talking() if ready else begun()
    for message, seed in messages:
        protocol.receive_text(mutated(message, seed))
        protocol.hear(FRAME)
    for _, name, arguments in host.all("tool_asked"):
        assert isinstance(name, str)
        assert isinstance(arguments, dict)
    for sound_given, _ in host.all("agent_sound"):
        assert isinstance(sound_given, bytes)
    for message in host.sent[1:]:
        assert wire.problem_of(message, 1) == ""


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_makes_no_sense_is_counted(message: bytes) -> None:
    protocol, host = talking()
    protocol.receive_text(message)
    protocol.receive_binary(message)
    assert [why for why, _ in host.all("ignored")][-1] == "unknown"
    assert len(host.all("ignored")) == 2


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(HANDLED), JSON)
def test_known_types_with_any_content_never_raise(kind: str, content: Any) -> None:
    protocol, host = talking()
    whole = json.loads(next(m for m in REAL if json.loads(m)["type"] == kind))
    for name in whole:
        if name != "type":
            whole[name] = content
    before = len(host.told) + len(host.sent)
    protocol.receive_text(json.dumps(whole).encode())
    defined = len(host.told) + len(host.sent) > before
    no_content = {"vad_score", "agent_response_complete", "agent_tool_response"}
    assert defined or kind in no_content


@pytest.mark.parametrize("kind", sorted(QUIET))
def test_known_events_that_nothing_follows_from_are_silent(kind: str) -> None:
    protocol, host = talking()
    protocol.receive_text(json.dumps({"type": kind}).encode())
    assert host.told == []


def test_events_before_the_conversation_are_out_of_order() -> None:
    protocol, host = begun()
    for message in (sound(1), words("Hello."), tool_call(), transcript("Hi.")):
        protocol.receive_text(message)
    assert {why for why, _ in host.all("ignored")} == {"out_of_order"}
    assert len(host.told) == 4


def test_formats_it_takes() -> None:
    assert ElevenLabsProtocol(provider(), KEY).formats[0] == ULAW_8K


def test_a_note_is_a_contextual_update_which_asks_for_no_answer() -> None:
    protocol, host = talking()
    assert protocol.take_note("Offer Thursday.")
    assert host.sent_of("contextual_update") == [
        {"type": "contextual_update", "text": "Offer Thursday."}
    ]
    assert not host.sent_of("user_message")
