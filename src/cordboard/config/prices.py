"""`prices:`: what services cost, as their vendors say, so that calls can tell what they have cost.

    prices:
      currency: USD
      models:
        acme_realtime/swift-2: {input_audio_tokens: 10, output_audio_tokens: 20}
        acme_stt: {minutes: 0.01}

A key is a type of provider or part, as in the configuration, and after a slash the name of a model,
or how such names begin. There are no prices built in: they change, and they are the vendor's to
tell.
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
    """Prices of one model. A unit that costs nothing is 0: without a price, the cost of what uses
    it is not known."""

    input_text_tokens: float | None = _per_million("tokens of text that it reads")
    input_audio_tokens: float | None = _per_million("tokens of sound that it hears")
    cached_text_tokens: float | None = _per_million("tokens of text that it had read before")
    cached_audio_tokens: float | None = _per_million("tokens of sound that it had heard before")
    cache_write_tokens: float | None = _per_million("tokens that are put into its cache")
    output_text_tokens: float | None = _per_million("tokens of text that it writes")
    output_audio_tokens: float | None = _per_million("tokens of sound that it speaks")
    minutes: float | None = Field(None, ge=0, description="Per minute.")
    thousand_characters: float | None = Field(None, ge=0, description="Per 1000 characters.")

    def cost(self, amounts: Mapping[str, float]) -> float | None:
        """Of so much of each unit (units as in `agent_api.agent.Usage`); None when a unit that was
        used has no price."""
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
        """The price of one of a unit."""
        match unit:
            case "seconds":
                return None if self.minutes is None else self.minutes / 60
            case "characters":
                return None if self.thousand_characters is None else self.thousand_characters / 1000
        price = getattr(self, unit, None) if unit.endswith("_tokens") else None
        return price / MILLION if isinstance(price, int | float) else None


class Prices(Section):
    """What services cost. Empty: costs are not known, and not told."""

    currency: str = Field(
        "",
        pattern=CURRENCY,
        description="Of all prices: three capital letters, such as `EUR`.",
    )
    models: dict[str, ModelPrices] = Field(
        default_factory=dict,
        description="Prices by `type/model`. The model may be the beginning of a name, the longest "
        "one that fits counts; `type` alone is all its models.",
    )

    @model_validator(mode="after")
    def _of_a_currency(self) -> Prices:
        if self.models and not self.currency:
            raise ValueError("prices want a `currency`, such as EUR")
        return self

    def find(self, provider: str, model: str) -> ModelPrices | None:
        """The prices of a model; None when there are none."""
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
        """What so much of it costs; None when that is not known."""
        prices = self.find(provider, model)
        return prices.cost(amounts) if prices is not None else None
