"""`type: deepgram_agent` in the configuration: what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cordboard.vendors.deepgram.config import DeepgramAgentProvider


def provider(**values: Any) -> DeepgramAgentProvider:
    return DeepgramAgentProvider.model_validate({"type": "deepgram_agent", **values})


def test_nothing_need_be_said() -> None:
    settings = provider()
    assert settings.listen.provider.recogniser == "flux-general-en"
    assert settings.slow_response == "provider"
    assert settings.key_variables == ("DEEPGRAM_API_KEY",)


def test_the_older_recogniser_has_its_own_default() -> None:
    assert provider(listen={"provider": {"version": "v1"}}).listen.provider.recogniser == "nova-3"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"listen": {"provider": {"language": "de"}}}, "language: version v2"),
        ({"listen": {"provider": {"version": "v1", "eot_threshold": 0.7}}}, "eot_threshold: versi"),
        ({"listen": {"provider": {"eot_threshold": 0.4}}}, "greater than or equal to 0.5"),
        ({"listen": {"model": "nova-3"}}, "Extra inputs are not permitted"),
        ({"language": "de"}, "language: not with Flux"),
        ({"think": {"provider": {"type": "anthropic"}}}, "the model of anthropic must be named"),
        (
            {"think": {"provider": {"type": "google", "model": "g", "reasoning_mode": "low"}}},
            "reasoning_mode: google takes none",
        ),
        ({"think": {"provider": {"voice_prompt_opt_out": True}}}, "voice_prompt_opt_out: open_ai"),
        ({"think": {"context_length": "max"}}, "context_length: it counts with an `endpoint`"),
        ({"think": {"endpoint": {"url": "http://plain.example"}}}, "should match pattern"),
        (
            {"think": {"provider": {"type": "aws_bedrock", "model": "m"}}},
            "endpoint: missing; Deepgram reaches Bedrock",
        ),
        ({"speak": {"provider": {"type": "cartesia"}}}, "Field required"),
        ({"speak": {"provider": {"type": "open_ai"}}}, "Field required"),
        (
            {"speak": {"provider": {"type": "deepgram", "speed": 0.6}}},
            "greater than or equal to 0.7",
        ),
        ({"speak": {"provider": {"type": "espeak"}}}, "espeak"),
    ],
)
def test_what_deepgram_would_refuse_is_refused_here(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        provider(**values)


def test_headers_of_an_endpoint_are_secret() -> None:
    endpoint = {"url": "https://models.example", "headers": {"authorization": "Bearer s3cret"}}
    assert "s3cret" not in repr(provider(think={"endpoint": endpoint}))
