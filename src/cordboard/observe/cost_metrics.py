"""Usage and cost of agents, for Prometheus: a part of `observe.metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from cordboard.observe.bounded_labels import BoundedLabels

MAX_MODELS = 100
"""Models with series of their own: a service may report one that is not configured."""


class CostMetrics:
    """The series of one engine about money."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models = BoundedLabels(MAX_MODELS)
        self._usage = Counter(
            "ai_agent_usage",
            "Usage that agents' services have counted: tokens, seconds, characters, by unit.",
            ["provider", "model", "unit"],
            registry=registry,
        )
        self._cost = Counter(
            "ai_agent_cost",
            "Cost of agents' services, by `prices`.",
            ["context", "provider", "currency"],
            registry=registry,
        )

    def used(self, provider: str, model: str, unit: str, amount: float) -> None:
        """Add usage that a service has counted. `model` may be the service's own name."""
        self._usage.labels(provider, self._models.label(model), unit).inc(amount)

    def cost(self, context: str, provider: str, currency: str, amount: float) -> None:
        """Add the cost of a service."""
        self._cost.labels(context, provider, currency).inc(amount)
