"""Prices, budgets, keys and places to go: what a file may say, and what is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.load import LoadedConfig, read
from cordboard.config.prices import ModelPrices, Prices
from cordboard.errors import ConfigError

PRICES = Prices.model_validate(
    {
        "currency": "USD",
        "models": {
            "acme": {"minutes": 6},
            "acme/swift": {"input_text_tokens": 1, "output_text_tokens": 4},
            "acme/swift-mini": {"input_text_tokens": 0.5, "output_text_tokens": 0},
            "voice/x": {"thousand_characters": 2},
        },
    }
)


def load(text: str, **environ: str) -> LoadedConfig:
    return read(text, Path("a.yaml"), environ)


def warnings(text: str, **environ: str) -> list[str]:
    return [str(problem) for problem in load(text, **environ).problems]


@pytest.mark.parametrize(
    ("provider", "model", "amounts", "cost"),
    [
        ("acme", "swift", {"input_text_tokens": 2_000_000}, 2.0),
        ("acme", "swift-2026-01-31", {"output_text_tokens": 500_000}, 2.0),
        ("acme", "swift-mini-2026", {"input_text_tokens": 2_000_000}, 1.0),
        ("acme", "swift-mini", {"output_text_tokens": 9_000}, 0.0),
        ("acme", "slow", {"seconds": 30}, 3.0),
        ("acme", "", {"seconds": 60}, 6.0),
        ("voice", "x", {"characters": 500}, 1.0),
        ("voice", "x", {"characters": 500, "seconds": 1}, None),
        ("voice", "y", {"characters": 500}, None),
        ("acm", "swift", {"input_text_tokens": 1}, None),
        ("acme2", "", {"seconds": 60}, None),
        ("voice", "x", {"seconds": 0.0}, 0.0),
        ("voice", "x", {"currency": 3.0}, None),
    ],
)
def test_costs(provider: str, model: str, amounts: dict[str, float], cost: float | None) -> None:
    found = PRICES.cost(provider, model, amounts)
    assert found == (None if cost is None else pytest.approx(cost))


def test_every_unit_of_usage_has_a_price_of_its_own() -> None:
    units = [name for name in ModelPrices.model_fields if name.endswith("_tokens")]
    prices = ModelPrices.model_validate({unit: 1_000_000 * n for n, unit in enumerate(units, 1)})
    for number, unit in enumerate(units, 1):
        assert prices.cost({unit: 1}) == number


def test_prices_want_a_currency() -> None:
    with pytest.raises(ConfigError) as raised:
        load("prices: {models: {acme: {minutes: 1}}}\ncontexts: {a: {}}")
    assert "currency" in str(raised.value)
    with pytest.raises(ConfigError):
        load("prices: {currency: dollars}\ncontexts: {a: {}}")
    with pytest.raises(ConfigError):
        load("prices: {currency: EUR, models: {acme: {minutes: -1}}}\ncontexts: {a: {}}")


def test_none_are_built_in() -> None:
    assert load("contexts: {a: {}}").config.prices.models == {}


BUDGET = """\
providers:
  live: {type: openai_realtime, model: swift, api_key: k}
  local: {type: pipeline}
contexts:
  a: {provider: live, fallback: [local], rules: {}, budget: {max_cost_per_call: 2, max_minutes: 5}}
"""


def test_a_budget_that_cannot_be_counted_is_warned_of() -> None:
    told = warnings(BUDGET)
    assert told[0] == (
        "a.yaml:5: contexts.a.budget.max_cost_per_call: there is no price for "
        "openai_realtime/swift in `prices`: its cost is not counted"
    )
    assert [warning.split(" in `prices`")[0].split()[-1] for warning in told[1:]] == [
        "openai_realtime/gpt-transcribe"
    ]
    priced = f"{BUDGET}prices: {{currency: EUR, models: {{openai_realtime: {{minutes: 1}}}}}}\n"
    assert warnings(priced) == []


def test_minutes_alone_want_no_prices() -> None:
    assert warnings(BUDGET.replace("max_cost_per_call: 2, ", "")) == []


def test_a_budget_is_more_than_nothing() -> None:
    for wrong in ("max_minutes: 0", "max_cost_per_call: 0", "goodbye: ''", "max_cost: 1"):
        with pytest.raises(ConfigError):
            load(f"contexts: {{a: {{budget: {{{wrong}}}}}}}")


KEYS = """\
providers:
  live: {type: gemini_live}
  parts:
    type: pipeline
    stt: deepgram
    brain: {type: openai_chat, base_url: "http://127.0.0.1:11434/v1"}
  unused: {type: openai_realtime}
contexts:
  a: {provider: live, fallback: [parts]}
default_provider: parts
"""


def test_a_missing_key_is_named_where_it_is_missed() -> None:
    assert warnings(KEYS) == [
        "a.yaml:2: providers.live: gemini_live has no key: set GEMINI_API_KEY or GOOGLE_API_KEY, "
        "or api_key",
        "a.yaml:5: providers.parts.stt: deepgram has no key: set DEEPGRAM_API_KEY, or api_key",
    ]


def test_a_key_from_the_environment_or_the_file_is_enough() -> None:
    environ = {"GOOGLE_API_KEY": "g-secret", "DEEPGRAM_API_KEY": "d-secret"}
    assert warnings(KEYS, **environ) == []
    assert warnings(KEYS, GOOGLE_API_KEY="", DEEPGRAM_API_KEY="x") != []
    told = " ".join(warnings(KEYS, DEEPGRAM_API_KEY="d-secret"))
    assert "d-secret" not in told


def test_callers_are_passed_on_to_a_place_that_there_is() -> None:
    text = """\
tools:
  transfer: {destinations: {sales: {target: "6001", context: internal}}}
contexts:
  a:
    on_failure: sale
"""
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert str(raised.value) == (
        "a.yaml:5: contexts.a.on_failure: there is no tools.transfer destination sale; "
        "did you mean sales?"
    )
    assert load(text.replace("sale\n", "sales\n")).config.contexts["a"].on_failure == "sales"


def test_keys_pass_callers_on_to_a_place_that_there_is() -> None:
    text = """\
tools:
  transfer: {destinations: {sales: {target: "6001", context: internal}}}
contexts:
  a:
    keys:
      prompt: Press 1 for sales.
      options:
        "1": {transfer: sale}
"""
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert str(raised.value) == (
        "a.yaml:8: contexts.a.keys.options.1.transfer: there is no tools.transfer destination "
        "sale; did you mean sales?"
    )
