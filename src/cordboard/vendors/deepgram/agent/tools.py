"""Deepgram Voice Agent: the state of its function calls: open, answered, or cancelled.

Pure bookkeeping for one call, over all its connections. A function call belongs to the connection
that it came by. Results sent to a lost connection are given to the next one as part of the
conversation (`context`); a result that arrives only then cannot be sent as a function's response
(`answer_old`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from cordboard.tools.tool import JsonObject

MAX_KNOWN = 2_000
"""Ids that are remembered, so that no function runs twice."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One function call of the model."""

    call_id: str
    name: str
    arguments: str
    """The arguments as the model wrote them."""

    def parsed(self) -> JsonObject | None:
        """Return the arguments; None when they are not a JSON object."""
        if not self.arguments.strip():
            return {}
        try:
            parsed = orjson.loads(self.arguments)
        except orjson.JSONDecodeError:
            return None
        return parsed if isinstance(parsed, dict) else None


def requested(event: dict[str, Any]) -> list[FunctionCall | None]:
    """Return the functions of a `FunctionCallRequest` that we must run; None for a malformed one.

    Functions that the service runs by itself (`client_side` is false) are left out.
    """
    return [
        _requested(item)
        for item in _functions(event)
        if not isinstance(item, dict) or item.get("client_side") is not False
    ]


def cancelled(event: dict[str, Any]) -> list[str | None]:
    """Return the ids of a `FunctionCallCancelled`; None for a malformed one."""
    return [(_text(item, "id") or None) for item in _functions(event)]


def _functions(event: dict[str, Any]) -> list[Any]:
    functions = event.get("functions")
    return functions if isinstance(functions, list) and functions else [None]


def _requested(item: Any) -> FunctionCall | None:
    call_id, name = _text(item, "id"), _text(item, "name")
    if not call_id or not name:
        return None
    arguments = item.get("arguments")
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else orjson.dumps(arguments).decode()
    return FunctionCall(call_id, name, arguments)


def _text(item: Any, name: str) -> str:
    value = item.get(name) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


class FunctionCalls:
    """The function calls of one telephone call."""

    def __init__(self) -> None:
        self._open: dict[str, FunctionCall] = {}
        self._old: dict[str, FunctionCall] = {}
        """Calls of a lost connection that are not yet answered."""
        self._old_results: list[str] = []
        self._answered: dict[str, JsonObject] = {}
        """Answers in the current turn of the caller, in the form of `History` messages."""
        self._known: dict[str, None] = {}

    @property
    def pending(self) -> bool:
        """True if the model waits for an answer on this connection."""
        return bool(self._open)

    @property
    def old_pending(self) -> bool:
        """True if answers that the lost connection waited for are still missing."""
        return bool(self._old)

    def add(self, call: FunctionCall) -> bool:
        """Add a call; False when it is already known."""
        if call.call_id in self._known:
            return False
        self._known[call.call_id] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        self._open[call.call_id] = call
        return True

    def cancel(self, call_id: str) -> bool:
        """Cancel a call of the model; False when it was not waiting."""
        self._answered.pop(call_id, None)
        return self._open.pop(call_id, None) is not None

    def answer(self, call_id: str, content: str) -> FunctionCall | None:
        """Record the answer; None when the model does not wait for it on this connection."""
        call = self._open.pop(call_id, None)
        if call is not None:
            self._answered[call_id] = {
                "id": call.call_id,
                "name": call.name,
                "client_side": True,
                "arguments": call.arguments,
                "response": content,
            }
        return call

    def answer_old(self, call_id: str, content: str) -> bool:
        """Record an answer that the lost connection had waited for; False when it had not."""
        call = self._old.pop(call_id, None)
        if call is None:
            return False
        self._old_results.append(f"{call.name}({call.arguments}): {content}")
        return True

    def old_results(self) -> str:
        """Return the results that arrived since, once none is missing; empty until then. Clears
        them."""
        if self._old or not self._old_results:
            return ""
        results, self._old_results = self._old_results, []
        return "\n".join(results)

    def turn_begins(self) -> None:
        """Start a turn: earlier answers belong to the past."""
        self._answered.clear()

    def context(self) -> Iterator[JsonObject]:
        """Yield the answers since the caller's last words."""
        return iter(self._answered.values())

    def connection_lost(self) -> None:
        """Note that the connection is gone."""
        self._old.update(self._open)
        self._open.clear()
