"""What the wires of the vendors have in common: a language model's service without sockets.

A `Wire` puts a request into its vendor's words; an `AnswerReader` reads one answer. Neither ever
raises for what a service sends: what makes no sense is counted, what the service says went wrong
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
    """The service says, in its stream, that it cannot go on. Last."""

    kind: FailureKind
    message: str
    again: bool = False
    """Whether the same request may do better in a moment."""


Read: TypeAlias = ModelEvent | Broken


class AnswerReader(Protocol):
    """Reads one answer."""

    malformed: int
    """Events that made no sense."""
    alive: int
    """Events that made sense, whether or not they brought anything; no mere signs of life."""

    def take(self, event: ServerSentEvent) -> list[Read]: ...

    def end(self) -> list[Read]:
        """The stream is over. A `Finished`, if the answer is whole and none came yet."""
        ...


class Wire(Protocol):
    """One vendor's language, with one brain's settings."""

    provider: str
    model: str
    schemas: SchemaProfile
    payload: PayloadLimits
    base_url: str
    path: str
    """Of the request, with its query."""
    models_path: str
    """Of what tells whether the model exists."""

    def headers(self, key: str) -> Mapping[str, str]: ...

    def body(self, request: ModelRequest) -> JsonObject: ...

    def reader(self) -> AnswerReader: ...


class Reader:
    """What the vendors' readers have in common: the count of what makes no sense."""

    def __init__(self) -> None:
        self.malformed = 0
        self.alive = 0

    def take(self, event: ServerSentEvent) -> list[Read]:
        try:
            data: Any = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            data = None
        if not isinstance(data, dict):
            if event.data != "[DONE]":
                self.malformed += 1
            return []
        try:
            return [*self.read(data)]
        except (TypeError, KeyError, ValueError, AttributeError, IndexError):
            # A field of another kind than the service's own types say.
            self.malformed += 1
            return []

    def read(self, data: JsonObject) -> Iterator[Read]:
        """One event. May raise what wrong kinds of fields lead to."""
        raise NotImplementedError

    def end(self) -> list[Read]:
        return []


def text_of(value: Any) -> str:
    """A field that must be a text, or is not there."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError
    return value


def object_of(value: Any) -> JsonObject:
    """A field that must be an object, or is not there."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError
    return value


def list_of(value: Any) -> list[JsonObject]:
    """A field that must be a list of objects, or is not there."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise TypeError
    return value


def count_of(value: Any) -> float:
    """A number of tokens; what is none counts as 0."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if real and 0 <= value < 1e12 else 0.0


def arguments_of(wish: ToolWish) -> JsonObject:
    """What a tool was asked with; empty where the model wrote no object."""
    try:
        asked = orjson.loads(wish.arguments)
    except orjson.JSONDecodeError:
        asked = None
    return asked if isinstance(asked, dict) else {}


def amounts(**counts: float) -> dict[str, float]:
    """Only what was used."""
    return {unit: count for unit, count in counts.items() if count > 0}


def settled(**settings: Any) -> JsonObject:
    """Only what was set."""
    return {name: value for name, value in settings.items() if value is not None}
