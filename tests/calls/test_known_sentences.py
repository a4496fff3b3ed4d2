"""What the voice makes beforehand, so that nobody has to wait for it in a call."""

from __future__ import annotations

from cordboard.calls.ending import TOO_LONG
from cordboard.calls.failure_apology import STOPPING, TROUBLE
from cordboard.calls.known_sentences import greetings, known_sentences
from cordboard.config.schema import Config


def test_what_bridges_slow_tools_is_made_beforehand() -> None:
    slow = {"kind": "python", "function": "a:b", "slow_response_threshold_ms": 500}
    server = {
        "command": ["x"],
        "defaults": {"slow_response_threshold_ms": 700, "slow_response_message": "The shop looks."},
        "tools": [{"name": "order", "slow_response_message": ["Cooking.", "Still cooking."]}],
    }
    config = Config.model_validate(
        {
            "contexts": {"demo": {"greeting": "Hello.", "silence": {"fillers": ["Let me see."]}}},
            "tools": {"own": {**slow, "slow_response_message": "My own."}, "usual": slow},
            "mcp": {"servers": {"shop": server}},
        }
    )
    sentences = known_sentences(config)
    assert {"My own.", "One moment, please.", "The shop looks."} <= set(sentences)
    assert {"Cooking.", "Still cooking.", "Let me see."} <= set(sentences)
    assert any("yes or no" in sentence for sentence in sentences), "asked when nobody is understood"
    assert list(greetings(config).values()) == [("Hello.",)]


def test_announcements_are_made_beforehand_each_on_its_own() -> None:
    recording = {"enabled": True, "consent": "This call is recorded."}
    listening = {"notice": "People may listen."}
    context = {
        "disclosure": "I am a machine.",
        "recording": recording,
        "listening": listening,
        "greeting": "Hello.",
    }
    pieces = ("I am a machine.", "This call is recorded.", "People may listen. Hello.")
    config = Config.model_validate({"contexts": {"demo": context}})
    assert greetings(config) == {"demo": pieces}
    context["recording"] = {**recording, "begin": "at_once"}
    config = Config.model_validate({"contexts": {"demo": context}})
    assert greetings(config) == {"demo": (pieces[0], f"{pieces[1]} {pieces[2]}")}


def test_a_tool_that_has_no_fillers_has_none_made() -> None:
    server = {"command": ["x"], "defaults": {"slow_response_message": "Unheard."}}
    config = Config.model_validate(
        {
            "contexts": {"demo": {}},
            "tools": {"quick": {"kind": "python", "function": "a:b"}},
            "mcp": {"servers": {"shop": server}},
        }
    )
    assert not {"Unheard.", "One moment, please."} & set(known_sentences(config))


def test_every_speaker_tells_its_sentences() -> None:
    context = {
        "provider": "local",
        "fallback": ["other"],
        "fallback_phrase": "Hold the line.",
        "budget": {"max_minutes": 5, "goodbye": "Your time is up."},
        "silence": {
            "continuers": ["Go on."],
            "reprompts": ["Are you there?"],
            "goodbye": "I hang up.",
        },
    }
    sentences = known_sentences(Config.model_validate({"contexts": {"demo": context}}))
    assert {TROUBLE, STOPPING, TOO_LONG, "Hold the line.", "Your time is up."} <= set(sentences)
    assert {"Go on.", "Are you there?", "I hang up."} <= set(sentences)
    assert len(sentences) == len(set(sentences)), "each is rendered once"
