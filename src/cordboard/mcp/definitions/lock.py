"""The accepted definition of each MCP tool, and the comparison of a listed tool with it. Pure.

A server may change a tool's description and parameters at any time, also after the operator has
reviewed them. A `Lock` pins a SHA-256 of each definition as agents receive it, and the definition
itself, so that a change can be shown. `cordboard.mcp.definitions.lockfile` stores it in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import mcp_types as types

from cordboard.errors import ConfigProblem
from cordboard.mcp.definitions.definition import ListedTool, read_tool
from cordboard.mcp.definitions.diff import MAX_LINES, definition_diff, heading
from cordboard.tools.tool import JsonObject


class Standing(StrEnum):
    """Result of comparing a listed tool with the accepted one."""

    SAME = "same"
    NEW = "new"
    """The server has an entry, but without this tool."""
    CHANGED = "changed"
    GONE = "gone"
    """Accepted, but no longer listed."""
    UNKNOWN = "unknown"
    """No tools of this server have been accepted yet."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One accepted definition."""

    sha256: str
    definition: JsonObject


@dataclass(frozen=True, slots=True)
class Judgement:
    """The comparison of one tool with the lock."""

    standing: Standing
    accepted: JsonObject = field(default_factory=dict)
    """The accepted definition; empty unless the tool has changed."""
    listed: JsonObject = field(default_factory=dict)
    """The definition as listed now; empty unless the tool has changed."""

    def diff(self, limit: int = MAX_LINES) -> tuple[str, ...]:
        """Return the differences of a changed tool: lines `- path: value`, `+ path: value`."""
        return tuple(definition_diff(self.accepted, self.listed, limit))


@dataclass(frozen=True, slots=True)
class Lock:
    """Everything that has been accepted: server → tool → `Pin`."""

    servers: Mapping[str, Mapping[str, Pin]] = field(default_factory=dict)
    problem: ConfigProblem | None = None
    """Problem of an existing but unreadable file; nothing counts as accepted then."""
    changed: frozenset[str] = frozenset()
    """The servers whose entries differ from the file's (`save_lock` writes only these)."""

    def judge(self, server: str, tool: types.Tool) -> Judgement:
        """Compare a listed tool with the lock."""
        pins = self.servers.get(server)
        if pins is None:
            return Judgement(Standing.UNKNOWN)
        pin = pins.get(tool.name)
        if pin is None:
            return Judgement(Standing.NEW)
        listed = read_tool(tool)
        if not listed.refusal and listed.fingerprint == pin.sha256:
            return Judgement(Standing.SAME)
        return Judgement(Standing.CHANGED, pin.definition, listed.definition)

    def pinned(self, server: str, tool: str) -> ListedTool | None:
        """Return a tool as it was accepted; None if it was not."""
        pin = self.servers.get(server, {}).get(tool)
        return read_tool(pin.definition) if pin is not None else None

    def gone(self, server: str, listing: Iterable[types.Tool]) -> tuple[str, ...]:
        """Return the names of accepted tools that the server no longer lists."""
        listed = {tool.name for tool in listing}
        return tuple(name for name in self.servers.get(server, ()) if name not in listed)

    def accepted(self, server: str, listing: Iterable[types.Tool]) -> Lock:
        """Return a lock with this listing instead of the server's earlier entry; others stay."""
        tools = [read_tool(tool) for tool in listing]
        pins = {
            tool.name: Pin(tool.fingerprint, tool.definition) for tool in tools if not tool.refusal
        }
        return replace(
            self,
            servers={**self.servers, server: pins},
            changed=self.changed | {server},
        )

    def forgotten(self, server: str) -> Lock:
        """Return a lock without the server's entry; others stay."""
        servers = {name: pins for name, pins in self.servers.items() if name != server}
        return replace(self, servers=servers, changed=self.changed | {server})


def diff(old: Lock, new: Lock) -> str:
    """Return the differences between two locks as text for people."""
    lines: list[str] = []
    for server in sorted({*old.servers, *new.servers}):
        before, after = old.servers.get(server, {}), new.servers.get(server, {})
        for tool in sorted({*before, *after}):
            was, now = before.get(tool), after.get(tool)
            if was is not None and now is not None and was.sha256 == now.sha256:
                continue
            standing = "changed" if was and now else "new" if now else "gone"
            lines.append(heading(server, tool, standing))
            lines += definition_diff(was.definition if was else {}, now.definition if now else {})
    return "\n".join(lines)
