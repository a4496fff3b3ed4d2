"""The providers of a configuration's contexts, and the order of fallbacks."""

from __future__ import annotations

from collections.abc import Iterable

from cordboard.config.schema import Config, Context


def chain_of(config: Config, context: Context) -> tuple[str, ...]:
    """Return the providers of a context in the order in which they are tried, each once."""
    names: Iterable[str] = (context.provider or config.default_provider, *context.fallback)
    return tuple(dict.fromkeys(names))


def providers_in_use(config: Config) -> tuple[str, ...]:
    """Return the providers that some context may use, in the order of the file."""
    used = {name for context in config.contexts.values() for name in chain_of(config, context)}
    used.add(config.default_provider)
    return tuple(name for name in config.providers if name in used)
