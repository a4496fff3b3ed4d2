"""Calls, written conversations and steps after calls, for Prometheus."""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

PostCallOutcome = Literal["queued", "delivered", "retried", "failed"]
"""Result of an attempt at a step after a call."""


class CallMetrics:
    """The series of one engine about calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._active_calls = Gauge("ai_agent_active_calls", "Calls in progress.", registry=registry)
        self._calls = Counter(
            "ai_agent_calls",
            "Calls ended, by outcome.",
            ["context", "provider", "outcome"],
            registry=registry,
        )
        self._chat_sessions = Gauge(
            "ai_agent_chat_sessions", "Written conversations in progress.", registry=registry
        )
        self._refused_offers = Counter(
            "ai_agent_refused_offers", "Calls not admitted.", ["reason"], registry=registry
        )
        self._binding_problems = Counter(
            "ai_agent_binding_problems",
            "Calls that requested an unknown context or provider; others answered.",
            registry=registry,
        )

    def started(self) -> None:
        self._active_calls.inc()

    def ended(self, context: str, provider: str, outcome: str) -> None:
        """Count a call that `started` announced. `outcome` is one of a fixed set of words."""
        self._active_calls.dec()
        self._calls.labels(context, provider, outcome).inc()

    def killed(self, context: str, provider: str) -> None:
        """Count a call of an earlier engine that was killed during the call."""
        self._calls.labels(context, provider, "killed").inc()

    def chat_sessions(self, count: int) -> None:
        """Set the number of written conversations in progress."""
        self._chat_sessions.set(count)

    def refused(self, reason: str) -> None:
        """Count a call that was not admitted. `reason` is a fixed word, such as `stopping`."""
        self._refused_offers.labels(reason).inc()

    def binding_problem(self) -> None:
        """Count a call that requested a context or a provider that does not exist."""
        self._binding_problems.inc()


class PostCallMetrics:
    """The series of one engine about steps after calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._jobs = Counter(
            "ai_agent_post_call_jobs",
            "Steps after calls, by result: each is queued once, may be retried, and "
            "is delivered or failed.",
            ["outcome"],
            registry=registry,
        )
        self._waiting = Gauge(
            "ai_agent_post_call_waiting", "Steps after calls that are not done.", registry=registry
        )

    def step(self, outcome: PostCallOutcome) -> None:
        """Count one result of a step after a call."""
        self._jobs.labels(outcome).inc()

    def waiting(self, jobs: int) -> None:
        """Set the number of steps after calls that are not done."""
        self._waiting.set(jobs)
