"""A generation: one configuration in force, with its tools and MCP servers, counted by its calls.

A call acquires the generation when it is admitted, takes its toolbox, and releases it at the end;
it never looks at "the current configuration". A retired generation serves its calls to their end
and then closes its servers. When servers come, go or change their tools, a new immutable catalogue
takes the place of the old one; toolboxes that were handed out stay as they are.
"""

from __future__ import annotations

import asyncio

import structlog

from cordboard.config.schema import Config
from cordboard.mcp.fleet import Fleet
from cordboard.mcp.server import ServerObserver
from cordboard.tools.builtin import builtin_tools
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.toolbox import Toolbox

log = structlog.get_logger()


class Generation:
    """One configuration in force."""

    def __init__(
        self, config: Config, observer: ServerObserver | None = None, number: int = 1
    ) -> None:
        self.config = config
        self.number = number
        """Counts the configurations that this engine has had in force."""
        self.fleet = Fleet(config.mcp, observer)
        self._builtin = tuple(ToolEntry(tool) for tool in builtin_tools(config.tools))
        self._catalogue = Catalogue(self._builtin)
        self._reported: frozenset[str] = frozenset()
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.retired = False
        self.fleet.on_change(self._rebuild)

    @property
    def catalogue(self) -> Catalogue:
        """All tools offered at this moment; a new immutable one whenever that changes."""
        return self._catalogue

    @property
    def calls(self) -> int:
        """How many calls hold this generation."""
        return self._calls

    def start(self) -> None:
        """Begin to start the MCP servers; returns at once."""
        self.fleet.start()

    def toolbox(self, context: str) -> Toolbox:
        """The toolbox of a call in that context, as of now. Raises `KeyError` for no context."""
        return self._catalogue.toolbox(self.config.contexts[context].tools)

    def acquire(self) -> None:
        """Count a call in."""
        self._calls += 1
        self._idle.clear()

    def release(self) -> None:
        """Count a call out."""
        if self._calls <= 0:
            raise RuntimeError("a generation was released more often than acquired")
        self._calls -= 1
        if self._calls == 0:
            self._idle.set()

    async def retire(self) -> None:
        """Wait until the last call has released this generation, then close it."""
        self.retired = True
        await self._idle.wait()
        await self.close()

    async def close(self) -> None:
        """Close the MCP servers now, whoever may still be calling. Idempotent."""
        self.retired = True
        await self.fleet.close()

    def _rebuild(self) -> None:
        entries = (*self._builtin, *self.fleet.tools())
        self._catalogue = Catalogue(entries, reuse=self._catalogue)
        problems = frozenset(str(problem) for problem in self._catalogue.problems)
        for problem in sorted(problems - self._reported):
            log.error("tool_not_offered", problem=problem)
        self._reported = problems
