"""Tools, transfer destinations and MCP servers of AVA."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cordboard.importing.ava_http import HttpTool, read_http_tool
from cordboard.importing.ava_keys import (
    LOST_TOOLS,
    MCP_DEFAULT_KEYS,
    MCP_RESTART_KEYS,
    MCP_SERVER_KEYS,
    MCP_TOOL_KEYS,
    NOT_TOOLS,
    PHASES,
    TOOLS,
)
from cordboard.importing.result import Imported, Part

_MODULE = "src.mcp_servers."
_BLIND = "imported transfers are blind; docs/transfers.md has attended ones"


@dataclass(slots=True)
class Tools:
    """Reads all tools into `result.tree`."""

    root: Part
    result: Imported
    http: dict[str, HttpTool] = field(default_factory=dict)
    """HTTP tools by AVA's names."""
    off: set[str] = field(default_factory=set)
    """Tools that AVA has switched off."""

    def read_servers(self) -> None:
        """Read the MCP servers."""
        mcp = self.root.part("mcp")
        self.result.tree["mcp"]["enabled"] = mcp.truth("enabled", default=False)
        self.result.tree["mcp"]["servers"] = {}
        for name, server in mcp.part("servers").parts():
            ours = self.result.renamed("server", f"mcp.servers.{name}", name)
            entry = server.copy(MCP_SERVER_KEYS)
            for key, keys in (("restart", MCP_RESTART_KEYS), ("defaults", MCP_DEFAULT_KEYS)):
                part = server.part(key)
                if copied := part.copy(keys):
                    entry[key] = copied
                part.rest()
            for tool in server.list_of_parts("tools"):
                entry.setdefault("tools", []).append(tool.copy(MCP_TOOL_KEYS))
                tool.rest()
            server.rest()
            self._own_server(ours, entry)
            self.result.put("mcp.servers", ours, entry, f"mcp.servers.{name}")
        mcp.rest()
        if self.result.tree["mcp"]["servers"]:
            words = "AVA gives each server its whole environment; here it gets only what `env` says"
            self.result.changed.append(("mcp.servers", words))

    def _own_server(self, name: str, entry: dict[str, Any]) -> None:
        """Commands inside AVA's own source need another program, or AVA's folder."""
        command: Any = entry.get("command")
        for index, word in enumerate(command if isinstance(command, list) else ()):
            if not isinstance(word, str) or not word.startswith(_MODULE):
                continue
            words = f"{word} is in AVA's source: set `cwd` to AVA's folder, or replace it"
            if word == f"{_MODULE}aviation_atis_server":
                command[index] = "cordboard.mcp_servers.aviation_atis"
                words = "our own server of this kind; check its --config (docs/aviation-atis.md)"
            self.result.changed.append((f"mcp.servers.{name}.command", words))

    def read(self) -> None:
        """Read built-in and HTTP tools."""
        tools = self.root.part("tools")
        tools.leave(NOT_TOOLS)
        if not tools.truth("enabled"):
            self.off |= {*TOOLS, *LOST_TOOLS}
        found = {**self._destinations(tools), **self._for_callers_without_an_agent()}
        if found:
            self.result.tree["tools"]["transfer"] = {"destinations": found}
            self.result.taken.append(f"{len(found)} destinations → tools.transfer.destinations")
        for section, part in (("tools", tools), ("in_call_tools", self.root.part("in_call_tools"))):
            default = "" if part is tools else "in_call"
            for name, tool in part.parts():
                self._tool(f"{section}.{name}", name, tool, default)

    def _tool(self, origin: str, name: str, tool: Part, default: str) -> None:
        """`default`: phase of an HTTP tool without a known `kind`; empty: it is none."""
        phase = PHASES.get(tool.text("kind"), default)
        if not tool.truth("enabled"):
            self.off.add(name)
            if phase:
                self.result.left.append((origin, "switched off"))
        elif phase:
            ours = self.result.renamed("tool", origin, name)
            self.http[name], entry = read_http_tool(tool, ours, phase, self.result)
            self.result.put("tools", ours, entry, origin)
        else:
            reason = LOST_TOOLS.get(name, "unknown to this importer; see docs/from-ava.md")
            self.result.left.append((origin, reason))

    def _destinations(self, tools: Part) -> dict[str, Any]:
        transfer = tools.part("transfer")
        homes = {
            "extension": transfer.text("extension_context") or "from-internal",
            "queue": transfer.text("queue_context") or "ext-queues",
            "ringgroup": transfer.text("ringgroup_context") or "ext-group",
        }
        found: dict[str, Any] = {}
        for name, place in transfer.part("destinations").parts():
            kind = place.text("type") or "extension"
            ours = self.result.renamed("destination", f"destinations.{name}", name)
            found[ours] = {
                "type": "extension" if kind == "extension" else "dialplan",
                "target": place.text("target"),
                "context": place.text("dialplan_context") or homes.get(kind, homes["extension"]),
                "description": place.text("description") or name,
            }
            place.skip(("live_agent", "attended_allowed"))
            place.rest(_BLIND)
        if not transfer.truth("enabled"):
            self.off |= {name for name, ours in TOOLS.items() if ours == "transfer"}
        transfer.rest(
            "transfers are made when the agent has finished speaking; imported ones are blind"
        )
        extensions = tools.part("extensions")
        for number, person in extensions.part("internal").parts():
            name = person.text("name") or number
            if person.truth("transfer"):
                ours = self.result.renamed("destination", f"extensions.internal.{number}", name)
                about = person.text("description") or name
                entry = {"target": number, "context": homes["extension"], "description": about}
                found[ours] = {"type": "extension", **entry}
                person.rest(_BLIND)
        extensions.rest()
        voicemail = tools.part("leave_voicemail")
        if not (voicemail.text("extension") and voicemail.truth("enabled")):
            self.off.add("leave_voicemail")
            return found
        ours = self.result.renamed("destination", "tools.leave_voicemail", "voicemail")
        target = f"vmu{voicemail.text('extension')}"
        entry = {"target": target, "context": "ext-local", "description": "The voice mailbox"}
        return {**found, ours: {"type": "dialplan", **entry}}

    def _for_callers_without_an_agent(self) -> dict[str, Any]:
        key = "provider_failure_redirect"
        place = {
            "type": "dialplan",
            "target": self.root.text(f"{key}_extension") or "s",
            "context": self.root.text(f"{key}_context"),
            "priority": int(self.root.number(f"{key}_priority") or 1),
            "description": "For callers without an agent only",
        }
        if self.root.text("on_provider_failure") != "dialplan_redirect":
            return {}
        name = self.result.renamed("destination", "on_provider_failure", "provider_failure")
        return {name: place}
