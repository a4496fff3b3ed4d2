"""`prices:`: the vendors' prices of services, from which the cost of calls is computed.

    prices:
      currency: USD
      models:
        acme_realtime/swift-2: {input_audio_tokens: 10, output_audio_tokens: 20}
        acme_stt: {minutes: 0.01}

A key is a type of provider or part, as in the configuration, or such a type, a slash and a model
name or its beginning. No prices are built in, because they change and only the vendor knows them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, model_validator

from cordboard.config.patterns import CURRENCY
from cordboard.config.section import Section

MILLION = 1_000_000.0


def _per_million(what: str) -> float | None:
    price: float | None = Field(None, ge=0, description=f"Per million {what}.")
    return price


class ModelPrices(Section):
    """Prices of one model. The price of a free unit is 0: without a price, the cost of its use is
    unknown."""

    input_text_tokens: float | None = _per_million("tokens of input text")
    input_audio_tokens: float | None = _per_million("tokens of input audio")
    cached_text_tokens: float | None = _per_million("tokens of cached input text")
    cached_audio_tokens: float | None = _per_million("tokens of cached input audio")
    cache_write_tokens: float | None = _per_million("tokens written to its cache")
    output_text_tokens: float | None = _per_million("tokens of output text")
    output_audio_tokens: float | None = _per_million("tokens of output audio")
    minutes: float | None = Field(None, ge=0, description="Per minute.")
    thousand_characters: float | None = Field(None, ge=0, description="Per 1000 characters.")

    def cost(self, amounts: Mapping[str, float]) -> float | None:
        """Return the cost of these amounts (units as in `agent_api.agent.Usage`); None when a used
        unit has no price."""
        total = 0.0
        for unit, amount in amounts.items():
            if amount <= 0:
                continue
            price = self._of_one(unit)
            if price is None:
                return None
            total += amount * price
        return total

    def _of_one(self, unit: str) -> float | None:
        """Return the price of one unit."""
        match unit:
            case "seconds":
                return None if self.minutes is None else self.minutes / 60
            case "characters":
                return None if self.thousand_characters is None else self.thousand_characters / 1000
        price = getattr(self, unit, None) if unit.endswith("_tokens") else None
        return price / MILLION if isinstance(price, int | float) else None


class Prices(Section):
    """Prices of services. Empty: costs are unknown and not reported."""

    currency: str = Field(
        "",
        pattern=CURRENCY,
        description="Currency of all prices: three capital letters, such as `EUR`.",
    )
    models: dict[str, ModelPrices] = Field(
        default_factory=dict,
        description="Prices by `type/model`. The model may be the beginning of a name; the longest "
        "match counts. `type` alone matches all its models.",
    )

    @model_validator(mode="after")
    def _of_a_currency(self) -> Prices:
        if self.models and not self.currency:
            raise ValueError("prices want a `currency`, such as EUR")
        return self

    def find(self, provider: str, model: str) -> ModelPrices | None:
        """Return the prices of a model; None when there are none."""
        wanted = f"{provider}/{model}"
        if wanted in self.models:
            return self.models[wanted]
        fitting = [
            key
            for key in self.models
            if key == provider or (key.startswith(f"{provider}/") and wanted.startswith(key))
        ]
        return self.models[max(fitting, key=len)] if fitting else None

    def cost(self, provider: str, model: str, amounts: Mapping[str, float]) -> float | None:
        """Return the cost of these amounts; None when it is unknown."""
        prices = self.find(provider, model)
        return prices.cost(amounts) if prices is not None else None
