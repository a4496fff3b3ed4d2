"""Differences of two configurations, as dotted keys. Pure.

A key names the smallest part that has a name: `contexts.demo.greeting`, a whole server that was
added or removed (`mcp.servers.orders`), a whole list (`contexts.demo.tools`).
Values are never shown: any of them may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cordboard.config.schema import Config
from cordboard.config.section import Section
from cordboard.config.yaml_document import KeyPath, dotted

_FIXED = (
    "health",
    "admin.ui",
    "tracing",
    "asterisk",
    "rtp",
    "audiosocket.host",
    "audiosocket.port",
    "calls.directory",
    "calls.index",
)
"""Resources that the engine opens, or connects to, once in its life."""


def changes(before: Config, after: Config) -> tuple[str, ...]:
    """Return the keys whose values differ, in the order of the schema."""
    return tuple(dotted(path) for path in _differences(before, after, ()))


def needs_restart(key: str) -> bool:
    """Return True if a change of this key takes effect only after a restart of the engine."""
    return any(key == fixed or key.startswith(f"{fixed}.") for fixed in _FIXED)


def _differences(before: object, after: object, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(before, Section) and type(before) is type(after):
        for name in type(before).model_fields:
            yield from _differences(getattr(before, name), getattr(after, name), (*path, name))
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**after, **before}:
            if name in before and name in after:
                yield from _differences(before[name], after[name], (*path, name))
            else:
                yield (*path, name)
    elif before != after:
        yield path
