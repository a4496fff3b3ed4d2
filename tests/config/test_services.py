"""The keys, headers and models of paid services, as the configuration gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cordboard.config.load import read
from cordboard.errors import ConfigError
from cordboard.vendors.openai.config import OpenAIRealtimeProvider, OpenAIStt

CONTEXTS = "\ncontexts: {demo: {provider: it}}\n"


def section(**values: Any) -> OpenAIRealtimeProvider:
    return OpenAIRealtimeProvider.model_validate({"type": "openai_realtime", **values})


def test_a_key_in_the_headers_replaces_the_key_of_the_environment() -> None:
    environ = {"OPENAI_API_KEY": "sk-of-openai"}
    for name in ("api-key", "Authorization"):
        service = section(headers={name: "of-azure"})
        assert service.key(environ) == ("", "headers")
        assert service.missing_key({}) == ""
        assert service.request_headers(service.key(environ)[0]) == {name: "of-azure"}
    gateway = section(headers={"cf-aig-authorization": "of-the-gateway"})
    assert gateway.request_headers(gateway.key(environ)[0]) == {
        "Authorization": "Bearer sk-of-openai",
        "cf-aig-authorization": "of-the-gateway",
    }
    assert gateway.missing_key({})


@pytest.mark.parametrize(
    ("base_url", "sent"),
    [
        ("https://eu.api.openai.com/v1", True),
        ("http://127.0.0.1:8000/v1", True),
        ("http://llm.internal:8000/v1", False),
        ("https://api.openai.com.example.org/v1", False),
        ("https://notopenai.com/v1", False),
    ],
)
def test_a_key_of_the_environment_goes_to_its_vendor_only(base_url: str, sent: bool) -> None:
    environ = {"OPENAI_API_KEY": "sk-of-openai"}
    service = section(base_url=base_url)
    assert (service.key(environ)[0] == "sk-of-openai") is sent
    assert bool(service.missing_key(environ)) is not sent
    assert section(base_url=base_url, api_key="its-own").key(environ)[0] == "its-own"


def test_an_own_header_comes_before_the_key_of_the_section() -> None:
    service = section(api_key="sk-own", headers={"authorization": "Basic x"})
    assert service.request_headers("sk-own") == {"authorization": "Basic x"}


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"Host": "other.example"}, "the engine's own"),
        ({"Sec-WebSocket-Key": "x"}, "the engine's own"),
        ({"X-A b": "x"}, "not a header"),
        ({"X-A": "se\ncret"}, "characters that HTTP does not allow"),
        ({"X-A": "x", "x-a": "y"}, "twice"),
    ],
)
def test_headers_that_cannot_be_sent(headers: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        section(headers=headers)
    assert words in str(raised.value)


def test_the_values_of_headers_are_masked() -> None:
    text = "providers: {it: {type: openai_realtime, headers: {X-Team: blue-17, api-key: k-123}}}"
    loaded = read(text + CONTEXTS, Path("a.yaml"), {})
    assert {"blue-17", "k-123"} <= loaded.secrets
    assert "k-123" in loaded.config.secrets  # in what tools answer; a team's name is none there
    assert "blue-17" not in loaded.config.secrets
    with pytest.raises(ConfigError) as raised:
        read(text.replace("k-123", '"a\\nb-secret"') + CONTEXTS, Path("a.yaml"), {})
    assert "b-secret" not in str(raised.value)


def test_models_whose_end_is_announced() -> None:
    text = """
providers:
  it: {type: openai_realtime, model: gpt-realtime-2025-08-28}
  mine: {type: pipeline, brain: {type: openai_chat, model: gpt-4o, base_url: "http://127.0.0.1"}}
contexts: {demo: {provider: it}, other: {provider: mine}}
"""
    problems = read(text, Path("a.yaml"), {"OPENAI_API_KEY": "k"}).problems
    (ends,) = [str(problem) for problem in problems if "ends on" in str(problem)]
    assert "a.yaml:3" in ends
    assert "gpt-realtime-2025-08-28 ends on 2027-01-20" in ends
    assert OpenAIStt(type="openai").end_of("whisper-1") == "2027-02-26"
    assert OpenAIStt(type="openai").end_of("gpt-transcribe") == ""


def test_an_old_preview_of_realtime_is_told_to_have_ended() -> None:
    text = "providers: {it: {type: openai_realtime, model: gpt-4o-realtime-preview-2025-06-03}}"
    problems = read(text + CONTEXTS, Path("a.yaml"), {"OPENAI_API_KEY": "k"}).problems
    (ends,) = [str(problem) for problem in problems if "ends on" in str(problem)]
    assert "gpt-4o-realtime-preview-2025-06-03 ends on 2026-05-07" in ends


OWN_KEY = "endpoint: {url: 'https://api.openai.com/v1/audio/speech'}"
ELSEWHERE = "endpoint: {url: 'https://gateway.example/v1'}"


@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        ("think: {provider: {model: gpt-4o-mini}}", {"gpt-4o-mini": "2027-01-14"}),
        (
            "think: {provider: {model: gpt-5.4-mini}}, think_fallbacks: [{provider: {type: "
            "anthropic, model: claude-sonnet-4-5-20250929}}, {provider: {model: gpt-4.1}}]",
            {"claude-sonnet-4-5-20250929": "2026-11-30", "gpt-4.1": "2027-01-14"},
        ),
        (
            "speak: {provider: {type: open_ai, model: tts-1}, " + OWN_KEY + "}",
            {"tts-1": "2027-01-06"},
        ),
        ("speak: {provider: {type: open_ai, model: tts-1}, " + ELSEWHERE + "}", {}),
        ("think: {provider: {model: gpt-4o}, " + ELSEWHERE + "}", {}),
        ("think: {provider: {type: google, model: gpt-4o}}", {}),
        (
            "base_url: 'https://api.eu.deepgram.com', think: {provider: {model: o3}}",
            {"o3": "2026-12-11"},
        ),
    ],
)
def test_models_of_others_that_deepgram_uses_end_too(settings: str, ends: dict[str, str]) -> None:
    text = f"providers: {{it: {{type: deepgram_agent, {settings}}}}}" + CONTEXTS
    problems = read(text, Path("a.yaml"), {"DEEPGRAM_API_KEY": "k"}).problems
    told = [str(problem) for problem in problems if "ends on" in str(problem)]
    assert len(told) == len(ends)
    assert all(
        any(f"the model {model} ends on {day}" in each for each in told)
        for model, day in ends.items()
    )
