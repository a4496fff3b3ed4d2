"""Tools, transfer destinations and MCP servers of AVA."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cordboard.importing.ava_http import PHASES, HttpTools, read_http_tool
from cordboard.importing.ava_keys import (
    LOST_TOOLS,
    MCP_DEFAULT_KEYS,
    MCP_RESTART_KEYS,
    MCP_SERVER_KEYS,
    MCP_TOOL_KEYS,
    NOT_TOOLS,
    TOOLS,
)
from cordboard.importing.names import Names
from cordboard.importing.result import Imported, Part

_MODULE = "src.mcp_servers."


@dataclass(slots=True)
class Tools:
    """Reads all tools into `result.tree`."""

    root: Part
    result: Imported
    names: Names
    http: HttpTools = field(default_factory=HttpTools)
    off: set[str] = field(default_factory=set)
    """Tools that AVA has switched off."""

    def read_servers(self) -> None:
        """Read the MCP servers."""
        mcp = self.root.part("mcp")
        self.result.tree["mcp"]["enabled"] = mcp.truth("enabled", default=False)
        servers: dict[str, Any] = {}
        for name, server in mcp.parts("servers"):
            ours = self.names.renamed("server", f"mcp.servers.{name}", name)
            servers[ours] = entry = server.copy(MCP_SERVER_KEYS)
            for key, keys in (("restart", MCP_RESTART_KEYS), ("defaults", MCP_DEFAULT_KEYS)):
                part = server.part(key)
                if copied := part.copy(keys):
                    entry[key] = copied
                part.rest()
            tools = []
            for tool in server.list_of_parts("tools"):
                tools.append(tool.copy(MCP_TOOL_KEYS))
                tool.rest()
            if tools:
                entry["tools"] = tools
            server.rest()
            self._own_server(ours, entry)
            self.result.taken.append(f"mcp.servers.{name} → mcp.servers.{ours}")
        mcp.rest()
        self.result.tree["mcp"]["servers"] = servers
        if servers:
            words = "AVA gives each server its whole environment; here it gets only what `env` says"
            self.result.changed.append(("mcp.servers", words))

    def _own_server(self, name: str, entry: dict[str, Any]) -> None:
        """Commands inside AVA's own source need another program, or AVA's folder."""
        command: Any = entry.get("command")
        place = f"mcp.servers.{name}.command"
        for index, word in enumerate(command if isinstance(command, list) else ()):
            if word == f"{_MODULE}aviation_atis_server":
                command[index] = "cordboard.mcp_servers.aviation_atis"
                words = "our own server of this kind; check its --config (docs/aviation-atis.md)"
                self.result.changed.append((place, words))
            elif isinstance(word, str) and word.startswith(_MODULE):
                words = f"{word} is in AVA's source: set `cwd` to AVA's folder, or replace it"
                self.result.changed.append((place, words))

    def read(self) -> None:
        """Read built-in and HTTP tools."""
        tools = self.root.part("tools")
        for key, reason in NOT_TOOLS.items():
            tools.leave(key, reason)
        if not tools.truth("enabled", default=True):
            self.off |= {*TOOLS, *LOST_TOOLS}
        self._destinations(tools)
        inside = self.root.part("in_call_tools")
        for section, part, default in (
            ("tools", tools, ""),
            ("in_call_tools", inside, "in_call"),
        ):
            for name, tool in part.parts():
                phase = tool.text("kind") in PHASES or bool(default)
                if not tool.truth("enabled", default=True):
                    self.off.add(name)
                    if phase:
                        self.result.left.append((f"{section}.{name}", "switched off"))
                elif phase:
                    ours = self.names.renamed("tool", f"{section}.{name}", name)
                    read_http_tool(name, tool, ours, self.http, self.result, default)
                    self.result.comment(("tools", ours), f"From {section}.{name}.")
                    self.result.taken.append(f"{section}.{name} → tools.{ours} (http)")
                else:
                    reason = LOST_TOOLS.get(name, "unknown to this importer; see docs/from-ava.md")
                    self.result.left.append((f"{section}.{name}", reason))
        self.root.skip(("tools", "in_call_tools"))

    def _destinations(self, tools: Part) -> None:
        transfer = tools.part("transfer")
        homes = {
            "extension": transfer.text("extension_context") or "from-internal",
            "queue": transfer.text("queue_context") or "ext-queues",
            "ringgroup": transfer.text("ringgroup_context") or "ext-group",
        }
        found: dict[str, Any] = {}
        for name, place in transfer.parts("destinations"):
            kind = place.text("type") or "extension"
            found[self.names.renamed("destination", f"destinations.{name}", name)] = {
                "type": "extension" if kind == "extension" else "dialplan",
                "target": place.text("target"),
                "context": place.text("dialplan_context") or homes.get(kind, homes["extension"]),
                "description": place.text("description") or name,
            }
            place.skip(("live_agent", "attended_allowed"))
            place.rest("no counterpart in a destination; all transfers are blind")
        if not transfer.truth("enabled", default=True):
            self.off |= {name for name, ours in TOOLS.items() if ours == "transfer"}
        transfer.rest("transfers are made when the agent has finished speaking; all are blind")
        extensions = tools.part("extensions")
        for number, person in extensions.parts("internal"):
            name = person.text("name") or number
            if person.truth("transfer", default=True):
                ours = self.names.renamed("destination", f"extensions.internal.{number}", name)
                about = person.text("description") or name
                entry = {"target": number, "context": homes["extension"], "description": about}
                found[ours] = {"type": "extension", **entry}
                person.rest("no counterpart in a destination; all transfers are blind")
        extensions.rest()
        voicemail = tools.part("leave_voicemail")
        if not (voicemail.text("extension") and voicemail.truth("enabled", default=True)):
            self.off.add("leave_voicemail")
        else:
            ours = self.names.renamed("destination", "tools.leave_voicemail", "voicemail")
            target = f"vmu{voicemail.text('extension')}"
            entry = {"target": target, "context": "ext-local", "description": "The voice mailbox"}
            found[ours] = {"type": "dialplan", **entry}
        if self.root.text("on_provider_failure") == "dialplan_redirect":
            extension = self.root.text("provider_failure_redirect_extension") or "s"
            priority = self.root.number("provider_failure_redirect_priority") or 1
            found[self.names.renamed("destination", "on_provider_failure", "provider_failure")] = {
                "type": "dialplan",
                "target": extension,
                "context": self.root.text("provider_failure_redirect_context"),
                "priority": int(priority),
                "description": "For callers without an agent only",
            }
        for key in ("context", "extension", "priority"):
            self.root.skip((f"provider_failure_redirect_{key}",))
        self.root.skip(("on_provider_failure",))
        if found:
            self.result.tree["tools"]["transfer"] = {"destinations": found}
            self.result.taken.append(f"{len(found)} destinations → tools.transfer.destinations")
