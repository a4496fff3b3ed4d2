"""What `providers:` may say of an ElevenLabs agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.load import read
from cordboard.errors import ConfigError
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider


def settings(more: str = "") -> ElevenLabsAgentProvider:
    provider = f"{{type: elevenlabs_agent, agent_id: agent_1{more}}}"
    text = f"providers: {{eleven: {provider}}}\ncontexts: {{demo: {{greeting: Hello.}}}}\n"
    found = read(text, Path("a.yaml"), {}).config.providers["eleven"]
    assert isinstance(found, ElevenLabsAgentProvider)
    return found


def test_an_agents_id_is_enough() -> None:
    plain = settings()
    assert plain.overrides == ("prompt", "first_message")
    assert plain.needs_key
    assert not settings(", requires_auth: false").needs_key


def test_its_own_names_are_understood() -> None:
    full = settings(
        ", branch_id: b1, environment: staging, llm: gemini-2.5-flash, language: pt-br, "
        "overrides: [prompt], tts: {voice_id: v1, stability: 0.4, speed: 1.1, "
        "similarity_boost: 1}, dynamic_variables: {shop: Oslo, floor: 2, open: true, rate: 1.5}, "
        "call_variables: [caller_number], extra: {user_id: u}"
    )
    assert full.dynamic_variables == {"shop": "Oslo", "floor": 2, "open": True, "rate": 1.5}
    assert full.dynamic_variables["open"] is True
    assert full.tts.model_dump(exclude_none=True) == {
        "voice_id": "v1",
        "stability": 0.4,
        "speed": 1.1,
        "similarity_boost": 1.0,
    }


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (", voice: anna", "providers.eleven.voice: unknown key"),
        (", tts: {stability: 2}", "providers.eleven.tts.stability: expected"),
        (", tts: {pitch: 1}", "providers.eleven.tts.pitch: unknown key"),
        (", overrides: [voice]", "providers.eleven.overrides[0]: expected"),
        (", dynamic_variables: {a: [1]}", "providers.eleven.dynamic_variables.a"),
        (", call_variables: [1a]", "providers.eleven.call_variables[0]: expected"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(more: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(more)
    assert told in str(caught.value)


def settings_of(rest: str) -> None:
    text = f"providers: {{eleven: {{type: elevenlabs_agent, {rest}}}}}\ncontexts: {{demo: {{}}}}\n"
    read(text, Path("a.yaml"), {})


def test_the_agent_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"providers\.eleven\.agent_id: missing"):
        settings_of("llm: gpt-5.2")
