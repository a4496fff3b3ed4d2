"""The catalogue: all tools of one generation at one moment, immutable.

The generation builds a new catalogue, from the built-in tools and the MCP fleet, when tools come or
go; calls keep the toolbox they started with. Two tools with the same exposed name are never
resolved silently: a tool that is built in or named under `tools:` takes precedence over one that a
server merely lists; between equals neither gets the name. Each clash is a `ConfigProblem` that
names both owners and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cordboard.config.naming import EXPOSED_NAME
from cordboard.config.tools.entry import group_server
from cordboard.errors import ConfigProblem, SchemaRefused
from cordboard.tools.known_secrets import NO_SECRETS, KnownSecrets
from cordboard.tools.result_cache import ResultCache
from cordboard.tools.schema.checker import ArgumentChecker
from cordboard.tools.tool import Tool
from cordboard.tools.toolbox import OfferedTool, Toolbox


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One candidate for a catalogue."""

    tool: Tool
    chosen: bool = True
    """True if the tool is built in or named by the operator; it keeps its exposed name."""
    arguments: ArgumentChecker | None = None
    """The compiled check of its arguments, if it already exists."""


class Catalogue(Mapping[str, Tool]):
    """Exposed name → tool. Look-up is O(1) at any size."""

    def __init__(
        self,
        entries: Iterable[ToolEntry] = (),
        reuse: Catalogue | None = None,
        problems: Iterable[ConfigProblem] = (),
        known_secrets: KnownSecrets = NO_SECRETS,
    ) -> None:
        """Check and compile all entries. `reuse` is an earlier catalogue of the same generation:
        its compiled checks of the same tools and its cache are reused. `problems` are those of
        tools that could not become entries. `known_secrets` are masked in all results."""
        self._offered: dict[str, OfferedTool] = {}
        problems = [*problems]
        for name, candidates in _by_name(entries).items():
            winner = _winner(name, candidates, problems)
            if winner is None:
                continue
            try:
                self._offered[name] = _offer(winner, reuse)
            except SchemaRefused as error:
                problems.append(
                    ConfigProblem(f"{winner.tool.spec.origin} is not offered: {error}", fatal=False)
                )
        self._of_server: dict[str, list[OfferedTool]] = {}
        for entry in self._offered.values():
            if entry.spec.server:
                self._of_server.setdefault(entry.spec.server, []).append(entry)
        self.problems: tuple[ConfigProblem, ...] = tuple(problems)
        """Tools that are not offered, and why. None of them is fatal."""
        self.cache: ResultCache = reuse.cache if reuse is not None else ResultCache()
        """Results of its tools that may be reused in every call."""
        self._known_secrets = known_secrets

    def toolbox(self, names: Iterable[str]) -> Toolbox:
        """Return the toolbox of a call: the named tools, in that order, without duplicates.
        `server.*` names all tools of an MCP server."""
        offered: dict[str, OfferedTool] = {}
        missing: list[str] = []
        for name in dict.fromkeys(names):
            found = self._named(name)
            if not found:
                missing.append(name)
            for entry in found:
                offered.setdefault(entry.spec.name, entry)
        return Toolbox(offered.values(), missing, self.cache, self._known_secrets)

    def _named(self, name: str) -> Sequence[OfferedTool]:
        server = group_server(name)
        if server is not None:
            return self._of_server.get(server, ())
        entry = self._offered.get(name)
        return () if entry is None else (entry,)

    def offered(self, name: str) -> OfferedTool | None:
        """Return the tool of that name with its compiled check, or None."""
        return self._offered.get(name)

    def __getitem__(self, name: str) -> Tool:
        return self._offered[name].tool

    def __iter__(self) -> Iterator[str]:
        return iter(self._offered)

    def __len__(self) -> int:
        return len(self._offered)


def _by_name(entries: Iterable[ToolEntry]) -> dict[str, list[ToolEntry]]:
    grouped: dict[str, list[ToolEntry]] = {}
    for entry in entries:
        grouped.setdefault(entry.tool.spec.name, []).append(entry)
    return grouped


def _winner(
    name: str, candidates: list[ToolEntry], problems: list[ConfigProblem]
) -> ToolEntry | None:
    if not EXPOSED_NAME.match(name):
        owner = candidates[0].tool.spec.origin
        problems.append(ConfigProblem(f"{owner} has the unusable name {name!r}", fatal=False))
        return None
    chosen = [entry for entry in candidates if entry.chosen]
    if len(candidates) > 1:
        owners = " and ".join(entry.tool.spec.origin for entry in candidates)
        problems.append(ConfigProblem(clash_text(name, owners), fatal=False))
    if len(chosen) == 1:
        return chosen[0]
    return candidates[0] if len(candidates) == 1 else None


def clash_text(name: str, owners: str) -> str:
    """Return the message for two tools that share an exposed name."""
    return (
        f"the tool name {name!r} is claimed by {owners}; give one of them another name with "
        f"`expose_as:` under its server's `tools:`"
    )


def _offer(entry: ToolEntry, reuse: Catalogue | None) -> OfferedTool:
    tool = entry.tool
    known = reuse.offered(tool.spec.name) if reuse is not None else None
    if known is not None and known.tool is tool:
        return known
    checker = entry.arguments or ArgumentChecker(tool.spec.parameters)
    return OfferedTool(tool, tool.spec, checker)
