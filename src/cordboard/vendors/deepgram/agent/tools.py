"""Deepgram Voice Agent: which of its function calls are open, answered, or taken back.

Pure bookkeeping for one call, over all its connections. A function call belongs to the connection
that it came by. What a lost connection was told, the next one is told as part of the conversation
(`context`); what is answered only then is no function's response any more (`answer_old`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from cordboard.tools.tool import JsonObject

MAX_KNOWN = 2_000
"""Ids that are remembered, so that none is run twice."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One function that the model wants run."""

    call_id: str
    name: str
    arguments: str
    """As the model wrote them."""

    def parsed(self) -> JsonObject | None:
        """The arguments; None when they are no JSON object."""
        if not self.arguments.strip():
            return {}
        try:
            parsed = orjson.loads(self.arguments)
        except orjson.JSONDecodeError:
            return None
        return parsed if isinstance(parsed, dict) else None


def requested(event: dict[str, Any]) -> list[FunctionCall | None]:
    """The functions of a `FunctionCallRequest` that are ours to run; None for what makes no sense.

    What the service runs by itself (`client_side` is false) is left out.
    """
    return [
        _requested(item)
        for item in _functions(event)
        if not isinstance(item, dict) or item.get("client_side") is not False
    ]


def cancelled(event: dict[str, Any]) -> list[str | None]:
    """The ids of a `FunctionCallCancelled`; None for what makes no sense."""
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
        """Asked for on a connection that is gone, and not yet answered."""
        self._old_results: list[str] = []
        self._answered: dict[str, JsonObject] = {}
        """In the present turn of the caller; as `History` messages have them."""
        self._known: dict[str, None] = {}

    @property
    def pending(self) -> bool:
        """Whether the model waits for an answer on this connection."""
        return bool(self._open)

    @property
    def old_pending(self) -> bool:
        """Whether answers are still to come that the lost connection waited for."""
        return bool(self._old)

    def add(self, call: FunctionCall) -> bool:
        """A new one; False when it was there before."""
        if call.call_id in self._known:
            return False
        self._known[call.call_id] = None
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        self._open[call.call_id] = call
        return True

    def cancel(self, call_id: str) -> bool:
        """The model no longer wants it; False when it was not waiting for it."""
        self._answered.pop(call_id, None)
        return self._open.pop(call_id, None) is not None

    def answer(self, call_id: str, content: str) -> FunctionCall | None:
        """The answer is there; None when the model does not wait for it on this connection."""
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
        """An answer that the lost connection had waited for; False when it had not."""
        call = self._old.pop(call_id, None)
        if call is None:
            return False
        self._old_results.append(f"{call.name}({call.arguments}): {content}")
        return True

    def old_results(self) -> str:
        """What has been answered meanwhile, once there is nothing more to wait for; then empty."""
        if self._old or not self._old_results:
            return ""
        results, self._old_results = self._old_results, []
        return "\n".join(results)

    def turn_begins(self) -> None:
        """The caller has said something new: what was answered before is part of the past."""
        self._answered.clear()

    def context(self) -> Iterator[JsonObject]:
        """What was answered since the caller's last words."""
        return iter(self._answered.values())

    def connection_lost(self) -> None:
        """The connection is gone."""
        self._old.update(self._open)
        self._open.clear()
