"""The common part of the vendors' wires: a language model's service without sockets.

A `Wire` translates a request into its vendor's API; an `AnswerReader` reads one answer. Neither
ever raises for a service's message: malformed events are counted, an error reported by the service
becomes a `Broken`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import orjson

from cordboard.agent_api.language_model import ModelEvent, ModelRequest, ToolWish
from cordboard.errors import FailureKind
from cordboard.net.server_events import ServerSentEvent
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject


@dataclass(frozen=True, slots=True)
class Broken:
    """The service reports, in its stream, that it cannot continue. Last."""

    kind: FailureKind
    message: str
    again: bool = False
    """True if the same request may succeed in a moment."""


Read: TypeAlias = ModelEvent | Broken


class AnswerReader(Protocol):
    """Reads one answer."""

    malformed: int
    """Number of malformed events."""
    alive: int
    """Number of well-formed events, also those without content; keep-alives do not count."""

    def take(self, event: ServerSentEvent) -> list[Read]: ...

    def end(self) -> list[Read]:
        """Read the end of the stream: return a `Finished` if the answer is complete and none came
        yet."""
        ...


class Wire(Protocol):
    """One vendor's API, with one brain's settings."""

    provider: str
    model: str
    schemas: SchemaProfile
    payload: PayloadLimits
    base_url: str
    path: str
    """Path of the request, with its query."""
    models_path: str
    """Path that verifies that the model exists."""

    def headers(self, key: str) -> Mapping[str, str]: ...

    def body(self, request: ModelRequest) -> JsonObject: ...

    def reader(self) -> AnswerReader: ...


class Reader:
    """Common part of the vendors' readers: it counts malformed events."""

    def __init__(self) -> None:
        self.malformed = 0
        self.alive = 0
        self.done = False
        """True after `[DONE]`, the mark of the end of a stream."""

    def take(self, event: ServerSentEvent) -> list[Read]:
        try:
            data: Any = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            data = None
        if not isinstance(data, dict):
            self.done = self.done or event.data == "[DONE]"
            self.malformed += event.data != "[DONE]"
            return []
        try:
            return [*self.read(data)]
        except (TypeError, KeyError, ValueError, AttributeError, IndexError):
            # A field of another type than the service documents.
            self.malformed += 1
            return []

    def read(self, data: JsonObject) -> Iterator[Read]:
        """Read one event. May raise errors for fields of wrong types."""
        raise NotImplementedError

    def end(self) -> list[Read]:
        return []


def text_of(value: Any) -> str:
    """Return a field that must be a text, or is missing."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError
    return value


def object_of(value: Any) -> JsonObject:
    """Return a field that must be an object, or is missing."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError
    return value


def list_of(value: Any) -> list[JsonObject]:
    """Return a field that must be a list of objects, or is missing."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise TypeError
    return value


def count_of(value: Any) -> float:
    """Return a number of tokens; anything else counts as 0."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if real and 0 <= value < 1e12 else 0.0


def arguments_of(wish: ToolWish) -> JsonObject | None:
    """Return a tool call's arguments; None where the model did not write a JSON object."""
    try:
        asked = orjson.loads(wish.arguments or "{}")
    except orjson.JSONDecodeError:
        return None
    return asked if isinstance(asked, dict) else None


def amounts(**counts: float) -> dict[str, float]:
    """Return only the non-zero amounts."""
    return {unit: count for unit, count in counts.items() if count > 0}


def settled(**settings: Any) -> JsonObject:
    """Return only the settings that are set."""
    return {name: value for name, value in settings.items() if value is not None}
