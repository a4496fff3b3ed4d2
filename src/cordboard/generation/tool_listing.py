"""Table of all tools of a configuration: the facts of each, and why one is not offered.

For people and programs (`cordboard tools`, `GET /tools`); an agent sees its toolbox. The table is
made at once, of one moment's catalogue and fleet. Converting rows for a provider or to JSON may
take long for thousands of tools and belongs in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cordboard.config.naming import exposed_name, mcp_origin
from cordboard.config.schema import Config
from cordboard.config.tools.entry import BUILTIN_TOOLS, McpToolEntry, PythonTool, group_server
from cordboard.errors import NotThere
from cordboard.mcp.fleet import Fleet
from cordboard.mcp.listed_tools import listed_tools
from cordboard.mcp.supervision.status import ServerState
from cordboard.tools.catalogue import Catalogue
from cordboard.tools.provider_schema import for_provider_list
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject, ToolSpec

NOT_CONFIGURED = {
    "transfer": "there is nowhere to transfer to",
    "take_message": "no tool gets the messages",
    "request_callback": "it is not configured",
    "send_email": "there is no mail server",
}
"""Built-in tools that need settings, and why they are not offered without."""
NOT_YET = "no source offers it at this moment"


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool."""

    name: str
    """Exposed name; `server.*` for a group that offers nothing."""
    kind: str
    """Kind of tool; empty if unknown."""
    origin: str = ""
    server: str = ""
    effects: str = ""
    """Empty for a tool that is not offered; so is `approval`."""
    approval: str = ""
    description: str = ""
    parameters: JsonObject = field(default_factory=dict)
    offered: bool = False
    why_not: str = ""
    """Reason why it is not offered; empty when it is."""


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools of a context, or of the whole configuration."""

    context: str | None
    rows: tuple[ToolRow, ...]
    specs: tuple[ToolSpec, ...]
    """Specs of the tools that are offered."""

    def as_json(
        self, provider: str | None = None, profile: SchemaProfile | None = None
    ) -> dict[str, Any]:
        """Return `{context, tools}`; with a provider's name and schema profile also `provider`:
        the tools in that provider's form. May take long."""
        whole: dict[str, Any] = {
            "context": self.context,
            "tools": [asdict(row) for row in self.rows],
        }
        if provider is None or profile is None:
            return whole
        return whole | {"provider": self._for(provider, profile)}

    def _for(self, provider: str, profile: SchemaProfile) -> dict[str, Any]:
        tools, problems = for_provider_list(self.specs, profile)
        return {
            "name": provider,
            "tools": [tool.declared() | {"notes": list(tool.notes)} for tool in tools],
            "problems": [problem.message for problem in problems],
        }


def list_tools(
    config: Config, fleet: Fleet, catalogue: Catalogue, context: str | None = None
) -> ToolListing:
    """Return the tools as of now. Raises `NotThere` for an unknown context."""
    if context is None:
        offered = [entry.spec for tool in catalogue if (entry := catalogue.offered(tool))]
        withheld = _withheld(config, fleet, catalogue).values()
        rows = (*map(_offered, offered), *withheld, *_namesakes(fleet, catalogue))
        return ToolListing(None, rows, tuple(offered))
    if context not in config.contexts:
        known = ", ".join(config.contexts)
        raise NotThere(f"there is no context {context[:64]!r}; known: {known}")
    box = catalogue.toolbox(config.contexts[context].tools)
    missing = _missing(box.missing, config, fleet, catalogue)
    return ToolListing(context, (*map(_offered, box.specs), *missing), box.specs)


def _offered(spec: ToolSpec) -> ToolRow:
    return ToolRow(
        spec.name,
        spec.kind,
        spec.origin,
        spec.server,
        str(spec.effects),
        spec.approval,
        spec.description,
        spec.parameters,
        offered=True,
    )


def _missing(
    names: Sequence[str], config: Config, fleet: Fleet, catalogue: Catalogue
) -> Iterator[ToolRow]:
    if not names:
        return
    withheld = _withheld(config, fleet, catalogue)
    for name in names:
        server = group_server(name)
        if server is not None:
            why = _why_no_server(server, config, fleet) or "it offers no tool"
            yield ToolRow(name, "mcp", server=server, why_not=why)
        else:
            yield withheld.get(name) or ToolRow(name, "", why_not=NOT_YET)


