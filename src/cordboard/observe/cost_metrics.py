"""What agents use up and what it costs, for Prometheus: a part of `observe.metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

MAX_MODELS = 100
"""Models that have series of their own: a service may tell of one that nobody has configured."""
OTHER_MODELS = "other"
"""Stands for all further ones."""
_MAX_LABEL = 128


class CostMetrics:
    """The series about money of one engine."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models: set[str] = set()
        self._usage = Counter(
            "ai_agent_usage",
            "What services of agents have counted: tokens, seconds, characters, by unit.",
            ["provider", "model", "unit"],
            registry=registry,
        )
        self._cost = Counter(
            "ai_agent_cost",
            "What services of agents have cost, by `prices`.",
            ["context", "provider", "currency"],
            registry=registry,
        )

    def used(self, provider: str, model: str, unit: str, amount: float) -> None:
        """A service has counted so much. `model` may be as the service tells it."""
        self._usage.labels(provider, self._label(model), unit).inc(amount)

    def cost(self, context: str, provider: str, currency: str, amount: float) -> None:
        """A service has cost so much."""
        self._cost.labels(context, provider, currency).inc(amount)

    def _label(self, model: str) -> str:
        label = model[:_MAX_LABEL].encode("utf-8", "replace").decode()
        if label not in self._models:
            if len(self._models) >= MAX_MODELS:
                return OTHER_MODELS
            self._models.add(label)
        return label
