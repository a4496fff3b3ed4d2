"""The last messages between the engine and one MCP server, in both directions, for an operator.

A message is kept as a short text, made when it passes: a walk over its first values, which costs
the same for a result of 10 MB as for one of 4 kB, and keeps nothing else of it in memory. Secrets
are masked before that: the server's own, values under secret names, and those of callers (`hide`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import mcp_types as types
import orjson
from pydantic import BaseModel

from cordboard.mcp.large_result import carried
from cordboard.mcp.printable import printable
from cordboard.tools.masking import CUT, MASK, Hidden
from cordboard.tools.secret_names import NO_NAMES

MAX_MESSAGES = 200
MAX_CHARACTERS = 4_096
"""Characters of one message; a value costs two more than its text."""
MAX_DEPTH = 32
MAX_HIDDEN = 64
"""Values of callers that are remembered for masking; older ones are forgotten."""

Item = TypeVar("Item")
Direction = Literal["sent", "received"]
"""As the engine sees it."""


@dataclass(frozen=True, slots=True)
class Tail(Generic[Item]):
    """The end of a log: its items after one that the reader knows."""

    items: tuple[Item, ...]
    last: int
    """Number of the last item, counted from 1 since the log began; 0 for none."""
    lost: int = 0
    """Items after the known one that the log has dropped."""


def tail_after(kept: Sequence[Item], count: int, known: int) -> Tail[Item]:
    """Return the items after number `known`. `kept` are the last ones of `count`. A number that is
    beyond the last one belongs to an earlier log: then all that are kept."""
    missing = count - known if 0 <= known <= count else count
    fresh = min(missing, len(kept))
    return Tail(tuple(kept[len(kept) - fresh :]), count, missing - fresh)


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """One message."""

    at: float
    """Unix time."""
    direction: Direction
    kind: Literal["request", "notification", "answer", "error"]
    id: str
    """Of the request, also in its answer; empty for a notification."""
    method: str
    """Empty for an answer."""
    content: str
    """The parameters, result or error as JSON; a value that was left out is `…`."""
    cut: bool
    """True if a part of the content is missing."""


class MessageLog:
    """The end of one server's messages, across all its lives."""

    def __init__(
        self, mask: Callable[[str, int], str], clock: Callable[[], float] = time.time
    ) -> None:
        """`mask(text, limit)` returns at most `limit` characters without the server's secrets."""
        self._mask = mask
        self._clock = clock
        self._kept: deque[LoggedMessage] = deque(maxlen=MAX_MESSAGES)
        self._count = 0
        self._values: deque[str] = deque(maxlen=MAX_HIDDEN)
        self._hidden = Hidden(())

    def hide(self, values: Iterable[str]) -> None:
        """Also mask these values from now on: keys and secrets of a caller."""
        new = [value for value in values if value not in self._values]
        if new:
            self._values.extend(new)
            self._hidden = Hidden(self._values)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The values passed to `hide` last."""
        return tuple(self._values)

    def after(self, known: int) -> Tail[LoggedMessage]:
        """Return the messages after that number."""
        return tail_after(tuple(self._kept), self._count, known)

    def note(self, direction: Direction, message: types.JSONRPCMessage) -> None:
        """Keep a message."""
        content: Any
        match message:
            case types.JSONRPCRequest(id=number, method=method, params=content):
                kind: Literal["request", "notification", "answer", "error"] = "request"
            case types.JSONRPCNotification(method=method, params=content):
                kind, number = "notification", ""
            case types.JSONRPCResponse(id=number, result=content):
                kind, method = "answer", ""
                content = carried(content.get("_meta")) or content
            case _:
                kind, method, number, content = "error", "", message.id or "", message.error
        preview = _Preview(self._shown)
        shown = preview.value(content, MAX_DEPTH)
        text = printable(orjson.dumps(shown).decode(), MAX_CHARACTERS * 8)
        self._kept.append(
            LoggedMessage(
                self._clock(),
                direction,
                kind,
                self._shown(str(number), 64),
                self._shown(method, 100),
                text,
                preview.cut,
            )
        )
        self._count += 1

    def _shown(self, text: str, limit: int) -> str:
        window = text[: limit + MAX_CHARACTERS]  # so that no value is cut before it is found
        shown = self._mask(self._hidden.text(window), limit)
        return shown.encode("utf-8", "replace").decode()


class _Preview:
    """Copies the first values of a message."""

    def __init__(self, shown: Callable[[str, int], str]) -> None:
        self._shown = shown
        self._left = MAX_CHARACTERS
        self._names: dict[str, tuple[str, bool]] = {}
        """Names that were met, since rows repeat them."""
        self.cut = False

    def value(self, value: Any, depth: int) -> Any:
        """Return the value as far as there is room."""
        if isinstance(value, str):
            return self._text(value)
        self._left -= 2
        if value is None or isinstance(value, (bool, float)):
            self._left -= 6
            return self._number(value)
        if isinstance(value, int):
            self._left -= 6
            return self._number(value) if -(2**63) <= value < 2**64 else self._nothing()
        if isinstance(value, BaseModel):
            set_fields = value.__dict__.items()
            value = {name: each for name, each in set_fields if each is not None}
        if depth == 0 or self._left <= 0:
            return self._nothing()
        if isinstance(value, dict):
            return self._fields(value, depth - 1)
        if isinstance(value, (list, tuple)):
            return self._items(value, depth - 1)
        return self._text(str(value))

    def _fields(self, fields: dict[Any, Any], depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, value in fields.items():
            if self._left <= 0:
                copied[CUT] = self._nothing()
                break
            name, is_secret = self._name(str(key))
            copied[name] = MASK if is_secret else self.value(value, depth)
        return copied

    def _name(self, name: str) -> tuple[str, bool]:
        """Return a name as it is shown, and True if it is one of secrets."""
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = self._text(name), NO_NAMES.covers(name)
        else:
            self._left -= len(name) + 2
        return known

    def _items(self, items: Sequence[Any], depth: int) -> list[Any]:
        copied: list[Any] = []
        for item in items:
            if self._left <= 0:
                copied.append(self._nothing())
                break
            copied.append(self.value(item, depth))
        return copied

    def _number(self, value: float | None) -> Any:
        """Return a number, unless its digits are a caller's secret."""
        text = str(value)
        return value if self._shown(text, len(text)) == text else MASK

    def _text(self, text: str) -> str:
        room = max(0, self._left)
        self._left -= len(text) + 2
        if len(text) <= room:
            return self._shown(text, len(text))
        self.cut = True
        return self._shown(text, room) + CUT

    def _nothing(self) -> str:
        self.cut = True
        return CUT
