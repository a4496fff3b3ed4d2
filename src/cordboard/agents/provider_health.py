"""The failures of providers, as calls have found them, and their readiness to serve calls.

The last failure of each provider is kept until it works again. Shown by `/ready` and `/health`;
reasons contain no secrets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from cordboard.config.providers import paid_parts
from cordboard.config.schema import Config, chain_of, providers_in_use
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

    def __init__(
        self, clock: Callable[[], float] = time.time, mask: Callable[[str], str] = str
    ) -> None:
        """`mask` removes secrets from a reason: services quote what they were sent."""
        self._clock = clock
        self._mask = mask
        self._failures: dict[str, ProviderFailure] = {}

    @property
    def failures(self) -> Mapping[str, ProviderFailure]:
        """Providers that failed the last time."""
        return self._failures

    def failed(self, provider: str, kind: FailureKind, reason: str) -> None:
        """Note that a call's agent could not start, or could not continue."""
        before = self._failures.get(provider)
        count = before.count + 1 if before is not None else 1
        failure = ProviderFailure(kind, self._mask(reason)[:_LONGEST_REASON], self._clock(), count)
        self._failures[provider] = failure

    def works(self, provider: str) -> None:
        """Note that an agent has started."""
        self._failures.pop(provider, None)


class AgentsReadiness(NamedTuple):
    """The agents' part of `/ready`, as far as it is known without trying.

    A provider that calls may use is not ready when it has no key, or when the last call that
    requested it failed to get it. Keys are looked up, never shown.
    """

    ready: bool
    """True if any provider of the default context has everything it needs."""
    detail: str
    """Reason per failing provider, for example 'openai: no key'; empty when all are ready."""


def agents_readiness(
    config: Config,
    environ: Mapping[str, str],
    health: ProviderHealth,
    unmade: Mapping[str, str] = MappingProxyType({}),
) -> AgentsReadiness:
    """Return the readiness of the configuration in force. `unmade`: provider → the reason why its
    plug-in cannot make it."""
    keyless = {**dict(_keyless(config, environ)), **unmade}
    failures = health.failures
    details = [
        f"{name}: {keyless[name] if name in keyless else failures[name]}"
        for name in providers_in_use(config)
        if name in keyless or name in failures
    ]
    default = config.contexts[config.default_context or next(iter(config.contexts))]
    ready = any(name not in keyless for name in chain_of(config, default))
    return AgentsReadiness(ready, "; ".join(details))


def _keyless(config: Config, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the providers that cannot be used, with the reason."""
    for name in providers_in_use(config):
        provider = config.providers.get(name)
        missing = [
            f"{paid.key} has {reason}" if paid.key else reason
            for paid in (paid_parts(provider) if provider is not None else ())
            if (reason := paid.section.missing_key(environ))
        ]
        if missing:
            yield name, ", ".join(missing)
