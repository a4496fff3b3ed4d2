"""What `/ready` says of agents: keys that are missing, providers that do not work."""

from __future__ import annotations

import pytest

from cordboard.agents.provider_health import ProviderHealth, agents_readiness
from cordboard.config.checks.semantics import with_defaults
from cordboard.config.schema import Config

KEYS = {"OPENAI_API_KEY": "sk-very-secret", "GEMINI_API_KEY": "g-very-secret"}


def config(**context: object) -> Config:
    providers = {
        "openai": {"type": "openai_realtime"},
        "gemini": {"type": "gemini_live"},
        "mixed": {"type": "pipeline", "brain": "openai_chat", "tts": "deepgram"},
        "local": {"type": "pipeline"},
    }
    tree = {
        "providers": providers,
        "contexts": {"a": {"provider": "openai", **context}, "b": {"provider": "local"}},
    }
    return with_defaults(Config.model_validate(tree))


def test_all_is_well() -> None:
    assert agents_readiness(config(), KEYS, ProviderHealth()) == (True, "")


def test_a_key_that_the_default_context_needs() -> None:
    ready, detail = agents_readiness(config(), {}, ProviderHealth())
    assert not ready
    assert detail == "openai: no key: set OPENAI_API_KEY, or api_key"


@pytest.mark.parametrize("behind", ["local", "gemini"])
def test_one_that_can_take_over_is_enough(behind: str) -> None:
    keys = {"GEMINI_API_KEY": "g"}
    ready, detail = agents_readiness(config(fallback=[behind]), keys, ProviderHealth())
    assert ready
    assert detail == "openai: no key: set OPENAI_API_KEY, or api_key"


def test_parts_of_pipelines_are_named() -> None:
    wanted = config(provider="mixed")
    assert agents_readiness(wanted, {}, ProviderHealth()) == (
        False,
        "mixed: brain has no key: set OPENAI_API_KEY, or api_key, "
        "tts has no key: set DEEPGRAM_API_KEY, or api_key",
    )


def test_what_calls_have_found_is_told_until_it_works_again() -> None:
    health = ProviderHealth(lambda: 5.0)
    health.failed("openai", "auth", "it does not accept the key")
    assert agents_readiness(config(), KEYS, health) == (
        True,
        "openai: auth: it does not accept the key",
    )
    health.failed("openai", "quota", "too many requests " * 50)
    failure = health.failures["openai"]
    assert (failure.kind, failure.at, failure.count) == ("quota", 5.0, 2)
    assert len(failure.reason) <= 200
    assert "2 calls running" in agents_readiness(config(), KEYS, health).detail
    health.works("openai")
    assert agents_readiness(config(), KEYS, health) == (True, "")


def test_of_a_provider_that_nobody_uses_nothing_is_told() -> None:
    health = ProviderHealth()
    health.failed("gemini", "connect", "no route")
    assert agents_readiness(config(), KEYS, health) == (True, "")


def test_a_reason_loses_the_secrets_that_it_quotes() -> None:
    health = ProviderHealth(mask=lambda text: text.replace("key-of-azure", "***"))
    health.failed("openai", "auth", "key-of-azure is not valid")
    _, detail = agents_readiness(config(), KEYS, health)
    assert detail == "openai: auth: *** is not valid"


def test_no_key_is_ever_shown() -> None:
    health = ProviderHealth()
    health.failed("openai", "auth", "refused")
    assert "secret" not in agents_readiness(config(provider="mixed"), KEYS, health).detail
