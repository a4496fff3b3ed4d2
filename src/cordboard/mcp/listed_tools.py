"""All listed tools of a fleet, for people: the exposed name, or why a tool is not offered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cordboard.config.naming import mcp_origin
from cordboard.mcp.definitions.definition import ListedTool
from cordboard.mcp.fleet import Fleet
from cordboard.tools.catalogue import Catalogue


def listed_tools(fleet: Fleet, catalogue: Catalogue) -> list[Mapping[str, Any]]:
    """Return one mapping per tool, fit for JSON: `exposed`, `origin`, `server`, `tool`,
    `description`, `parameters`, `offered`, `why_not` (empty when offered), `quarantined` (waiting
    for `cordboard mcp accept`), `diff` (differences from the accepted definition, line by line)."""
    return [tool for server in fleet.servers for tool in _tools_of(server, fleet, catalogue)]


def _tools_of(server: str, fleet: Fleet, catalogue: Catalogue) -> Iterator[dict[str, Any]]:
    offering = fleet.offering(server)
    for choice in offering.choices:
        tool = _described(server, choice.listed, choice.name)
        entry = catalogue.offered(choice.name)
        if entry is not None and entry.spec.origin == tool["origin"]:
            tool |= {"description": entry.spec.description, "offered": True}
        else:
            tool["why_not"] = _why_not(tool["origin"], catalogue)
        yield tool
    for item in offering.withheld:
        yield _described(server, item.listed, item.name) | {
            "why_not": item.reason,
            "quarantined": item.quarantined,
            "diff": list(item.diff),
        }


def _described(server: str, listed: ListedTool, name: str) -> dict[str, Any]:
    return {
        "exposed": name,
        "origin": mcp_origin(server, listed.name),
        "server": server,
        "tool": listed.name,
        "description": listed.description or "",
        "parameters": listed.input_schema,
        "offered": False,
        "why_not": "",
        "quarantined": False,
        "diff": [],
    }


def _why_not(origin: str, catalogue: Catalogue) -> str:
    """Return the name clash, or another problem that the catalogue reports for it."""
    found = (problem.message for problem in catalogue.problems if origin in problem.message)
    return next(found, "its name is in use")
