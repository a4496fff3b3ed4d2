"""Log lines about tools that are not offered, or not as they were accepted: each thing once."""

from __future__ import annotations

import structlog

from cordboard.mcp.definitions import ListedTool
from cordboard.mcp.offering import Offering
from cordboard.tools.naming import mcp_origin

LOGGED_DIFF = 20
"""Lines of what has changed in a definition."""
MAX_TOLD = 10_000
"""Warnings; a server that renames its tools all the time gets no more of them."""

log = structlog.get_logger()


class OfferingLog:
    """Remembers what it has told, over generations too."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str, str]] = set()

    def tell(self, server: str, offering: Offering) -> None:
        """Log what is withheld or suspicious and was not logged before."""
        for item in offering.withheld:
            if self._is_new(server, item.listed, item.reason):
                log.warning(
                    "mcp_tool_withheld",
                    tool=mcp_origin(server, item.listed.name),
                    reason=item.reason,
                    diff=item.diff[:LOGGED_DIFF],
                )
        for suspicion in offering.suspicions:
            judgement = suspicion.judgement
            if self._is_new(server, suspicion.listed, judgement.standing):
                log.warning(
                    "mcp_tool_not_as_accepted",
                    tool=mcp_origin(server, suspicion.listed.name),
                    standing=str(judgement.standing),
                    diff=judgement.diff[:LOGGED_DIFF],
                )

    def _is_new(self, server: str, listed: ListedTool, why: str) -> bool:
        thing = (server, listed.name, listed.fingerprint, why)
        if thing in self._told or len(self._told) >= MAX_TOLD:
            return False
        self._told.add(thing)
        return True
