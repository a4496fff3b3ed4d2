"""Log lines about withheld tools and tools that differ from the accepted ones, each once."""

from __future__ import annotations

import structlog

from cordboard.config.naming import mcp_origin
from cordboard.mcp.definitions.definition import ListedTool
from cordboard.mcp.offering import Offering

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
