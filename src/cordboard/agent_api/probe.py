"""One cheap GET that verifies a key, model or voice, for `cordboard check --online`. Pure.

None of the requests costs money. The helpers read answers that the built-in vendors have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from cordboard.config.sections.service import Service

Judge: TypeAlias = Callable[[Any], str]
"""Takes the JSON of an answer with status 200; returns the problem, or an empty text."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request."""

    what: str
    """The verified thing: `key`, `model gpt-x`, `voice y`."""
    url: str
    headers: Mapping[str, str] = field(repr=False)
    judge: Judge = lambda _: ""
    unknown: frozenset[int] = frozenset({404})
    """Statuses with which the service reports that the thing does not exist."""
    end: str = ""
    """The key of the answer that holds the day (YYYY-MM-DD) on which the service ends the thing, or
    null; empty: the service does not state it."""


def http_base(service: Service, usual: str) -> str:
    """Return the HTTP address of a service; its `base_url` may be configured for websockets."""
    base = (service.base_url or usual).rstrip("/")
    return f"http{base[2:]}" if urlsplit(base).scheme in ("ws", "wss") else base


def path_part(name: str) -> str:
    """Return a name encoded as one part of a URL's path."""
    return quote(name, safe=":@")


def entries(told: Any, key: str) -> list[dict[str, Any]]:
    """Return the objects of a list in an answer; empty when the list is missing."""
    listed = told.get(key) if isinstance(told, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
