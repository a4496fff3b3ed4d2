"""Selects the tools that one server offers to agents, their names, and why others are withheld.

Pure. Of the tools that `tools:` names (of all, if it names none), these are withheld:

- tools whose definition is refused (`cordboard.mcp.definitions.definition`);
- with `mcp.lock: enforce`, tools that differ from what was accepted (`definitions.lock`): changed
  or new tools of a server that has an entry, all tools of a server without one, and everything if
  the lockfile cannot be read. With `warn` they are offered with a warning; there is no warning for
  a server without an entry.

Tools whose exposed names would clash all get names that end in a hash (`cordboard.config.naming`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import mcp_types as types
import structlog

from cordboard.config.mcp import McpLock, McpServer
from cordboard.config.naming import exposed_name, exposed_names, mcp_origin
from cordboard.config.tools.entry import McpTool as ToolConfig
from cordboard.errors import ConfigProblem
from cordboard.mcp.definitions.definition import ListedTool, read_tool
from cordboard.mcp.definitions.lock import Judgement, Lock, Standing

MAX_PROBLEMS = 20
"""Maximum number of problems reported for one server."""
_NAMED_PROBLEMS = 5
_CHANGED_PLACES = 3
_UNREADABLE = "the lockfile cannot be read"
_LOOKED_AT = 2 * _CHANGED_PLACES + 1


@dataclass(frozen=True, slots=True)
class Choice:
    """A tool that is offered."""

    listed: ListedTool
    override: ToolConfig | None
    name: str
    """The exposed name."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A tool that is not offered."""

    listed: ListedTool
    name: str
    """The exposed name that it would have without clashes."""
    reason: str
    judgement: Judgement | None = None
    """Its comparison with the lock, if that is the reason."""

    @property
    def quarantined(self) -> bool:
        """True if it waits for `cordboard mcp accept`."""
        return self.judgement is not None

    @property
    def diff(self) -> tuple[str, ...]:
        """The differences from the accepted definition (`cordboard.mcp.definitions.diff`)."""
        return self.judgement.diff() if self.judgement is not None else ()


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A tool that is offered although it differs from the accepted one (`mcp.lock: warn`)."""

    listed: ListedTool
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Offering:
    """The tools that a server offers and withholds at one moment."""

    choices: tuple[Choice, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()
    """None is fatal."""

    @property
    def quarantined(self) -> tuple[str, ...]:
        """The tools that wait for `cordboard mcp accept`, by the server's own names."""
        return tuple(item.listed.name for item in self.withheld if item.quarantined)


def offer(
    server: str,
    config: McpServer,
    listing: Iterable[types.Tool],
    mode: McpLock = "off",
    lock: Lock | None = None,
    entries: Sequence[ToolConfig] = (),
) -> Offering:
    """Return the offering of a server with this listing. `config` is the server's section of the
    file; `entries` are its tools from the file's top-level `tools:` with `kind: mcp`.

    An entry that is not a `ListedTool` is an expected tool of a server that has not been asked yet;
    its accepted definition is used if there is one.
    """
    lock = (lock or Lock()) if mode != "off" else Lock()
    tools = [
        tool if isinstance(tool, ListedTool) else lock.pinned(server, tool.name) or read_tool(tool)
        for tool in listing
    ]
    draft = _Draft(server, config, entries)
    draft.choose(tools)
    if mode != "off":
        draft.judge(lock, enforce=mode == "enforce")
    return draft.finished()


