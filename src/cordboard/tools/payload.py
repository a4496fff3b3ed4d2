"""What an agent is given of a tool's data: never more than it can stomach.

Realtime providers close the session on large or deeply nested tool answers (Gemini Live with 1011)
and every byte costs a model's attention. So the data of a reply is cut by depth, by items and by
bytes, and each cut is visible in the data itself, so that a model does not take a part for all.

Pure functions. The desk calls `cap`; agents call `as_payload` for the JSON that goes to a provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from cordboard.tools.tool import JsonObject, ToolReply

CUT = "…"
"""Stands where something was cut away."""
MAX_KEY = 200


@dataclass(frozen=True, slots=True)
class PayloadLimits:
    """How much of a result one kind of agent is given."""

    max_bytes: int = 16_384
    """UTF-8 bytes of the data as JSON."""
    max_depth: int = 8
    max_items: int = 100
    """Entries of one list or object."""
    max_text: int = 8_000
    """Characters of one string."""


DEFAULT_LIMITS = PayloadLimits()


def as_object(data: Any) -> JsonObject:
    """Tool data as a JSON object: an object stays, nothing is `{}`, all else is `{"result": …}`."""
    if data is None:
        return {}
    return data if isinstance(data, dict) else {"result": data}


def cap(data: Any, limits: PayloadLimits = DEFAULT_LIMITS) -> tuple[JsonObject, bool]:
    """Cut data to the limits; returns it and whether anything is missing.

    Values that are not JSON become their text. The result is always an object of at most
    `max_bytes` bytes of JSON.
    """
    cutter = _Cutter(limits)
    whole = cutter.value(as_object(data), limits.max_depth)
    cut = cutter.cut
    items, text = limits.max_items, limits.max_text
    while cutter.overrun or len(orjson.dumps(whole)) > limits.max_bytes:
        cut = True
        if items <= 1 and text <= 1:
            return {"result": CUT}, True
        items, text = max(1, items // 2), max(1, text // 2)
        # Far too much: not even looked at to its end, so it is begun afresh.
        source, deeper = (as_object(data), 0) if cutter.overrun else (whole, 1)
        cutter = _Cutter(PayloadLimits(limits.max_bytes, limits.max_depth, items, text))
        whole = cutter.value(source, limits.max_depth + deeper)
    return whole, cut


def as_payload(reply: ToolReply) -> JsonObject:
    """A reply as the JSON object for a provider: status and message first, then the data."""
    payload: JsonObject = {"status": str(reply.status), "message": reply.message}
    if reply.data:
        payload["data"] = reply.data
    return payload


class _Cutter:
    def __init__(self, limits: PayloadLimits) -> None:
        self._limits = limits
        self._left = limits.max_bytes // 2
        """Values that may still be looked at: each takes two bytes of JSON at least."""
        self.cut = False

    @property
    def overrun(self) -> bool:
        """There were more values than can be kept; the last ones were not looked at."""
        return self._left < 0

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            return CUT
        if isinstance(value, str):
            return self._text(value, self._limits.max_text)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float):
            return value if value - value == 0 else str(value)
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**64 else str(value)
        if isinstance(value, (dict, list, tuple)):
            return self._container(value, depth)
        return self._text(str(value), self._limits.max_text)

    def _container(self, value: Any, depth: int) -> Any:
        if depth <= 0:
            self.cut = True
            return CUT
        count = self._limits.max_items
        if isinstance(value, dict):
            kept: JsonObject = {}
            for key, item in value.items():
                if len(kept) == count:
                    self.cut = True
                    kept[CUT] = f"{len(value) - count} more"
                    break
                kept[self._text(str(key), MAX_KEY)] = self.value(item, depth - 1)
            return kept
        entries = [self.value(item, depth - 1) for item in value[:count]]
        if len(value) > count:
            self.cut = True
            entries.append(f"{CUT} {len(value) - count} more")
        return entries

    def _text(self, text: str, most: int) -> str:
        clean = text[: most + 1].encode("utf-8", "replace").decode("utf-8")
        if len(clean) <= most:
            return clean
        self.cut = True
        return clean[:most] + CUT
