"""Calls as people without the grant `personal` may see them: without numbers and words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cordboard.calls.history import CallHistory, LedgerLine, Turn
from cordboard.history.query import CallQuery, CallRow

SHOWN_DIGITS = 4
"""Last digits of a number that are shown."""


def masked(number: str) -> str:
    """Return a number with all but its last digits replaced."""
    hidden = max(0, len(number) - SHOWN_DIGITS)
    return "*" * hidden + number[hidden:]


def masked_row(row: CallRow) -> CallRow:
    """Return a row with the caller's number masked and without the name."""
    return replace(row, caller_number=masked(row.caller_number), caller_name="")


def personal_filters(query: CallQuery) -> list[str]:
    """Return the names of the filters by which one could guess hidden words and numbers."""
    return [name for name in ("text", "number", "number_prefix") if getattr(query, name)]


def mask(history: CallHistory) -> None:
    """Remove from a call all that caller, agent, tools, services and those who watched have said:
    also the details of a trouble, as a service may quote its input. Times, names of tools and
    outcomes stay."""
    history.caller_number, history.caller_name = masked(history.caller_number), ""
    for turn in history.turns.values():
        _mask_turn(turn)
    for approval in history.approvals:
        approval.question = ""
    for silence in history.silences:
        silence.text = ""
    history.troubles = [line["where"] for line in history.failed_parts]
    history.failed_parts = _without(history.failed_parts, "message")
    history.keys = _without(history.keys, "key")
    history.transfers = _without(history.transfers, "error")
    history.watched = _without(history.watched, "text", "reason")


def _mask_turn(turn: Turn) -> None:
    turn.heard = turn.understood = ""
    turn.answer = [""] * len(turn.answer)
    turn.said = [""] * len(turn.said)
    turn.interrupted = None if turn.interrupted is None else ""
    for use in turn.tools:
        use.arguments, use.sent, use.cut = dict.fromkeys(use.arguments), {}, []
        use.message = use.filler = use.late = use.reason = ""


def _without(lines: Iterable[LedgerLine], *fields: str) -> list[LedgerLine]:
    hidden: dict[str, Any] = dict.fromkeys(fields, "")
    return [{**line, **hidden} for line in lines]
