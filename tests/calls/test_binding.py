from __future__ import annotations

import pytest

from cordboard.calls.binding import bind
from cordboard.config.schema import Config
from cordboard_testkit.fake_line import FakeLine

CONFIG = Config.model_validate(
    {
        "default_context": "front",
        "default_provider": "local",
        "providers": {"local": {"type": "pipeline"}, "other": {"type": "pipeline"}},
        "contexts": {"front": {}, "sales": {"provider": "other"}, "night": {}},
        "routes": {"200": "night"},
    }
)


@pytest.mark.parametrize(
    ("variables", "called", "context", "provider"),
    [
        ({}, "100", "front", "local"),
        ({}, "200", "night", "local"),
        ({"AI_AGENT": "sales"}, "200", "sales", "other"),
        ({"AI_CONTEXT": "night", "AI_AGENT": "sales"}, "100", "night", "local"),
        ({"AI_CONTEXT": "sales", "AI_PROVIDER": "local"}, "100", "sales", "local"),
        ({"AI_CONTEXT": ""}, "200", "night", "local"),
    ],
)
def test_the_first_source_that_names_something_wins(
    variables: dict[str, str], called: str, context: str, provider: str
) -> None:
    binding = bind(FakeLine().offer(variables, called), CONFIG)
    assert (binding.context_name, binding.provider_name) == (context, provider)
    assert binding.problems == ()


def test_an_unknown_name_is_reported_and_the_next_source_answers() -> None:
    offer = FakeLine().offer({"AI_CONTEXT": "slaes", "AI_PROVIDER": "nobody"}, "200")
    binding = bind(offer, CONFIG)
    assert (binding.context_name, binding.provider_name) == ("night", "local")
    assert "AI_CONTEXT names the unknown context 'slaes'" in binding.problems[0]
    assert "AI_PROVIDER names the unknown provider 'nobody'" in binding.problems[1]


def test_without_any_default_the_first_context_answers() -> None:
    config = Config.model_validate({"contexts": {"one": {}, "two": {}}})
    assert bind(FakeLine().offer(), config).context_name == "one"
