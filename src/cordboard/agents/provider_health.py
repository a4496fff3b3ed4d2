"""The failures of providers, as calls have found them.

The last failure of each provider is kept until it works again. Shown by `/ready` and `/health`;
reasons contain no secrets (`AgentError`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cordboard.errors import FailureKind

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """The last failure of a provider to serve a call."""

    kind: FailureKind
    reason: str
    at: float
    """Seconds since 1970."""
    count: int = 1
    """Number of failures in a row."""

    def __str__(self) -> str:
        times = f", {self.count} calls running" if self.count > 1 else ""
        return f"{self.kind}: {self.reason}{times}"


class ProviderHealth:
    """The providers of one engine, by their names in the configuration."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._failures: dict[str, ProviderFailure] = {}

    @property
    def failures(self) -> Mapping[str, ProviderFailure]:
        """Providers that failed the last time."""
        return self._failures

    def failed(self, provider: str, kind: FailureKind, reason: str) -> None:
        """Note that a call's agent could not start, or could not continue."""
        before = self._failures.get(provider)
        count = before.count + 1 if before is not None else 1
        failure = ProviderFailure(kind, reason[:_LONGEST_REASON], self._clock(), count)
        self._failures[provider] = failure

    def works(self, provider: str) -> None:
        """Note that an agent has started."""
        self._failures.pop(provider, None)
