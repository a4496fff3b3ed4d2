"""Differences of two configurations, as dotted keys. Pure.

A key names the smallest part that has a name: `contexts.demo.greeting`, a whole server that was
added or removed (`mcp.servers.orders`), a whole list (`contexts.demo.tools`).
Values are never shown: any of them may be a secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

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
    "outbound.campaigns",
    "privacy.encryption",
    "cluster",
)
"""Resources that the engine opens, or connects to, once in its life."""


_WITHOUT_A_RESTART = ("tools", "defaults", "enabled", "start")
"""Settings of an MCP server that its process does not depend on."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two configurations."""

    key: str
    takes_effect: Literal["now", "idle", "restart"]
    """`now`: for the next call; `idle`: once no call is active; `restart`: when the engine is
    started again."""


def changes(before: Config, after: Config) -> tuple[str, ...]:
    """Return the keys whose values differ, in the order of the schema."""
    return tuple(dotted(path) for path in _differences(before, after, ()))


def needs_restart(key: str) -> bool:
    """Return True if a change of this key takes effect only after a restart of the engine."""
    return any(key == fixed or key.startswith(f"{fixed}.") for fixed in _FIXED)


def changes_with_effect(
    running: Config, new: Config, hidden: Collection[KeyPath] = ()
) -> tuple[Change, ...]:
    """Return the changes that putting `new` into force would make, and when each takes effect. The
    places in `hidden` count as changed, whether their values are equal or not."""
    found = [
        path
        for path in _differences(running, new, ())
        if not any(path[: len(place)] == place for place in hidden)
    ]
    found += [place for place in hidden if not any(place[: len(path)] == path for path in found)]
    return tuple(_effect(path, running, new) for path in found)


def _effect(path: KeyPath, running: Config, new: Config) -> Change:
    key = dotted(path)
    if needs_restart(key):
        return Change(key, "restart")
    if path[:2] == ("mcp", "servers") and len(path) > 3 and path[3] not in _WITHOUT_A_RESTART:
        servers = (config.mcp.servers.get(str(path[2])) for config in (running, new))
        if new.reload.mcp == "idle" and all(each and each.enabled for each in servers):
            return Change(key, "idle")
    return Change(key, "now")


def _differences(before: object, after: object, path: KeyPath) -> Iterator[KeyPath]:
    if before == after:  # nearly all sections of a draft: one comparison, not one for each key
        return
    if isinstance(before, Section) and type(before) is type(after):
        for name in type(before).model_fields:
            yield from _differences(getattr(before, name), getattr(after, name), (*path, name))
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**after, **before}:
            if name in before and name in after:
                yield from _differences(before[name], after[name], (*path, name))
            else:
                yield (*path, name)
    else:
        yield path
