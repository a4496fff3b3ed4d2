"""The transcript of a conversation, made of its ledger alone.

The file is read, so do it in a thread. Only names of written conversations find a file: calls
cannot be read this way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cordboard.calls.history import LedgerLine, read_lines

_ID = re.compile(r"chat-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_SPEAKERS = {"caller.text": "user", "agent.text": "agent"}


def read_transcript(directory: Path, session_id: str) -> dict[str, Any] | None:
    """Return the conversation with that id, in progress or over; None if unknown. Blocks."""
    if not _ID.match(session_id):
        return None
    for path in directory.glob(f"????-??-??/{session_id}.jsonl"):
        return transcript(read_lines(path))
    return None


def transcript(lines: Iterable[LedgerLine]) -> dict[str, Any]:
    """Return the transcript from the lines of a ledger. Times are ms since the beginning."""
    about: dict[str, Any] = {"state": "open", "outcome": "", "reason": ""}
    messages: list[dict[str, Any]] = []
    tools: dict[str, dict[str, Any]] = {}
    approvals: list[dict[str, Any]] = []
    troubles: list[dict[str, Any]] = []
    for line in lines:
        kind = line["type"]
        fields = {name: value for name, value in line.items() if name != "type"}
        if kind in _SPEAKERS:
            messages.append(_message(_SPEAKERS[kind], fields))
        elif kind == "tool.asked":
            tools[line["ask_id"]] = fields
        elif kind == "tool.approval":  # of the conversation, not of one tool call
            approvals.append(fields)
        elif kind.startswith("tool.") and line.get("ask_id") in tools:
            _add(tools[line["ask_id"]], kind, fields)
        elif kind == "call.trouble":
            troubles.append(fields)
        elif kind == "call.offered":
            about |= {"session_id": line["call_id"], "started_at": line["started_at"]}
        elif kind == "call.bound":
            about |= {name: line[name] for name in ("context", "provider", "generation")}
            about |= {"toolbox": line["tools"], "missing_tools": line["missing_tools"]}
        elif kind == "call.ended":
            about |= {"state": "ended", "outcome": line["outcome"], "reason": line["reason"]}
    found = {"messages": messages, "tools": [*tools.values()]}
    return {**about, **found, "approvals": approvals, "troubles": troubles}


def _message(who: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in ("at_ms", "turn")} | {"who": who, "text": fields["text"]}


def _add(tool: dict[str, Any], kind: str, fields: dict[str, Any]) -> None:
    """Add an event to a tool call's entry."""
    if kind == "tool.filler":
        tool.setdefault("fillers", []).append(fields["text"])
    elif kind == "tool.answered":
        tool["answered_ms"] = fields["at_ms"]
        tool |= {name: value for name, value in fields.items() if name not in ("at_ms", "name")}
    elif kind == "tool.late":
        tool["late"] = {name: fields[name] for name in ("at_ms", "status", "message", "told")}
