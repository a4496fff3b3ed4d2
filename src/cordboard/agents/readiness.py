"""Readiness of a configuration's agents to serve calls, as far as it is known without trying.

A provider that calls may use is not ready when it has no key, or when the last call that requested
it failed to get it. Keys are looked up, never shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cordboard.agents.provider_health import ProviderHealth
from cordboard.config.provider_chains import chain_of, providers_in_use
from cordboard.config.providers.services import paid_parts
from cordboard.config.schema import Config


class AgentsReadiness(NamedTuple):
    """The agents' part of `/ready`."""

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
            f"{paid.part} has {reason}" if paid.part else reason
            for paid in (paid_parts(provider) if provider is not None else ())
            if (reason := paid.service.missing_key(environ))
        ]
        if missing:
            yield name, ", ".join(missing)
