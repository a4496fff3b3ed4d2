"""The vendors' readers: whole answers, and answers of any kind of nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.net.answered_bytes import parsed

from cordboard.agent_api.language_model import Finished, Kept, TextPiece, ToolWish
from cordboard.agents.llm.wire import AnswerReader, Broken, Read
from cordboard.net.server_events import ServerSentEvent
from cordboard.vendors.anthropic.config import AnthropicBrain
from cordboard.vendors.anthropic.messages import AnthropicWire
from cordboard.vendors.gemini.config import GeminiBrain
from cordboard.vendors.gemini.llm import GeminiWire
from cordboard.vendors.openai.chat_completions import OpenAIChatWire
from cordboard.vendors.openai.config import OpenAIChatBrain, OpenAIResponsesBrain
from cordboard.vendors.openai.responses import OpenAIResponsesWire
from cordboard_testkit.emulators.anthropic import text as anthropic
from cordboard_testkit.emulators.gemini import text as gemini_text
from cordboard_testkit.emulators.openai import chat_words as openai_chat_words
from cordboard_testkit.emulators.openai import responses_words as openai_responses_words
from cordboard_testkit.emulators.script import Use
from cordboard_testkit.emulators.text_service import Language, Reply

MakeReader = Callable[[], AnswerReader]
REPLY = Reply("One moment, please.", (Use("a", {"x": [1, "y"]}), Use("b")))
_MESSAGES = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "input": "hi",
    "contents": [{}],
    "stream_options": {"include_usage": True},
    "thinking": {"type": "adaptive"},
    "include": ["reasoning.encrypted_content"],
}
SERVICES: dict[str, tuple[Language, MakeReader]] = {
    "openai_chat": (
        openai_chat_words.ChatWords("k", ()),
        OpenAIChatWire(OpenAIChatBrain(type="openai_chat")).reader,
    ),
    "openai_responses": (
        openai_responses_words.ResponsesWords("k", ()),
        OpenAIResponsesWire(OpenAIResponsesBrain(type="openai_responses")).reader,
    ),
    "anthropic": (
        anthropic._Words("k", ()),
        AnthropicWire(AnthropicBrain(type="anthropic")).reader,
    ),
    "gemini": (gemini_text._Words("k", ()), GeminiWire(GeminiBrain(type="gemini")).reader),
}


def stream(language: Language, reply: Reply = REPLY) -> list[ServerSentEvent]:
    body = b"".join(event.data for event in language.events(dict(_MESSAGES), reply))
    return [event for event in parsed([body]) if event.data]


def read(reader: AnswerReader, events: list[ServerSentEvent]) -> list[Read]:
    return [*(one for event in events for one in reader.take(event)), *reader.end()]


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> tuple[Language, MakeReader]:
    return SERVICES[request.param]


def test_a_whole_answer(service: tuple[Language, MakeReader]) -> None:
    language, make = service
    reader = make()
    pieces = read(reader, stream(language))
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    assert text == "One moment, please."
    wishes = [piece for piece in pieces if isinstance(piece, ToolWish)]
    assert [(w.name, orjson.loads(w.arguments)) for w in wishes] == [
        ("a", {"x": [1, "y"]}),
        ("b", {}),
    ]
    assert len({wish.wish_id for wish in wishes}) == 2
    (finished,) = (piece for piece in pieces if isinstance(piece, Finished))
    assert pieces[-1] is finished
    assert finished.reason == "tools"
    assert set(finished.amounts) >= {"input_text_tokens", "output_text_tokens"}
    assert reader.malformed == 0


@pytest.mark.parametrize("name", ["anthropic", "openai_responses"])
def test_thoughts_are_kept_as_they_are(name: str) -> None:
    language, make = SERVICES[name]
    read_ = read(make(), stream(language))
    kept = [one.block for one in read_ if isinstance(one, Kept) and not one.lasting]
    assert len(kept) == 1
    assert kept[0].get("signature", kept[0].get("encrypted_content")) == "sealed"


def test_an_error_in_the_stream_ends_it(service: tuple[Language, MakeReader]) -> None:
    language, make = service
    pieces = read(make(), parsed([language.error_event(0)]))
    assert isinstance(pieces[0], Broken)
    assert pieces[0].message == "emulated fault"


def test_a_stream_that_ends_early_is_not_whole(service: tuple[Language, MakeReader]) -> None:
    language, make = service
    events = stream(language)
    for end in range(4):
        assert not any(isinstance(one, Finished) for one in read(make(), events[:end]))


@pytest.mark.parametrize("name", SERVICES)
@given(data=st.data())
def test_no_event_is_too_strange(name: str, data: st.DataObject) -> None:
    """Mutated, doubled, swapped and invented events: never an exception, and text stays text."""
    language, make = SERVICES[name]
    events = [*stream(language)]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(events) - 1))
        match data.draw(st.sampled_from(["mutate", "double", "drop", "swap", "invent"])):
            case "mutate":
                mutated = orjson.dumps(_mutated(events[at].data, data))
                events[at] = ServerSentEvent(events[at].event, mutated.decode())
            case "double":
                events.insert(at, events[at])
            case "drop" if len(events) > 1:
                del events[at]
            case "swap":
                events.append(events.pop(at))
            case _:
                events.insert(at, ServerSentEvent("message", data.draw(st.text(max_size=20))))
    for piece in read(make(), events):
        match piece:
            case TextPiece(text):
                assert isinstance(text, str)
                assert text
            case ToolWish(wish_id, name, arguments, _):
                assert isinstance(wish_id, str)
                assert isinstance(arguments, str)
                assert name
            case Finished(_, amounts):
                assert all(amount > 0 for amount in amounts.values())


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def _mutated(text: str, data: st.DataObject) -> Any:
    """The event with one value, somewhere in it, replaced by something else."""
    try:
        whole = orjson.loads(text)
    except orjson.JSONDecodeError:
        return data.draw(values)
    if not isinstance(whole, dict | list):
        return data.draw(values)
    place: Any = whole
    for _ in range(6):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(values)
            break
        place = inner
    return whole


def test_services_that_only_speak_like_openai() -> None:
    """No ids and indexes, arguments as an object, no usage, `stop` after a tool call."""
    reader = OpenAIChatWire(OpenAIChatBrain(type="openai_chat")).reader()
    call = {"function": {"name": "a", "arguments": {"x": 1}}}
    events = [
        ServerSentEvent("message", orjson.dumps(one).decode())
        for one in (
            {"choices": [{"delta": {"content": "Hi. "}}]},
            {"choices": [{"delta": {"tool_calls": [call]}}]},
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        )
    ]
    assert read(reader, events) == [
        TextPiece("Hi. "),
        ToolWish("", "a", '{"x":1}'),
        Finished("tools", {}),
    ]
