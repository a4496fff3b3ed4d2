"""The tools that a configuration defines itself, without MCP servers. Pure."""

from __future__ import annotations

from cordboard.config.schema import Config
from cordboard.errors import ConfigProblem
from cordboard.tools.builtin import builtin_tools
from cordboard.tools.catalogue import ToolEntry
from cordboard.tools.http.shared import SharedClient
from cordboard.tools.http.tool import http_tools
from cordboard.tools.plugin import plugin_tools
from cordboard.tools.python import Functions, python_tools


def configured_tools(
    config: Config, functions: Functions, http: SharedClient
) -> tuple[tuple[ToolEntry, ...], tuple[ConfigProblem, ...]]:
    """Return the tools of the kinds `builtin`, `python` and `http` and those of plug-ins, and the
    problems of those not offered. `functions` are the imported functions; `http` is the client that
    sends the requests."""
    python, problems = python_tools(config.tools, functions)
    plugged, more = plugin_tools(config.tools)
    tools = (*builtin_tools(config), *http_tools(config, http), *python, *plugged)
    return tuple(ToolEntry(tool) for tool in tools), (*problems, *more)
