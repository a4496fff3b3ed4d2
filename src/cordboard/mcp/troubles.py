"""The problems of a fleet at this moment, in a few sentences for `/ready`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from cordboard.errors import ConfigProblem
from cordboard.mcp.fleet import Fleet
from cordboard.mcp.printable import printable
from cordboard.mcp.supervision.status import ServerState
from cordboard.tools.catalogue import Catalogue

MOST_TOLD = 20
"""Maximum number of sentences; the others are counted."""
MOST_CHARACTERS = 400
"""Maximum length of one sentence."""
_IN_ORDER = {ServerState.READY, ServerState.IDLE}


def troubles(fleet: Fleet, catalogue: Catalogue) -> str:
    """Return the servers that are not up, then the tools that are not offered and why; empty if
    there are no problems. The tools of a server that is down are not listed."""
    found = [*_servers(fleet), *_tools(fleet, catalogue)]
    told = [printable(words, MOST_CHARACTERS) for words in found[:MOST_TOLD]]
    more = len(found) - len(told)
    return "; ".join([*told, *([f"and {more} more"] if more else [])])


def _servers(fleet: Fleet) -> Iterator[str]:
    for status in fleet.status():
        if status.state not in _IN_ORDER:
            error = f": {status.last_error}" if status.last_error else ""
            yield f"{status.server} is {status.state}{error}"


def _tools(fleet: Fleet, catalogue: Catalogue) -> Iterator[str]:
    problems: tuple[ConfigProblem, ...] = (*fleet.tool_problems(), *catalogue.problems)
    yield from map(str, problems)
