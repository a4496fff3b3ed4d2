"""The door to the administration of the engine, for the HTTP port: `administration.py`.

A protocol, so that this layer knows nothing of the engine above it. All times are Unix seconds;
all texts are free of secrets, because the implementation has masked them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from cordboard.config.versions import Author
from cordboard.errors import ConfigProblem
from cordboard.generation.tool_listing import ToolListing
from cordboard.mcp.definitions.acceptance import Comparison
from cordboard.mcp.message_log import LoggedMessage, Tail
from cordboard.mcp.supervision.status import ServerStatus
from cordboard.mcp.trial import TestReport


@dataclass(frozen=True, slots=True)
class Deferred:
    """A change that is not in force yet."""

    what: str
    """The dotted key."""
    until: str


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """The result of a reload."""

    applied: bool
    """False: nothing has changed; `problems` has the reasons."""
    generation: int
    """Number of the generation for new calls."""
    changed: tuple[str, ...] = ()
    """Keys whose values differ from before."""
    deferred: tuple[Deferred, ...] = ()
    """All changes in the file that are not in force yet, also of earlier reloads."""
    problems: tuple[ConfigProblem, ...] = ()
    """Problems of the file. Those that are not fatal do not prevent its use."""


StepState: TypeAlias = Literal["ok", "warn", "bad", "skipped"]


@dataclass(frozen=True, slots=True)
class Fix:
    """A way to mend a step."""

    text: str
    copy: str = ""
    """Lines to paste, into the file or shell that `text` names."""


@dataclass(frozen=True, slots=True)
class Step:
    """One checked part of the installation (`runtime.setup_check`)."""

    id: str
    state: StepState
    what: str
    """The part, in a few words."""
    said: str
    """Result of the check; free of secrets."""
    fix: Fix | None = None


class Admission(Protocol):
    """The part of `calls.call_registry.CallRegistry` that takes calls, or does not."""

    draining_since: datetime.datetime | None
    """Wall-clock time at which an operator began to drain the engine; None if it takes calls."""

    @property
    def calls(self) -> Mapping[str, object]:
        """The live calls by id."""

    @property
    def overloaded(self) -> bool:
        """True if the engine is too busy for anything besides its calls."""

    def begin_drain(self) -> None:
        """Take no new calls until `end_drain`; live ones go on. Idempotent."""

    def end_drain(self) -> None:
        """Take calls again. Idempotent."""


class Administration(Protocol):
    """An operator's actions on a running engine.

    Methods with a server name raise `KeyError` when the configuration has no such server, and a
    `CordboardError` when the action is impossible.
    """

    def mcp_status(self) -> Sequence[ServerStatus]:
        """Return a snapshot of every server, at once."""

    def mcp_tools(self) -> Sequence[Mapping[str, Any]]:
        """Return every listed tool at once: `exposed`, `origin`, `server`, `tool`, `description`,
        `parameters`, `offered`, `why_not` (empty when offered), `quarantined` (it waits for
        acceptance), `diff` (its differences from the accepted definition)."""

    def tools(self, context: str | None = None) -> ToolListing:
        """Return every tool of every kind, or those of a context, at once. Raises `NotThere`."""

    async def mcp_test(self, server_id: str) -> TestReport:
        """Request a handshake and the tools from a server, within its start timeout. If it is not
        running, it is started aside for the test, and stopped again."""

    async def mcp_start(self, server_id: str) -> ServerStatus:
        """Begin to start a server that is stopped or was given up."""

    async def mcp_stop(self, server_id: str) -> ServerStatus:
        """Stop a server until it is started again."""

    async def mcp_restart(self, server_id: str) -> ServerStatus:
        """Stop a server and begin to start it again."""

    def mcp_stderr(self, server_id: str, after: int) -> Tail[str]:
        """Return the lines of a server's stderr after that number, at once."""

    async def mcp_protocol(self, server_id: str, after: int) -> Tail[LoggedMessage]:
        """Return the messages to and from a server after that number."""

    async def mcp_lock(self) -> Sequence[Comparison]:
        """Compare the listed tools of every server with the accepted ones. Raises `ConfigError` for
        an unreadable file."""

    async def mcp_accept(self, server_id: str, digest: str) -> None:
        """Accept a server's tools as they were compared: `digest` is that comparison's. New calls
        get them at once. Raises `LockChanged` if either side has changed since, and
        `ConfigError`."""

    async def publish(self, text: str, base: str, author: Author) -> ReloadReport:
        """Write a text to the file and put it into force. `base`: digest of the text it was made
        from. Raises the errors of `config.publish.publish`; then nothing has changed."""

    async def reload(self) -> ReloadReport:
        """Read the file again and put it into force. A bad file is a report, not an error."""
