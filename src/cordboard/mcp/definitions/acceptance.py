"""Compare the tools that servers list with the accepted ones, and accept them.

For `cordboard mcp accept` and for `/mcp/lock` of the admin port. Differences of a large listing
take a moment: make them in a thread.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import mcp_types as types

from cordboard.mcp.definitions.diff import definition_diff, heading
from cordboard.mcp.definitions.lock import Lock, diff

State = Literal["same", "changed", "new", "gone", "unseen"]
"""`new`: nothing of this server has been accepted; `gone`: accepted, but no longer in the
configuration; `unseen`: it has not listed its tools yet."""
MAX_LINES = 1_000
"""Lines of one server's differences in a `Comparison`."""
_OUTPUT = "outputSchema"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One server's tools beside the accepted ones."""

    server: str
    state: State
    diff: tuple[str, ...] = ()
    digest: str = ""
    """Hash of both sides: a later acceptance is of what was seen. Empty if `unseen`."""


def accept_listings(
    old: Lock, listings: Mapping[str, Iterable[types.Tool]], known: Collection[str] | None
) -> Lock:
    """Return the lock with all differences accepted, and only those servers marked as changed.
    Servers that are not `known` are forgotten; None: all others stay."""
    new = old
    for server, listing in listings.items():
        candidate = new.accepted(server, listing)
        if server not in old.servers or diff(new, candidate):
            new = candidate
    if known is not None:
        for server in old.servers:
            if server not in known:
                new = new.forgotten(server)
    return new


def differences(old: Lock, new: Lock) -> list[str]:
    """Return the lines to accept: the change of a changed tool, the agent's view of a new one.

    The output schema of a tool is only checked, never shown to agents, so a new tool's is left out.
    """
    lines: list[str] = []
    for server in sorted(new.changed):
        before, after = old.servers.get(server, {}), new.servers.get(server, {})
        if not before and not after:
            lines.append(f"{server}: no tools")
        for tool in sorted({*before, *after}):
            was, now = before.get(tool), after.get(tool)
            if now is None:
                lines.append(heading(server, tool, "gone"))
            elif was is None:
                told = {k: v for k, v in now.definition.items() if k not in ("name", _OUTPUT)}
                shown = definition_diff({"name": tool}, {"name": tool, **told})
                lines += [heading(server, tool, "new"), *shown]
            elif was.sha256 != now.sha256:
                changed = definition_diff(was.definition, now.definition)
                lines += [heading(server, tool, "changed"), *changed]
    return lines


def compare(
    lock: Lock, listings: Mapping[str, Iterable[types.Tool] | None], known: Collection[str]
) -> list[Comparison]:
    """Compare every server: those with a listing, those without (None), and those of the lock that
    are not `known` any more."""
    found = [
        Comparison(server, "unseen") if listing is None else _compare_one(lock, server, listing)
        for server, listing in listings.items()
    ]
    gone = [server for server in lock.servers if server not in known]
    return found + [
        Comparison(server, "gone", digest=_digest(server, lock, lock.forgotten(server)))
        for server in gone
    ]


def _compare_one(lock: Lock, server: str, listing: Iterable[types.Tool]) -> Comparison:
    new = accept_listings(lock, {server: listing}, None)
    digest = _digest(server, lock, new)
    if not new.changed:
        return Comparison(server, "same", digest=digest)
    lines = differences(lock, new)
    shown = (*islice(lines, MAX_LINES), *(["... and more"] if len(lines) > MAX_LINES else []))
    return Comparison(server, "changed" if server in lock.servers else "new", shown, digest)


def _digest(server: str, old: Lock, new: Lock) -> str:
    """Return a hash of the server's entry in both locks."""
    sides = [
        {tool: pin.sha256 for tool, pin in lock.servers[server].items()}
        if server in lock.servers
        else None
        for lock in (old, new)
    ]
    return hashlib.sha256(json.dumps([server, sides], sort_keys=True).encode()).hexdigest()