@dataclass(slots=True)
class _Draft:
    server: str
    config: McpServer
    entries: Sequence[ToolConfig]
    wanted: list[tuple[ListedTool, ToolConfig | None]] = field(default_factory=list)
    withheld: list[Withheld] = field(default_factory=list)
    suspicions: list[Suspicion] = field(default_factory=list)
    problems: list[ConfigProblem] = field(default_factory=list)

    def choose(self, tools: Sequence[ListedTool]) -> None:
        """Take named tools, or all when `tools:` is empty; set refused ones aside."""
        good = {tool.name: tool for tool in reversed(tools) if not tool.refusal}
        refused = {tool.name: tool for tool in reversed(tools) if tool.refusal}
        here = f"mcp.servers.{self.server}"
        named = [
            (tool, f"{here}.tools.{index}", "name") for index, tool in enumerate(self.config.tools)
        ]
        named += [(tool, f"tools.{tool.expose_as}", "tool") for tool in self.entries]
        for override, place, key in named:
            name = override.name
            if name in good:
                self.wanted.append((good[name], override))
            elif name in refused:
                self._refuse(refused[name], override, place)
            else:
                has = ", ".join(sorted(good)) or "none"
                words = f"the server has no tool {name!r}; it has: {has}"
                self._problem(words, f"{place}.{key}")
        if not self.config.tools:
            taken = {override.name for override in self.entries}
            for tool in tools:
                if tool.name in taken:
                    continue
                if tool.refusal:
                    self._refuse(tool, None, here)
                else:
                    self.wanted.append((tool, None))

    def judge(self, lock: Lock, enforce: bool) -> None:
        """Compare with the lock; set aside what differs if `enforce`."""
        accepted = []
        for tool, override in self.wanted:
            judgement = lock.judge(self.server, tool)
            if judgement.standing is Standing.SAME:
                accepted.append((tool, override))
            elif enforce:
                name = self._name_alone(tool, override)
                closely = len(self.withheld) < MAX_PROBLEMS
                reason = _UNREADABLE if lock.problem else _reason(judgement, closely)
                self.withheld.append(Withheld(tool, name, reason, judgement))
            elif judgement.standing is not Standing.UNKNOWN:
                self.suspicions.append(Suspicion(tool, judgement))
        if enforce:
            self.wanted = accepted
            self._explain_quarantine(lock)

    def finished(self) -> Offering:
        """Name the remaining tools."""
        derived = [tool.name for tool, override in self.wanted if _chosen_name(override) is None]
        names = exposed_names(self.server, derived)
        self._explain_clashes(names)
        choices = tuple(
            Choice(tool, override, _chosen_name(override) or names[tool.name])
            for tool, override in self.wanted
        )
        if len(self.problems) > MAX_PROBLEMS:
            more = f"and {len(self.problems) - MAX_PROBLEMS} more problems with its tools"
            del self.problems[MAX_PROBLEMS:]
            self._problem(more)
        return Offering(choices, tuple(self.withheld), tuple(self.suspicions), tuple(self.problems))

    def _refuse(self, tool: ListedTool, override: ToolConfig | None, place: str) -> None:
        name = self._name_alone(tool, override)
        self.withheld.append(Withheld(tool, name, tool.refusal))
        self._problem(f"the tool {tool.name!r} is not offered: {tool.refusal}", place)

    def _explain_quarantine(self, lock: Lock) -> None:
        waiting = [item for item in self.withheld if item.quarantined]
        how = f"accept with `cordboard mcp accept {self.server}`, or do not use it"
        if not waiting:
            return
        if lock.problem is not None:
            self._problem(f"none of its tools is offered: {lock.problem}")
            return
        if self.server not in lock.servers:
            words = f"none of its {len(waiting)} tools is offered: none has been accepted yet"
            self._problem(f"{words}; {how}")
            return
        for item in waiting:
            self._problem(f"the tool {item.listed.name!r} is not offered: {item.reason}; {how}")

    def _explain_clashes(self, names: dict[str, str]) -> None:
        meeting: dict[str, list[str]] = {}
        for tool in names:
            meeting.setdefault(exposed_name(self.server, tool), []).append(tool)
        for name, tools in meeting.items():
            if len(tools) > 1 or names[tools[0]] != name:
                shown = " and ".join(f"mcp:{self.server}:{t}" for t in tools[:_NAMED_PROBLEMS])
                now = " and ".join(names[tool] for tool in tools[:_NAMED_PROBLEMS])
                self._problem(
                    f"the tool name {name!r} is claimed by {shown}; offered as {now}; to choose "
                    f"the names yourself, name the tools under `tools:` with `expose_as:`"
                )

    def _name_alone(self, tool: ListedTool, override: ToolConfig | None) -> str:
        return _chosen_name(override) or exposed_name(self.server, tool.name)

    def _problem(self, words: str, place: str = "") -> None:
        key = place or f"mcp.servers.{self.server}"
        self.problems.append(ConfigProblem(words, key=key, fatal=False))


def _chosen_name(override: ToolConfig | None) -> str | None:
    return override.expose_as if override is not None else None


def _reason(judgement: Judgement, closely: bool) -> str:
    """Return why a tool waits; `closely` adds what has changed, which takes a moment."""
    if judgement.standing is Standing.UNKNOWN:
        return "no tools of its server have been accepted yet"
    if judgement.standing is Standing.NEW:
        return "it is new since the server's tools were accepted"
    where = f" ({_places(judgement.diff(_LOOKED_AT))})" if closely else ""
    return f"its definition has changed since it was accepted{where}"


def _places(diff: Sequence[str]) -> str:
    """Return where a definition has changed: the paths of the lines `- path: value`."""
    paths = list(dict.fromkeys(line[2:].partition(": ")[0] for line in diff if line[0] in "+-"))
    more = " and more" if len(paths) > _CHANGED_PLACES else ""
    return ", ".join(paths[:_CHANGED_PLACES]) + more


MAX_LINES = 20
"""Tools of one server that are logged at a time; the others are counted."""
LOGGED_DIFF = 20
"""Lines of a definition's diff in the log."""
MAX_TOLD = 10_000
"""Remembered lines; beyond this, a server that keeps renaming its tools is not logged any more."""

log = structlog.get_logger()


class OfferingLog:
    """Remembers what it has logged, across generations."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str, str]] = set()

    def tell(self, server: str, offering: Offering) -> None:
        """Log withheld and suspicious tools that were not logged before."""
        withheld = [i for i in offering.withheld if self._is_new(server, i.listed, i.reason)]
        for item in withheld[:MAX_LINES]:
            log.warning(
                "mcp_tool_withheld",
                tool=mcp_origin(server, item.listed.name),
                reason=item.reason,
                diff=item.judgement.diff(LOGGED_DIFF) if item.judgement else (),
            )
        suspicions = [
            s for s in offering.suspicions if self._is_new(server, s.listed, s.judgement.standing)
        ]
        for suspicion in suspicions[:MAX_LINES]:
            log.warning(
                "mcp_tool_not_as_accepted",
                tool=mcp_origin(server, suspicion.listed.name),
                standing=str(suspicion.judgement.standing),
                diff=suspicion.judgement.diff(LOGGED_DIFF),
            )
        more = len(withheld[MAX_LINES:]) + len(suspicions[MAX_LINES:])
        if more:
            log.warning("mcp_more_such_tools", server=server, tools=more)

    def _is_new(self, server: str, listed: ListedTool, why: str) -> bool:
        thing = (server, listed.name, listed.fingerprint, why)
        if thing in self._told or len(self._told) >= MAX_TOLD:
            return False
        self._told.add(thing)
        return True
