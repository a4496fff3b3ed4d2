"""A generation: one configuration in force, with its tools and MCP servers, counted by its calls.

A call is admitted to a generation, which gives it its toolbox, acquires it, and releases it at the
end; it never looks at "the current configuration". A retired generation serves its calls to their
end and then gives back its servers; servers that the next generation also uses keep running. When
servers come, go or change their tools, a new immutable catalogue takes the place of the old one;
existing toolboxes stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from cordboard.config.schema import Config
from cordboard.config.tools.entry import PythonTool, group_server, tools_of_servers
from cordboard.config.tools.http_tool import HttpTool
from cordboard.errors import ConfigProblem
from cordboard.firewall.policy import Policy
from cordboard.mcp.definitions.lock import Lock
from cordboard.mcp.fleet import Fleet
from cordboard.mcp.supervision.pool import Replacement, ServerPool
from cordboard.tools.builtin import builtin_tools
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.http.shared import SharedClient
from cordboard.tools.http.tool import http_tools
from cordboard.tools.known_secrets import KnownSecrets
from cordboard.tools.plugin import plugin_tools
from cordboard.tools.python import Functions, load_functions, python_tools
from cordboard.tools.tool_use import REAL, ToolUse
from cordboard.tools.toolbox import Toolbox
from cordboard.tools.workflow import WorkflowMaker

log = structlog.get_logger()


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


class Generation:
    """One configuration in force."""

    def __init__(
        self,
        config: Config,
        pool: ServerPool | None = None,
        number: int = 1,
        earlier: Generation | None = None,
        lock: Lock | None = None,
    ) -> None:
        """`pool` shares the servers. `earlier` is the previous generation. `lock` holds the server
        tools that the operator has accepted."""
        self.config = config
        self.policy = Policy(config.firewall, config.destinations)
        """The policy of the telephone firewall."""
        self.number = number
        """Number of this configuration among those that the engine has had in force."""
        self.version = ""
        """Version of the file (`config.versions`); empty if it is not kept. Another one with the
        same values may take its place."""
        before = earlier.fleet if earlier is not None else None
        named = tools_of_servers(config.tools)
        self.fleet: Fleet = Fleet(config.mcp, pool, before, lock, named)
        self._functions: Functions = earlier._functions if earlier is not None else {}
        self.known_secrets = KnownSecrets(config.secrets, self.fleet.fetched_tokens)
        self._http = SharedClient()
        self._own, self._problems = configured_tools(config, self._functions, self._http)
        self._workflows = WorkflowMaker(config.tools)
        self._tell_shut_destinations()
        self.catalogue = self._catalogue_now(None)
        """All tools offered now; a new immutable object after each change."""
        self._reported: frozenset[str] = frozenset()
        self.calls = 0
        """Number of calls that hold this generation."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._on_tools_changed: Callable[[], None] = lambda: None
        self.retired = False
        self.fleet.on_change(self._rebuild)

    def on_tools_changed(self, callback: Callable[[], None]) -> None:
        """Have a callback called after each new catalogue. Replaces the last one."""
        self._on_tools_changed = callback

    async def prepare(self) -> None:
        """Import the modules of `kind: python` tools, in a thread; until then these tools are not
        offered. Takes as long as the imports. Also begins to create the client of the HTTP
        tools."""
        tools, earlier = self.config.tools, self._functions
        if any(isinstance(entry, HttpTool) for entry in tools.values()):
            self._http.begin_to_warm()
        if not any(isinstance(entry, PythonTool) for entry in tools.values()):
            return
        self._functions = await asyncio.to_thread(load_functions, tools, earlier)
        self._own, self._problems = configured_tools(self.config, self._functions, self._http)
        self._rebuild()

    def start(self, replacement: Replacement = Replacement.BESIDE) -> None:
        """Claim the MCP servers and begin to start those that do not run yet; returns at once.

        `replacement` decides about servers that run with another configuration.
        """
        self.fleet.start(replacement)

    def toolbox(self, context: str) -> Toolbox:
        """Return the tools of a context as of now. Raises `KeyError` for an unknown context."""
        return self.catalogue.toolbox(self.config.contexts[context].tools)

    def admit(self, context: str, tools: ToolUse = REAL) -> Toolbox:
        """Return the toolbox of a call in that context, as of now; lazy servers that it needs begin
        to start. `tools`: those that really run. Raises `KeyError` for an unknown context."""
        toolbox = self.toolbox(context)
        servers = {spec.server for spec in toolbox.specs if spec.kind == "mcp"}
        groups = map(group_server, self.config.contexts[context].tools)
        self.fleet.wake(servers | {server for server in groups if server is not None})
        return tools.of(toolbox)

    def phase_toolbox(self, tools: Iterable[str], context: str) -> Toolbox:
        """Return the toolbox of a step before or after a call: these tools, and those of the
        context if it still exists, since a workflow may run all tools of its context; lazy servers
        begin to start."""
        found = self.config.contexts.get(context)
        names = (*tools, *(found.tools if found is not None else ()))
        toolbox = self.catalogue.toolbox(names)
        self.fleet.wake({spec.server for spec in toolbox.specs if spec.kind == "mcp"})
        return toolbox

    def acquire(self) -> None:
        """Count a call in."""
        self.calls += 1
        self._idle.clear()

    def release(self) -> None:
        """Count a call out."""
        if self.calls <= 0:
            raise RuntimeError("a generation was released more often than acquired")
        self.calls -= 1
        if self.calls == 0:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until no call holds this generation."""
        await self._idle.wait()

    async def retire(self) -> None:
        """Wait until the last call has released this generation, then close it. No call may be
        admitted to it any more."""
        self.retired = True
        self.fleet.on_change(lambda: None)  # its catalogue is no longer read
        await self._idle.wait()
        await self.close()

    async def close(self) -> None:
        """Give back the MCP servers now, even if calls still use them. Idempotent."""
        self.retired = True
        await self._http.close()
        await self.fleet.close()

    def _tell_shut_destinations(self) -> None:
        for name in self.config.destinations:
            why = self.policy.static_problem(name)
            if why:
                log.warning("destination_shut_by_firewall", destination=name, why=why)

    def _rebuild(self) -> None:
        self.catalogue = self._catalogue_now(self.catalogue)
        problems = frozenset(str(problem) for problem in self.catalogue.problems)
        for problem in sorted(problems - self._reported):
            log.error("tool_not_offered", problem=problem)
        self._reported = problems
        self._on_tools_changed()

    def _catalogue_now(self, reuse: Catalogue | None) -> Catalogue:
        others = (*self._own, *self.fleet.tools())
        specs = {entry.tool.spec.name: entry.tool.spec for entry in others}
        workflows = (ToolEntry(tool) for tool in self._workflows.made(specs))
        return Catalogue((*others, *workflows), reuse, self._problems, self.known_secrets)
