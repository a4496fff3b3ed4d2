"""The last real uses of a tool: its calls from the index, its uses from their ledgers. Blocks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cordboard.calls import history as ledgers
from cordboard.calls.history import CallHistory, ToolUse
from cordboard.history.query import CallQuery, CallRow
from cordboard.history.store import HistoryStore
from cordboard.privacy.sealed_file import PLAIN, Vault

MOST = 50
MOST_PAGES = 4
"""Pages of `MOST` calls that are read for one answer: most of them may be tries."""
TRIES = "try"
"""Source of an operator's tries, which are not real uses."""


@dataclass(frozen=True, slots=True)
class RecentUse:
    """One use of a tool in a call."""

    call: CallRow
    at: str
    """ISO 8601."""
    use: ToolUse

    @property
    def took_ms(self) -> int | None:
        """Time until the answer; None without one."""
        answered = self.use.answered_ms
        return None if answered is None else answered - self.use.asked_ms


def recent_uses(
    tool: str,
    store: HistoryStore,
    directory: Path,
    within: frozenset[str] | None,
    vault: Vault = PLAIN,
) -> list[RecentUse]:
    """Return the last uses here of a tool by its exposed name, the newest first. `within`: the only
    contexts that exist for the person who asks; None: all. Raises `HistoryError`."""
    here = {"node": frozenset({store.node})} if store.node else {}
    query = CallQuery(marks={"tool": frozenset({tool})}, columns=here, within=within)
    found: list[RecentUse] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        page = store.find(query, MOST, cursor)
        for row in page.rows:
            if row.source != TRIES and len(found) < MOST:
                found += _uses(tool, row, directory, vault)
        cursor = page.next
        if not cursor or len(found) >= MOST:
            break
    return found[:MOST]


def _uses(tool: str, row: CallRow, directory: Path, vault: Vault) -> list[RecentUse]:
    try:
        lines = ledgers.read_lines(directory / row.file, vault)
        if any(line.get("test") for line in lines[:1]):  # of an operator, not of a caller
            return []
        history = CallHistory.from_lines(lines)
        used = [use for use in history.tools if use.name == tool]
        return [RecentUse(row, _moment(history, use), use) for use in reversed(used)]
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        return []  # erased or damaged meanwhile


def _moment(history: CallHistory, use: ToolUse) -> str:
    began = datetime.fromisoformat(history.started_at)
    return (began + timedelta(milliseconds=use.asked_ms)).isoformat(timespec="milliseconds")
