"""What `rules:` refuses, and how it says so."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cordboard.config.rules import Rules
from cordboard.config.schema import Config, Context
from cordboard.config.sentences import Position, SentenceError, read_sentence


def _intent(**keys: Any) -> dict[str, Any]:
    return {"rules": {"intents": {"weather": {"sentences": ["weather in {city}"], **keys}},
                      "lists": {"city": {"values": ["Oslo", "Bergen"]}}}}  # fmt: skip


@pytest.mark.parametrize(
    ("context", "told"),
    [
        (_intent(say="In {town}."), "rules.intents.weather.say: unknown placeholder {town}"),
        (_intent(say="In {message}."), "unknown placeholder {message}"),
        (_intent(say="In {city"), "stray brace"),
        (_intent(confirm="In {nowhere}?"), "rules.intents.weather.confirm"),
        (_intent(tool="t", arguments={"a": {"b": "{c}"}}), "weather.arguments.a.b: unknown"),
        (_intent(tool="t", arguments={"a": "{"}), "arguments.a"),
        (_intent(arguments={"a": "b"}), "there is no tool"),
        (_intent(tool="t", transfer="x"), "only one of the two"),
        (_intent(failures={"timeout": "{x}"}, tool="t"), "failures.timeout"),
        (_intent(slots={"city": {"ask": "Which {x}?"}}), "rules.intents.weather.slots.city"),
        (_intent(slots={"day": {}}), "intents.weather.slots.day: no list 'day'"),
        (_intent(slots={"city": {"default": "Oslo"}}), "say required: false"),
        (
            _intent(slots={"city": {"required": False}}, say="In {city}."),
            "{city} may be unfilled",
        ),
        (_intent(answers={"city": {"Oslo": "Wet."}}), "`say` is missing"),
        (_intent(answers={"city": {"Rome": "Hot."}}, say="?"), "answers.city.Rome: not a value"),
        (_intent(answers={"town": {"Rome": "Hot."}}, say="?"), "answers.town: no such slot"),
        (_intent(sentences=["weather (in"]), "sentences[0]: sentence 'weather (in': '(' is never"),
        (_intent(sentences=["weather in {place}"]), "no list 'place'"),
        (_intent(sentences=["from {city} to {city}"]), "slot 'city' twice"),
        (_intent(sentences=["[weather]"]), "could be empty"),
        (_intent(sentences=["<x> now"]), "<x> is not among `words`"),
        ({"rules": {"fallback": {"reprompts": ["{sorry}"]}}}, "rules.fallback.reprompts[0]"),
        ({"rules": {"phrases": {"ask": "{slott}?"}}}, "rules.phrases.ask"),
        ({"rules": {"lists": {"a": {"values": {}}}}}, "at least one value"),
        ({"rules": {"lists": {"a": {"type": "number", "spelled": True}}}}, "mean nothing"),
        ({"rules": {"lists": {"a": {"values": {"x": [" "]}}}}}, "values.x"),
        ({"rules": {"intent": {}}}, "Extra inputs are not permitted"),
    ],
)
def test_mistakes_are_named_precisely(context: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Context.model_validate(context)
    assert told in str(caught.value)


def test_placeholders_may_be_slots_call_variables_and_declared_channel_variables() -> None:
    context = _intent(say="In {city} for {caller_name} of {TENANT}.", tool=None)
    Context.model_validate({**context, "variables": ["TENANT"]})
    with pytest.raises(ValidationError, match="TENANT"):
        Context.model_validate(context)


def test_named_tools_and_destinations_can_be_checked(config: Config) -> None:
    demo = config.contexts["demo"].rules
    assert demo is not None
    assert demo.tools() == {
        "mcp_aviation_atis_get_atis": "intents.get_atis.tool",
        "transfer": "intents.talk_to_sales.transfer",
    }
    assert demo.destinations() == {"sales": "intents.talk_to_sales.transfer"}
    for name, context in config.contexts.items():
        assert context.rules is not None
        assert set(context.rules.tools()) <= set(context.tools), name
        assert set(context.rules.destinations()) <= set(config.destinations)


def test_an_empty_section_is_whole() -> None:
    assert Rules.model_validate({}) == Rules()


def _texts(sentence: str, **pieces: str) -> set[str]:
    return {
        " ".join(
            ("|".join(p.words) if p.words else f"<{p.list}:{p.slot}>") + ("?" if p.optional else "")
            for p in wording
        )
        for wording in read_sentence(sentence, pieces)
    }


def test_sentences_are_read_into_wordings() -> None:
    assert _texts("(what is|tell me) [the] (atis|weather) {city}") == {
        "what is the? atis|weather <city:city>",
        "tell me the? atis|weather <city:city>",
    }
    assert _texts("from {city:start} [to {city:end}]") == {
        "from <city:start> to <city:end>",
        "from <city:start>",
    }
    assert _texts("<ask> it", ask="(get|fetch)") == {"get|fetch it"}
    assert read_sentence("a") == ((Position(words=("a",)),),)


@pytest.mark.parametrize(
    "sentence",
    ["a )", "a ]", "[a", "(a", "a {B}", "a {b", "a }", "a <b", "a > b", "(a|)", "(|a)", "a | ", ""],
)
def test_broken_sentences_are_quoted(sentence: str) -> None:
    with pytest.raises(SentenceError) as caught:
        read_sentence(sentence)
    assert repr(sentence) in str(caught.value)


def test_runaway_sentences_are_refused() -> None:
    with pytest.raises(SentenceError, match="more than 256 wordings"):
        read_sentence(" ".join(["(a b|c d)"] * 9))
    with pytest.raises(SentenceError, match="circle"):
        read_sentence("<a>", {"a": "<b> x", "b": "<a> y"})
