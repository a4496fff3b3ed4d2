"""The index rows of a ledger, and of a day's refused offers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import PurePath
from typing import Any

import orjson

from cordboard.calls.history import CallHistory, LedgerLine, parse_lines
from cordboard.history.measured import measured_of, measured_refusal
from cordboard.history.notes import Notes
from cordboard.history.query import CallRow, milliseconds, words_of
from cordboard.history.store import IndexedCall

MOST_CHARACTERS = 100_000
"""Words of each side by which a call can be found: two hours of speech. A tsvector of PostgreSQL
has at most 1 MB."""
NOT_ENDED = "not ended"
REFUSED = "refused"
"""Outcome of an offer that did not become a call."""


def call_of(file: str, content: bytes, notes: Notes) -> tuple[IndexedCall | None, bool]:
    """Return the call in the content of a ledger, and True if it has not ended; None if the content
    is something else. A half-written line at the end is left out."""
    try:
        history = CallHistory.from_lines(parse_lines(content))
        row = row_of(file, history, notes)
        said = {"caller": "", "agent": ""}
        for who, text in history.transcript():
            said[who] += f" {text}"
        caller, agent = (words_of(text[:MOST_CHARACTERS]) for text in said.values())
        measured = measured_of(history, row)
    except (AttributeError, KeyError, TypeError, ValueError):  # not a ledger, or a damaged one
        return None, False
    return IndexedCall(row, caller, agent, measured), history.ended_ms is None


def refused_in(file: str, content: bytes) -> list[IndexedCall]:
    """Return the refused offers in the content of a day's file. Damaged lines are left out."""
    return [
        IndexedCall(row, measured=measured_refusal(row))
        for line in _objects(content)
        if (row := _refused(file, line))
    ]


def row_of(file: str, history: CallHistory, notes: Notes) -> CallRow:
    """Return the row of a call. Raises `KeyError`, `TypeError` or `ValueError` for a history that
    is not of a whole ledger."""
    if not history.call_id:
        raise ValueError("no call.offered")
    turns = history.caller_turns
    used, tools = {use.name for use in history.tools}, history.tools
    row = CallRow(
        id=PurePath(file).stem,
        file=file,
        started_at=history.started_at,
        started_ms=milliseconds(history.started_at),
        source=history.source,
        direction=history.direction,
        caller_number=history.caller_number,
        caller_name=history.caller_name,
        called_number=history.called_number,
        context=history.context,
        provider=history.provider,
        outcome=history.outcome or NOT_ENDED,
        reason=history.reason,
        duration_ms=history.ended_ms,
        turns=len(turns),
        interruptions=sum(turn.interrupted is not None for turn in history.turns.values()),
        waited_ms=max((turn.latency["total_ms"] for turn in turns if turn.latency), default=None),
        cost=history.cost,
        currency=history.currency,
        recorded=history.recording is not None,
        review=notes.review,
        config=history.config,
        tools=tuple(sorted(used)),
        tools_failed=tuple(sorted({use.name for use in tools if use.status in _FAILED})),
        troubles=tuple(sorted({line["where"] for line in history.failed_parts})),
        tags=tuple(sorted(notes.tags)),
    )
    return _clean(row)


_FAILED = ("error", "timeout")


def _refused(file: str, line: LedgerLine) -> CallRow | None:
    if line.get("type") != "call.refused":
        return None
    try:
        return _clean(
            CallRow(
                id=line["call_id"],
                file=file,
                started_at=line["started_at"],
                started_ms=milliseconds(line["started_at"]),
                outcome=REFUSED,
                **{name: line[name] for name in _OF_OFFERS},
            )
        )
    except (KeyError, TypeError, ValueError):
        return None


_OF_OFFERS = ("source", "caller_number", "caller_name", "called_number", "reason")


def _clean(row: CallRow) -> CallRow:
    """Return a row that every database takes: text without NUL, numbers of 53 bits. Raises
    `ValueError` for values of other types: ledgers may be edited by hand."""
    changed: dict[str, Any] = {}
    for each in fields(CallRow):
        value = getattr(row, each.name)
        if isinstance(value, tuple):
            changed[each.name] = tuple(_text(item) for item in value)
        elif each.type == "str":
            changed[each.name] = _text(value)
        elif value is not None and not (isinstance(value, (int, float)) and abs(value) < 2**53):
            raise ValueError(f"{each.name}: not a number")
    return replace(row, **changed)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not text: {type(value).__name__}")
    return value.replace("\0", "\ufffd")


def _objects(content: bytes) -> Iterable[dict[str, Any]]:
    for raw in content.splitlines():
        try:
            line = orjson.loads(raw)
        except orjson.JSONDecodeError:
            continue
        if isinstance(line, dict):
            yield line