def _withheld(config: Config, fleet: Fleet, catalogue: Catalogue) -> dict[str, ToolRow]:
    """Return the tools that are known and not offered, by name."""
    rows: dict[str, ToolRow] = {}
    for row in (
        *_listed(listed_tools(fleet, catalogue)),
        *_named_under_servers(config, fleet, catalogue),
        *_named(config, fleet, catalogue),
    ):
        if row.name not in catalogue:
            rows.setdefault(row.name, row)
    return rows


def _namesakes(fleet: Fleet, catalogue: Catalogue) -> Iterator[ToolRow]:
    """Yield tools of servers whose names belong to other tools."""
    listed = _listed(listed_tools(fleet, catalogue))
    return (row for row in listed if row.name in catalogue)


def _listed(tools: Iterable[Mapping[str, Any]]) -> Iterator[ToolRow]:
    """Yield a row for each tool that servers have listed."""
    for tool in tools:
        if not tool["offered"]:
            yield ToolRow(
                tool["exposed"],
                "mcp",
                tool["origin"],
                tool["server"],
                description=tool["description"],
                parameters=tool["parameters"],
                why_not=tool["why_not"],
            )


def _named(config: Config, fleet: Fleet, catalogue: Catalogue) -> Iterator[ToolRow]:
    """Yield a row for each tool named in `tools:`."""
    for name, entry in config.tools.items():
        if name in catalogue:
            continue
        if isinstance(entry, McpToolEntry):
            yield _of_server(name, entry.server, entry.tool, entry.description, config, fleet)
        elif name not in BUILTIN_TOOLS:
            maker = entry.function if isinstance(entry, PythonTool) else name
            origin, words = f"{entry.kind}:{maker}", entry.description or ""
            why = _told(name, origin, catalogue) or NOT_YET
            yield ToolRow(name, entry.kind, origin, description=words, why_not=why)
    for name, why in NOT_CONFIGURED.items():
        if name not in catalogue:
            words, origin = BUILTIN_TOOLS[name], f"builtin:{name}"
            yield ToolRow(name, "builtin", origin, description=words, why_not=why)


def _told(name: str, origin: str, catalogue: Catalogue) -> str:
    """Return the catalogue's reason for not offering a tool."""
    told = (
        problem.message
        for problem in catalogue.problems
        if problem.key.startswith(f"tools.{name}.")
        or problem.message.startswith(f"{origin} ")
        or repr(name) in problem.message
    )
    return next(told, "")


def _named_under_servers(config: Config, fleet: Fleet, catalogue: Catalogue) -> Iterator[ToolRow]:
    """Yield the tools named in the servers' `tools:`, for servers without a listing."""
    for server, section in config.mcp.servers.items():
        for tool in section.tools:
            name = tool.expose_as or exposed_name(server, tool.name)
            if name in catalogue:
                continue
            yield _of_server(name, server, tool.name, tool.description, config, fleet)


def _of_server(
    name: str, server: str, tool: str, description: str | None, config: Config, fleet: Fleet
) -> ToolRow:
    why = _why_no_server(server, config, fleet) or f"the server has no tool {tool!r}"
    origin = mcp_origin(server, tool)
    return ToolRow(name, "mcp", origin, server, description=description or "", why_not=why)


def _why_no_server(server: str, config: Config, fleet: Fleet) -> str:
    """Return why the server is not up; empty when it is."""
    section = config.mcp.servers.get(server)
    if section is None:
        return f"there is no MCP server {server}"
    if not config.mcp.enabled:
        return "mcp.enabled is false"
    if not section.enabled:
        return f"mcp.servers.{server}.enabled is false"
    lease = fleet.leases.get(server)
    if lease is None:
        return "its server is not started yet"
    status = lease.status()
    if status.state is ServerState.READY:
        return ""
    error = f": {status.last_error}" if status.last_error else ""
    return f"its server is {status.state}{error}"
