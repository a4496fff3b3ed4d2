"""What agents use up and what it costs, for Prometheus: a part of `observe.metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from cordboard.observe.bounded_labels import BoundedLabels

MAX_MODELS = 100
"""Models that have series of their own: a service may tell of one that nobody has configured."""


class CostMetrics:
    """The series about money of one engine."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models = BoundedLabels(MAX_MODELS)
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
        self._usage.labels(provider, self._models.label(model), unit).inc(amount)

    def cost(self, context: str, provider: str, currency: str, amount: float) -> None:
        """A service has cost so much."""
        self._cost.labels(context, provider, currency).inc(amount)
